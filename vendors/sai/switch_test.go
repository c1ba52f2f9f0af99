package sai

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// fakeSwitch carries out calls as SAI's headers have it: a call that refers to what is not
// there, sets what can only be created, leaves out what is mandatory, or removes what is in
// use, fails.
type fakeSwitch struct {
	objects map[OID]map[string]string
}

func newFakeSwitch(ports int) *fakeSwitch {
	s := &fakeSwitch{objects: map[OID]map[string]string{testSwitch: {}}}
	for n := range ports {
		s.objects[OID(PortObject)<<48|OID(n)] = map[string]string{}
	}
	return s
}

func (s *fakeSwitch) do(op Op) error {
	o := &op.Object
	if o.OID.Type() != o.Type {
		return fmt.Errorf("%s is not the ID of a %s", o.OID, o.Type)
	}
	have, there := s.objects[o.OID]
	if there == (op.Kind == CreateOp) {
		return fmt.Errorf("%c of %s, there: %v", op.Kind, o.OID, there)
	}
	switch op.Kind {
	case CreateOp:
		have = map[string]string{}
		for i := range Attributes {
			if a := &Attributes[i]; a.Object == o.Type && a.Mandatory && o.get(a.Name) == nil {
				return fmt.Errorf("%s without %s", o.OID, a.Name)
			}
		}
	case SetOp:
		if len(o.Attrs) != 1 || attribute(o.Attrs[0].Name).CreateOnly {
			return fmt.Errorf("set of %v", o.Attrs)
		}
	case RemoveOp:
		for id, other := range s.objects {
			for name, value := range other {
				if strings.Contains(value+",", o.OID.String()+",") {
					return fmt.Errorf("%s is in use by %s of %s", o.OID, name, id)
				}
			}
		}
		delete(s.objects, o.OID)
		return nil
	}
	for _, a := range o.Attrs {
		if attribute(a.Name).Object != o.Type {
			return fmt.Errorf("%s has no %s", o.Type, a.Name)
		}
		if ids, ok := a.Value.(OIDs); ok {
			for _, id := range ids {
				if _, there := s.objects[id]; !there && id != foreignTAM {
					return fmt.Errorf("%s refers to %s, which is not there", o.OID, id)
				}
			}
		}
		have[a.Name] = a.Value.String()
		if d := attribute(a.Name).Default; d != nil && d.String() == a.Value.String() {
			delete(have, a.Name)
		}
	}
	s.objects[o.OID] = have
	return nil
}

const foreignTAM = OID(TAMObject)<<48 | 7

// state is the switch as text, without objects that have nothing set.
func (s *fakeSwitch) state() string {
	var lines []string
	for id, attrs := range s.objects {
		for name, value := range attrs {
			lines = append(lines, fmt.Sprintf("%s %s=%s", id, name, value))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Every change between programs, in any order, is one that SAI takes, and ends where the
// new program alone would.
func TestChangesInAnyOrder(t *testing.T) {
	var programs []*Program
	for _, in := range []*Input{draft00(t), uec(t), wide(t), uec(t), wide(t), wide(t)} {
		i := len(programs)
		switch i {
		case 3: // other buckets under the same TPID
			sp := in.Profile.Signals[quantize.MinABW]
			sp.Buckets = preset(t, quantize.MinABW, "log-100G")
			in.Profile.Signals[quantize.MinABW] = sp
		case 4: // another interval, step and port
			sp := in.Profile.Signals[quantize.MinABW]
			sp.Quantum *= 2
			in.Profile.Signals[quantize.MinABW], in.Ports[0].Action = sp, vlanrules.Strip
			in.Interval = in.Caps.Intervals[0]
		case 5: // no ports that strip, no D
			in.Ports, in.Caps.DBit = in.Ports[:1], DBitNoTrim
		}
		in.Foreign = []OID{foreignTAM}
		programs = append(programs, compiled(t, in))
	}
	programs = append(programs, nil)
	states := make([]string, len(programs))
	for i, p := range programs {
		s := newFakeSwitch(6)
		for _, op := range Changes(nil, p) {
			if err := s.do(op); err != nil {
				t.Fatal(err)
			}
		}
		states[i] = s.state()
	}
	states[len(states)-1] = testSwitch.String() + " " + switchTAM + "=1:" + foreignTAM.String()
	random := rand.New(rand.NewPCG(1, 2))
	s, at := newFakeSwitch(6), len(programs)-1
	for range 2000 {
		next := random.IntN(len(programs))
		ops := Changes(programs[at], programs[next])
		if same := at == next; same != (len(ops) == 0) {
			t.Fatalf("%d calls from program %d to %d", len(ops), at, next)
		}
		for _, op := range ops {
			if err := s.do(op); err != nil {
				t.Fatalf("from program %d to %d: %v\n%s", at, next, err, Record(ops))
			}
		}
		if at = next; s.state() != states[at] && len(ops) > 0 {
			t.Fatalf("program %d left\n%s\nwant\n%s", at, s.state(), states[at])
		}
	}
}

// A band of SAI is the bucket of the same number, for values at all bounds.
func TestBands(t *testing.T) {
	tables := []quantize.Buckets{percents(t)}
	for _, sig := range []quantize.Signal{quantize.MinABW, quantize.MaxPD} {
		for _, name := range quantize.PresetNames(sig) {
			tables = append(tables, preset(t, sig, name))
		}
	}
	odd := make([]uint64, quantize.NumBuckets+1)
	for i := range odd {
		odd[i] = uint64(i * 13)
	}
	b, err := quantize.NewBuckets(quantize.MinABW, odd)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range append(tables, b) {
		ranges, err := bands(b.Signal, &b)
		if err != nil {
			t.Fatal(err)
		}
		perUnit := map[quantize.Signal]uint64{quantize.MinABW: 8, quantize.MinABWC: 10_000, quantize.MaxPD: 1}[b.Signal]
		for _, bound := range b.Bounds() {
			for d := range uint64(5) {
				v := bound/perUnit + d
				if v < 2 {
					continue
				}
				v -= 2
				if b.Signal == quantize.MinABWC && v > 100 {
					continue
				}
				var in []int
				for s, r := range ranges {
					if r.Min <= v && v <= r.Max {
						in = append(in, s)
					}
				}
				if want := int(b.Bucket(v * perUnit)); !slices.Equal(in, []int{want}) {
					t.Errorf("%s %s: %d of SAI's units is in bands %v, want %d", b.Signal, b.Preset, v, in, want)
				}
			}
		}
	}
}
