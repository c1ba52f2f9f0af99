package ebpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// lab is a switch whose port p2 is driven, and its driver.
type lab struct {
	*wire
	d       *Driver
	t       testing.TB
	profile *quantize.Profile
	loads   uint32 // frames that are no probes
}

func newLab(t testing.TB) *lab {
	t.Helper()
	w := newWire(t, nil)
	return &lab{wire: w, d: w.open(t), t: t, profile: testProfile(t)}
}

func testProfile(t testing.TB) *quantize.Profile {
	t.Helper()
	p := &quantize.Profile{Name: "test", TPID: 0x9900, WideTPID: 0x9901, Interval: time.Millisecond, Signals: map[quantize.Signal]quantize.SignalProfile{}}
	for sig, quantum := range map[quantize.Signal]uint64{quantize.MinABW: 1_000_000, quantize.MinABWC: 1} {
		preset := "log-100G"
		if sig == quantize.MinABWC {
			preset = quantize.PresetNames(sig)[0]
		}
		table, err := quantize.Preset(sig, preset)
		if err != nil {
			t.Fatal(err)
		}
		p.Signals[sig] = quantize.SignalProfile{Buckets: table, Quantum: quantum}
	}
	return p
}

func (w *wire) open(t testing.TB) *Driver {
	t.Helper()
	fd := w.s.FD()
	d, err := Open(Config{NetNS: fd})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

const labRate = 100e9

// updates are those of the setup's ports, with the locators 20 and up.
func updates(s *vendors.Setup) (out []vendors.PortUpdate) {
	for _, p := range s.Ports {
		if p.Action != vlanrules.Update {
			continue
		}
		u := vendors.PortUpdate{Port: p.Port, Rate: labRate}
		for _, sig := range s.Signals {
			u.Intents = append(u.Intents, vlanrules.Intent{Signal: sig, Action: vlanrules.Update, S: 9, LM: 20 + uint16(sig)})
		}
		out = append(out, u)
	}
	return out
}

// modelOf is what p2 does with that setup: live with so many bytes in the last interval, or
// stale.
func (l *lab) modelOf(s *vendors.Setup, live bool, last uint64) *model {
	m := &model{uec: s.Layout == quantize.UEC, compact: s.TPID, wide: s.WideTPID, retired: map[uint16]int{}, signals: map[uint16]local{}}
	for _, o := range s.Others {
		m.retired[o.TPID] = 4
		if o.Wide {
			m.retired[o.TPID] = 8
		}
	}
	i := slices.IndexFunc(s.Ports, func(p vendors.PortSetup) bool { return p.Port == l.p2.Name })
	if i < 0 {
		return &model{}
	}
	p := &s.Ports[i]
	m.update = p.Action == vlanrules.Update
	m.stripOwn = p.Action == vlanrules.Strip
	m.stripRetired = m.stripOwn || p.StripOthers
	if !live && m.update {
		m.update, m.stripOwn = s.OnStale == inventory.Conservative, s.OnStale == inventory.StaleStrip
	}
	for _, sig := range s.Signals {
		sp := l.profile.Signals[sig]
		lm := 20 + uint32(sig)
		g := local{lm: 125, wideLM: 65533}
		if m.uec {
			g = local{lm: 61, wideLM: 32765}
		}
		if live {
			v := floor(truth(sig, last, labRate, uint64(l.profile.Interval)))
			g = local{lm: lm, wideLM: lm, s: uint32(sp.Buckets.Bucket(v)), wideS: uint32(min(v/sp.Quantum, quantize.MaxWideS))}
		}
		m.signals[uint16(sig)] = g
	}
	return m
}

// rows are frames with all kinds of tags.
func rows() (out [][]byte) {
	for _, bit := range []uint16{0, 1} {
		for t := range uint16(4) {
			for _, vlans := range [][]uint16{nil, {0x8100}, {0x88a8, 0x8100}} {
				for _, tpid := range []uint16{0x9900, 0x9901, 0x9aa0, 0x9ab0, 0x88a8} {
					f := append(bytes.Clone(macB), macA...)
					for _, v := range vlans {
						f = binary.BigEndian.AppendUint32(f, uint32(v)<<16|5)
					}
					f = binary.BigEndian.AppendUint16(f, tpid)
					switch tpid {
					case 0x9901, 0x9ab0:
						f = binary.BigEndian.AppendUint16(f, 0x0246|bit)
						f = binary.BigEndian.AppendUint32(f, uint32(t)<<28|0xfffff00|0x5a)
					default:
						f = binary.BigEndian.AppendUint16(f, t<<13|0x1fc0|bit)
					}
					f = append(f, 0x88, 0xb5)
					for len(f) < 64 {
						f = append(f, byte(len(f)))
					}
					out = append(out, f)
				}
			}
		}
	}
	return out
}

// wants sends the frames and compares what leaves p2 with the model.
func (l *lab) wants(m *model) string {
	l.t.Helper()
	in := rows()
	for i, got := range l.through(l.t, l.host, in) {
		if want := m.out(in[i]); !bytes.Equal(got, want) {
			return fmt.Sprintf("in   %x\ngot  %x\nwant %x", in[i], got, want)
		}
	}
	return asTheDraft
}

const asTheDraft = "as the draft has them"

// sent has so many bytes be those of p2's last interval, for ever.
func (l *lab) sent(last uint64) {
	l.t.Helper()
	l.put(planeState{Start: 1 << 62, Last: last, Closed: 1})
}

func (l *lab) put(state planeState) {
	l.t.Helper()
	if err := l.d.plane.CsigState.Put(l.d.byName[l.p2.Name].entry.Slot, &state); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) apply(s vendors.Setup) {
	l.t.Helper()
	s.Measure = l.profile
	if err := l.d.Apply(l.t.Context(), s); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) update(s vendors.Setup, lease time.Duration) vendors.UpdateResult {
	l.t.Helper()
	res, err := l.d.Update(l.t.Context(), updates(&s), lease)
	if err != nil {
		l.t.Fatal(err)
	}
	return res
}

func (l *lab) look() vendors.DataPlane {
	l.t.Helper()
	seen, err := l.d.Look(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return seen
}

// setupOf is a setup of p2, and of p1, which passes.
func setupOf(action vlanrules.Action) vendors.Setup {
	return vendors.Setup{
		TPID: 0x9900, WideTPID: 0x9901, Signals: []quantize.Signal{quantize.MinABW, quantize.MinABWC}, OnStale: inventory.Conservative,
		Ports: []vendors.PortSetup{{Port: "p2", Action: action}, {Port: "p1", Action: vlanrules.Passthrough}},
	}
}

// A port is stale until it was told its signals and an interval has closed, live until its
// deadline or Release, and taken over by the next process as it is.
func TestLife(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := setupOf(vlanrules.Update)
	s.Profile, s.Measure = l.profile.Hash(), l.profile
	check := func(when string, live bool) {
		t.Helper()
		if got := l.wants(l.modelOf(&s, live, 5_000_000)); got != asTheDraft {
			t.Fatalf("%s:\n%s", when, got)
		}
		want := vendors.SignalFallback
		if live {
			want = vendors.SignalWritten
		}
		if seen := l.look(); seen.Signal != want || seen.Setup.Damaged != "" || !slices.Equal(seen.Setup.Ports, s.Ports) || seen.Setup.Profile != s.Profile {
			t.Fatalf("%s: looked %+v", when, seen)
		}
	}
	if seen := l.look(); !seen.Setup.Nothing() {
		t.Fatalf("a new switch: %+v", seen)
	}
	l.apply(s)
	check("after Apply", false)
	if res := l.update(s, time.Hour); !res.Leased || res.Ports != 1 || res.Repaired != nil {
		t.Errorf("first Update: %+v", res)
	}
	l.put(planeState{Start: 1 << 62}) // one that does not close, however long the frames take
	if got := l.wants(l.modelOf(&s, false, 0)); got != asTheDraft {
		t.Errorf("before an interval has closed:\n%s", got)
	}
	l.sent(5_000_000)
	check("after Update", true)
	if res := l.update(s, time.Hour); !res.Leased || res.Ports != 0 {
		t.Errorf("the same again: %+v", res)
	}
	check("after the same again", true)
	l.apply(s)
	check("after the same Apply", true)
	next := l.open(t)
	if err := l.d.Close(); err != nil {
		t.Fatal(err)
	}
	l.d = next
	check("another process, before it does anything", true)
	if _, err := l.d.Update(t.Context(), updates(&s), time.Hour); err == nil || !strings.Contains(err.Error(), "no more than the hash") {
		t.Errorf("without a profile: %v", err)
	}
	l.apply(s)
	check("another process, after Apply", true)
	if res := l.update(s, time.Hour); res.Repaired != nil || !res.Leased {
		t.Errorf("another process: %+v", res)
	}
	check("another process", true)
	l.update(s, time.Nanosecond)
	check("after the deadline", false)
	l.update(s, time.Hour)
	check("a new deadline", true)
	if err := l.d.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("after Release", false)
	l.update(s, time.Hour)
	check("live again", true)
	if err := l.d.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if seen := l.look(); !seen.Setup.Nothing() {
		t.Errorf("after Remove: %+v", seen)
	}
	if got := l.wants(&model{}); got != asTheDraft {
		t.Errorf("after Remove: %s", got)
	}
}

// What another process, or a device that goes and comes, takes away is put back.
func TestRepair(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := setupOf(vlanrules.Update)
	l.apply(s)
	l.update(s, time.Hour)
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"BPF program csig_egress is missing", func() error { return l.d.Do(func() error { return detach(int(l.index)) }) }},
		{"its entry in csig_ports is missing", func() error { return l.d.plane.remove(l.index) }},
		{"its entry in csig_ports is another one", func() error {
			e := l.d.byName["p2"].entry
			e.Update = 0
			return l.d.plane.put(l.index, &e)
		}},
		{"its entry in csig_ports is another one", func() error {
			e := l.d.byName["p2"].entry
			e.Signals[0].Lm++
			return l.d.plane.put(l.index, &e)
		}},
		{"its entry in csig_ports is another one", func() error { // another port's slot
			return errors.Join(l.d.plane.CsigLive.Put(uint32(9), uint8(1)), l.d.plane.CsigPlaces.Put(l.index, uint32(9)))
		}},
		{"its entry in csig_ports is missing", func() error {
			return l.d.plane.CsigPlaces.Put(l.index, uint32(9999))
		}},
		{"BPF program csig_egress is another one", func() error {
			other, err := load(nil)
			if err != nil {
				return err
			}
			defer other.Close()
			return l.d.Do(func() error {
				return link.RawAttachProgram(link.RawAttachProgramOptions{Target: int(l.index), Program: other.CsigEgress, Attach: ebpf.AttachTCXEgress, Anchor: link.ReplaceProgram(l.d.plane.CsigEgress)})
			})
		}},
	} {
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if res := l.update(s, time.Hour); !strings.Contains(res.Repaired.String(), "port p2: + "+c.name) {
			t.Errorf("%s: repaired %q", c.name, res.Repaired)
		}
		l.sent(5_000_000)
		if got := l.wants(l.modelOf(&s, true, 5_000_000)); got != asTheDraft {
			t.Errorf("%s:\n%s", c.name, got)
		}
		if res := l.update(s, time.Hour); res.Repaired != nil {
			t.Errorf("%s: repaired again: %q", c.name, res.Repaired)
		}
	}
}

