package plane

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/packets"
	"github.com/vishvananda/netlink"
	"golang.org/x/net/bpf"
)

// Plane is a switch whose ports are cabled to cards of a host. Port 1 is index 0.
type Plane struct {
	Host *fabric.Node // has the cards c1, c2 …

	node  *fabric.Node
	ports []*fabric.Port    // of the switch
	ends  []*fabric.Port    // what they are cabled to
	cards []*packets.Socket // of those

	seq atomic.Uint32 // of frames

	mu     sync.Mutex // guards what follows
	loaded string
	last   []Port // that Program was given
	faults Faults
	failed error // of Set
}

const tableName = "csigplane"

// New makes a switch with so many ports, which ends with the test. It forwards frames to
// 02:00:00:00:00:NN out of port NN.
func New(t testing.TB, ports int) *Plane {
	t.Helper()
	var f fabric.Fabric
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	host, err := f.AddHost("bench")
	if err != nil {
		t.Fatal(err)
	}
	p := &Plane{Host: host}
	if p.node, err = f.AddSwitch("switch"); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= ports; i++ {
		card, port, err := f.Connect(fabric.End{Node: host, Port: fmt.Sprint("c", i)}, fabric.End{Node: p.node, Port: fmt.Sprint("p", i)}, 0)
		if err == nil {
			err = errors.Join(p.node.Forward(mac(i), port), p.node.Do(func() error { return learns(port) }))
		}
		if err != nil {
			t.Fatal(err)
		}
		p.ends, p.ports = append(p.ends, card), append(p.ports, port)
	}
	if err := f.WaitUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = host.Do(func() error {
		for _, card := range p.ends {
			s, err := packets.Open(card.Index(), only())
			if err != nil {
				return err
			}
			p.cards = append(p.cards, s)
		}
		return nil
	})
	t.Cleanup(func() {
		for _, s := range p.cards {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// On is the data plane of a switch that the test cabled, with ports p1, p2 and so on: it has no
// cards, and frames are the test's.
func On(node *fabric.Node) *Plane { return &Plane{node: node} }

// learns has a port of the bridge learn, and flood to it what it does not know.
func learns(p *fabric.Port) error {
	l, err := netlink.LinkByIndex(p.Index())
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetLearning(l, true), netlink.LinkSetFlood(l, true))
}

func mac(port int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, byte(port)} }

// only lets frames to the cards through: those of a load would fill a socket.
func only() []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32(mac(0)), SkipFalse: 3},
		bpf.LoadAbsolute{Off: 4, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	}
}

// Node is the switch's network namespace, with its ports p1, p2 and so on.
func (p *Plane) Node() *fabric.Node { return p.node }

// Port is one of them, for its counters.
func (p *Plane) Port(n int) *fabric.Port { return p.ports[n-1] }

