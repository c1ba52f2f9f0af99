package inventory

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

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
	doc := fileYAML{
		Format:  Format,
		Profile: profileOf(&f.Profile),
		Policy: policyYAML{
			OnStale: string(f.Policy.OnStale), Schedule: f.Policy.Schedule,
			Estimator: estimatorOf(f.Policy.Estimator, Estimator{}), Damping: dampingOf(f.Policy.Damping),
		},
	}
	if !slices.Equal(f.VLANTPIDs, defaultVLANTPIDs[:]) {
		vlans := make([]hex16, len(f.VLANTPIDs))
		for i, v := range f.VLANTPIDs {
			vlans[i] = hex16(v)
		}
		doc.VLANTPIDs = &vlans
	}
	for _, r := range f.Policy.Retired {
		if r.Wide {
			doc.Profile.RetiredWide = append(doc.Profile.RetiredWide, hex16(r.TPID))
		} else {
			doc.Profile.Retired = append(doc.Profile.Retired, hex16(r.TPID))
		}
	}
	for _, h := range f.Hosts {
		y := flowHost{Name: safeText(h.Name), MTU: h.MTU, CSIG: h.CSIG, Interface: safeText(h.Interface), Local: h.Local}
		if h.NetNS != "" {
			y.Management = &hostManagementYAML{safeText(h.NetNS)}
		}
		doc.Hosts = append(doc.Hosts, y)
	}
	for i := range f.Devices {
		doc.Devices = append(doc.Devices, deviceOf(f, &f.Devices[i]))
	}
	text, err := yaml.MarshalWithOptions(doc, yaml.IndentSequence(true))
	if err == nil {
		text, err = withPorts(text, f)
	}
	if err != nil {
		return nil, fmt.Errorf("write fleet %s: %w", f.Path, err)
	}
	return text, nil
}

// portsLine stands for a device's ports, which are most of a fleet, and which
// the library would take a hundred times as long for.
const portsLine = "    ports: 0\n"

// withPorts puts the ports of each device where it has its portsLine.
func withPorts(text []byte, f *Fleet) ([]byte, error) {
	out := make([]byte, 0, len(text)+len(f.Devices)*64)
	for i := range f.Devices {
		head, rest, ok := bytes.Cut(text, []byte(portsLine))
		if !ok {
			return nil, fmt.Errorf("device %s has no place for its ports", f.Devices[i].Name)
		}
		out, text = append(out, head...), rest
		if len(f.Devices[i].Ports) == 0 {
			out = append(out, "    ports: []\n"...)
			continue
		}
		out = append(out, "    ports:\n"...)
		for k := range f.Devices[i].Ports {
			var err error
			if out, err = f.appendPort(out, &f.Devices[i].Ports[k]); err != nil {
				return nil, err
			}
		}
	}
	return append(out, text...), nil
}

// appendPort writes a port as a line.
func (f *Fleet) appendPort(out []byte, p *Port) ([]byte, error) {
	out = append(out, "      - {name: "...)
	out, err := appendText(out, p.Name)
	if err != nil {
		return nil, err
	}
	if p.Speed != 0 {
		out = append(append(out, ", speed: "...), FormatSpeed(p.Speed)...)
	}
	if p.MTU != 0 {
		out = strconv.AppendInt(append(out, ", mtu: "...), int64(p.MTU), 10)
	}
	out = append(append(out, ", action: "...), actionText(p.Action)...)
	if p.StripRetired != f.stripsRetired(p) {
		out = strconv.AppendBool(append(out, ", strip_retired: "...), p.StripRetired)
	}
	switch lm := lmOf(&f.Profile, p).(type) {
	case nil:
	case uint16:
		out = strconv.AppendUint(append(out, ", lm: "...), uint64(lm), 10)
	default:
		text, err := yaml.MarshalWithOptions(lm, yaml.Flow(true))
		if err != nil {
			return nil, err
		}
		out = append(append(out, ", lm: "...), bytes.TrimSuffix(text, []byte("\n"))...)
	}
	if peer := p.Peer.String(); peer != "" {
		if out, err = appendText(append(out, ", peer: "...), peer); err != nil {
			return nil, err
		}
	}
	return append(out, "}\n"...), nil
}

