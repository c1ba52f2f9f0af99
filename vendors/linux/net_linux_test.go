package linux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
)

func TestMain(m *testing.M) { fabric.Tests(m, nil) }

// realRoot reports whether BPF programs may be loaded.
func realRoot(t testing.TB) bool {
	t.Helper()
	m, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(m)), " ") == "0 0 4294967295"
}

// netns is a network namespace that only an open file keeps alive.
type netns struct {
	t  testing.TB
	fd int
}

func newNetNS(t testing.TB) *netns {
	t.Helper()
	type result struct {
		fd  int
		err error
	}
	ch := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			ch <- result{0, err}
			return
		}
		fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		ch <- result{fd, err}
	}()
	r := <-ch
	if r.err != nil {
		t.Fatalf("make a network namespace: %v", r.err)
	}
	t.Cleanup(func() { unix.Close(r.fd) })
	return &netns{t, r.fd}
}

// do runs f on a thread inside the namespace.
func (n *netns) do(f func() error) error {
	ch := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
			ch <- err
			return
		}
		ch <- f()
	}()
	return <-ch
}

// run runs a command inside the namespace and returns what it prints.
func (n *netns) run(name string, args ...string) string {
	n.t.Helper()
	var out []byte
	err := n.do(func() (err error) {
		if out, err = exec.Command(name, args...).CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
			err = fmt.Errorf("%w: install it (Debian: apt-get install iproute2 nftables)", err)
		}
		return err
	})
	if err != nil {
		n.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// ip runs several ip commands, one a line.
func (n *netns) ip(lines string) {
	n.t.Helper()
	file := filepath.Join(n.t.TempDir(), "ip")
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		n.t.Fatal(err)
	}
	n.run("ip", "-batch", file)
}

// sysctl sets net.* values in the namespace.
func (n *netns) sysctl(path, value string) {
	n.t.Helper()
	if err := n.do(func() error { return os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0o644) }); err != nil {
		n.t.Fatal(err)
	}
}

// wire is a switch with one port to test, in a namespace of its own: frames
// sent into host reach port through a bridge (so that the kernel has taken the
// outermost VLAN tag into metadata, as hardware would), frames sent into port
// leave as they are; far sees what leaves port.
type wire struct {
	*netns
	host, port, far *packetSocket
}

func newWire(t testing.TB) *wire {
	n := newNetNS(t)
	n.sysctl("net/ipv6/conf/default/disable_ipv6", "1")
	n.sysctl("net/ipv6/conf/all/disable_ipv6", "1")
	n.ip(`
		link add host0 type veth peer name sw0
		link add swp1 type veth peer name far0
		link add br0 type bridge stp_state 0 mcast_snooping 0
		link set sw0 master br0
		link set swp1 master br0
		link set host0 arp off mtu 9000 up
		link set far0 arp off mtu 9000 up
		link set sw0 arp off mtu 9000 up
		link set swp1 arp off mtu 9000 up
		link set br0 arp off mtu 9000 up`)
	w := &wire{netns: n}
	w.waitForwarding("swp1")
	w.waitForwarding("sw0")
	w.host, w.port, w.far = n.open("host0"), n.open("swp1"), n.open("far0")
	return w
}

// waitForwarding waits until a bridge port forwards.
func (n *netns) waitForwarding(dev string) {
	n.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		if strings.Contains(n.run("ip", "-d", "link", "show", dev), "state forwarding") {
			return
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("%s does not forward", dev)
		}
	}
}

// waitUp waits until a device sends: the kernel gives it its queue a while after its link came up,
// and loses what is sent before.
func (n *netns) waitUp(dev string) {
	n.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		if text := n.run("ip", "link", "show", dev); strings.Contains(text, "state UP") && !strings.Contains(text, "qdisc noop ") {
			return
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("%s does not send", dev)
		}
	}
}

