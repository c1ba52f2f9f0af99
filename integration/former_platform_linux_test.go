package integration

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	bpf "github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/packets"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

// box is a machine that each platform of one can drive: its ports p1 and p2 are those of a
// bridge of Open vSwitch, too. Frames of h1 leave by p2, to h2.
type box struct {
	*ovstest.Switch
	t    testing.TB
	node *fabric.Node
	dir  string
	tx   *packets.Socket
	rx   *packets.Socket
	out  *fabric.Port
}

// platformsOfABox have the keys of each platform, and the flow that hands p2's frames over.
var platformsOfABox = map[string]struct{ keys, flow string }{
	"linux":      {"", "actions=output:2"},
	"linux-ebpf": {"", "actions=output:2"},
	"ovs":        {"management: {ovs: {bridge: csig, run_dir: RUNDIR}}", "actions=load:2->NXM_NX_REG15[],resubmit(,60)"},
	"openflow":   {"address: 127.0.0.1\n    experimental: true\n    management: {openflow: {plaintext: true, ordinary_vlans: not-handed-over}}", "actions=write_metadata:2/0xfff,goto_table:10"},
}

const boxText = `
format: csig.fleet/v1
profile: {name: box, tpid: TPID, interval: 100ms, signals: {abw: {buckets: log-100M}}}
policy: {on_stale: conservative}
vlan_tpids: [0x8100]
devices:
  - name: s1
    platform: PLATFORM
    local: true
    KEYS
    ports: [{name: p2, speed: 50M, lm: LOCATOR}]
`

func newBox(t testing.TB) *box {
	t.Helper()
	b := &box{t: t, dir: t.TempDir()}
	f := newFabric(t)
	node := func(name string) *fabric.Node {
		n, err := f.AddHost(name)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	connect := func(a *fabric.Node, ap string, b *fabric.Node, bp string) (*fabric.Port, *fabric.Port) {
		x, y, err := f.Connect(fabric.End{Node: a, Port: ap}, fabric.End{Node: b, Port: bp}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return x, y
	}
	b.node = node("s1")
	h1, _ := connect(node("h1"), "eth0", b.node, "p1")
	out, h2 := connect(b.node, "p2", node("h2"), "eth0")
	b.out = out
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.WaitUp(ctx); err != nil {
		t.Fatal(err)
	}
	b.Switch = ovstest.Start(t, inNode(b.node))
	numbered(b.Switch, "p1", "p2")
	b.Vsctl("set", "bridge", "csig", "protocols=OpenFlow13,OpenFlow14", "--", "set-fail-mode", "csig", "secure", "--", "set-controller", "csig", "ptcp:6653:127.0.0.1", "--", "set", "controller", "csig", "connection-mode=out-of-band")
	var err error
	if err := h1.Node().Do(func() (err error) { b.tx, err = packets.OpenSender(h1.Index()); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.tx.Close() })
	if err = h2.Node().Do(func() (err error) { b.rx, err = packets.Open(h2.Index(), nil); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.rx.Close() })
	return b
}

// file writes the fleet file of the box as a platform has it.
func (b *box) file(platform string, tpid uint16, locator int) string {
	b.t.Helper()
	text := strings.NewReplacer("TPID", fmt.Sprintf("%#04x", tpid), "PLATFORM", platform, "KEYS", platformsOfABox[platform].keys, "LOCATOR", fmt.Sprint(locator)).Replace(boxText)
	path := filepath.Join(b.dir, fmt.Sprintf("%s-%04x.yaml", platform, tpid))
	writeFile(b.t, path, []byte(strings.ReplaceAll(text, "RUNDIR", b.Dir)))
	return path
}

// handOver has the bridge do with frames what a platform needs of its operator.
func (b *box) handOver(platform string) {
	b.t.Helper()
	b.Ofctl("-O", "OpenFlow13", "add-flow", "csig", "table=0,priority=1,in_port=1,"+platformsOfABox[platform].flow)
}

// frame is one with a tag of a TPID.
func taggedFrame(tpid, tci uint16, n uint32) []byte {
	f := make([]byte, 64)
	copy(f, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1})
	binary.BigEndian.PutUint16(f[12:], tpid)
	binary.BigEndian.PutUint16(f[14:], tci)
	binary.BigEndian.PutUint16(f[16:], 0x88b5)
	binary.BigEndian.PutUint32(f[18:], n)
	return f
}

var sentFrames uint32

// leaves sends a frame and returns how it arrives at h2.
func (b *box) leaves(tpid, tci uint16) []byte {
	b.t.Helper()
	for range 3 {
		sentFrames++
		sent := taggedFrame(tpid, tci, sentFrames)
		if err := b.tx.Send(sent); err != nil {
			b.t.Fatal(err)
		}
		for {
			got, _, err := b.rx.Receive()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				b.t.Fatal(err)
			}
			if len(got) >= 22 && bytes.Equal(got[18:22], sent[18:22]) {
				copy(got[18:22], make([]byte, 4))
				return got
			}
		}
	}
	b.t.Fatalf("a frame with the TPID %#04x does not arrive", tpid)
	return nil
}

