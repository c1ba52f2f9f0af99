package sai

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// Input is what objects are made from.
type Input struct {
	Profile  *quantize.Profile
	Interval time.Duration // of the device
	Switch   OID
	Foreign  []OID // TAM objects that others have bound on the switch: they stay
	Ports    []Port
	Caps     *Capabilities // nil: not known
}

// Port is one port of the switch.
type Port struct {
	Name   string
	OID    OID // 0: not known
	Action vlanrules.Action
	LM     map[quantize.Signal]uint16
}

func (p *Port) strips() bool { return p.Action == vlanrules.Strip }

// signals are those of the profile, in wire order.
func (in *Input) signals() (out []quantize.Signal) {
	for _, sig := range quantize.Signals {
		if _, ok := in.Profile.Signals[sig]; ok {
			out = append(out, sig)
		}
	}
	return out
}

// Program is the objects of CSIG on one switch.
type Program struct {
	// Own are csig's objects: what one refers to stands before it.
	Own []Object
	// Ports and Switch are what csig sets of objects that are there without it.
	Ports  []Object
	Switch Object
}

// MaxPorts bounds the ports of one switch.
const MaxPorts = 1 << 16

// Compile makes the objects. The error joins a *CapabilityError for each that is missing;
// degraded says what works in part.
func Compile(in *Input) (p *Program, degraded vlanrules.Verdict, err error) {
	var errs []error
	if in.Caps == nil {
		degraded = also(degraded, "what the switch supports is not known: management.sai.capabilities has its answers to SAI's capability queries")
	} else {
		errs = append(errs, in.Caps.check(in))
	}
	if in.Profile.Layout != quantize.UEC {
		degraded = also(degraded, "SAI's tag has D in its lowest bit, where the draft-00 layout has that of LM: a tag with an odd locator is not updated")
	}
	p = &Program{Switch: Object{Type: SwitchObject, OID: in.Switch}}
	var ints OIDs
	for _, wide := range []bool{false, true} {
		if wide && in.Profile.WideTPID == 0 {
			continue
		}
		for _, sig := range in.signals() {
			o, err := tamIntOf(in, sig, wide)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			p.Own, ints = append(p.Own, o), append(ints, o.OID)
		}
	}
	if sp, ok := in.Profile.Signals[quantize.MinABWC]; ok && sp.Buckets.Signal == quantize.MinABWC {
		degraded = also(degraded, "SAI counts abwc in percents, and does not say how it rounds a fraction of one")
	}
	top := Object{Type: TAMObject, OID: ownOID(TAMObject, 1), Attrs: []Attr{
		{attrInts, ints},
		{tam + "TAM_BIND_POINT_TYPE_LIST", Enums{bindSwitch}},
	}}
	p.Own = append(p.Own, top)
	p.Switch.Attrs = []Attr{{switchTAM, append(append(OIDs(nil), in.Foreign...), top.OID)}}
	if len(in.Ports) > MaxPorts {
		return nil, degraded, fmt.Errorf("%d ports, at most %d can be", len(in.Ports), MaxPorts)
	}
	for i := range in.Ports {
		o, err := portOf(in.Profile.Layout, in.signals(), &in.Ports[i])
		errs = append(errs, err, oneLocator(in.Profile, &in.Ports[i]))
		p.Ports = append(p.Ports, o)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, degraded, err
	}
	return p, degraded, nil
}

// also adds a reason to a verdict of degraded.
func also(v vlanrules.Verdict, why string) vlanrules.Verdict {
	reasons := strings.TrimPrefix(v.Reason+"; "+why, "; ")
	return vlanrules.Verdict{Level: vlanrules.Degraded, Reason: reasons}
}

