package sai

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sai/saitest"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vlanrules"
)

// beside is the machine of the fake.
type beside struct{ sw *saitest.Switch }

func (b beside) Orchagent(context.Context) (Process, error) {
	if n := b.sw.Starts(); n > 0 {
		return Process{ID: fmt.Sprint(n), Names: b.sw.Names()}, nil
	}
	return Process{}, ErrNoOrchagent
}

func (b beside) Dial(ctx context.Context, _ Process) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", b.sw.Socket())
}

// liveOf drives a fake's switch with the ports, profile and locators of an input.
func liveOf(t *testing.T, sw *saitest.Switch, in *Input) (*Live, vendors.Setup) {
	t.Helper()
	dev := &inventory.Device{Name: "leaf1", Platform: "sai", Interval: in.Interval}
	want := vendors.Setup{
		TPID: in.Profile.TPID, WideTPID: in.Profile.WideTPID, Layout: in.Profile.Layout, OnStale: inventory.Conservative,
		Profile: in.Profile.Hash(), Measure: in.Profile, Signals: in.signals(),
	}
	for _, p := range in.Ports {
		dev.Ports = append(dev.Ports, inventory.Port{Name: p.Name, LM: p.LM})
		want.Ports = append(want.Ports, vendors.PortSetup{Port: p.Name, Action: p.Action})
	}
	l := OpenLive(LiveConfig{Device: dev, Host: beside{sw}, Redis: sonicdb.New(sonicdb.Options{File: sw.Redis.File, Socket: sw.Redis.Socket, Dial: sonictest.Dial})})
	t.Cleanup(func() { _ = l.Close() })
	return l, want
}

// newSwitch has the ports of the tests' inputs.
func newSwitch(t *testing.T) *saitest.Switch {
	t.Helper()
	var ports []string
	for i := range 6 {
		ports = append(ports, fmt.Sprintf("Ethernet%d", i))
	}
	return saitest.New(t, ports...)
}

