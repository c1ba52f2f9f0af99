package inventory

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Facts is what was measured on one model with one version of its software, by csig
// qualify: an entry under "facts" of a fleet file. What is absent was not tested.
// Devices that name the same entry share it: it is not to be changed.
type Facts struct {
	_    struct{} `doc:"What was measured on a model, with one version of its software. What is absent was not tested."`
	Name string   // of the entry

	// What it was measured on, as the device and its maker write it.
	Platform    string   `key:"platform,need" is:"name" hint:"the platform that the fleet file gives the device" doc:"The platform that it was driven as."`
	Model       string   `key:"model,need" is:"line 128" hint:"as the device reports it" doc:"The model."`
	LineCard    string   `key:"line_card" is:"line 128" hash:"late" doc:"The line card of the ports."`
	ASIC        string   `key:"asic" is:"line 128" hash:"late" doc:"The switching chip."`
	Version     string   `key:"version,need" is:"line 128" hint:"of the software, as the device reports it" doc:"Of its software."`
	TCAMProfile string   `key:"tcam_profile" is:"line 128" hash:"late" doc:"How its tables are divided."`
	ConfigHash  string   `key:"config_hash" is:"line 128" hash:"late" doc:"Of its own configuration at that time."`
	Date        string   `key:"date,need" is:"date" hint:"e.g. 2026-11-22" doc:"The day of the measurement."`
	CSIG        string   `key:"csig" is:"line 128" hash:"late" doc:"The version of csig that measured."`
	TPIDs       []uint16 `key:"tpids,need,flow" is:"tpid" hint:"e.g. tpids: [0x9900]" doc:"TPIDs of the tags that it was measured with; of others nothing is known."`

	// Frames with a tag, where no rule of csig applies.
	Passthrough     *bool       `key:"passthrough" hash:"late" doc:"Frames with the tag leave as they came."`
	TagsInFront     *int        `key:"tags_in_front" range:"0 3" hash:"late" doc:"How many VLAN tags stood in front of it at most, with which it passed."`
	TagsInFrontFail *int        `key:"tags_in_front_fail" range:"1 3" hash:"late" doc:"How many VLAN tags stood in front of it at least, with which it did not pass."`
	MaxFrame        *int        `key:"max_frame" range:"64 65535" hash:"late" doc:"The largest frame with a tag that passes, in bytes from the destination MAC address on, without the FCS."`
	Loses           *[]string   `key:"loses,flow" words:"PCP DEI VID" hash:"late" doc:"Fields of the tag that do not survive, be it rewritten or not."`
	TriedVIDs       *[]VIDRange `key:"tried_vids,flow" hash:"late" doc:"The VIDs that were tried."`
	DroppedVIDs     *[]VIDRange `key:"dropped_vids,flow" hash:"late" doc:"VIDs of the tag with which frames do not arrive."`
	Independent     *bool       `key:"bridging_vlan_independent" hash:"late" doc:"The VLAN that frames are bridged in does not follow the tag's VID."`
	Learning        *bool       `key:"learning_unaffected" hash:"late" doc:"MAC addresses are learned as from frames without the tag."`
	Flooding        *bool       `key:"flooding_unaffected" hash:"late" doc:"Frames to unknown and group addresses reach the ports that they reach without the tag."`
	VLANsUnchanged  *bool       `key:"vlans_unchanged" hash:"late" doc:"Frames without the tag, in VLANs or in none, pass as without csig."`
	BPDU            *bool       `key:"bpdu_unaffected" hash:"late" doc:"BPDUs with a tag are treated as those without."`
	LLDP            *bool       `key:"lldp_unaffected" hash:"late" doc:"LLDP frames with a tag are treated as those without."`
	StormControl    *bool       `key:"storm_control_unaffected" hash:"late" doc:"Storm control counts frames with a tag."`
	ACL             *bool       `key:"acl_unaffected" hash:"late" doc:"The operator's ACLs match behind the tag."`
	Mirror          *bool       `key:"mirror_unaffected" hash:"late" doc:"Mirrored frames have the tag."`
	SFlow           *bool       `key:"sflow_unaffected" hash:"late" doc:"sFlow samples have the tag."`
	PFC             *bool       `key:"pfc_unaffected" hash:"late" doc:"PFC pauses frames with the tag as those without."`
	ECN             *bool       `key:"ecn_unaffected" hash:"late" doc:"ECN is marked behind the tag."`
	DSCP            *bool       `key:"dscp_unaffected" hash:"late" doc:"DSCP is found behind the tag, and kept."`
	Queue           *bool       `key:"queue_unaffected" hash:"late" doc:"The tag changes no frame's queue."`
	Routing         *bool       `key:"routing_unaffected" hash:"late" doc:"Packets with the tag are routed by the path that they have without it, and keep it."`
	Hash            *[]string   `key:"hash,flow" words:"MAC IP L4 PCP DEI VID" hash:"late" doc:"Fields by which ECMP and LAG choose for frames with the tag."`
	// LatencyAdded is the median with the tag and rules less the median without.
	LatencyAdded *time.Duration `key:"latency_added" range:"0s 1s" hash:"late" doc:"What the rules and the tag add to a frame's latency."`

	// The rules, and the tags that they were tried with.
	Layout          string         `key:"layout" words:"draft-00 uec" hash:"late" doc:"The layout of the tags that the rules were tried with."`
	Signals         *[]string      `key:"signals,flow" words:"abw abwc pd nqd" hash:"late" doc:"The signals that the rules were tried with."`
	SeesWireVID     *bool          `key:"sees_wire_vid" hash:"late" doc:"The egress rule matches the VID on the wire, not the VLAN of the bridge."`
	UpdateExact     *bool          `key:"update_exact" hash:"late" doc:"Compare-and-replace is right for every value of the tag and every signal tried."`
	Hitless         *bool          `key:"hitless" hash:"late" doc:"While a rule changes, each frame sees the old or the new value."`
	Strip           *bool          `key:"strip" hash:"late" doc:"A port removes the tag."`
	Entries         *int           `key:"entries" range:"0 16777216" hash:"late" doc:"How many entries the table of the rules takes."`
	RuleChange      *time.Duration `key:"rule_change" range:"0s 1h" hash:"late" doc:"The longest that a change of one signal's rules took, until the device acknowledged it."`
	AckToWire       *time.Duration `key:"ack_to_wire" range:"1ns 1h" hash:"late" doc:"The longest from the device's acknowledgement until frames showed the change."`
	Lease           *bool          `key:"lease" hash:"late" doc:"The device falls back by itself when csig is gone."`
	FallbackAfter   *time.Duration `key:"fallback_after" range:"1ns 1h" hash:"late" doc:"The longest from the end of a lease until frames showed the fallback."`
	SurvivesReboot  *bool          `key:"survives_reboot" hash:"late" doc:"The setup is there after a restart."`
	SurvivesFlap    *bool          `key:"survives_link_flap" hash:"late" doc:"The setup is there after a link was down."`
	CounterRefresh  *time.Duration `key:"counter_refresh" range:"0s 1h" hash:"late" doc:"How often the device refreshes its counters, at most: what was seen is no less."`
	CounterOverhead *uint8         `key:"counter_overhead" range:"0 64" hash:"late" doc:"Bytes that a frame takes on the wire beyond what its octet counter counts."`

	Reasons FactReasons `key:"reasons" hash:"late" doc:"What was seen, by the keys of what failed."`
}

