package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/hosts/reflect"
	"github.com/csig-agent/csig/hosts/tcp"
	"github.com/csig-agent/csig/quantize"
)

// bpffs is where this process, and all that the tests start, have a BPF file system of their own.
const bpffs = "/sys/fs/bpf"

var mountBPF = sync.OnceValue(func() error {
	var s unix.Statfs_t
	if err := unix.Statfs(bpffs, &s); err != nil || s.Type == unix.BPF_FS_MAGIC {
		return err
	}
	return unix.Mount("bpf", bpffs, "bpf", 0, "mode=0700") // as systemd does
})

// needBPF mounts it.
func needBPF(t *testing.T) {
	t.Helper()
	if err := mountBPF(); err != nil {
		t.Fatal(err)
	}
}

// asReader is which part a process of the tests has that reads signals, as an ordinary user; its arguments are behind it.
const asReader = "CSIG_TEST_READER"

// readerProcess is what such a process does instead of tests.
func readerProcess() {
	part := os.Getenv(asReader)
	if part == "" {
		return
	}
	if err := reader(strings.Fields(part)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// signalsRead is what a reader prints.
type signalsRead struct {
	reflect.Connection
	Datagrams []reflect.Reading // by the map
}

func reader(args []string) error {
	const nobody = 65534
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
		return err
	}
	if _, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 1}); !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("an ordinary user's own map: %w", err)
	}
	if _, err := os.ReadDir(bpffs); !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("an ordinary user in %s: %w", bpffs, err)
	}
	signals, err := reflect.Open(args[1])
	if err != nil {
		return err
	}
	defer signals.Close()
	end := time.Now().Add(patience)
	named := func(all []reflect.Reading) bool { // by a switch
		return len(all) == 2 && !slices.ContainsFunc(all, func(r reflect.Reading) bool { return r.LM == signals.Layout().LMNone() })
	}
	var s signalsRead
	switch args[0] {
	case "udp": // SOCKET LOCAL REMOTE, and whether a switch writes its tags
		local, remote := netip.MustParseAddrPort(args[2]), netip.MustParseAddrPort(args[3])
		t, err := reflect.Listen(local, signals.Layout(), []quantize.Signal{quantize.MinABW, quantize.MinABWC})
		if err != nil {
			return err
		}
		defer t.Close()
		go func() {
			for {
				if _, _, err := t.Receive(); errors.Is(err, net.ErrClosed) {
					return
				}
			}
		}()
		for len(s.Learned) < 2 || args[4] == "written" && !named(s.Learned) || len(s.Received) < 2 {
			if err := t.Send(remote, []byte("data")); err != nil {
				return err
			}
			if s.Connection = t.Signals(remote); time.Now().After(end) {
				return fmt.Errorf("no signals: %+v", s)
			}
			time.Sleep(5 * time.Millisecond) // the flow's rate
		}
		if s.Datagrams, err = signals.Datagrams(local, remote); err != nil {
			return err
		}
		for range 100 { // for the other end
			if err := t.Send(remote, []byte("data")); err != nil {
				return err
			}
			time.Sleep(5 * time.Millisecond)
		}
	case "tcp": // SOCKET LISTENS
		l, err := net.Listen("tcp", args[2])
		if err != nil {
			return err
		}
		c, err := l.Accept()
		if err != nil {
			return err
		}
		buf := make([]byte, 64<<10)
		for !named(s.Received) {
			if _, err := c.Read(buf); err != nil {
				return err
			}
			if s.Connection, err = signals.Connection(c.(*net.TCPConn)); err != nil && !errors.Is(err, reflect.ErrNone) || time.Now().After(end) {
				return fmt.Errorf("no signals: %+v, %w", s, err)
			}
		}
		if _, err := signals.Connection(l.(*net.TCPListener)); !errors.Is(err, reflect.ErrNone) {
			return fmt.Errorf("signals of a socket without: %w", err)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(s)
}

// read has an ordinary user's process read signals at a host.
func (b *tcpBed) read(h *tcpHost, args ...string) (cmd *fabric.Cmd, await func() signalsRead) {
	b.t.Helper()
	cmd = h.node.Command("/proc/self/exe")
	cmd.Path = "/proc/self/exe"
	cmd.Env = append(os.Environ(), asReader+"="+strings.Join(args, " "))
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	b.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, func() (s signalsRead) {
		b.t.Helper()
		if err := <-ended; err != nil {
			b.t.Fatalf("%v: %s", err, said.String())
		}
		if err := json.Unmarshal([]byte(out.String()), &s); err != nil {
			b.t.Fatal(err)
		}
		return s
	}
}

// open lets other users reach the sockets of a bed.
func (b *tcpBed) open() {
	for dir := b.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *tcpBed) signals(h *tcpHost) string {
	return strings.TrimSuffix(b.socket(h), ".sock") + "-signals.sock"
}

// TestHostDatagrams has two ordinary users' programs see which port limits their datagrams, and reads on the wire which of
// them have tags.
func TestHostDatagrams(t *testing.T) {
	t.Parallel()
	needBPF(t)
	b := newTCPBed(t)
	b.open()
	b.giveRoom()
	b.text = strings.ReplaceAll(b.text, "tcp: {to: [10.0.0.0/24]}", "tcp: {to: [10.0.0.0/24], udp: [7000]}")
	b.startSwitches()
	b.start(b.h1)
	b.start(b.h2)
	if err := b.load.SetRate(60_000_000); err != nil {
		t.Fatal(err)
	}
	at1, at2 := b.watchDatagrams(b.h1), b.watchDatagrams(b.h2)
	_, one := b.read(b.h1, "udp", b.signals(b.h1), "10.0.0.1:7001", "10.0.0.2:7000", "written")
	_, two := b.read(b.h2, "udp", b.signals(b.h2), "10.0.0.2:7000", "10.0.0.1:7001", "not")
	for _, s := range []signalsRead{one(), two()} {
		if len(s.Received) != 2 || len(s.Datagrams) != 2 || s.Datagrams[0].T != quantize.MinABW || s.Datagrams[1].T != quantize.MinABWC {
			t.Errorf("%+v", s)
		}
		for i := range s.Datagrams {
			if s.Datagrams[i].S != s.Received[i].S || s.Datagrams[i].Age < 0 || s.Datagrams[i].Age > time.Second {
				t.Errorf("by the map %+v, by marks %+v", s.Datagrams[i], s.Received[i])
			}
		}
	}
	if s := b.await(b.h1, "datagrams are counted", func(s *tcp.Status) bool { return s.Counts.DatagramsReceived > 0 }); s.Counts.DatagramsSent == 0 || s.Counts.Failed != 0 {
		t.Errorf("%+v", s.Counts)
	}

	// Another port, another host, and a program that asks for nothing, or for what the profile has not.
	for _, d := range []struct {
		what     string
		to       string
		priority int
		tagged   bool
	}{
		{"asks", "10.0.0.2:7000", 1, true}, {"asks for abwc", "10.0.0.2:7000", 3, true}, {"asks for pd", "10.0.0.2:7000", 5, false},
		{"has the priority of a DSCP", "10.0.0.2:7000", 2, false}, {"of another", "10.0.0.2:7000", 4, false},
		{"does not ask", "10.0.0.2:7000", 0, false}, {"another port", "10.0.0.2:7002", 1, false},
	} {
		b.datagram(b.h1, d.to, d.priority, d.what)
		if !within(patience, func() bool {
			return slices.ContainsFunc(at2(), func(g datagram) bool { return string(g.payload) == d.what })
		}) {
			t.Fatalf("%s: it did not arrive", d.what)
		}
		for _, g := range at2() {
			if string(g.payload) == d.what && (g.tag != d.tagged || g.tag && int(g.tci>>13) != d.priority/2) {
				t.Errorf("%s: %+v", d.what, g)
			}
		}
	}
	tagged, reflected := 0, 0
	for _, g := range at1() {
		if g.tag {
			tagged++
		}
		if len(g.payload) > 3 && g.payload[0] == 0x80 {
			reflected++
		}
	}
	if tagged == 0 || reflected == 0 {
		t.Errorf("%d datagrams have a tag, %d a reflection", tagged, reflected)
	}
}

// TestHostConnectionSignals has an ordinary user's server read the tags of its connection, through a map for reading alone.
func TestHostConnectionSignals(t *testing.T) {
	t.Parallel()
	needBPF(t)
	b := newTCPBed(t)
	b.open()
	b.giveRoom()
	b.startSwitches()
	b.start(b.h1)
	b.start(b.h2)
	if err := b.load.SetRate(60_000_000); err != nil {
		t.Fatal(err)
	}
	_, server := b.read(b.h2, "tcp", b.signals(b.h2), "10.0.0.2:5201")
	var c net.Conn
	if !within(patience, func() (ok bool) {
		err := b.h1.node.Do(func() (err error) {
			c, err = net.DialTimeout("tcp", "10.0.0.2:5201", patience)
			return err
		})
		return err == nil
	}) {
		t.Fatal("the server does not listen")
	}
	defer c.Close()
	send(c)
	s := server()
	if len(s.Received) != 2 || s.Received[0].T != quantize.MinABW || s.Received[0].Age > time.Second || len(s.Learned) != 0 {
		t.Errorf("%+v", s)
	}
	// What is handed over is for reading alone, and ends with csig host run.
	signals, err := reflect.Open(b.signals(b.h1))
	if err != nil {
		t.Fatal(err)
	}
	defer signals.Close()
	if known, err := signals.Connection(c.(*net.TCPConn)); err != nil || len(known.Learned) == 0 {
		t.Errorf("the sender: %+v, %v", known, err)
	}
	name := filepath.Join(bpffs, "csig-host", fmt.Sprintf("map-%d", b.h1.run.cmd.Process.Pid))
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", name, err)
	}
	b.h1.kill()
	if !within(patience, func() bool {
		_, err = signals.Connection(c.(*net.TCPConn))
		return errors.Is(err, reflect.ErrEnded)
	}) {
		t.Errorf("after its end: %v", err)
	}
}