// has checks that a switch has an input's objects and nothing else of csig's, and that csig sees that.
func has(t *testing.T, sw *saitest.Switch, l *Live, want vendors.Setup, in *Input) {
	t.Helper()
	if sw.Died() != nil {
		t.Fatal(sw.Died())
	}
	s, err := l.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if changes, err := l.Diff(s, want); err != nil || len(changes) > 0 {
		t.Errorf("%+v, %v: %+v", changes, err, s)
	}
	var objects []string
	for _, id := range sw.Objects("SAI_OBJECT_TYPE_TAM_INT") {
		o := sw.Object(id)
		objects = append(objects, strings.TrimPrefix(o[tamInt+"TYPE"], "SAI_TAM_INT_TYPE_CSIG_")+" "+strings.TrimPrefix(o[attrSignal], "SAI_CSIG_SIGNAL_TYPE_")+" "+o[tamInt+"ETH_TYPE_CODE_POINT"]+" "+o[attrInterval])
	}
	var made []string
	p := compiled(t, in)
	for _, o := range p.Own {
		if o.Type == TAMIntObject {
			interval := ""
			if v := o.get(attrInterval); v != nil {
				interval = v.String()
			}
			made = append(made, strings.TrimPrefix(o.get(tamInt+"TYPE").String(), "SAI_TAM_INT_TYPE_CSIG_")+" "+strings.TrimPrefix(o.get(attrSignal).String(), "SAI_CSIG_SIGNAL_TYPE_")+" "+o.get(tamInt+"ETH_TYPE_CODE_POINT").String()+" "+interval)
		}
	}
	slices.Sort(objects)
	slices.Sort(made)
	if !slices.Equal(objects, made) || len(sw.Objects("SAI_OBJECT_TYPE_TAM")) != 1 {
		t.Errorf("the switch has %q, want %q", objects, made)
	}
	ids := sw.Object(testSwitch.String())[switchTAM]
	if tams := sw.Objects("SAI_OBJECT_TYPE_TAM"); ids != "1:"+tams[0] {
		t.Errorf("bound: %s, and there is %v", ids, tams)
	}
	for i, name := range []string{"Ethernet0", "Ethernet1", "Ethernet2", "Ethernet3", "Ethernet4", "Ethernet5"} {
		o := sw.Object((OID(PortObject)<<48 | OID(i+2)).String())
		strip, lm := "false", "0"
		for _, p := range in.Ports {
			if p.Name != name {
				continue
			}
			if strip = fmt.Sprint(p.strips()); !p.strips() {
				n := p.LM[in.signals()[0]]
				if in.Profile.Layout != quantize.UEC {
					n /= 2
				}
				lm = fmt.Sprint(n)
			}
		}
		if got := [2]string{orElse(o[portStrip], "false"), orElse(o[portLocator], "0")}; got != [2]string{strip, lm} {
			t.Errorf("%s has %v, want %s and %s", name, got, strip, lm)
		}
	}
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// empty checks that nothing of csig is left.
func empty(t *testing.T, sw *saitest.Switch) {
	t.Helper()
	if sw.Died() != nil {
		t.Fatal(sw.Died())
	}
	left := append(sw.Objects("SAI_OBJECT_TYPE_TAM_INT"), sw.Objects("SAI_OBJECT_TYPE_TAM")...)
	if len(left) > 0 || orElse(sw.Object(testSwitch.String())[switchTAM], "0:null") != "0:null" || len(sw.Redis.Keys(6, "CSIG*")) > 0 {
		t.Errorf("left: %v, bound %s, %v", left, sw.Object(testSwitch.String())[switchTAM], sw.Redis.Keys(6, "CSIG*"))
	}
	for i := range 6 {
		o := sw.Object((OID(PortObject)<<48 | OID(i+2)).String())
		if orElse(o[portStrip], "false") != "false" || orElse(o[portLocator], "0") != "0" {
			t.Errorf("Ethernet%d has %v", i, o)
		}
	}
}

// inputs are the three profiles, for the ports of newSwitch.
func inputs(t *testing.T) []*Input {
	t.Helper()
	out := []*Input{draft00(t), uec(t), wide(t)}
	for _, in := range out {
		for i := range in.Ports {
			var n int
			_, _ = fmt.Sscanf(in.Ports[i].Name, "Ethernet%d", &n)
			in.Ports[i].OID = OID(PortObject)<<48 | OID(n+2)
		}
	}
	return out
}

// TestLive makes each of three profiles, goes over to the next one, and takes the last away.
func TestLive(t *testing.T) {
	sw := newSwitch(t)
	all := inputs(t)
	for _, in := range append(all, all[0]) {
		l, want := liveOf(t, sw, in)
		f, err := l.Probe(t.Context())
		if err != nil || f.Update.Level != vlanrules.Degraded || f.Strip.Level != vlanrules.Full || len(f.Ports) != 6 {
			t.Fatalf("%+v, %v", f, err)
		}
		for range 2 { // the second time there is nothing to do
			if err := l.Apply(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			has(t, sw, l, want, in)
		}
		other, _ := liveOf(t, sw, in) // a new process sees the same
		has(t, sw, other, want, in)
	}
	l, _ := liveOf(t, sw, all[0])
	for range 2 {
		if err := l.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		empty(t, sw)
	}
	if s, err := l.Observe(t.Context()); err != nil || !s.Nothing() {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestLiveKilled has csig's process end, or lose orchagent's answer, at each request of going over from one profile to the
// next, and of the removal: another process brings it to its end, and nothing is made twice or left.
func TestLiveKilled(t *testing.T) {
	all := inputs(t)
	from, to := all[0], all[2]
	for _, lost := range []string{"before", "after"} {
		for _, what := range []string{"apply", "remove"} {
			steps := 1
			for at := 0; at < steps; at++ {
				sw := newSwitch(t)
				l, want := liveOf(t, sw, from)
				if err := l.Apply(t.Context(), want); err != nil {
					t.Fatal(err)
				}
				carry := func(l *Live, want vendors.Setup) error {
					if what == "remove" {
						return l.Remove(t.Context())
					}
					return l.Apply(t.Context(), want)
				}
				n := 0
				hook := func(words []string) error {
					if words[1] == "get" || strings.Contains(words[1], "query") {
						return nil
					}
					if n++; n == at+1 {
						return errLost
					}
					return nil
				}
				if lost == "before" {
					sw.On(hook, nil)
				} else {
					sw.On(nil, hook)
				}
				l, want = liveOf(t, sw, to)
				err := carry(l, want)
				sw.On(nil, nil)
				if err != nil {
					steps = at + 2
				}
				again, want := liveOf(t, sw, to)
				if err := carry(again, want); err != nil {
					t.Fatalf("%s, %s request %d: %v", what, lost, at, err)
				}
				if what == "remove" {
					empty(t, sw)
				} else {
					has(t, sw, again, want, to)
				}
				sw.Stop()
				if t.Failed() {
					t.Fatalf("%s, %s request %d", what, lost, at)
				}
			}
			if steps < 6 {
				t.Errorf("%s: %d steps", what, steps)
			}
		}
	}
}