// Check wants a reason to belong to something.
func (f *Facts) Check(m Mapping) {
	for _, key := range slices.Sorted(maps.Keys(f.Reasons)) {
		if !m.Has(key) {
			m.WrongValue("reasons", "give the key's value, or leave its reason out", "reasons: %s was not measured", key)
		}
	}
	if f.TagsInFront != nil && f.TagsInFrontFail != nil && *f.TagsInFrontFail <= *f.TagsInFront {
		m.refuse("is to be more than tags_in_front, with which it passed", "tags_in_front_fail")
	}
	if f.FallbackAfter != nil && f.Lease != nil && !*f.Lease {
		m.refuse("has no meaning where nothing falls back", "fallback_after")
	}
}

// VIDRange is the VIDs First to Last.
type VIDRange struct{ First, Last uint16 }

// String is the form of the file: "4095", or "3968-4094".
func (v VIDRange) String() string {
	if v.First == v.Last {
		return strconv.Itoa(int(v.First))
	}
	return fmt.Sprintf("%d-%d", v.First, v.Last)
}

const vidRange = `^(0|[1-9][0-9]{0,3})(-(0|[1-9][0-9]{0,3}))?$`

var isVIDRange = regexp.MustCompile(vidRange)

func (v *VIDRange) readFrom(r *reader, n ast.Node, what string) bool {
	text, ok := r.text(n, what)
	if !ok {
		return false
	}
	first, last, two := strings.Cut(text, "-")
	if !two {
		last = first
	}
	a, err := strconv.ParseUint(first, 10, 12)
	b, err2 := strconv.ParseUint(last, 10, 12)
	if !isVIDRange.MatchString(text) || err != nil || err2 != nil || a > b {
		r.errorf(n, "e.g. [0, 3968-4095]", "%s: want VIDs from 0 to 4095, one or FIRST-LAST, found %s", what, r.quote(text))
		return false
	}
	*v = VIDRange{uint16(a), uint16(b)}
	return true
}

func (*VIDRange) form() *schema { return textForm(vidRange) }

func (v *VIDRange) writeTo(w *writer) { w.out = append(w.out, v.String()...) }

// FactReasons are what was seen where something failed, by the keys of Facts.
type FactReasons map[string]string

