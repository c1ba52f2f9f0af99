package inventory

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
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
	file := fileKeys{
		Format: Format, Profile: profileKeysOf(&f.Profile),
		Policy: &policyKeys{OnStale: f.Policy.OnStale, Schedule: f.Policy.Schedule, Estimator: estimatorKey(f.Policy.Estimator, Estimator{}), Damping: f.Policy.Damping},
	}
	if !slices.Equal(f.VLANTPIDs, defaultVLANTPIDs[:]) {
		file.VLANTPIDs = new([]tpid)
		for _, v := range f.VLANTPIDs {
			*file.VLANTPIDs = append(*file.VLANTPIDs, tpid(v))
		}
	}
	for _, r := range f.Policy.Retired {
		if r.Wide {
			file.Profile.RetiredWide = append(file.Profile.RetiredWide, tpid(r.TPID))
		} else {
			file.Profile.Retired = append(file.Profile.Retired, tpid(r.TPID))
		}
	}
	for _, h := range f.Hosts {
		file.Hosts = append(file.Hosts, hostKeys{
			Name: h.Name, MTU: h.MTU, CSIG: h.CSIG, Interface: h.Interface, Local: h.Local, Management: hostManagement{NetNS: h.NetNS},
		})
	}
	for i := range f.Devices {
		d := &f.Devices[i]
		keys := deviceKeys{
			Name: d.Name, Platform: d.Platform, Local: d.Local, Address: d.Address, Management: d.Management, Level: d.Level,
			Tags: d.Tags, Estimator: estimatorKey(d.Estimator, f.Policy.Estimator), Counters: d.Counters, Ports: portList{f, d.Ports},
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

// port writes a port. There are many, and they take one line each.
func (w *writer) port(f *Fleet, p *Port) {
	w.out = append(w.out, "{name: "...)
	w.text(p.Name)
	if p.Speed != 0 {
		w.out = append(append(w.out, ", speed: "...), FormatSpeed(p.Speed)...)
	}
	if p.MTU != 0 {
		w.out = strconv.AppendInt(append(w.out, ", mtu: "...), int64(p.MTU), 10)
	}
	w.out = append(append(w.out, ", action: "...), actionText(p.Action)...)
	if p.StripRetired != f.stripsRetired(p) {
		w.out = strconv.AppendBool(append(w.out, ", strip_retired: "...), p.StripRetired)
	}
	w.lm(&f.Profile, p)
	if peer := p.Peer.String(); peer != "" {
		w.out = append(w.out, ", peer: "...)
		w.text(peer)
	}
	w.out = append(w.out, '}')
}

// lm writes a port's locator in the shortest form: once when all signals write the
// same in the same format, else for each signal.
func (w *writer) lm(p *quantize.Profile, port *Port) {
	if len(port.LM) == 0 {
		return
	}
	w.out = append(w.out, ", lm: "...)
	signals := slices.Sorted(maps.Keys(port.LM))
	texts := make([]string, len(signals))
	same := len(signals) == len(p.Signals)
	for i, sig := range signals {
		texts[i] = lmText(p, sig, port.LM[sig])
		same = same && texts[i] == texts[0]
	}
	if same {
		w.out = append(w.out, texts[0]...)
		return
	}
	before := "{"
	for i, sig := range signals {
		w.out = append(append(append(append(w.out, before...), sig.String()...), ": "...), texts[i]...)
		before = ", "
	}
	w.out = append(w.out, '}')
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
	out := &profileKeys{Name: p.Name, TPID: profileTPID(p.TPID), WideTPID: profileTPID(p.WideTPID), Layout: p.Layout.String(), Interval: p.Interval}
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

// actionText leaves it to Parse to refuse an action that is none.
func actionText(a vlanrules.Action) string {
	if a > vlanrules.Strip {
		return fmt.Sprintf("action %d", a)
	}
	return a.String()
}
