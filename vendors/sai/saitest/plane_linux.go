package saitest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	bpf "github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ebpf"
	"github.com/csig-agent/csig/vendors/linux/netdev"
	"github.com/csig-agent/csig/vlanrules"
)

// Plane is the chip: linux-ebpf at the ports of a network namespace, set up from what the switch has accepted and from
// nothing else. What objects mean is by SAI's text (doc/CSIG/SAI-CSIG-Spec.md), and not by what makes csig's.
type Plane struct {
	ns netdev.NS
	d  *ebpf.Driver

	// Buckets and Quantums are those that the objects have, in csig's units.
	Buckets  map[quantize.Signal][]uint64
	Quantums map[quantize.Signal]uint64
}

// Forward has the chip forward frames between ports of this namespace, which have the switch's names.
func (s *Switch) Forward(netns int) *Plane {
	s.t.Helper()
	d, err := ebpf.Open(ebpf.Config{NetNS: netns})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := d.Close(); err != nil {
			s.t.Error(err)
		}
	})
	p := &Plane{ns: netdev.NS(netns), d: d}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chip = p
	s.program()
	return p
}

// perUnit is SAI's unit of a signal in csig's (§4.6: bytes/s, percent, ns).
var perUnit = map[quantize.Signal]uint64{quantize.MinABW: 8, quantize.MinABWC: 10_000, quantize.MaxPD: 1}

func (p *Plane) follow(s *Switch) error {
	p.Buckets, p.Quantums = map[quantize.Signal][]uint64{}, map[quantize.Signal]uint64{}
	prof := &quantize.Profile{Name: "chip", Layout: quantize.UEC, Interval: time.Millisecond, Signals: map[quantize.Signal]quantize.SignalProfile{}}
	setup := vendors.Setup{Layout: quantize.UEC, OnStale: inventory.Conservative}
	for _, tam := range s.refs(SwitchID, "SAI_SWITCH_ATTR_TAM_OBJECT_ID") {
		for _, id := range s.refs(tam, "SAI_TAM_ATTR_INT_OBJECTS_LIST") {
			if err := p.measure(prof, s.values(id)); err != nil {
				return fmt.Errorf("%s: %w", oid(id), err)
			}
		}
	}
	if prof.TPID == 0 {
		return p.d.Remove(context.Background())
	}
	setup.TPID, setup.WideTPID, setup.Measure, setup.Profile = prof.TPID, prof.WideTPID, prof, prof.Hash()
	setup.Signals = slices.Sorted(maps.Keys(prof.Signals))
	var updates []vendors.PortUpdate
	for _, name := range s.ports {
		values := s.values(s.portIDs[name])
		if values == nil {
			continue
		}
		if values["SAI_PORT_ATTR_INT_DELETE"] == "true" {
			setup.Ports = append(setup.Ports, vendors.PortSetup{Port: name, Action: vlanrules.Strip})
			continue
		}
		lm, err := strconv.ParseUint(values["SAI_PORT_ATTR_INT_METADATA"], 10, 6)
		mbit, err2 := strconv.ParseUint(values["SAI_PORT_ATTR_SPEED"], 10, 32)
		if err := errors.Join(err, err2); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		setup.Ports = append(setup.Ports, vendors.PortSetup{Port: name, Action: vlanrules.Update})
		u := vendors.PortUpdate{Port: name, Rate: mbit * 1e6}
		for _, sig := range setup.Signals {
			u.Intents = append(u.Intents, vlanrules.Intent{Signal: sig, Action: vlanrules.Update, LM: uint16(lm)})
		}
		updates = append(updates, u)
	}
	if err := p.d.Apply(context.Background(), setup); err != nil {
		return err
	}
	_, err := p.d.Update(context.Background(), updates, time.Hour)
	return err
}

// values are an object's attributes, with those that it has by default.
func (s *Switch) values(id uint64) map[string]string {
	o := s.objects[id]
	if o == nil {
		return nil
	}
	out := map[string]string{}
	for name, a := range metadata[o.kind] {
		out[name] = a.initial
	}
	maps.Copy(out, o.attrs)
	return out
}

func (s *Switch) refs(id uint64, name string) []uint64 {
	values := s.values(id)
	if values == nil {
		return nil
	}
	a := metadata[s.objects[id].kind][name]
	return a.refs(values[name])
}

