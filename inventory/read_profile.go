package inventory

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/csig-agent/csig/quantize"
)

// profileReader reads the profile. Each field that was read is registered
// under the name quantize.Problem gives it, so that what Validate finds gets a
// place in the file.
type profileReader struct {
	*reader
	profile  quantize.Profile
	interval originID
	retired  []RetiredTPID
	nodes    map[string]ast.Node
	reported map[string]bool          // fields that a mistake was reported for
	layoutOK bool                     // the widths of LM are known
	badLM    map[quantize.Signal]bool // the locator format is not usable

	fieldsAt map[quantize.Signal][]originID // of the locator's fields
}

func (r *reader) readProfile(n ast.Node) *profileReader {
	p := &profileReader{
		reader:   r,
		profile:  quantize.Profile{Signals: make(map[quantize.Signal]quantize.SignalProfile)},
		nodes:    make(map[string]ast.Node),
		reported: make(map[string]bool),
		badLM:    make(map[quantize.Signal]bool),
		fieldsAt: make(map[quantize.Signal][]originID),
	}
	if n == nil {
		return p
	}
	o, ok := keysOf[profileKeys]().open(r, n, "profile")
	if !ok {
		return p
	}
	p.nodes[""] = n
	p.profile.Name, _ = r.name(o.get("name"), "profile: name")
	tpid := o.get("tpid")
	p.profile.TPID, ok = r.tpid(tpid, "profile: tpid")
	p.note("tpid", tpid, ok)
	if wide := o.get("wide_tpid"); wide != nil {
		p.profile.WideTPID, ok = r.tpid(wide, "profile: wide_tpid")
		p.note("wide_tpid", wide, ok)
	}
	p.readRetired(o.get("retired_tpids"), "profile: retired_tpids", false)
	p.readRetired(o.get("retired_wide_tpids"), "profile: retired_wide_tpids", true)
	p.layoutOK = true
	if layout := o.get("layout"); layout != nil {
		var keys profileKeys
		p.layoutOK = keysOf[profileKeys]().key("layout").read(r, layout, "profile: layout", reflect.ValueOf(&keys).Elem())
		p.profile.Layout, _ = quantize.ParseLayout(keys.Layout) // one of the two, where it is right
		p.note("layout", layout, p.layoutOK)
	}
	p.profile.Interval, _ = parsed(r, o.get("interval"), "profile: interval", parseInterval)
	if at := o.get("interval"); at != nil {
		r.layer = r.c.origins.layer("profile")
		p.interval = r.at(at)
	}

	locator, fieldsAt, locatorOK := p.locator(o.get("locator"), "profile: locator", p.profile.Layout.LMBits())
	wide, _, _ := p.locator(o.get("wide_locator"), "profile: wide_locator", p.profile.Layout.WideLMBits())
	signals := o.get("signals")
	p.note("signals", signals, signals != nil) // none at all is for Validate
	if signals != nil {
		list, ok := keysOf[signalsKeys]().open(r, signals, "profile: signals")
		p.note("signals", signals, ok)
		for _, sig := range quantize.Signals {
			value := list.get(sig.String())
			if value == nil {
				continue
			}
			field := "signals." + sig.String()
			sp := quantize.SignalProfile{Locator: locator, WideLocator: wide}
			p.badLM[sig], p.fieldsAt[sig] = !locatorOK, fieldsAt
			// Formats are judged where they are read: one mistake in the
			// profile's is one, not one a signal.
			p.reported[field+".locator"], p.reported[field+".wide_locator"] = true, true
			p.signal(sig, field, value, &sp)
			p.profile.Signals[sig] = sp
		}
	}
	p.validate()
	return p
}

// maxRetired bounds the TPIDs that were a domain's. Few platforms strip more than
// one or two at once.
const maxRetired = 8

// readRetired reads the TPIDs of earlier profiles.
func (p *profileReader) readRetired(n ast.Node, what string, wide bool) {
	if n == nil {
		return
	}
	list, _ := p.list(n, what)
	for _, item := range list {
		v, ok := p.tpid(item, what)
		if !ok {
			continue
		}
		err := (quantize.TPIDs{Compact: v}).Validate()
		var problem *quantize.Problem
		switch {
		case errors.As(err, &problem):
			p.errorf(item, "", "%s: %v", what, problem.Err)
		case v == p.profile.TPID || v == p.profile.WideTPID:
			p.errorf(item, "take it out, or give the profile another", "%s: 0x%04x is the profile's own TPID", what, v)
		case slices.ContainsFunc(p.retired, func(r RetiredTPID) bool { return r.TPID == v }):
			p.errorf(item, "", "%s: 0x%04x is there twice", what, v)
		case len(p.retired) == maxRetired:
			p.errorf(item, "take out those that no host sends any more", "%s: more than %d TPIDs", what, maxRetired)
			return
		default:
			p.retired = append(p.retired, RetiredTPID{v, wide})
			p.nodes[fmt.Sprintf("retired.%04x", v)] = item
		}
	}
	slices.SortFunc(p.retired, func(a, b RetiredTPID) int { return int(a.TPID) - int(b.TPID) })
}

// note registers a field's place, or that it has been reported.
func (p *profileReader) note(field string, n ast.Node, ok bool) {
	p.nodes[field] = n
	p.reported[field] = !ok
}

