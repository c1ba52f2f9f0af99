package inventory

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/quantize"
)

// Marshal writes a fleet as a fleet file. Parse of the text, under the name
// f.Path, gives an equal fleet. A fleet that Parse would refuse is refused
// here, with Errors whose places are in the text that would have been.
func Marshal(f *Fleet) ([]byte, error) {
	text, err := Show(f)
	if err == nil {
		if _, err = Parse(f.Path, text); err != nil {
			err = fmt.Errorf("write fleet %s: %w", f.Path, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// Show is Marshal for people's eyes: it does not look whether Parse would take
// the text, which is most of Marshal's work.
func Show(f *Fleet) ([]byte, error) {
	policy := f.Policy
	policy.Estimator = estimatorKey(policy.Estimator, Estimator{})
	file := fileKeys{
		Format: Format, Profile: profileKeysOf(&f.Profile),
		Policy: &policy, Mesh: f.Mesh,
	}
	if !slices.Equal(f.VLANTPIDs, defaultVLANTPIDs[:]) {
		file.VLANTPIDs = &f.VLANTPIDs
	}
	for _, r := range f.Policy.Retired {
		if r.Wide {
			file.Profile.RetiredWide = append(file.Profile.RetiredWide, r.TPID)
		} else {
			file.Profile.Retired = append(file.Profile.Retired, r.TPID)
		}
	}
	for _, h := range f.Hosts {
		file.Hosts = append(file.Hosts, hostKeys{Host: h, Management: hostManagement{h.NetNS}})
	}
	for i := range f.Devices {
		d := &f.Devices[i]
		keys := deviceKeys{
			Name: d.Name, Platform: d.Platform, Local: d.Local, Address: d.Address, Management: layered[Management]{keys: d.Management}, Level: d.Level, Experimental: d.Experimental,
			Updates: d.Updates, Lease: d.Lease,
			Estimator: estimatorKey(d.Estimator, f.Policy.Estimator), Counters: d.Counters, Ports: portList{fleet: f, ports: d.Ports},
		}
		if d.Facts != nil {
			keys.Facts = d.Facts.Name
			if err := file.Facts.add(d.Facts); err != nil {
				return nil, err
			}
		}
		for _, tag := range d.Tags {
			keys.Tags = append(keys.Tags, placedName{name: tag})
		}
		if d.Interval != f.Profile.Interval {
			keys.Interval = d.Interval
		}
		if d.Schedule != f.Policy.Schedule {
			keys.Schedule = d.Schedule
		}
		file.Devices = append(file.Devices, keys)
	}
	w := &writer{item: true}
	w.keys(keysOf[fileKeys](), reflect.ValueOf(&file).Elem())
	return append(w.out, '\n'), nil
}

// keysOf is a port as the file has it.
func (f *Fleet) keysOf(p *Port) portKeys {
	out := portKeys{Name: p.Name, Speed: speedOf(p), MTU: p.MTU, Action: p.Action.String(), Peer: p.Peer.String()}
	if p.StripRetired != f.stripsRetired(p) {
		out.StripRetired = &p.StripRetired
	}
	out.LM.text = f.lmText(p)
	return out
}

// lmText is a port's locator in the shortest form: once when all signals write the
// same in the same format, else for each signal.
func (f *Fleet) lmText(port *Port) string {
	signals := slices.Sorted(maps.Keys(port.LM))
	texts := make([]string, len(signals))
	same := len(signals) == len(f.Profile.Signals)
	for i, sig := range signals {
		texts[i] = lmText(&f.Profile, sig, port.LM[sig])
		same = same && texts[i] == texts[0]
	}
	switch {
	case len(signals) == 0:
		return ""
	case same:
		return texts[0]
	}
	for i, sig := range signals {
		texts[i] = sig.String() + ": " + texts[i]
	}
	return "{" + strings.Join(texts, ", ") + "}"
}

func lmText(p *quantize.Profile, sig quantize.Signal, lm uint16) string {
	locator := p.Signals[sig].Locator
	if len(locator.Fields) == 0 {
		return strconv.Itoa(int(lm))
	}
	w := &writer{flow: true}
	before := "{"
	for _, v := range locator.Decode(p.Layout.LMBits(), lm) {
		w.out = append(w.out, before...)
		w.plain(v.Field)
		w.out = append(w.out, ": "...)
		if v.Name != "" {
			w.plain(v.Name)
		} else {
			w.out = strconv.AppendUint(w.out, uint64(v.Value), 10)
		}
		before = ", "
	}
	return string(append(w.out, '}'))
}

func profileKeysOf(p *quantize.Profile) *profileKeys {
	out := &profileKeys{Name: p.Name, TPID: p.TPID, WideTPID: p.WideTPID, Layout: p.Layout.String(), Interval: p.Interval}
	signals := slices.Sorted(maps.Keys(p.Signals))
	// What all signals have in common is said once.
	var first quantize.SignalProfile
	shared, sharedWide := len(signals) > 0, len(signals) > 0
	for i, sig := range signals {
		sp := p.Signals[sig]
		if i == 0 {
			first = sp
		}
		shared = shared && reflect.DeepEqual(sp.Locator, first.Locator)
		sharedWide = sharedWide && reflect.DeepEqual(sp.WideLocator, first.WideLocator)
	}
	if shared {
		out.Locator = locatorOf(first.Locator)
	}
	if sharedWide {
		out.WideLocator = locatorOf(first.WideLocator)
	}
	for _, sig := range signals {
		sp := p.Signals[sig]
		s := &signalKeys{Buckets: bucketTable{sp.Buckets}}
		if sp.Quantum != 0 {
			s.Quantum = valueText(sig, sp.Quantum)
		}
		if initial, ok := p.InitialS[sig]; ok {
			s.InitialS = &initial
		}
		if !shared {
			s.Locator = locatorOf(sp.Locator)
		}
		if !sharedWide {
			s.WideLocator = locatorOf(sp.WideLocator)
		}
		*out.Signals.of(sig) = s
	}
	return out
}

func locatorOf(l quantize.Locator) (out locatorList) {
	for _, f := range l.Fields {
		out = append(out, locatorKeys{Name: f.Name, Bits: f.Bits, Values: f.Names})
	}
	return out
}

// valueText writes a value without spaces and in ASCII.
func valueText(sig quantize.Signal, v uint64) string {
	return strings.NewReplacer(" ", "", "µ", "u").Replace(quantize.FormatValue(sig, v))
}

// estimatorKey is zero for what the file need not say.
func estimatorKey(e, otherwise Estimator) Estimator {
	if e = e.orRaw(); e == otherwise.orRaw() {
		return Estimator{}
	}
	return e
}