// packetSocket sends frames out of a device, or receives those that come in.
type packetSocket struct {
	t  testing.TB
	fd int
}

// quiet is after how long without a frame no more of them come; late is how long
// one that must come may take on a busy machine.
const quiet, late = 2 * time.Second, time.Minute

const auxVLANValid, auxTPIDValid = 0x10, 0x40

func (n *netns) open(dev string) *packetSocket {
	n.t.Helper()
	p := &packetSocket{t: n.t, fd: -1}
	err := n.do(func() error {
		const all = 0x0300 // ETH_P_ALL in network byte order
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
		if err != nil {
			return err
		}
		p.fd = fd
		index, err := ifindex(dev)
		if err != nil {
			return err
		}
		for opt, v := range map[int]int{unix.PACKET_AUXDATA: 1, unix.PACKET_IGNORE_OUTGOING: 1} {
			if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, opt, v); err != nil {
				return err
			}
		}
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20) // not permitted to ordinary users
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(quiet / time.Second)}); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index})
	})
	if err != nil {
		n.t.Fatalf("packet socket on %s: %v", dev, err)
	}
	n.t.Cleanup(func() { unix.Close(p.fd) })
	return p
}

func ifindex(dev string) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq(dev)
	if err != nil {
		return 0, err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, r); err != nil {
		return 0, err
	}
	return int(r.Uint32()), nil
}

func (p *packetSocket) send(frame []byte) {
	p.t.Helper()
	for {
		_, err := unix.Write(p.fd, frame)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOBUFS) {
			continue
		}
		if err != nil {
			p.t.Fatalf("send: %v", err)
		}
		return
	}
}

// receive returns the next frame, which has to come.
func (p *packetSocket) receive() []byte {
	p.t.Helper()
	for deadline := time.Now().Add(late); ; {
		f, err := p.tryReceive()
		if err != nil {
			p.t.Fatalf("receive: %v", err)
		}
		if f != nil {
			return f
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("no frame arrives in %v", late)
		}
	}
}

// tryReceive returns the next frame as it was on the wire: an outermost VLAN tag
// that the kernel took out is put back. It returns nil when none comes.
func (p *packetSocket) tryReceive() ([]byte, error) {
	var buf [10000]byte
	var oob [128]byte
	for {
		n, on, _, _, err := unix.Recvmsg(p.fd, buf[:], oob[:], 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return nil, nil
		case err != nil:
			return nil, err
		}
		frame := bytes.Clone(buf[:n])
		msgs, err := unix.ParseSocketControlMessage(oob[:on])
		if err != nil {
			return nil, err
		}
		for _, m := range msgs {
			// tpacket_auxdata: status, len, snaplen, mac, net, tci, tpid.
			if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA {
				continue
			}
			if status := binary.NativeEndian.Uint32(m.Data); status&auxVLANValid == 0 {
				continue
			} else if status&auxTPIDValid == 0 {
				return nil, errors.New("the kernel does not say which TPID it took out")
			}
			tag := binary.BigEndian.AppendUint16(nil, binary.NativeEndian.Uint16(m.Data[18:]))
			tag = binary.BigEndian.AppendUint16(tag, binary.NativeEndian.Uint16(m.Data[16:]))
			frame = append(frame[:12:12], append(tag, frame[12:]...)...)
		}
		return frame, nil
	}
}

// tag is one 4-byte tag.
type tag struct{ tpid, data uint16 }

// frame is an Ethernet frame with tags and a payload that names it.
func frame(id uint32, tags ...tag) []byte {
	f := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
	for _, t := range tags {
		f = binary.BigEndian.AppendUint16(f, t.tpid)
		f = binary.BigEndian.AppendUint16(f, t.data)
	}
	f = binary.BigEndian.AppendUint16(f, 0x88b5)
	f = binary.BigEndian.AppendUint32(f, id)
	return append(f, bytes.Repeat([]byte{0x5a}, 40)...)
}