func (p *profileReader) signal(sig quantize.Signal, field string, n ast.Node, sp *quantize.SignalProfile) {
	what := "profile: " + field
	p.note(field, n, true)
	o, ok := keysOf[signalKeys]().open(p.reader, n, what)
	if !ok {
		p.reported[field+".buckets"] = true
		return
	}
	buckets := o.get("buckets")
	sp.Buckets, ok = p.buckets(buckets, what+".buckets", sig)
	p.note(field+".buckets", buckets, ok)

	if q := o.get("quantum"); q != nil {
		sp.Quantum, ok = p.value(q, what+".quantum", sig)
		p.note(field+".quantum", q, ok)
		if ok && sp.Quantum == 0 {
			p.errorf(q, "", "%s.quantum: a quantum of 0 cannot be counted in", what)
			p.reported[field+".quantum"] = true
		}
	}
	if s := o.get("initial_s"); s != nil {
		if v, ok := p.number(s, what+".initial_s", 0, quantize.NumBuckets-1); ok {
			if p.profile.InitialS == nil {
				p.profile.InitialS = make(map[quantize.Signal]uint8)
			}
			p.profile.InitialS[sig] = uint8(v)
			p.note("initial_s."+sig.String(), s, true)
		}
	}
	if l := o.get("locator"); l != nil {
		sp.Locator, p.fieldsAt[sig], ok = p.locator(l, what+".locator", p.profile.Layout.LMBits())
		p.badLM[sig] = !ok
	}
	if l := o.get("wide_locator"); l != nil {
		sp.WideLocator, _, _ = p.locator(l, what+".wide_locator", p.profile.Layout.WideLMBits())
	}
}

// value reads a value of a signal with its unit.
func (r *reader) value(n ast.Node, what string, sig quantize.Signal) (uint64, bool) {
	return parsed(r, n, what, func(text string, _ func(string) string) (uint64, string, string) {
		v, err := sig.Unit().Parse(text)
		if err != nil {
			return 0, err.Error(), ""
		}
		return v, "", ""
	})
}

// buckets reads a bucket table in any of its forms.
func (p *profileReader) buckets(n ast.Node, what string, sig quantize.Signal) (quantize.Buckets, bool) {
	if n == nil {
		return quantize.Buckets{}, false
	}
	if n.Type() != ast.SequenceType {
		name, ok := p.text(n, what)
		if !ok {
			return quantize.Buckets{}, false
		}
		b, err := quantize.Preset(sig, name)
		if err != nil {
			p.errorf(n, Suggest(name, quantize.PresetNames(sig)), "%s: there is no preset %q for %s", what, name, sig)
			return b, false
		}
		return b, true
	}
	list, ok := p.list(n, what)
	if !ok {
		return quantize.Buckets{}, false
	}
	var bounds []uint64
	var ranges []quantize.Range
	for _, item := range list {
		if item.Type() != ast.SequenceType {
			v, valid := p.value(item, what, sig)
			bounds, ok = append(bounds, v), ok && valid
			continue
		}
		pair, valid := p.list(item, what)
		if valid && len(pair) != 2 {
			p.errorf(item, "write [1Gbit/s, 5Gbit/s] for 1 Gbit/s up to, not including, 5 Gbit/s", "%s: a range has two ends, found %d", what, len(pair))
			valid = false
		}
		var r quantize.Range
		if valid {
			var lowOK, highOK bool
			r.Low, lowOK = p.value(pair[0], what, sig)
			r.High, highOK = p.value(pair[1], what, sig)
			valid = lowOK && highOK
		}
		ranges, ok = append(ranges, r), ok && valid
	}
	if len(bounds) > 0 && len(ranges) > 0 {
		p.errorf(n, "", "%s: want either bounds or ranges, found both", what)
		return quantize.Buckets{}, false
	}
	if !ok || p.full() {
		return quantize.Buckets{}, false
	}
	var b quantize.Buckets
	var err error
	if len(ranges) > 0 {
		b, err = quantize.NewBucketsFromRanges(sig, ranges)
	} else {
		b, err = quantize.NewBuckets(sig, bounds)
	}
	for _, e := range flatten(err) {
		at, reason := n, e.Error()
		if be := (*quantize.BucketError)(nil); errors.As(e, &be) {
			reason = be.Reason
			if be.Index >= 0 && be.Index < len(list) {
				at = list[be.Index]
			}
		}
		p.errorf(at, "", "%s: %s", what, reason)
	}
	return b, err == nil
}

// validate lets quantize judge the profile and gives each problem its place:
// the field's, or that of the nearest one around it which is in the file.
func (p *profileReader) validate() {
	if !p.layoutOK {
		return
	}
	for _, err := range flatten(p.profile.Validate()) {
		var problem *quantize.Problem
		if !errors.As(err, &problem) {
			p.errorf(p.nodes[""], "", "profile: %v", err)
			continue
		}
		if p.reported[problem.Field] {
			continue
		}
		p.reported[problem.Field] = true
		at := p.nodes[problem.Field]
		for up := problem.Field; at == nil; at = p.nodes[up] {
			up = up[:max(0, strings.LastIndexByte(up, '.'))]
		}
		hint := ""
		if strings.HasSuffix(problem.Field, ".quantum") {
			hint = "add quantum, what one step of the wide tag's S stands for, e.g. quantum: " + exampleQuantum(problem.Field)
		}
		for _, one := range flatten(problem.Err) {
			p.errorf(at, hint, "profile: %s: %v", problem.Field, one)
		}
	}
}

// exampleQuantum is one that fits the signal of a field signals.NAME.quantum.
func exampleQuantum(field string) string {
	sig, err := quantize.ParseSignal(strings.TrimSuffix(strings.TrimPrefix(field, "signals."), ".quantum"))
	switch {
	case err == nil && sig.Unit() == quantize.PPM:
		return "1ppm"
	case err == nil && sig.Unit() == quantize.Nanosecond:
		return "10ns"
	}
	return "1Mbit/s"
}

// flatten lists the errors that errors.Join has joined.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, flatten(e)...)
	}
	return out
}