// measure has the chip measure a signal in tags of one format, as a TAM_INT says; any but CSIG's are none.
func (p *Plane) measure(prof *quantize.Profile, o map[string]string) error {
	format, is := strings.CutPrefix(o["SAI_TAM_INT_ATTR_TYPE"], "SAI_TAM_INT_TYPE_CSIG_")
	if !is {
		return nil
	}
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(o["SAI_TAM_INT_ATTR_"+name], 10, 64) // it was read when it was set
		return n
	}
	sig := quantize.Signal(slices.Index(signals, o["SAI_TAM_INT_ATTR_CSIG_SIGNAL_TYPE"]))
	unit, known := perUnit[sig]
	if !known || o["SAI_TAM_INT_ATTR_INT_PRESENCE_TYPE"] != presence[4] {
		return fmt.Errorf("a chip cannot do it: %v", o)
	}
	tpid, tpids := uint16(number("ETH_TYPE_CODE_POINT")), &prof.TPID
	if format == "WIDE" {
		tpids = &prof.WideTPID
	}
	if *tpids != 0 && *tpids != tpid {
		return fmt.Errorf("tags of the TPIDs %#x and %#x", *tpids, tpid)
	}
	*tpids = tpid
	if sig != quantize.MaxPD {
		prof.Interval = time.Duration(number("BW_TIME_INTERVAL")) * time.Microsecond
	}
	sp := prof.Signals[sig]
	if format == "WIDE" {
		step := number("WIDE_QUANT_STEP_VALUE")
		if number("QUANT_BANDS") != 1<<20 || number("WIDE_QUANT_BASE_VALUE") != 0 || step == 0 || step&(step-1) != 0 {
			return fmt.Errorf("wide tags of %v", o)
		}
		sp.Quantum = step * unit
		prof.Signals[sig], p.Quantums[sig] = sp, sp.Quantum
		return nil
	}
	bounds, err := bandsOf(o, unit)
	if err != nil {
		return err
	}
	if sig == quantize.MinABWC {
		bounds[32] = 1_000_000
	}
	if sp.Buckets, err = quantize.NewBuckets(sig, bounds); err != nil {
		return err
	}
	prof.Signals[sig], p.Buckets[sig] = sp, bounds
	return nil
}

// bandsOf are the lower ends of the bands, which have both their ends in them and follow on each other, and the end of the last.
func bandsOf(o map[string]string, unit uint64) ([]uint64, error) {
	_, ids, _ := strings.Cut(o["SAI_TAM_INT_ATTR_QUANT_BAND_ID"], ":")
	_, list, _ := strings.Cut(o["SAI_TAM_INT_ATTR_QUANT_BAND_UINT64_RANGE_LIST"], ":")
	ends := strings.Split(list, ",")
	names := strings.Split(ids, ",")
	if o["SAI_TAM_INT_ATTR_QUANT_BANDS"] != "32" || len(names) != 32 || len(ends) != 64 {
		return nil, fmt.Errorf("%d bands: %v", len(names), o)
	}
	bounds, next := make([]uint64, 33), uint64(0)
	for i := range 32 {
		low, err := strconv.ParseUint(ends[2*i], 10, 64)
		high, err2 := strconv.ParseUint(ends[2*i+1], 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		if names[i] != strconv.Itoa(i) || low != next || high < low || high == math.MaxUint64 && i < 31 {
			return nil, fmt.Errorf("band %d of the ID %s is %d to %d, behind one that ends before %d", i, names[i], low, high, next)
		}
		bounds[i], next = low*unit, high+1
	}
	bounds[32] = 2 * bounds[31] // all above is in the last
	return bounds, nil
}

// Sent has so many bytes be those of a port's last interval, until its objects change: then no frame opens another one.
func (p *Plane) Sent(index int, bytes uint64) error {
	return p.ns.Do(func() error {
		found, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: bpf.AttachTCXEgress})
		if err != nil || len(found.Programs) != 1 {
			return fmt.Errorf("%d programs: %w", len(found.Programs), err)
		}
		prog, err := bpf.NewProgramFromID(found.Programs[0].ID)
		if err != nil {
			return err
		}
		defer prog.Close()
		info, err := prog.Info()
		if err != nil {
			return err
		}
		places, err := mapOf(info, "csig_places")
		if err != nil {
			return err
		}
		defer places.Close()
		states, err := mapOf(info, "csig_state")
		if err != nil {
			return err
		}
		defer states.Close()
		// The beginning of struct state in vendors/ebpf/csig.bpf.c; all behind it is 0.
		var state struct {
			start, bytes, own, frames, closed, last uint64
		}
		state.start, state.closed, state.last = 1<<62, 1, bytes
		value := make([]byte, states.ValueSize())
		copy(value, unsafe.Slice((*byte)(unsafe.Pointer(&state)), unsafe.Sizeof(state)))
		var slot uint32
		if err := places.Lookup(uint32(index), &slot); err != nil {
			return err
		}
		return states.Put(slot, value)
	})
}

func mapOf(info *bpf.ProgramInfo, name string) (*bpf.Map, error) {
	ids, _ := info.MapIDs()
	for _, id := range ids {
		m, err := bpf.NewMapFromID(id)
		if err != nil {
			return nil, err
		}
		if is, err := m.Info(); err == nil && is.Name == name {
			return m, nil
		}
		m.Close()
	}
	return nil, fmt.Errorf("its program has no map %s", name)
}
