package sai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/memnet"
	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/protocol/sonicmq"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sai/saitest"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// beside is the machine of the fake.
type beside struct{ sw *saitest.Switch }

func (b beside) Orchagent(context.Context) (Process, error) {
	if n := b.sw.Starts(); n > 0 {
		return Process{ID: fmt.Sprint(n, b.sw.Socket()), Names: b.sw.Names(), Unfit: cmp.Or(unfit("syncd", "1", b.sw.Syncd), unfit("orchagent", "2", b.sw.Orchagent))}, nil
	}
	return Process{}, ErrNoOrchagent
}

func (b beside) Dial(ctx context.Context, _ Process) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", b.sw.Socket())
}

// liveOf drives a fake's switch with the ports, profile and locators of an input.
func liveOf(t *testing.T, sw *saitest.Switch, in *Input) (*Live, vendors.Setup) {
	t.Helper()
	dev := &inventory.Device{Name: "leaf1", Platform: "sai"}
	measure := *in.Profile
	measure.Interval = in.Interval
	want := vendors.Setup{
		TPID: in.Profile.TPID, WideTPID: in.Profile.WideTPID, Layout: in.Profile.Layout, OnStale: inventory.Conservative,
		Profile: in.Profile.Hash(), Measure: &measure, Device: dev, Signals: in.signals(),
	}
	for _, p := range in.Ports {
		dev.Ports = append(dev.Ports, inventory.Port{Name: p.Name, LM: p.LM})
		want.Ports = append(want.Ports, vendors.PortSetup{Port: p.Name, Action: p.Action})
	}
	l := OpenLive(LiveConfig{Device: &inventory.Device{Name: dev.Name, Platform: dev.Platform}, Host: beside{sw}, Redis: sonicdb.New(sonicdb.Options{File: sw.Redis.File, Socket: sw.Redis.Socket, Dial: sonictest.Dial})})
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
		objects = append(objects, strings.TrimPrefix(o[tamInt+"TYPE"], "SAI_TAM_INT_TYPE_CSIG_")+" "+strings.TrimPrefix(o[attrSignal], "SAI_CSIG_SIGNAL_TYPE_")+" "+o[tamInt+"ETH_TYPE_CODE_POINT"]+" "+orElse(o[attrInterval], "128"))
	}
	var made []string
	p := compiled(t, in)
	for _, o := range p.Own {
		if o.Type == TAMIntObject {
			interval := "128" // a delay's, which has none
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
	sw.AnswersEnums = true
	all := inputs(t)
	for _, in := range append(all, all[0]) {
		l, want := liveOf(t, sw, in)
		f, err := l.Probe(t.Context())
		if err != nil || f.Update.Level != vlanrules.Degraded || f.Strip.Level != vlanrules.Full || len(f.Ports) != 6 || !slices.Contains(f.Notes, "the intervals that the switch has: 64µs, 128µs, 256µs, 1ms") {
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

// otherProcess has what comes be another process of csig's, which does not know what the one before was not answered.
func otherProcess() {
	unanswered.Lock()
	defer unanswered.Unlock()
	clear(unanswered.of)
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
				otherProcess()
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

// applied is a driver whose switch has an input's objects.
func applied(t *testing.T, sw *saitest.Switch, in *Input) (*Live, vendors.Setup) {
	t.Helper()
	l, want := liveOf(t, sw, in)
	if err := l.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	return l, want
}

// TestLiveRepairs changes what csig made behind its back: the next update makes it again, and says what it was.
func TestLiveRepairs(t *testing.T) {
	in := inputs(t)[1]
	sw := newSwitch(t)
	l, want := applied(t, sw, in)
	tam := sw.Objects("SAI_OBJECT_TYPE_TAM")[0]
	ints := sw.Objects("SAI_OBJECT_TYPE_TAM_INT")
	port := OID(PortObject)<<48 | 3 // Ethernet1 updates
	for _, row := range []struct {
		what, port, repaired string
		do                   func()
	}{
		{"nothing", "", "", func() {}},
		{"a locator", "Ethernet1", portLocator, func() { sw.Do(PortObject.String()+":"+port.String(), "set", portLocator, "9") }},
		{"strip", "Ethernet1", portStrip, func() { sw.Do(PortObject.String()+":"+port.String(), "set", portStrip, "true") }},
		{"the interval", "", attrInterval, func() { sw.Do(TAMIntObject.String()+":"+ints[0], "set", attrInterval, "64") }},
		{"the binding", "", "is not bound", func() { sw.Do(SwitchObject.String()+":"+testSwitch.String(), "set", switchTAM, "0:null") }},
		{"an object", "", "is gone", func() {
			sw.Do(TAMObject.String()+":"+tam, "set", attrInts, "2:"+ints[0]+","+ints[1])
			sw.Do(TAMIntObject.String()+":"+ints[2], "remove")
		}},
	} {
		row.do()
		res, err := l.Update(t.Context(), nil, 0)
		if err != nil || !res.Leased {
			t.Fatalf("%s: %v", row.what, err)
		}
		if res.Restarted || row.repaired == "" != (len(res.Repaired) == 0) || row.repaired != "" && (res.Repaired[0].Port != row.port || !strings.Contains(res.Repaired.String(), row.repaired)) {
			t.Errorf("%s: %s", row.what, res.Repaired)
		}
		has(t, sw, l, want, in)
	}
}

// foreignTAMOf makes a TAM object of another program's.
func foreignTAMOf(sw *saitest.Switch) string {
	made := sw.Do(TAMIntObject.String()+":"+testSwitch.String(), "create", tamInt+"TYPE", "SAI_TAM_INT_TYPE_IFA1", tamInt+"DEVICE_ID", "7", tamInt+"INT_PRESENCE_TYPE",
		"SAI_TAM_INT_PRESENCE_TYPE_DSCP", tamInt+"INLINE", "true", tamInt+"ETH_TYPE_CODE_POINT", "0")
	return sw.Do(TAMObject.String()+":"+testSwitch.String(), "create", attrInts, "1:"+made[3], tam+"TAM_BIND_POINT_TYPE_LIST", "1:SAI_TAM_BIND_POINT_TYPE_SWITCH")[3]
}

// TestLiveForeign has another program's objects on the switch, before and after csig's: they stay as they are.
func TestLiveForeign(t *testing.T) {
	sw := newSwitch(t)
	foreign := func() string { return foreignTAMOf(sw) }
	bound := func() string { return sw.Object(testSwitch.String())[switchTAM] }
	first := foreign()
	sw.Do(SwitchObject.String()+":"+testSwitch.String(), "set", switchTAM, "1:"+first)
	l, want := applied(t, sw, inputs(t)[1])
	own := l.ids[ownOID(TAMObject, 1)].String()
	if got := bound(); got != "2:"+first+","+own {
		t.Errorf("bound: %s", got)
	}
	second := foreign()
	sw.Do(SwitchObject.String()+":"+testSwitch.String(), "set", switchTAM, "3:"+first+","+own+","+second)
	if res, err := l.Update(t.Context(), nil, 0); err != nil || len(res.Repaired) > 0 {
		t.Errorf("%v, %v", res.Repaired, err)
	}
	if err := l.Apply(t.Context(), want); err != nil || bound() != "3:"+first+","+second+","+own && bound() != "3:"+first+","+own+","+second {
		t.Errorf("%v, bound: %s", err, bound())
	}
	if err := l.Remove(t.Context()); err != nil || bound() != "2:"+first+","+second || len(sw.Objects("SAI_OBJECT_TYPE_TAM")) != 2 || len(sw.Objects("SAI_OBJECT_TYPE_TAM_INT")) != 2 {
		t.Errorf("%v, bound: %s, want %s and %s; %v and %v", err, bound(), first, second, sw.Objects("SAI_OBJECT_TYPE_TAM"), sw.Objects("SAI_OBJECT_TYPE_TAM_INT"))
	}
	// After a cold start another program's objects have the numbers that csig's had.
	l, want = applied(t, sw, inputs(t)[1])
	sw.Reload()()
	for range 4 {
		foreign()
	}
	before := sw.Objects("SAI_OBJECT_TYPE_TAM")
	if res, err := l.Update(t.Context(), nil, 0); err != nil || len(res.Repaired) == 0 {
		t.Errorf("%v, %v", res.Repaired, err)
	}
	if s, err := l.Observe(t.Context()); err != nil || s.Damaged != "" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := l.Remove(t.Context()); err != nil || !slices.Equal(sw.Objects("SAI_OBJECT_TYPE_TAM"), before) {
		t.Errorf("%v: %v, want %v", err, sw.Objects("SAI_OBJECT_TYPE_TAM"), before)
	}
	_ = want
}

// TestLiveBinds has another program set the list of the switch while csig changes it: after csig has read ASIC_DB, and behind csig's own set, by
// what it had read before that. Both are bound in the end; where the other one goes on setting it without csig's, that is an error.
func TestLiveBinds(t *testing.T) {
	for _, row := range []struct {
		what   string
		times  int    // that it sets the list
		at     string // a request of csig's
		behind bool   // set behind it, and not before it
		says   string
	}{
		{"before csig reads the list", 1, "create " + TAMObject.String(), false, ""},
		{"behind csig's set", 1, "set " + SwitchObject.String(), true, ""},
		{"behind each of csig's sets", 9, "set " + SwitchObject.String(), true, "does another program set it?"},
		{"while csig removes its own", 1, "get " + SwitchObject.String(), false, ""},
	} {
		sw := newSwitch(t)
		other := foreignTAMOf(sw)
		in := inputs(t)[1]
		bound := func() string { return sw.Object(testSwitch.String())[switchTAM] }
		l, want := liveOf(t, sw, in)
		removes := strings.Contains(row.what, "removes")
		if removes {
			if err := l.Apply(t.Context(), want); err != nil {
				t.Fatal(err)
			}
		}
		left, list := row.times, "1:"+other
		hook := func(words []string) error {
			if left > 0 && strings.HasPrefix(words[1]+" "+words[0], row.at+":") {
				left--
				if removes {
					_, csigs, _ := strings.Cut(bound(), ":")
					list = "2:" + csigs + "," + other
				}
				sw.DoIn(SwitchObject.String()+":"+testSwitch.String(), "set", switchTAM, list)
			}
			return nil
		}
		if row.behind {
			sw.On(nil, hook)
		} else {
			sw.On(hook, nil)
		}
		if removes {
			if err := l.Remove(t.Context()); err != nil || bound() != "1:"+other || len(sw.Objects("SAI_OBJECT_TYPE_TAM")) != 1 {
				t.Errorf("%s: %v, bound: %s, want %s", row.what, err, bound(), other)
			}
			continue
		}
		err := l.Apply(t.Context(), want)
		if row.says != "" {
			if err == nil || !strings.Contains(err.Error(), row.says) || bound() != "1:"+other {
				t.Errorf("%s: %v, bound: %s", row.what, err, bound())
			}
			sw.On(nil, nil)
			_, err = l.Update(t.Context(), nil, 0)
		}
		if own := l.ids[ownOID(TAMObject, 1)].String(); err != nil || bound() != "2:"+other+","+own || sw.Died() != nil {
			t.Errorf("%s: %v, bound: %s, want %s and %s", row.what, err, bound(), other, own)
		}
	}
}

// TestLiveRestarts restarts orchagent in each way: nothing is sent to it while it is not ready, which the error says, and
// then the setup is there again.
func TestLiveRestarts(t *testing.T) {
	in := inputs(t)[1]
	for _, row := range []struct {
		what, says string
		do         func(sw *saitest.Switch) (done func())
	}{
		{"config reload", "PortInitDone", (*saitest.Switch).Reload},
		{"warm restart", "warm restart", (*saitest.Switch).WarmRestart},
		{"killed", ErrNoOrchagent.Error(), func(sw *saitest.Switch) func() {
			sw.Kill()
			return func() { sw.Reload()() }
		}},
	} {
		t.Run(row.what, func(t *testing.T) {
			sw := newSwitch(t)
			l, want := applied(t, sw, in)
			sw.Log()
			done := row.do(sw)
			// What is damaged is seen by reading, and cannot be made yet. A warm restart leaves all as it is at first.
			sw.Do(PortObject.String()+":"+(OID(PortObject)<<48|3).String(), "set", portLocator, "9")
			for range 3 {
				if _, err := l.Update(t.Context(), nil, 0); err == nil || !strings.Contains(err.Error(), row.says) && !errors.Is(err, errLost) {
					t.Errorf("%v, want %s", err, row.says)
				}
			}
			if log := sw.Log(); len(log) > 0 {
				t.Errorf("sent: %q", log)
			}
			done()
			res, err := l.Update(t.Context(), nil, 0)
			if err != nil || len(res.Repaired) == 0 || !res.Restarted {
				t.Errorf("%+v, %v", res, err)
			}
			has(t, sw, l, want, in)
		})
	}
}

// TestLiveRefusals has a switch that lacks what a profile needs: that is refused by the capability's name before anything is made.
func TestLiveRefusals(t *testing.T) {
	for _, row := range []struct {
		lacks   string
		of      string // attribute, which has enums
		enums   []string
		answers bool
		says    string
	}{
		{portLocator, "", nil, false, "SAI capability locator"},
		{portStrip, "", nil, true, "SAI capability strip"},
		{attrSignal, "", nil, false, "SAI capability signal abw"},
		{attrDBit, "", nil, false, "SAI capability d-bit"},
		{attrRanges, "", nil, false, "SAI capability quant_band_uint64_range_list: the switch does not have"},
		{tamInt + "ETH_TYPE_CODE_POINT", "", nil, false, "SAI capability eth_type_code_point"},
		{attrInts, "", nil, true, "SAI capability sai_tam_attr_int_objects_list"},
		{switchTAM, "", nil, false, "SAI capability sai_switch_attr_tam_object_id"},
		{"SAI_SWITCH_ATTR_CSIG_BW_TIME_INTERVAL_IN_USEC", "", nil, false, "SAI capability interval"},
		{"SAI_SWITCH_ATTR_MAX_CSIG_TIMERS", "", nil, false, "SAI capability timers"},
		{"", attrSignal, []string{"SAI_CSIG_SIGNAL_TYPE_ABW"}, false, "SAI capability csig_signal_type: SAI_TAM_INT_ATTR_CSIG_SIGNAL_TYPE=SAI_CSIG_SIGNAL_TYPE_ABWC is refused"},
		{"", attrSignal, []string{"SAI_CSIG_SIGNAL_TYPE_ABW"}, true, "SAI capability signal abwc: the switch has no SAI_CSIG_SIGNAL_TYPE_ABWC"},
		{"", tamInt + "TYPE", []string{"SAI_TAM_INT_TYPE_IFA1", "SAI_TAM_INT_TYPE_CSIG_COMPACT"}, true, "SAI capability wide"},
		{"", tamInt + "TYPE", []string{}, true, "SAI capability compact"},
	} {
		sw := newSwitch(t)
		sw.Lacks[row.lacks] = true
		sw.AnswersEnums = row.answers
		if row.enums != nil {
			sw.Enums[row.of] = row.enums
		}
		in := inputs(t)[1]
		if strings.HasSuffix(row.says, "wide") {
			in = inputs(t)[2]
		}
		l, want := liveOf(t, sw, in)
		err := l.Apply(t.Context(), want)
		if permanent := (*vendors.PermanentError)(nil); !errors.As(err, &permanent) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", row.lacks, err)
		}
		if row.enums == nil || row.answers {
			empty(t, sw)
		}
		if err := l.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		empty(t, sw)
	}
}

// TestLiveVirtual has a switch that tells as little as the virtual one of sairedis: it is set up by what it accepts.
func TestLiveVirtual(t *testing.T) {
	sw := newSwitch(t)
	sw.Virtual = true
	for _, in := range inputs(t) {
		l, want := liveOf(t, sw, in)
		f, err := l.Probe(t.Context())
		if err != nil || f.Update.Level != vlanrules.Degraded || !slices.Contains(f.Notes, "the intervals that the switch has: it does not tell, and refuses what it has not") {
			t.Errorf("%+v, %v", f, err)
		}
		if err := l.Apply(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		has(t, sw, l, want, in)
	}
	l, _ := liveOf(t, sw, inputs(t)[0])
	if err := l.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	empty(t, sw)
}

// TestLiveReadBack has a switch that accepts what it does not do: each attribute is read back, and named.
// Lists that are sets may come back in another order. A switch that does not keep the setup is left alone for a minute.
func TestLiveReadBack(t *testing.T) {
	const reversed = "reversed"
	for _, row := range []struct{ name, has, says string }{
		{attrInterval, "256", "SAI capability bw_time_interval: SAI_TAM_INT_ATTR_BW_TIME_INTERVAL=128 was accepted, and the switch has 256"},
		{attrRanges, "1:0,9", "SAI capability quant_band_uint64_range_list"},
		{portStrip, "false", "SAI capability sai_port_attr_int_delete"},
		{attrInts, reversed, ""},
		{attrInts, "1:oid:0x53000000000001", "SAI capability sai_tam_attr_int_objects_list"},
		{attrInts, "0:null", "SAI capability sai_tam_attr_int_objects_list"},
		{tamInt + "QUANT_BAND_ID", reversed, "SAI capability quant_band_id"},
		{switchTAM, "0:null", "does another program set it?"},
		{attrInterval, "128", ""},
	} {
		sw := newSwitch(t)
		if sw.Reverses[row.name] = row.has == reversed; row.has != reversed {
			sw.Keeps[row.name] = row.has
		}
		l, want := liveOf(t, sw, inputs(t)[1])
		if err := l.Apply(t.Context(), want); (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", row.name, err)
		}
		if row.says != "" && row.name != switchTAM { // it stays so
			for _, later := range []bool{false, true, false} { // it is asked again after a minute
				if sw.Log(); later {
					l.noAt = l.noAt.Add(-againAfter)
				}
				if _, err := l.Update(t.Context(), nil, 0); err == nil || !strings.Contains(err.Error(), row.says) {
					t.Errorf("%s, a cycle: %v", row.name, err)
				}
				if log := sw.Log(); (len(log) > 0) != later {
					t.Errorf("%s: %d requests in a cycle, %v", row.name, len(log), later)
				}
			}
		}
		clear(sw.Keeps)
		clear(sw.Reverses)
		if err := l.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		empty(t, sw)
	}
}

// mishap is what happens to orchagent at a request of csig's. After it, nothing is sent until it is over.
type mishap struct {
	name string
	says string // what csig says meanwhile; "": it is over at once
	hang bool   // the request is not answered until it is over
	do   func(sw *saitest.Switch) (over func())
}

var mishaps = []mishap{
	{"hangs, and is ended", "has not answered", true, func(sw *saitest.Switch) func() { return func() { sw.Reload()() } }},
	{"is killed", ErrNoOrchagent.Error(), false, func(sw *saitest.Switch) func() { sw.Kill(); return func() { sw.Reload()() } }},
	{"config reload", "PortInitDone", false, (*saitest.Switch).Reload},
	{"warm restart", "warm restart", false, (*saitest.Switch).WarmRestart},
	{"restart", "", false, func(sw *saitest.Switch) func() { sw.Reload()(); return func() {} }},
}

// TestLiveMishaps has orchagent hang, end, restart in each way, and reload its configuration, at each request of going over from one
// profile to another, before the request is carried out and after: csig sends nothing before that is over, says why, and makes
// the setup then. orchagent never ends of csig.
func TestLiveMishaps(t *testing.T) {
	every := vendorstest.Every(t, 11)
	for _, m := range mishaps {
		for _, when := range []string{"before", "after"} {
			t.Run(m.name+" "+when, func(t *testing.T) {
				all := inputs(t)
				tried := 0
				for at := 0; ; at += every {
					sw := newSwitch(t)
					applied(t, sw, all[0])
					l, want := liveOf(t, sw, all[2])
					n := 0
					did, release := make(chan func(), 1), make(chan bool)
					ctx, lost := context.WithCancel(t.Context())
					hook := func([]string) error {
						if n++; n != at+1 {
							return nil
						}
						did <- m.do(sw)
						if !m.hang {
							return errLost
						}
						lost() // csig's patience
						<-release
						return nil
					}
					if when == "before" {
						sw.On(hook, nil)
					} else {
						sw.On(nil, hook)
					}
					err := l.Apply(ctx, want)
					lost()
					if err == nil {
						select {
						case <-did:
							t.Fatalf("request %d: Apply says nothing", at)
						default:
						}
						break // there is no such request
					}
					tried++
					over := <-did
					again := func() error {
						if err := l.Apply(t.Context(), want); err != nil {
							return err
						}
						_, err := l.Update(t.Context(), nil, 0)
						return err
					}
					if m.says != "" {
						sw.Log()
						for range 3 {
							if err := again(); err == nil || !strings.Contains(err.Error(), m.says) {
								t.Fatalf("request %d: %v, want %s", at, err, m.says)
							}
							if _, err := l.Observe(t.Context()); err != nil && !strings.Contains(err.Error(), "has no switch") {
								t.Errorf("request %d, what there is: %v", at, err)
							}
						}
						if log := sw.Log(); len(log) > 0 {
							t.Errorf("request %d: %q were sent meanwhile", at, log)
						}
					}
					close(release)
					over()
					for end := time.Now().Add(time.Minute); ; {
						err := again()
						if err == nil {
							break
						}
						// The answer comes a moment later.
						if !errors.Is(err, errSilent) && !errors.Is(err, errLost) || time.Now().After(end) {
							t.Fatalf("request %d: %v", at, err)
						}
					}
					has(t, sw, l, want, all[2])
					sw.Stop()
					if t.Failed() {
						t.Fatalf("request %d", at)
					}
				}
				if tried < max(1, 12/every) {
					t.Errorf("%d requests", tried)
				}
			})
		}
	}
}

// TestLongLiveMishaps is TestLiveMishaps at each of the requests.
func TestLongLiveMishaps(t *testing.T) { TestLiveMishaps(t) }

// virtual is the machine of a fake for tests on virtual time: what comes over connections in memory goes to the fake's socket, each request over
// a connection of its own, so that nothing of the machine is waited for while time goes on.
type virtual struct {
	beside
	before func(n int, conn net.Conn) // of the n-th request, from 0, which waits for it

	mu   sync.Mutex
	runs string     // which process it is, beside its starts
	came int        // requests
	turn sync.Mutex // one at a time
}

func (v *virtual) Orchagent(ctx context.Context) (Process, error) {
	p, err := v.beside.Orchagent(ctx)
	p.ID += v.runs
	return p, err
}

func (v *virtual) Dial(context.Context, Process) (net.Conn, error) {
	here, there := memnet.Pipe("csig", "orchagent")
	go func() {
		defer there.Close()
		_ = sonictest.ServeREP(there, func(body []byte) ([]byte, error) { // what is none of csig's messages the fake's own end says
			v.mu.Lock()
			n := v.came
			v.came++
			v.mu.Unlock()
			if v.before != nil {
				v.before(n, there)
			}
			v.turn.Lock()
			defer v.turn.Unlock()
			to, err := net.Dial("unix", v.sw.Socket())
			if err != nil {
				return nil, err
			}
			mq, err := sonicmq.Open(context.Background(), to)
			if err != nil {
				return nil, err
			}
			defer func() {
				mq.Close()
				for range mq.C { //nolint:revive // until it is closed
				}
			}()
			if err := mq.Send(context.Background(), body); err != nil {
				return nil, err
			}
			return <-mq.C, nil
		})
	}()
	return here, nil
}

func (v *virtual) requests() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.came
}

// TestLiveHangs has orchagent hang for 30 s at each request of going over from one profile to another, on virtual time: csig gives up after 10 s,
// sends nothing before orchagent has answered, and then makes the setup. Where the connection is lost meanwhile, no answer can come: nothing is
// sent for 2 minutes.
func TestLiveHangs(t *testing.T) {
	every := vendorstest.Every(t, 17)
	for _, row := range []struct {
		name string
		lost time.Duration // after the request; 0: never
		says string
		over time.Duration // after the request
	}{
		{"answers", 0, "has not answered", 30 * time.Second},
		{"connection lost", 5 * time.Second, "nothing more is sent to this orchagent", longestAnswer},
	} {
		t.Run(row.name, func(t *testing.T) {
			all := inputs(t)
			tried := 0
			for at, ended := 0, false; !ended; at += every {
				sw := newSwitch(t)
				applied(t, sw, all[0])
				synctest.Test(t, func(t *testing.T) {
					l, want := liveOf(t, sw, all[2])
					var sent atomic.Int64
					since := func() time.Duration { return time.Since(time.Unix(0, sent.Load())) } // the request
					v := &virtual{beside: beside{sw}}
					v.before = func(n int, conn net.Conn) {
						if n == at {
							sent.Store(time.Now().UnixNano())
							if row.lost > 0 {
								time.Sleep(row.lost)
								conn.Close()
							}
							time.Sleep(30*time.Second - row.lost)
						}
					}
					l.cfg.Host = v
					err := l.Apply(t.Context(), want)
					if ended = err == nil; ended {
						return // there is no such request
					}
					tried++
					if took, want := since(), cmp.Or(row.lost, serverPatience); took != want {
						t.Errorf("request %d: given up after %v, want %v: %v", at, took, want, err)
					}
					for ; since() < row.over; time.Sleep(row.over / 10) {
						if err := l.Apply(t.Context(), want); err == nil || !strings.Contains(err.Error(), row.says) {
							t.Fatalf("request %d, after %v: %v", at, since(), err)
						}
						if _, err := l.Update(t.Context(), nil, 0); err == nil {
							t.Fatalf("request %d, after %v: no error of what has not come to its end", at, since())
						}
						if v.requests() != at+1 {
							t.Fatalf("request %d, after %v: %d requests were sent meanwhile", at, since(), v.requests()-at-1)
						}
					}
					synctest.Wait() // the answer is there
					if err := l.Apply(t.Context(), want); err != nil {
						t.Fatalf("request %d: %v", at, err)
					}
					has(t, sw, l, want, all[2])
				})
				sw.Stop()
				if t.Failed() {
					t.Fatalf("request %d", at)
				}
			}
			if tried < max(1, 60/every) {
				t.Errorf("%d requests", tried)
			}
		})
	}
}

// TestTwoDrivers has two drivers of one orchagent, which does not answer the first: the second sends nothing, also where the first is closed and none can hear
// the answer any more, until that has come, or 2 minutes have passed, or another orchagent runs. The switch beside it is not meant.
func TestTwoDrivers(t *testing.T) {
	for _, row := range []struct {
		name   string
		closed bool
		says   string
		over   time.Duration
	}{
		{"the first is there", false, "has not answered", 30 * time.Second},
		{"the first is closed", true, "nothing more is sent to this orchagent", longestAnswer},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := inputs(t)[1]
			sw, beside1 := newSwitch(t), newSwitch(t)
			synctest.Test(t, func(t *testing.T) {
				var hangs atomic.Bool
				v := &virtual{beside: beside{sw}}
				v.before = func(n int, _ net.Conn) {
					switch {
					case hangs.Load():
						time.Sleep(time.Hour)
					case n == 5:
						time.Sleep(30 * time.Second)
					}
				}
				begin := time.Now()
				first, want := liveOf(t, sw, in)
				first.cfg.Host = v
				if err := first.Apply(t.Context(), want); !errors.Is(err, errSilent) {
					t.Fatal(err)
				}
				if row.closed {
					if err := first.Close(); err != nil {
						t.Fatal(err)
					}
				}
				second, _ := liveOf(t, sw, in)
				second.cfg.Host = v
				other, otherWant := liveOf(t, beside1, in)
				other.cfg.Host = &virtual{beside: beside{beside1}}
				if err := other.Apply(t.Context(), otherWant); err != nil {
					t.Errorf("another switch: %v", err)
				}
				for ; time.Since(begin) < row.over; time.Sleep(row.over / 10) {
					if err := second.Apply(t.Context(), want); err == nil || !strings.Contains(err.Error(), row.says) {
						t.Fatalf("after %v: %v", time.Since(begin), err)
					}
					if _, err := second.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), row.says) {
						t.Fatalf("after %v: %v", time.Since(begin), err)
					}
				}
				if v.requests() != 6 {
					t.Errorf("%d requests", v.requests())
				}
				synctest.Wait() // the answer is there
				if err := second.Apply(t.Context(), want); err != nil {
					t.Fatal(err)
				}
				has(t, sw, second, want, in)
				if err := first.Apply(t.Context(), want); !row.closed && err != nil {
					t.Error(err)
				}
				// One that hangs for ever, and another one after it.
				hangs.Store(true)
				if err := second.Remove(t.Context()); !errors.Is(err, errSilent) {
					t.Fatal(err)
				}
				third, _ := liveOf(t, sw, in)
				third.cfg.Host = v
				time.Sleep(2 * longestAnswer)
				if err := third.Apply(t.Context(), want); !errors.Is(err, errSilent) {
					t.Fatal(err)
				}
				hangs.Store(false)
				v.runs = "another"
				if err := third.Apply(t.Context(), want); err != nil {
					t.Fatal(err)
				}
				has(t, sw, third, want, in)
				time.Sleep(time.Hour)
			})
		})
	}
}