// datagram is one as this test reads it from the wire.
type datagram struct {
	tag          bool
	tci          uint16
	sport, dport uint16
	payload      []byte
}

// watchDatagrams collects the datagrams of UDP over IPv4 that arrive at a host.
func (b *tcpBed) watchDatagrams(h *tcpHost) func() []datagram {
	b.t.Helper()
	var mu sync.Mutex
	var all []datagram
	b.frames(h, func(f []byte, _ time.Time) {
		if len(f) < 14+4+20+8 {
			return // none, at a deadline, or another
		}
		d := datagram{}
		f = f[12:]
		if f[0] == 0x88 && f[1] == 0xa8 {
			d.tag, d.tci = true, uint16(f[2])<<8|uint16(f[3])
			f = f[4:]
		}
		if f[0] != 8 || f[1] != 0 || f[2] != 0x45 || f[2+9] != 17 {
			return
		}
		udp := f[2+20:]
		d.sport, d.dport = uint16(udp[0])<<8|uint16(udp[1]), uint16(udp[2])<<8|uint16(udp[3])
		d.payload = slices.Clone(udp[8 : int(udp[4])<<8|int(udp[5])])
		mu.Lock()
		defer mu.Unlock()
		all = append(all, d)
	})
	return func() []datagram {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// datagram sends one with a priority.
func (b *tcpBed) datagram(h *tcpHost, to string, priority int, payload string) {
	b.t.Helper()
	if err := h.node.Do(func() error {
		d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
			failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PRIORITY, priority) })
			return errors.Join(err, failed)
		}}
		c, err := d.Dial("udp", to)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte(payload))
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
}