// Load sends so many bits a second, on layer 1, in by the last port and out by another,
// until the test ends or SetRate changes that.
func (p *Plane) Load(t testing.TB, port int, bps uint64) *fabric.Load {
	t.Helper()
	to := net.HardwareAddr{2, 0, 0, 0, 1, byte(port)}
	if err := p.node.Forward(to, p.ports[port-1]); err != nil {
		t.Fatal(err)
	}
	l, err := fabric.StartLoad(p.ends[len(p.ends)-1], to, bps)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Stop(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Set changes what the hardware does wrong. An error is the next Program's.
func (p *Plane) Set(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.loaded = f, ""
	if p.last != nil {
		held, _ := p.faults.hold(p.last)
		p.failed = p.load(p.script(held))
	}
}

// Program gives all ports their rules, in one transaction. It returns how many of the
// rules of each port are in hardware: those that its table had room for.
func (p *Plane) Program(ports []Port) ([]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = ports
	held, in := p.faults.hold(ports)
	script := p.script(held)
	if script == p.loaded || p.failed != nil {
		return in, p.failed
	}
	if p.faults.Gap > 0 {
		if err := p.load(p.script(make([]Port, len(ports)))); err != nil {
			return nil, err
		}
		time.Sleep(p.faults.Gap)
		if p.faults.In != nil {
			p.faults.In()
		}
	}
	if err := p.load(script); err != nil {
		return nil, err
	}
	p.loaded = script
	return in, nil
}

// LinkDown is what becomes of a port's rules when its link goes down.
func (p *Plane) LinkDown(port int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.faults.LoseByFlap {
		return nil
	}
	return p.load(fmt.Sprintf("flush chain netdev %s p%d\n", tableName, port))
}

func (p *Plane) load(script string) error {
	nft := p.node.Command("nft", "-f", "-")
	nft.Stdin = strings.NewReader(script)
	if out, err := nft.CombinedOutput(); err != nil {
		return fmt.Errorf("nft (install nftables): %w: %s\n%s", err, out, script)
	}
	return nil
}

// script is the ruleset of all ports. Chains stay, so that no frame misses them.
func (p *Plane) script(ports []Port) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "add table netdev %s\n", tableName)
	for i, port := range ports {
		chain := fmt.Sprintf("netdev %s p%d", tableName, i+1)
		fmt.Fprintf(&b, "add chain %s { type filter hook egress device \"p%d\" priority 0; policy accept; }\nflush chain %s\n", chain, i+1, chain)
		if p.faults.Drop4095 {
			for _, tag := range []string{port.outer() + " @ll,116,12 0xfff", port.inner() + " @ll,148,12 0xfff"} {
				fmt.Fprintf(&b, "add rule %s %s drop\n", chain, tag)
			}
		}
		if port.Longest > 0 {
			b.WriteString(port.long(chain))
		}
		if port.Trunk {
			fmt.Fprintf(&b, "add rule %s @ll,96,16 != 0x%04x @ll,96,16 != 0x%04x drop\n", chain, port.Outer, payloadType)
		}
		if p.faults.BridgeByVID {
			fmt.Fprintf(&b, "add rule %s %s @ll,116,12 > 999 drop\n", chain, port.outer())
		}
		for _, r := range port.Rules {
			if p.faults.MatchBridging && len(r.Outer) > 0 {
				if !slices.ContainsFunc(r.Outer, func(v Range) bool { return v.First <= native && native <= v.Last }) {
					continue
				}
				r.Outer = nil
			}
			for _, text := range r.texts(&port, p.faults.LoseDEI) {
				fmt.Fprintf(&b, "add rule %s %s\n", chain, text)
			}
		}
	}
	return b.String()
}

func (p *Port) outer() string { return fmt.Sprintf("@ll,96,16 0x%04x", p.Outer) }
func (p *Port) inner() string { return p.outer() + fmt.Sprintf(" @ll,128,16 0x%04x", p.Inner) }

// texts are the rule in the language of nft, once for each pair of ranges.
func (r *Rule) texts(p *Port, loseDEI bool) (out []string) {
	if r.TPID != 0 {
		p = &Port{Outer: r.TPID, Inner: p.Inner}
	}
	match := p.outer()
	if len(r.Inner) > 0 || r.InnerPCP >= 0 || r.SetInner >= 0 {
		match = p.inner()
	}
	if r.OuterPCP >= 0 {
		match += fmt.Sprintf(" @ll,112,3 %d", r.OuterPCP)
	}
	if r.InnerPCP >= 0 {
		match += fmt.Sprintf(" @ll,144,3 %d", r.InnerPCP)
	}
	act, end := " counter", " accept"
	if r.Drop {
		end = " drop"
	}
	if r.SetTPID != 0 {
		act += fmt.Sprintf(" @ll,96,16 set 0x%04x", r.SetTPID)
	}
	for _, set := range []struct{ vid, at int }{{r.SetOuter, 116}, {r.SetInner, 148}} {
		if set.vid < 0 {
			continue
		}
		if loseDEI { // with the VID: the kernel writes no single byte of a tag that it has beside the frame
			act += fmt.Sprintf(" @ll,%d,13 set 0x%03x", set.at-1, set.vid)
		} else {
			act += fmt.Sprintf(" @ll,%d,12 set 0x%03x", set.at, set.vid)
		}
	}
	for _, a := range within(116, r.Outer) {
		for _, b := range within(148, r.Inner) {
			out = append(out, match+a+b+act+end)
		}
	}
	return out
}

func within(at int, list []Range) []string {
	if len(list) == 0 {
		return []string{""}
	}
	var out []string
	for _, r := range list {
		out = append(out, fmt.Sprintf(" @ll,%d,12 >= 0x%03x @ll,%d,12 <= 0x%03x", at, r.First, at, r.Last))
	}
	return out
}