// TestSetupsInAnyOrder brings a switch from some setups to others.
func TestSetupsInAnyOrder(t *testing.T) {
	t.Parallel()
	profile := testProfile(t)
	with := func(change func(*vendors.Setup)) vendors.Setup {
		s := setupOf(vlanrules.Update)
		s.Measure = profile
		change(&s)
		return s
	}
	retired := []vendors.OtherTPID{{TPID: 0x9aa0}, {TPID: 0x9ab0, Wide: true}}
	list := map[string]vendors.Setup{
		"nothing":                {},
		"update":                 with(func(*vendors.Setup) {}),
		"one signal":             with(func(s *vendors.Setup) { s.Signals = s.Signals[:1] }),
		"uec":                    with(func(s *vendors.Setup) { s.Layout = quantize.UEC }),
		"another TPID":           with(func(s *vendors.Setup) { s.TPID = 0x9aa0 }),
		"no wide tags":           with(func(s *vendors.Setup) { s.WideTPID = 0 }),
		"in 0x88a8":              with(func(s *vendors.Setup) { s.TPID = 0x88a8 }),
		"passthrough when stale": with(func(s *vendors.Setup) { s.OnStale = inventory.StalePassthrough }),
		"strip when stale":       with(func(s *vendors.Setup) { s.OnStale = inventory.StaleStrip }),
		"passthrough":            with(func(s *vendors.Setup) { s.Ports[0].Action = vlanrules.Passthrough }),
		"strip":                  with(func(s *vendors.Setup) { s.Ports[0].Action = vlanrules.Strip }),
		"other port":             with(func(s *vendors.Setup) { s.Ports = []vendors.PortSetup{{Port: "p1", Action: vlanrules.Update}} }),
		"update and strip others": with(func(s *vendors.Setup) {
			s.Others, s.Ports[0].StripOthers = retired, true
		}),
		"passthrough and strip others": with(func(s *vendors.Setup) {
			s.Others, s.Ports[0].StripOthers, s.Ports[0].Action = retired, true, vlanrules.Passthrough
		}),
	}
	var rows []vendorstest.Row
	for _, name := range slices.Sorted(maps.Keys(list)) {
		rows = append(rows, vendorstest.Row{Name: name, Setup: list[name], Want: asTheDraft})
	}
	vendorstest.AnyOrder(t, rows, 12, func(t *testing.T) vendorstest.Lab {
		l := newLab(t)
		return vendorstest.Lab{
			Driver: l.d,
			State: func(t testing.TB) string {
				seen, err := l.d.Observe(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprintf("%+v", seen)
			},
			Frames: func(t testing.TB, s vendors.Setup) string {
				l.t = t
				if got := l.wants(l.modelOf(&s, false, 0)); got != asTheDraft {
					return "stale: " + got
				}
				if s.Nothing() {
					return asTheDraft
				}
				l.update(s, time.Hour)
				if p := l.d.byName["p2"]; p != nil {
					l.sent(7_000_000)
				}
				got := l.wants(l.modelOf(&s, true, 7_000_000))
				if err := l.d.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				return got
			},
		}
	})
}