// meshOf is what csig mesh status --json prints at a host, nil while nothing answers.
func (b *tcpBed) meshOf(h *tcpHost) *mesh.Status {
	b.t.Helper()
	out, err := h.node.Command(csig, "mesh", "status", "--socket", filepath.Join(b.dir, "mesh.sock"), "--json").Output()
	if err != nil {
		return nil
	}
	s := new(mesh.Status)
	if err := json.Unmarshal(out, s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// TestMeshBesideHostRun has a mesh of a host whose csig mesh run has no capability, and whose csig host run inserts its
// tags, and of one with packet sockets; then csig host run comes and goes at both.
func TestMeshBesideHostRun(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.giveRoom()
	key := filepath.Join(b.dir, "mesh.key")
	writeFile(t, key, []byte("the key of a mesh, of a test\n"))
	b.text = strings.Replace(b.text, "vlan_tpids:", "mesh: {key: {file: "+key+"}, interval: 100ms, collector: \"10.0.0.1:9918\"}\nvlan_tpids:", 1)
	// Neither lists the other's prefix: of the mesh the fleet file's hosts are enough.
	b.text = strings.ReplaceAll(b.text, "tcp: {to: [10.0.0.0/24]}", "tcp: {to: [10.9.0.0/24]}")
	b.startSwitches()
	if err := b.load.SetRate(60_000_000); err != nil {
		t.Fatal(err)
	}
	ca := tlstest.New(t)
	start := func(h *tcpHost, args ...string) *agent {
		cert, key := ca.Certify(h.name)
		args = append(args, csig, "mesh", "run", "-i", b.file(h), "--tls-cert", cert, "--tls-key", key, "--tls-ca", ca.CA, "--host-signals", b.signals(h))
		if h == b.h1 {
			args = append(args, "--collect", "--socket", filepath.Join(b.dir, "mesh.sock"))
		}
		return launchIn(t, h.node.Command(args[0], args[1:]...), filepath.Join(b.dir, "mesh.sock"))
	}
	unprivileged := []string{"setpriv", "--inh-caps=-all", "--bounding-set=-all"}
	out := exits(t, 1, b.h1.node.Command(unprivileged[0], append(unprivileged[1:], csig, "mesh", "run", "-i", b.file(b.h1), "--collect", "--socket", filepath.Join(b.dir, "other.sock"), "--host-signals", b.signals(b.h1))...))
	for _, want := range []string{"CAP_NET_RAW", "csig host run does not answer at " + b.signals(b.h1)} {
		if !strings.Contains(out, want) {
			t.Errorf("without both: %q is not in %s", want, out)
		}
	}
	b.start(b.h1)
	one := start(b.h1, unprivileged...)
	start(b.h2)
	await := func(what, of1, of2 string, capable int) {
		t.Helper()
		var s *mesh.Status
		if !within(2*patience, func() bool {
			s = b.meshOf(b.h1)
			return s != nil && s.Hosts[0].Sockets == of1 && s.Hosts[1].Sockets == of2 && s.States[mesh.StateCapable] == capable
		}) {
			t.Fatalf("%s: %+v", what, s)
		}
	}
	await("one of each kind", mesh.SocketsOrdinary, mesh.SocketsPacket, 2)
	if !within(patience, func() bool {
		s := b.meshOf(b.h1)
		return s != nil && len(s.Bottlenecks) == 2 && slices.Equal(s.Bottlenecks[0].Ports, []string{"s1:up"}) && len(s.Findings) == 0
	}) {
		t.Errorf("s1:up is not named: %+v", b.meshOf(b.h1))
	}
	text := exits(t, 0, b.h1.node.Command(csig, "mesh", "status", "--socket", filepath.Join(b.dir, "mesh.sock")))
	if !strings.Contains(text, "csig host run inserts and removes the tags at 1 of 2 hosts") {
		t.Errorf("csig mesh status:\n%s", text)
	}
	b.start(b.h2)
	await("csig host run at both", mesh.SocketsOrdinary, mesh.SocketsOrdinary, 2)
	b.h2.kill()
	await("the other has packet sockets again", mesh.SocketsOrdinary, mesh.SocketsPacket, 2)
	b.h1.kill()
	await("neither", mesh.SocketsNone, mesh.SocketsPacket, 1) // what h1 sends stays as it was, since it sends no tags
	if !strings.Contains(one.log.String(), "no tagged probes are received") {
		t.Error("the log does not have it")
	}
	b.start(b.h1)
	await("it is back", mesh.SocketsOrdinary, mesh.SocketsPacket, 1)
	if s := b.meshOf(b.h1); s.Hosts[0].Counts.Forged+s.Hosts[0].Counts.Malformed+s.Hosts[1].Counts.Malformed > 0 {
		t.Errorf("%+v", s.Hosts)
	}
}