// appendText is safeText's, without the library where that has nothing to say:
// its words, such as true and null, have no digit.
func appendText(out []byte, s string) ([]byte, error) {
	if plainText.MatchString(s) && strings.ContainsAny(s, "0123456789") {
		return append(out, s...), nil
	}
	text, err := safeText(s).MarshalYAML()
	return append(out, bytes.TrimSuffix(text, []byte("\n"))...), err
}

// What follows is the file's shape, in the order in which people read it.

type fileYAML struct {
	Format    string       `yaml:"format"`
	Profile   profileYAML  `yaml:"profile"`
	Policy    policyYAML   `yaml:"policy"`
	VLANTPIDs *[]hex16     `yaml:"vlan_tpids,omitempty,flow"`
	Devices   []deviceYAML `yaml:"devices,omitempty"`
	Hosts     []flowHost   `yaml:"hosts,omitempty"`
}

type profileYAML struct {
	Name        string        `yaml:"name"`
	TPID        hex16         `yaml:"tpid"`
	WideTPID    hex16         `yaml:"wide_tpid,omitempty"`
	Retired     []hex16       `yaml:"retired_tpids,omitempty,flow"`
	RetiredWide []hex16       `yaml:"retired_wide_tpids,omitempty,flow"`
	Layout      string        `yaml:"layout"`
	Interval    string        `yaml:"interval"`
	Signals     yaml.MapSlice `yaml:"signals"`
	Locator     []flowField   `yaml:"locator,omitempty"`
	WideLocator []flowField   `yaml:"wide_locator,omitempty"`
}

type signalYAML struct {
	Buckets     any         `yaml:"buckets,flow"` // a preset's name or []string
	Quantum     string      `yaml:"quantum,omitempty"`
	InitialS    *uint8      `yaml:"initial_s,omitempty"`
	Locator     []flowField `yaml:"locator,omitempty"`
	WideLocator []flowField `yaml:"wide_locator,omitempty"`
}

type fieldYAML struct {
	Name   string        `yaml:"name"`
	Bits   int           `yaml:"bits"`
	Values yaml.MapSlice `yaml:"values,omitempty"`
}

type policyYAML struct {
	OnStale   string         `yaml:"on_stale"`
	Schedule  string         `yaml:"schedule"`
	Estimator *estimatorYAML `yaml:"estimator,omitempty,flow"`
	Damping   *dampingYAML   `yaml:"damping,omitempty,flow"`
}

type deviceYAML struct {
	Name       string          `yaml:"name"`
	Platform   string          `yaml:"platform"`
	Local      bool            `yaml:"local,omitempty"`
	Address    safeText        `yaml:"address,omitempty"`
	Management *managementYAML `yaml:"management,omitempty"`
	Level      *flowLevel      `yaml:"level,omitempty"`
	Tags       []safeText      `yaml:"tags,omitempty,flow"`
	Interval   string          `yaml:"interval,omitempty"`
	Schedule   string          `yaml:"schedule,omitempty"`
	Estimator  *estimatorYAML  `yaml:"estimator,omitempty,flow"`
	Counters   *countersYAML   `yaml:"counters,omitempty"`
	Ports      int             `yaml:"ports"` // portsLine: withPorts writes them
}

// safeText is a name that a device chose. The library leaves some texts plain,
// such as $[, that cannot stand so between braces.
type safeText string

var plainText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]*$`)

// MarshalYAML writes the text, in quotes unless it is a plain word.
func (s safeText) MarshalYAML() ([]byte, error) {
	switch {
	case plainText.MatchString(string(s)):
		return yaml.Marshal(string(s)) // knows words like true and null
	case strings.ContainsAny(string(s), `"\\`):
		return []byte("'" + strings.ReplaceAll(string(s), "'", "''") + "'"), nil
	}
	return []byte(`"` + string(s) + `"`), nil
}