// tamIntOf is the object of one signal and tag format. Its ID follows from what cannot be
// set later, so that a change of that makes another object.
func tamIntOf(in *Input, sig quantize.Signal, wide bool) (Object, error) {
	sp := in.Profile.Signals[sig]
	kind, tpid, index := compactType, in.Profile.TPID, uint32(sig)<<16
	if wide {
		kind, tpid, index = wideType, in.Profile.WideTPID, index|1<<24
	}
	o := Object{Type: TAMIntObject, OID: ownOID(TAMIntObject, index|uint32(tpid)), Attrs: []Attr{
		{tamInt + "TYPE", kind},
		{tamInt + "DEVICE_ID", Number(1)}, // no CSIG tag has it
		{tamInt + "INT_PRESENCE_TYPE", presenceEthertype},
		{tamInt + "INLINE", Bool(true)},
		{tamInt + "ETH_TYPE_CODE_POINT", Number(tpid)},
		{attrSignal, signalTypes[sig]},
	}}
	if sig.Counted() {
		us := in.Interval / time.Microsecond
		if us < 1 || in.Interval%time.Microsecond != 0 || us > 1<<32-1 {
			return o, lacks("interval", "SAI has whole microseconds, and the interval is %v", in.Interval)
		}
		o.Attrs = append(o.Attrs, Attr{attrInterval, Number(us)})
	}
	if wide {
		n, err := step(sig, sp.Quantum)
		if err != nil {
			return o, err
		}
		o.Attrs = append(o.Attrs,
			Attr{attrBands, Number(quantize.MaxWideS + 1)},
			Attr{tamInt + "WIDE_QUANT_BASE_VALUE", Number(0)},
			Attr{tamInt + "WIDE_QUANT_STEP_VALUE", Number(n)})
	} else {
		ranges, err := bands(sig, &sp.Buckets)
		if err != nil {
			return o, err
		}
		ids := make(U16s, len(ranges))
		for i := range ids {
			ids[i] = uint16(i)
		}
		o.Attrs = append(o.Attrs,
			Attr{attrBands, Number(len(ranges))},
			Attr{tamInt + "QUANT_BAND_ID", ids},
			Attr{attrRanges, ranges})
	}
	// In the draft-00 layout the bit belongs to LM.
	sets := in.Profile.Layout == quantize.UEC && (in.Caps == nil || in.Caps.DBit == DBitSets)
	o.Attrs = append(o.Attrs, Attr{attrDBit, Bool(sets)})
	return o, nil
}

// portOf is what csig sets of a port.
func portOf(layout quantize.Layout, signals []quantize.Signal, p *Port) (Object, error) {
	o := Object{Type: PortObject, OID: p.OID}
	refuse := func(capability, format string, args ...any) (Object, error) {
		return o, &CapabilityError{capability, p.Name, fmt.Sprintf(format, args...)}
	}
	if p.OID.Type() != PortObject {
		return refuse("object ID", "management.sai.ports does not have that of the port")
	}
	switch p.Action {
	case vlanrules.Strip:
		o.Attrs = []Attr{{portStrip, Bool(true)}, {portLocator, Number(0)}}
		return o, nil
	case vlanrules.Passthrough:
		return refuse("passthrough", "what is bound on the switch updates tags at every port; SAI has no port that passes them through")
	}
	locator, err := p.locator(signals)
	if err != nil {
		return o, err
	}
	if layout != quantize.UEC {
		// LM's seven bits are SAI's six and D.
		if locator&1 != 0 {
			return refuse("locator", "SAI's tag has D where LM has its lowest bit, and the locator %d is odd", locator)
		}
		locator >>= 1
	}
	o.Attrs = []Attr{{portStrip, Bool(false)}, {portLocator, Number(locator)}}
	return o, nil
}

// oneLocator refuses a port whose wide tags would need another number than its compact ones.
func oneLocator(profile *quantize.Profile, p *Port) error {
	if profile.WideTPID == 0 || p.Action != vlanrules.Update {
		return nil
	}
	for sig, sp := range profile.Signals {
		if wide, err := sp.WideLM(profile.Layout, p.LM[sig]); err != nil || wide != p.LM[sig] {
			return &CapabilityError{"locator per format", p.Name, "a port has one locator for compact and wide tags, and the fields of locator and wide_locator make two: give both the same fields in the same order, and of the same bits but for the first"}
		}
	}
	return nil
}

// locator is the one that a port has for all its signals.
func (p *Port) locator(signals []quantize.Signal) (int, error) {
	locator := -1
	for _, sig := range signals {
		lm := int(p.LM[sig])
		if locator >= 0 && lm != locator {
			return 0, &CapabilityError{"locator per signal", p.Name, fmt.Sprintf("a port has one locator for all signals, and the fleet file has %d and %d", locator, lm)}
		}
		locator = lm
	}
	return max(locator, 0), nil
}