// start starts an agent and waits until its port is live: a start that is refused names what
// is in the way, and succeeds once that has ended.
func (b *box) start(platform, file, was string) *agent {
	b.t.Helper()
	b.handOver(platform)
	socket := filepath.Join(b.dir, "agent.sock")
	for deadline := time.Now().Add(patience); ; {
		a := launchIn(b.t, b.node.Command(csig, "agent", "-i", file, "--socket", socket, "--no-self-test"), socket)
		up := make(chan struct{})
		go func() {
			defer close(up)
			for {
				s, err := a.client.Status(b.t.Context())
				if err == nil && first(s).State == api.StateLive && s.DataPlane == api.DataPlaneLeased {
					return
				}
				select {
				case <-a.ended:
					return
				case <-time.After(5 * time.Millisecond): // a switch's counters say something once they change
					_ = b.tx.Send(taggedFrame(0x88b5, 0, 0))
				}
				if s != nil && time.Now().After(deadline.Add(-patience/2)) {
					text, _ := json.Marshal(s.Ports)
					b.t.Errorf("an agent of platform %s after one of %q is not live: %s", platform, was, text)
					_ = a.cmd.Process.Kill()
					return
				}
			}
		}()
		<-up
		select {
		case <-a.ended:
		default:
			return a
		}
		if out := a.log.String(); was == "" || !strings.Contains(out, "which csig made as platform "+was) || !strings.Contains(out, "stop that first") {
			b.t.Fatalf("an agent of platform %s after one of %s: %v\n%s", platform, was, a.err, out)
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("platform %s is refused for ever: %s", platform, a.log.String())
		}
	}
}