// hex16 is written as TPIDs are read.
type hex16 uint16

// MarshalYAML writes 0x9900.
func (h hex16) MarshalYAML() ([]byte, error) { return fmt.Appendf(nil, "0x%04x", uint16(h)), nil }

// flowField takes one line.
type flowField fieldYAML

// MarshalYAML writes the field in braces.
func (f flowField) MarshalYAML() ([]byte, error) {
	return yaml.MarshalWithOptions(fieldYAML(f), yaml.Flow(true))
}

func profileOf(p *quantize.Profile) profileYAML {
	out := profileYAML{
		Name: p.Name, TPID: hex16(p.TPID), WideTPID: hex16(p.WideTPID),
		Layout: p.Layout.String(), Interval: p.Interval.String(),
	}
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
		s := signalYAML{Buckets: bucketsOf(&sp.Buckets)}
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
		out.Signals = append(out.Signals, yaml.MapItem{Key: sig.String(), Value: s})
	}
	return out
}

func locatorOf(l quantize.Locator) []flowField {
	var out []flowField
	for _, f := range l.Fields {
		field := flowField{Name: f.Name, Bits: f.Bits}
		names := slices.SortedFunc(maps.Keys(f.Names), func(a, b string) int { return int(f.Names[a]) - int(f.Names[b]) })
		for _, name := range names {
			field.Values = append(field.Values, yaml.MapItem{Key: name, Value: f.Names[name]})
		}
		out = append(out, field)
	}
	return out
}

func bucketsOf(b *quantize.Buckets) any {
	if b.Preset != "" {
		return b.Preset
	}
	var out []string
	for _, v := range b.Bounds() {
		out = append(out, valueText(b.Signal, v))
	}
	return out
}

// valueText writes a value without spaces and in ASCII.
func valueText(sig quantize.Signal, v uint64) string {
	return strings.NewReplacer(" ", "", "µ", "u").Replace(quantize.FormatValue(sig, v))
}

func deviceOf(f *Fleet, d *Device) deviceYAML {
	out := deviceYAML{Name: d.Name, Platform: d.Platform, Local: d.Local}
	if d.Interval != f.Profile.Interval {
		out.Interval = d.Interval.String()
	}
	if d.Schedule != f.Policy.Schedule {
		out.Schedule = d.Schedule
	}
	out.Address = safeText(d.Address)
	out.Management, out.Level = managementOf(d.Management), levelOf(d.Level)
	for _, tag := range d.Tags {
		out.Tags = append(out.Tags, safeText(tag))
	}
	out.Estimator = estimatorOf(d.Estimator, f.Policy.Estimator)
	out.Counters = countersOf(&d.Counters)
	return out
}

// actionText leaves it to Parse to refuse an action that is none.
func actionText(a vlanrules.Action) string {
	if a > vlanrules.Strip {
		return fmt.Sprintf("action %d", a)
	}
	return a.String()
}

// lmOf writes a port's locator in the shortest form: once when all signals
// write the same in the same format, else for each signal.
func lmOf(p *quantize.Profile, port *Port) any {
	if len(port.LM) == 0 {
		return nil
	}
	signals := slices.Sorted(maps.Keys(port.LM))
	first := lmText(p, signals[0], port.LM[signals[0]])
	var each yaml.MapSlice
	same := len(signals) == len(p.Signals)
	for _, sig := range signals {
		one := lmText(p, sig, port.LM[sig])
		same = same && reflect.DeepEqual(one, first)
		each = append(each, yaml.MapItem{Key: sig.String(), Value: one})
	}
	if same {
		return first
	}
	return each
}

func lmText(p *quantize.Profile, sig quantize.Signal, lm uint16) any {
	locator := p.Signals[sig].Locator
	if len(locator.Fields) == 0 {
		return lm
	}
	var out yaml.MapSlice
	for _, v := range locator.Decode(p.Layout.LMBits(), lm) {
		value := any(v.Name)
		if v.Name == "" {
			value = v.Value
		}
		out = append(out, yaml.MapItem{Key: v.Field, Value: value})
	}
	return out
}
