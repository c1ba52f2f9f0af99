package ovs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vlanrules"
)

// device is the far end of a port that is a device of the kernel's.
type device struct {
	t  testing.TB
	fd int
}

// newDevice adds one end of a new veth pair to a bridge, and listens at the
// other.
func newDevice(t testing.TB, s *ovstest.Switch, port, number string) *device {
	t.Helper()
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: port}, PeerName: port + "-far"}); err != nil {
		t.Fatal(err)
	}
	index := 0
	for _, name := range []string{port, port + "-far"} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(l); err != nil {
			t.Fatal(err)
		}
		index = l.Attrs().Index
	}
	const all = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	for _, err := range []error{
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(soon / time.Second)}),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Vsctl("add-port", "csig", port, "--", "set", "interface", port, "ofport_request="+number)
	return &device{t, fd}
}

func (d *device) send(frame []byte) {
	d.t.Helper()
	if _, err := unix.Write(d.fd, frame); err != nil {
		d.t.Fatal(err)
	}
}

// receive returns the next frame of the test's as it was on the wire: the kernel
// has the outermost tag beside it.
func (d *device) receive() []byte {
	d.t.Helper()
	for {
		b, side := make([]byte, 256), make([]byte, 128)
		n, m, _, _, err := unix.Recvmsg(d.fd, b, side, 0)
		if errors.Is(err, unix.EINTR) {
			continue // the runtime's own signals
		}
		if err != nil {
			d.t.Fatalf("no frame arrives: %v", err)
		}
		if b = b[:n]; n < 14 || !bytes.Equal(b[6:12], frame(0)[6:12]) {
			continue // the kernel's own
		}
		messages, err := unix.ParseSocketControlMessage(side[:m])
		if err != nil {
			d.t.Fatal(err)
		}
		for _, c := range messages {
			// struct tpacket_auxdata: status, len, snaplen, mac, net, vlan_tci, vlan_tpid
			if status := binary.NativeEndian.Uint32(c.Data); status&unix.TP_STATUS_VLAN_VALID != 0 {
				tag := binary.BigEndian.AppendUint16(nil, binary.NativeEndian.Uint16(c.Data[18:]))
				tag = binary.BigEndian.AppendUint16(tag, binary.NativeEndian.Uint16(c.Data[16:]))
				b = append(b[:12:12], append(tag, b[12:]...)...)
			}
		}
		return b
	}
}

// TestDevices samples what TestLongEveryTagOfDevices checks whole.
func TestDevices(t *testing.T) {
	tags := shuffled(rand.New(rand.NewPCG(5, 6)))[:500]
	devices(t, func(int) []uint16 { return tags })
}

// TestLongEveryTagOfDevices sends each tag in one place, in either layout.
func TestLongEveryTagOfDevices(t *testing.T) {
	tags := shuffled(seeded(t))
	devices(t, func(place int) []uint16 { return share(tags, place, 3) })
}

// devices sends tags through ports that are devices of the kernel's: R, or the
// DEI, of every outermost tag is lost, csig's or not.
func devices(t *testing.T, tags func(place int) []uint16) {
	runtime.LockOSThread() // never unlocked: the thread ends, and its namespace with it
	ns, err := netns.New()
	if err != nil {
		t.Fatalf("making a network namespace: %v", err)
	}
	defer ns.Close()
	s := ovstest.Start(t, ovstest.Options{Start: (*exec.Cmd).Start}) // on this thread
	s.AddBridge("csig")
	in, out := newDevice(t, s, "h1", "1"), newDevice(t, s, "swp1", "2")
	s.Ofctl("add-flow", "csig", "in_port=1,actions=load:2->NXM_NX_REG15[],resubmit(,60)")
	d := (&sandwich{Switch: s}).open(t, "csig")
	rng := rand.New(rand.NewPCG(7, 8))
	for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
		t.Run(layout.String(), func(t *testing.T) {
			setup := setupFor(layout, swp1)
			apply(t, d, setup)
			var intents []vlanrules.Intent
			for _, sig := range setup.Signals {
				intents = append(intents, bucket(sig, uint8(4+rng.IntN(20)), uint16(1+rng.IntN(50))))
			}
			update(t, d, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: intents})
			s.Settled()
			cross(t, in, out, tags, func(tci uint16) uint16 { return model(layout, intents, tci) })
		})
	}
}

// cross sends tags from one device to another, in each place that a tag can have.
func cross(t *testing.T, in, out *device, tagsOf func(place int) []uint16, becomes func(tci uint16) uint16) {
	t.Helper()
	in.t, out.t = t, t
	const dei = 0x1000
	for place, shape := range []struct {
		name        string
		sent, wants func(tci uint16) []tag
	}{
		{"CSIG", func(tci uint16) []tag { return []tag{{tpidCSIG, tci}} },
			func(tci uint16) []tag { return []tag{{tpidCSIG, becomes(tci) &^ dei}} }},
		{"VLAN", func(tci uint16) []tag { return []tag{{tpidVLAN, tci}} },
			func(tci uint16) []tag { return []tag{{tpidVLAN, tci &^ dei}} }},
		{"CSIG behind a VLAN", func(tci uint16) []tag { return []tag{{tpidVLAN, dei | 100}, {tpidCSIG, tci}} },
			func(tci uint16) []tag { return []tag{{tpidVLAN, 100}, {tpidCSIG, becomes(tci)}} }},
	} {
		tags, wrong := tagsOf(place), 0
		for from := 0; from < len(tags); from += window {
			to := min(from+window, len(tags))
			for i := from; i < to; i++ {
				in.send(frame(uint32(i), shape.sent(tags[i])...))
			}
			for range to - from {
				got := out.receive()
				i := seqOf(got)
				if want := frame(i, shape.wants(tags[i])...); !bytes.Equal(got, want) {
					if wrong++; wrong < 5 {
						t.Errorf("%s, tag %04x:\ngot  %x\nwant %x", shape.name, tags[i], got[:26], want[:26])
					}
				}
			}
		}
		if wrong > 0 {
			t.Errorf("%s: %d of %d tags", shape.name, wrong, len(tags))
		}
	}
}

func TestMain(m *testing.M) { fabric.Tests(m, nil) }