// has are the platforms that have something on the box.
func (b *box) has() (platforms []string) {
	b.t.Helper()
	if out, err := b.node.Command("nft", "list", "tables").CombinedOutput(); err != nil {
		b.t.Fatalf("%v: %s", err, out)
	} else if strings.Contains(string(out), "csig") {
		platforms = append(platforms, "linux")
	}
	if err := b.node.Do(func() error {
		found, err := link.QueryPrograms(link.QueryOptions{Target: b.out.Index(), Attach: bpf.AttachTCXEgress})
		if err == nil && len(found.Programs) > 0 {
			platforms = append(platforms, "linux-ebpf")
		}
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	own := map[string]bool{}
	for line := range strings.Lines(b.Ofctl("-O", "OpenFlow14", "dump-flows", "--no-stats", "csig")) {
		switch {
		case strings.Contains(line, "cookie=0x6373696700000001,"):
			own["ovs"] = own["ovs"] || !ovsMiss.MatchString(line)
		case strings.Contains(line, "cookie=0x63736f66"):
			own["openflow"] = own["openflow"] || !strings.Contains(line, "priority=290")
		}
	}
	for _, p := range []string{"openflow", "ovs"} {
		if own[p] {
			platforms = append(platforms, p)
		}
	}
	return platforms
}

// formerCase is a change of the platform of a box, perhaps of its TPID, too.
type formerCase struct {
	was, is string
	end     string    // of the former agent
	tpids   [2]uint16 // the former one, and the one of now
}

func (c formerCase) String() string {
	return fmt.Sprintf("%s-%s-%s-%04x-%04x", c.was, c.is, c.end, c.tpids[0], c.tpids[1])
}

// formerCases are all of them. Open vSwitch takes 0x88a8 alone.
func formerCases(ends ...string) (all []formerCase) {
	byFlows := func(platform string) bool { return platform == "ovs" || platform == "openflow" }
	platforms := []string{"linux", "linux-ebpf", "openflow", "ovs"}
	for _, was := range platforms {
		for _, is := range platforms {
			for _, tpids := range [][2]uint16{{0x88a8, 0x88a8}, {0x9900, 0x88a8}, {0x88a8, 0x9900}} {
				if was == is || byFlows(was) && tpids[0] != 0x88a8 || byFlows(is) && tpids[1] != 0x88a8 {
					continue
				}
				for _, end := range ends {
					all = append(all, formerCase{was, is, end, tpids})
				}
			}
		}
	}
	return all
}

// change drives the box as one platform and then as the other: of the former nothing touches a
// frame.
func (b *box) change(t *testing.T, c formerCase) {
	b.t = t
	was, is := b.file(c.was, c.tpids[0], 5), b.file(c.is, c.tpids[1], 6)
	a := b.start(c.was, was, "")
	switch c.end {
	case "SIGTERM":
		_ = a.signal(syscall.SIGTERM)
	case "SIGINT":
		_ = a.signal(syscall.SIGINT)
	default:
		_ = a.signal(syscall.SIGKILL)
	}
	if c.end == "off" {
		// By the file as it is now, of which the former platform is no part.
		b.handOver(c.is)
		out, code := ran(t, b.node.Command(csig, "off", "--yes", "-i", is))
		if left := b.has(); len(left) > 0 && code == 0 {
			t.Errorf("csig off exits with 0 and leaves %v:\n%s", left, out)
		} else if code != 0 && !strings.Contains(out, "platform "+c.was) {
			t.Errorf("csig off exits with %d and does not name platform %s:\n%s", code, c.was, out)
		}
		_ = os.Remove(api.OffMarker(filepath.Join(b.dir, "agent.sock")))
	}
	a = b.start(c.is, is, c.was)
	if left := b.has(); len(left) != 1 || left[0] != c.is {
		t.Errorf("the box has the rules of %v", left)
	}
	tpid := c.tpids[1]
	for deadline := time.Now().Add(patience); binary.BigEndian.Uint16(b.leaves(tpid, 31<<7|126)[14:])&0x7f != 6; { // a native plane's first interval begins with a frame
		if time.Now().After(deadline) {
			t.Fatalf("no tag has the port's LM\n%s", a.log.String())
		}
	}
	fell := func(s *api.Status) uint64 { return s.Cycle.Lapses + first(s).Changes }
	known := fell(a.await("its lapses", func(*api.Status) bool { return true }))
	for n, end := 0, time.Now().Add(2*patience); n < 50; n++ {
		if time.Now().After(end) {
			t.Fatalf("%d frames in time", n)
		}
		got := b.leaves(tpid, 31<<7|126)
		if tci := binary.BigEndian.Uint16(got[14:]); tci == staleTCI { // its own, where the machine was late with a lease or a reading
			known = fell(a.await("what explains the fallback", func(s *api.Status) bool { return !live(s) || fell(s) > known }))
			n--
			continue
		}
		if tci := binary.BigEndian.Uint16(got[14:]); tci&0x7f != 6 || tci>>7 == 0 {
			t.Fatalf("a tag leaves as S %d, LM %d, and the port's LM is 6\n%s", tci>>7, tci&0x7f, a.log.String())
		}
	}
	other := 0x88a8 ^ 0x9900 ^ tpid // the TPID that is not csig's now
	for tci := range uint16(8) {    // Open vSwitch itself loses the DEI
		want := taggedFrame(other, tci<<13|0x2af, 0)
		if got := b.leaves(other, tci<<13|0x2af); !bytes.Equal(got, want) {
			t.Fatalf("an ordinary frame leaves as %x, and came as %x", got[:22], want[:22])
		}
	}
	_ = a.signal(syscall.SIGINT)
	if left := b.has(); len(left) > 0 {
		t.Errorf("after Ctrl-C the box has the rules of %v:\n%s", left, a.log.String())
	}
}

// TestFormerPlatform: where the platform of a device is changed nothing of the former one
// touches a frame, however its agent ended; csig off ends with 0 only where nothing is left. Each
// platform is the former one once, and the next one once.
func TestFormerPlatform(t *testing.T) {
	former(t, []formerCase{
		{"linux", "openflow", "SIGKILL", [2]uint16{0x9900, 0x88a8}}, {"openflow", "linux-ebpf", "off", [2]uint16{0x88a8, 0x88a8}},
		{"linux-ebpf", "ovs", "SIGTERM", [2]uint16{0x88a8, 0x88a8}}, {"ovs", "linux", "SIGINT", [2]uint16{0x88a8, 0x9900}},
	})
}

// TestLongFormerPlatform has one case of each pair of platforms; CSIG_FORMERS=all: each end and TPID of
// each (4 minutes).
func TestLongFormerPlatform(t *testing.T) {
	ends := []string{"SIGKILL", "off", "SIGTERM", "SIGINT"}
	cases := formerCases(ends...)
	if os.Getenv("CSIG_FORMERS") != "all" {
		cases = nil
		seen := map[[2]string]bool{}
		for i, c := range formerCases("") {
			if pair := [2]string{c.was, c.is}; !seen[pair] {
				seen[pair] = true
				c.end = ends[i%len(ends)]
				cases = append(cases, c)
			}
		}
	}
	former(t, cases)
}

func former(t *testing.T, cases []formerCase) {
	t.Parallel()
	b := newBox(t)
	for _, c := range cases {
		t.Run(c.String(), func(t *testing.T) { b.change(t, c) })
	}
}

// TestLongPlanOfAFormerPlatform: a plan through the agent that waits names what the former platform
// left, and csig apply removes it.
func TestLongPlanOfAFormerPlatform(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	_ = b.start("linux", b.file("linux", 0x88a8, 5), "").signal(syscall.SIGKILL)
	fleet, socket := b.file("linux-ebpf", 0x9900, 6), filepath.Join(b.dir, "wait.sock")
	text, err := os.ReadFile(fleet)
	if err == nil {
		err = os.WriteFile(fleet, bytes.Replace(text, []byte("local: true"), []byte("management: {daemon: {socket: "+socket+"}}"), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	a := launchIn(t, b.node.Command(csig, "agent", "--wait", "-i", filepath.Join(b.dir, "wait.yaml"), "--socket", socket), socket)
	a.await("that it waits", waits)
	plan := filepath.Join(b.dir, "plan")
	out := exits(t, 2, b.node.Command(csig, "plan", "-i", fleet, "-o", plan))
	if text := strings.Join(strings.Fields(out), " "); !strings.Contains(text, "repair: nftables table netdev csig, which csig made as platform linux, is at its ports, too") {
		t.Errorf("csig plan:\n%s", out)
	}
	exits(t, 0, b.node.Command(csig, "apply", plan, "--soak", "0s", "--revert", "1h", "--yes"))
	if left := b.has(); len(left) != 1 || left[0] != "linux-ebpf" {
		t.Errorf("after csig apply the box has the rules of %v", left)
	}
	exits(t, 0, b.node.Command(csig, "off", "--yes", "-i", fleet))
	if left := b.has(); len(left) > 0 {
		t.Errorf("after csig off the box has the rules of %v", left)
	}
}