// TestLongLiveHangs is TestLiveHangs at each of the requests.
func TestLongLiveHangs(t *testing.T) { TestLiveHangs(t) }

// TestLiveWithoutTrimming has switches that cannot set D: one that trims no packets has no use for it.
func TestLiveWithoutTrimming(t *testing.T) {
	sw := newSwitch(t)
	sw.Lacks[attrDBit], sw.AnswersEnums = true, true
	for _, row := range []struct{ trims, says string }{{"", "d-bit"}, {"true", "d-bit"}, {"false", ""}} {
		sw.Redis.Do(6, "HSET", "SWITCH_CAPABILITY|switch", "SWITCH_TRIMMING_CAPABLE", row.trims)
		in := inputs(t)[1]
		l, want := liveOf(t, sw, in)
		if err := l.Apply(t.Context(), want); (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%q: %v", row.trims, err)
		}
		if row.says == "" {
			has(t, sw, l, want, in)
		}
	}
}

// TestLiveAsynchronous has orchagent or syncd run with arguments by which one of them is asynchronous, or writes to ASIC_DB late: nothing is sent until
// they run with others, whatever CONFIG_DB says that the next start will be.
func TestLiveAsynchronous(t *testing.T) {
	sw := newSwitch(t)
	as := slices.Clone(sw.Syncd)
	for _, row := range []struct {
		of, args, says string // "": it is as it should be
		disabled       bool   // in CONFIG_DB
	}{
		{"syncd", "-u -p /x", "syncd (process 1) runs asynchronously", false},
		{"syncd", "-u -z redis_async", "syncd (process 1) runs asynchronously", false},
		{"syncd", "-z zmq_sync -z redis_async", "syncd (process 1) runs asynchronously", false},
		{"syncd", "-u -z", "syncd (process 1) runs asynchronously", false},
		{"orchagent", "-b 1024 -R", "orchagent (process 2) runs asynchronously", false},
		{"syncd", "-u -z zmq_sync -R", "syncd (process 1) runs with -R", false},
		{"syncd", "-u --syncMode --asyncRec", "syncd (process 1) runs with -R", false},
		{"syncd", "-u -s", "", true},
		{"syncd", "-u -z zmq_sync -x /c.json", "", true},
		{"syncd", "-u -zredis_sync", "", true},
		{"syncd", "--redisCommunicationMode=zmq_sync", "", true},
		{"orchagent", "-z zmq_sync -R", "", true},
	} {
		mode, rec := "enable", "disabled"
		if row.disabled {
			mode, rec = "disable", "enabled"
		}
		sw.Redis.Do(4, "HSET", "DEVICE_METADATA|localhost", "synchronous_mode", mode)
		sw.Redis.Do(4, "HSET", "SYSTEM_DEFAULTS|async_rec", "status", rec)
		sw.Syncd, sw.Orchagent = as, as
		l, want := liveOf(t, sw, inputs(t)[1])
		if row.says != "" { // also of one that has spoken with it before
			if err := l.Apply(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			if err := l.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		sw.Log()
		if args := strings.Fields(row.args); row.of == "syncd" {
			sw.Syncd = args
		} else {
			sw.Orchagent = args
		}
		f, err := l.Probe(t.Context())
		if err != nil || (f.Update.Level == vlanrules.Refused) != (row.says != "") || !strings.Contains(f.Update.Reason, row.says) {
			t.Errorf("%s %s: %+v, %v", row.of, row.args, f.Update, err)
		}
		err = l.Apply(t.Context(), want)
		if row.says == "" {
			if err != nil {
				t.Errorf("%s %s: %v", row.of, row.args, err)
			}
		} else if !errors.As(err, new(*vendors.PermanentError)) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s %s: %v", row.of, row.args, err)
		}
		if log := sw.Log(); row.says != "" && len(log) > 0 {
			t.Errorf("%s %s: sent: %q", row.of, row.args, log)
		}
		sw.Syncd, sw.Orchagent = as, as
		if err := l.Apply(t.Context(), want); err != nil {
			t.Error(err)
		}
		if err := l.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestLivePorts has ports go and come back with other objects, as a change of their breakout does: the others are looked after all the time, the
// error names those that are not there, and what comes back is set up.
func TestLivePorts(t *testing.T) {
	in := inputs(t)[1]
	sw := newSwitch(t)
	l, want := applied(t, sw, in)
	names := func(err error) (out []string) {
		vendors.EachPort(err, func(port string, _ error) { out = append(out, port) })
		return out
	}
	set := func(port, name, value string) { sw.Do(PortObject.String()+":"+sw.PortID(port), "set", name, value) }
	back := sw.TakePort("Ethernet3")
	sw.Log()
	for range 2 {
		res, err := l.Update(t.Context(), nil, 0)
		if !res.Leased || len(res.Repaired) > 0 || !slices.Equal(names(err), []string{"Ethernet3"}) || !strings.Contains(err.Error(), noSuchPort) {
			t.Errorf("%+v, %v", res, err)
		}
	}
	if log := sw.Log(); len(log) > 0 {
		t.Errorf("sent: %q", log)
	}
	if s, err := l.Observe(t.Context()); err != nil || s.Ports[2].Damaged != noSuchPort || s.Damaged != "" || s.Ports[0].Damaged != "" {
		t.Errorf("%+v, %v", s, err)
	}
	set("Ethernet1", portLocator, "9")
	res, err := l.Update(t.Context(), nil, 0)
	if !res.Leased || len(res.Repaired) != 1 || res.Repaired[0].Port != "Ethernet1" || !slices.Equal(names(err), []string{"Ethernet3"}) || sw.Object(sw.PortID("Ethernet1"))[portLocator] != "1" {
		t.Errorf("%+v, %v", res, err)
	}
	other, _ := liveOf(t, sw, in) // another process begins
	if err := other.Apply(t.Context(), want); !slices.Equal(names(err), []string{"Ethernet3"}) {
		t.Error(err)
	}
	back()
	if res, err := l.Update(t.Context(), nil, 0); err != nil || len(res.Repaired) != 1 || res.Repaired[0].Port != "Ethernet3" || sw.Object(sw.PortID("Ethernet3"))[portLocator] != "3" {
		t.Errorf("%+v, %v", res, err)
	}
	if err := l.Remove(t.Context()); err != nil || sw.Object(sw.PortID("Ethernet3"))[portLocator] != "0" {
		t.Error(err)
	}
}

// TestLiveCost counts what a cycle asks of Redis, which orchagent and syncd need, on a switch with 200,000 routes: nothing that looks at
// all keys, and as much as with none.
func TestLiveCost(t *testing.T) {
	sw := newSwitch(t)
	l, want := applied(t, sw, inputs(t)[2])
	sw.Redis.Do(1, "EVAL", `for i = 1, 200000 do redis.call("HSET", 'ASIC_STATE:SAI_OBJECT_TYPE_ROUTE_ENTRY:{"dest":"' .. i .. '"}', "SAI_ROUTE_ENTRY_ATTR_NEXT_HOP_ID", "oid:0x0") end`, 0)
	cost := func(do func()) map[string]int {
		t.Helper()
		sw.Redis.Do(0, "CONFIG", "RESETSTAT")
		do()
		text, err := redis.String(sw.Redis.Do(0, "INFO", "commandstats"), nil)
		if err != nil {
			t.Fatal(err)
		}
		calls := map[string]int{}
		for line := range strings.Lines(text) {
			var n int
			name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
			if _, err := fmt.Sscanf(rest, "calls=%d", &n); err == nil && name != "config|resetstat" && name != "select" {
				calls[name] = n
			}
		}
		return calls
	}
	for range 2 {
		got := cost(func() {
			if res, err := l.Update(t.Context(), nil, 0); err != nil || len(res.Repaired) > 0 {
				t.Errorf("%+v, %v", res, err)
			}
		})
		// The record; whether the switch is there, and its list; the ports' names, and 3 ports; 4 TAM_INT, and the TAM.
		if want := map[string]int{"hget": 1, "exists": 1, "hmget": 1 + 3, "hgetall": 1 + 5}; !maps.Equal(got, want) {
			t.Errorf("a cycle: %v, want %v", got, want)
		}
	}
	// What is in doubt is looked for.
	sw.Do(SwitchObject.String()+":"+testSwitch.String(), "set", switchTAM, "0:null")
	if got := cost(func() {
		if res, err := l.Update(t.Context(), nil, 0); err != nil || len(res.Repaired) == 0 {
			t.Errorf("%+v, %v", res, err)
		}
	}); got["scan"] < 80 {
		t.Errorf("a repair: %v", got)
	}
	has(t, sw, l, want, inputs(t)[2])
}