const maxReason = 300 // bytes

func (f *FactReasons) readFrom(r *reader, n ast.Node, what string) bool {
	m, ok := r.mapping(n, what, keysOf[Facts]().names...)
	if !ok {
		return false
	}
	*f = make(FactReasons)
	for key, e := range m.values {
		if text, ok := lineReader(maxReason)(r, e.value, what+": "+key); ok {
			(*f)[key] = text
		}
	}
	return len(*f) > 0
}

func (*FactReasons) form() *schema { return mapForm(textForm("")) }

func (f *FactReasons) writeTo(w *writer) {
	w.block(slices.Sorted(maps.Keys(*f)), func(key string) {
		w.out = append(w.out, ' ')
		w.text((*f)[key])
	})
}

// factsMap is the entries by their names.
type factsMap map[string]*Facts

func (*factsMap) readFrom(*reader, ast.Node, string) bool { return false } // one by one, by reader.facts

func (*factsMap) form() *schema { return mapForm(keysOf[Facts]().schema()) }

func (f *factsMap) writeTo(w *writer) {
	w.block(slices.Sorted(maps.Keys(*f)), func(name string) {
		w.indent += 2
		w.keys(keysOf[Facts](), reflect.ValueOf((*f)[name]).Elem())
		w.indent -= 2
	})
}

// factsDecl is an entry as a file has it.
type factsDecl struct {
	*Facts
	at   originID
	used bool
}

// facts reads the entries of a file.
func (r *reader) facts(n ast.Node) {
	r.layer = r.c.origins.layer("facts")
	list, _ := r.entries(n, "facts")
	for _, e := range list {
		if !isName(e.name) {
			r.errorf(e.key, nameHint, "facts: %q is not a name", e.name)
			continue
		}
		if first := r.c.facts[e.name]; first != nil {
			o := r.c.origins.of(first.at)
			r.errorf(e.key, fmt.Sprintf("the first are in %s on line %d", o.File, o.Line), "facts %s are there twice", e.name)
			continue
		}
		one := &factsDecl{Facts: &Facts{}, at: r.at(e.key)}
		r.c.facts[e.name] = one
		if e.value != nil {
			r.readKeys(e.value, "facts "+e.name, one.Facts)
		}
		one.Name = e.name
	}
}

// factsOf finds the entry that a device names.
func (c *compiler) factsOf(name string, at originID, what string) *Facts {
	if name == "" {
		return nil
	}
	one := c.facts[name]
	if one == nil {
		if !c.lost {
			c.errorf(at, suggestSome(name, c.facts), "%s: facts: there are no facts %q", what, name)
		}
		return nil
	}
	one.used = true
	return one.Facts
}

func (c *compiler) unusedFacts() {
	for _, name := range slices.Sorted(maps.Keys(c.facts)) {
		if one := c.facts[name]; !one.used {
			c.warnf(one.at, "add facts: "+name+" to the devices of that model", "facts %s: no device has them", name)
		}
	}
}

// add adds an entry that is to be written.
func (f *factsMap) add(one *Facts) error {
	if *f == nil {
		*f = make(factsMap)
	}
	if other := (*f)[one.Name]; other != nil && !reflect.DeepEqual(other, one) {
		return fmt.Errorf("there are two different facts %q", one.Name)
	}
	(*f)[one.Name] = one
	return nil
}

// MarshalFacts writes a facts file: a fleet file with nothing but these entries, which
// others include. What ParseFacts would refuse is refused here, with Errors.
func MarshalFacts(list ...*Facts) ([]byte, error) {
	file := fileKeys{Format: Format}
	for _, one := range list {
		if err := file.Facts.add(one); err != nil {
			return nil, err
		}
	}
	w := &writer{item: true}
	w.keys(keysOf[fileKeys](), reflect.ValueOf(&file).Elem())
	text := append(w.out, '\n')
	if _, err := ParseFacts("facts", text); err != nil {
		return nil, fmt.Errorf("write facts: %w", err)
	}
	return text, nil
}

// ParseFacts reads the facts of one fleet file, or of a part of one, by their names.
// name stands for the file in errors. Mistakes are Errors, also those outside of the
// facts.
func ParseFacts(name string, data []byte) (map[string]*Facts, error) {
	c := newCompiler(files{text: data})
	if _, err := c.file(name, nil, 0); err != nil {
		return nil, err
	}
	if len(c.errs) > 0 {
		return nil, c.errs.finish()
	}
	out := make(map[string]*Facts, len(c.facts))
	for name, one := range c.facts {
		out[name] = one.Facts
	}
	return out, nil
}

// notDate says why a text is no day.
func notDate(text string, quote func(string) string) (problem, hint string) {
	if _, err := time.Parse(time.DateOnly, text); err != nil {
		return quote(text) + " is not a day", "e.g. 2026-11-22"
	}
	return "", ""
}
