package qualify_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/qualify/qualifytest"
)

// routed is what the tests' switches route: by two next hops, whose MAC addresses end with 3 and 4.
var routed = qualify.Routed{Router: qualify.MAC{2, 0, 0, 0, 0, 1}, To: netip.MustParseAddr("203.0.113.9")}

// in runs a command in a node, with lines as its input.
func in(t *testing.T, n *fabric.Node, input, command string) string {
	t.Helper()
	words := strings.Fields(command)
	c := n.Command(words[0], words[1:]...)
	c.Stdin = strings.NewReader(input)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

// step is a switch after a change: the experiment ecmp finds these faults there, or is not tested.
type step struct {
	change func()
	codes  []string // of faults; none: healthy
	hash   []string // of the facts; nil: absent
	why    string   // it is not tested
}

// wantRouted runs the experiment after each change, in one run: that explores the ports once.
func wantRouted(t *testing.T, b *qualify.Bench, steps ...step) {
	t.Helper()
	e, list := only("ecmp")[0], []qualify.Experiment{}
	for i, s := range steps {
		one := e
		one.ID = fmt.Sprint("ecmp-", i)
		one.Run = func(ctx context.Context, trial *qualify.Trial) error {
			s.change()
			return e.Run(ctx, trial)
		}
		list = append(list, one)
	}
	r := runReal(t, b, qualify.Options{Experiments: list})
	for i, s := range steps {
		res, got := r.Result(list[i].ID), []string(nil)
		for _, f := range res.Faults {
			got = append(got, f.Code)
		}
		t.Logf("%s: %s in %v: %s (%d frames sent, %d arrived)", res.ID, res.Outcome, res.Took.Round(time.Millisecond), res.Found, res.Frames.Sent, res.Frames.Arrived)
		if s.why != "" {
			if res.Outcome != qualify.NotTested || !strings.Contains(res.Found, s.why) {
				t.Errorf("%s: %s %s, want not tested: %s", res.ID, res.Outcome, res.Found, s.why)
			}
			continue
		}
		var f inventory.Facts
		e.Facts(res, &f)
		switch {
		case res.Outcome == qualify.NotTested || !slices.Equal(got, s.codes):
			t.Errorf("%s: %s %s %q, want %q %v", res.ID, res.Outcome, res.Found, got, s.codes, res.Notes)
		case *f.Routing != (s.codes == nil) || (f.Hash == nil) != (s.hash == nil) || f.Hash != nil && !slices.Equal(*f.Hash, s.hash):
			t.Errorf("%s: facts %v %v, want hash %q", res.ID, *f.Routing, f.Hash, s.hash)
		}
	}
}

// program has a BPF program run for each frame at ports of a node.
func program(t *testing.T, n *fabric.Node, at ebpf.AttachType, code asm.Instructions, ports ...string) {
	t.Helper()
	err := n.Do(func() error {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: append(code,
			asm.Mov.Imm(asm.R0, -1).WithSymbol("next"), asm.Return())})
		if err != nil {
			return err
		}
		defer p.Close()
		for _, port := range ports {
			l, err := netlink.LinkByName(port)
			if err == nil {
				err = link.RawAttachProgram(link.RawAttachProgramOptions{Target: l.Attrs().Index, Program: p, Attach: at})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Fields of a frame in a BPF program (struct __sk_buff).
const (
	skbMark        = 8
	skbVLANPresent = 20
	skbVLANTCI     = 24
)

// tagToMark takes the tag from frames to the router, and leaves it in the packet's mark, with bit 16.
var tagToMark = asm.Instructions{
	asm.Mov.Reg(asm.R6, asm.R1),
	asm.LoadAbs(0, asm.Word), // of the destination
	asm.JNE.Imm(asm.R0, 0x02000000, "next"),
	asm.LoadMem(asm.R2, asm.R6, skbVLANPresent, asm.Word),
	asm.JEq.Imm(asm.R2, 0, "next"),
	asm.LoadMem(asm.R2, asm.R6, skbVLANTCI, asm.Word),
	asm.Or.Imm(asm.R2, 1<<16),
	asm.StoreMem(asm.R6, skbMark, asm.R2, asm.Word),
	asm.Mov.Reg(asm.R1, asm.R6),
	asm.FnSkbVlanPop.Call(),
}

// markToTag writes the tag that the mark has.
var markToTag = asm.Instructions{
	asm.LoadMem(asm.R3, asm.R1, skbMark, asm.Word),
	asm.JEq.Imm(asm.R3, 0, "next"),
	asm.And.Imm(asm.R3, 0xffff),
	asm.Mov.Imm(asm.R2, 0xa888), // 0x88a8, as on the wire
	asm.FnSkbVlanPush.Call(),
}

// TestLongECMPOfKernel has the kernel route by two next hops and a hash of addresses and UDP ports. As it cannot
// route a frame with a tag, BPF programs take the tag to the packet's mark, and back from it.
func TestLongECMPOfKernel(t *testing.T) {
	bed := qualifytest.NewBed(t, 4)
	bridge := strings.Fields(in(t, bed.Switch, "", "ip -br link show type bridge"))[0]
	var setup strings.Builder
	fmt.Fprintf(&setup, "link set %s address %v\naddr add 198.51.100.1/24 dev %s\n", bridge, routed.Router, bridge)
	for i := 3; i <= 4; i++ {
		fmt.Fprintf(&setup, "link set swp%d nomaster\naddr add 10.0.%d.1/24 dev swp%d\nneigh add 10.0.%d.2 lladdr 02:00:00:00:00:%02x dev swp%d nud permanent\n", i, i, i, i, i, i)
		fmt.Fprintf(&setup, "route add default via 10.0.%d.2 dev swp%d table %d\n", i, i, i)
	}
	fmt.Fprintf(&setup, "route add %v nexthop via 10.0.3.2 dev swp3 nexthop via 10.0.4.2 dev swp4\n", routed.To)
	in(t, bed.Switch, setup.String(), "ip -batch -")
	in(t, bed.Switch, "", "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.fib_multipath_hash_policy=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.conf."+bridge+".rp_filter=0")

	b := benchOf(t, bed)
	b.Profile.TPID, b.Driver, b.NoWay, b.Patience = 0x88a8, nil, "the test has none", 300*time.Millisecond
	fields := []string{"IP", "L4"}
	rule := func(mark string) func() {
		return func() {
			in(t, bed.Switch, "rule flush pref 10\nrule add pref 10 fwmark "+mark+" lookup 4\n", "ip -force -batch -")
		}
	}
	wantRouted(t, b,
		step{change: func() {}, why: "--routed MAC,ADDRESS"},
		step{change: func() { b.Routed = &routed }, codes: []string{"ecmp-lost"}}, // VLANs with this TPID are no interfaces
		step{change: func() { program(t, bed.Switch, ebpf.AttachTCXIngress, tagToMark, "swp1") }, codes: []string{"ecmp-tag-lost"}, hash: fields},
		step{change: func() { program(t, bed.Switch, ebpf.AttachTCXEgress, markToTag, "swp3", "swp4") }, hash: fields},
		// A bit of S, one of T, and then the tag alone chooses the path.
		step{change: rule("0x10080/0x10080"), codes: []string{"ecmp-hashes-VID"}, hash: append(fields[:2:2], "VID")},
		step{change: rule("0x12000/0x12000"), codes: []string{"ecmp-hashes-PCP"}, hash: append(fields[:2:2], "PCP")},
		step{change: rule("0x10000/0x10000"), codes: []string{"ecmp-one-path"}, hash: []string{}},
		step{change: func() {
			in(t, bed.Switch, fmt.Sprintf("route replace %v via 10.0.3.2 dev swp3\n", routed.To), "ip -batch -")
		}, why: "all leave by swp3"},
		step{change: func() { in(t, bed.Switch, fmt.Sprintf("route del %v\n", routed.To), "ip -batch -") }, why: "leaves by 0 of swp3 and swp4"},
	)
}

// TestLongECMPOfOpenVSwitch has an Open vSwitch route by flows. Its tags are VLAN tags to it, which one of
// its hashes takes in, and another not.
func TestLongECMPOfOpenVSwitch(t *testing.T) {
	b, s, _, _ := ovsBench(t, 4)
	b.NoWay, b.Routed, b.Patience = "the test has none", &routed, 300*time.Millisecond
	s.AddBridge("br0")
	for i := 1; i <= 4; i++ {
		s.Vsctl("add-port", "br0", fmt.Sprint("p", i), "--", "set", "interface", fmt.Sprint("p", i), fmt.Sprint("ofport_request=", i))
	}
	s.Ofctl("del-flows", "br0")
	s.Ofctl("add-flow", "br0", "in_port=1,actions=output:2")
	s.Ofctl("add-flow", "br0", "in_port=2,actions=output:1")
	for i := 3; i <= 4; i++ {
		s.Ofctl("add-flow", "br0", fmt.Sprintf("table=1,ip,reg0=%d,actions=mod_dl_src:%v,mod_dl_dst:02:00:00:00:00:%02x,dec_ttl,output:%d", i-3, routed.Router, i, i))
	}
	by := func(hash string) func() {
		return func() {
			s.Ofctl("add-flow", "br0", fmt.Sprintf("priority=%d,in_port=1,dl_dst=%v,ip,nw_dst=%v,actions=multipath(%s,50,modulo_n,2,0,NXM_NX_REG0[]),resubmit(,1)", 40000, routed.Router, routed.To, hash))
			s.Settled()
		}
	}
	wantRouted(t, b,
		step{change: by("symmetric_l3l4+udp"), hash: []string{"IP", "L4"}},
		step{change: by("symmetric_l4"), codes: []string{"ecmp-hashes-VID"}, hash: []string{"MAC", "IP", "VID"}},
	)
}
