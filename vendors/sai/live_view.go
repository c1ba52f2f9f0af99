package sai

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/vendors"
)

const (
	asicState    = "ASIC_STATE:"
	portNamesMap = "COUNTERS_PORT_NAME_MAP"

	noSuchPort = "the switch has no such port (COUNTERS_DB " + portNamesMap + ")"
)

// view is what the switch has, by ASIC_DB, where syncd writes what SAI has carried out.
type view struct {
	switchID OID
	ports    map[string]OID             // by name
	objects  map[OID]map[string]string  // TAM and TAM_INT
	set      map[OID]map[string]*string // of ports and the switch, the attributes that csig sets; nil: never set
	bound    OIDs                       // the switch's TAM objects
}

// defaultSwitch is the switch object of a libsairedis with one context, which numbers it 0.
const defaultSwitch = OID(SwitchObject) << 48

// keys are those of the switch and of TAM objects in ASIC_DB: all that there are, or those of the record. To find
// all, Redis looks at each key, routes and all: so that is for changes, and for a switch that is not found otherwise.
func (l *Live) keys(ctx context.Context, all bool) (keys []string, err error) {
	if !all {
		id := defaultSwitch
		for i := range l.rec.Objects {
			if made := l.rec.Objects[i].ID; made.Type() == SwitchObject {
				id = made
			}
		}
		keys = append(keys, asicKey(id))
		for _, id := range slices.Sorted(maps.Values(l.rec.IDs)) {
			keys = append(keys, asicKey(id))
		}
		there, err := l.cfg.Redis.All(ctx, []string{sonicdb.ASIC, "EXISTS", keys[0]})
		if err != nil || there[0] == int64(1) {
			return keys, err
		}
		keys = nil
	}
	for _, prefix := range []string{SwitchObject.String() + ":", TAMObject.String()} { // TAM, and TAM_INT
		found, err := l.cfg.Redis.Scan(ctx, sonicdb.ASIC, asicState+prefix)
		if err != nil {
			return nil, err
		}
		keys = append(keys, found...)
	}
	return keys, nil
}

// asicKey is an object's.
func asicKey(id OID) string { return asicState + id.Type().String() + ":" + id.String() }

// look reads it: of ports those with these names and those of the record, of TAM objects those of the record, or all.
func (l *Live) look(ctx context.Context, ports []string, all bool) (*view, error) {
	v := &view{objects: map[OID]map[string]string{}, set: map[OID]map[string]*string{}, ports: map[string]OID{}}
	db := l.cfg.Redis
	answers, err := db.All(ctx, []string{sonicdb.Counters, "HGETALL", portNamesMap})
	if err != nil {
		return nil, err
	}
	names, err := redis.StringMap(answers[0], nil)
	if err != nil {
		return nil, fmt.Errorf("COUNTERS_DB %s: %w", portNamesMap, err)
	}
	for name, id := range names {
		if id, err := ParseOID(id); err == nil && id.Type() == PortObject {
			v.ports[name] = id
		}
	}
	keys, err := l.keys(ctx, all)
	if err != nil {
		return nil, err
	}
	var ids []OID
	var commands [][]string
	for _, key := range keys {
		kind, text, _ := strings.Cut(strings.TrimPrefix(key, asicState), ":")
		id, err := ParseOID(text)
		if err != nil || id.Type().String() != kind {
			continue
		}
		switch id.Type() {
		case SwitchObject:
			v.switchID = id
			commands = append(commands, []string{sonicdb.ASIC, "HMGET", key, switchTAM})
		case TAMObject, TAMIntObject:
			commands = append(commands, []string{sonicdb.ASIC, "HGETALL", key})
		default:
			continue
		}
		ids = append(ids, id)
	}
	if v.switchID == 0 {
		return nil, fmt.Errorf("ASIC_DB has no switch: orchagent has not made it yet, or on a switch of several ASICs the databases are not those of one (management: redis: databases; %s)", docs.SAI)
	}
	read := map[OID]bool{}
	for _, name := range ports {
		read[v.ports[name]] = true
	}
	for i := range l.rec.Objects {
		read[l.rec.Objects[i].ID] = true
	}
	for id := range read {
		if id.Type() == PortObject {
			ids = append(ids, id)
			commands = append(commands, []string{sonicdb.ASIC, "HMGET", asicKey(id), portStrip, portLocator})
		}
	}
	if answers, err = db.All(ctx, commands...); err != nil {
		return nil, err
	}
	for i, id := range ids {
		if t := id.Type(); t == TAMObject || t == TAMIntObject {
			fields, err := redis.StringMap(answers[i], nil)
			if err != nil {
				return nil, fmt.Errorf("ASIC_DB %s:%s: %w", t, id, err)
			}
			if len(fields) > 0 { // it is there
				v.objects[id] = fields
			}
			continue
		}
		values, err := redis.Values(answers[i], nil)
		attrs := []string{portStrip, portLocator}
		if id.Type() == SwitchObject {
			attrs = []string{switchTAM}
		}
		if err != nil || len(values) != len(attrs) {
			return nil, fmt.Errorf("ASIC_DB %s:%s: %d values: %w", id.Type(), id, len(values), err)
		}
		has := map[string]*string{}
		for k, name := range attrs {
			if text, err := redis.String(values[k], nil); err == nil {
				has[name] = &text
			}
		}
		v.set[id] = has
	}
	if text := v.set[v.switchID][switchTAM]; text != nil {
		if v.bound, err = parseOIDs(*text); err != nil {
			return nil, fmt.Errorf("ASIC_DB %s: %w", switchTAM, err)
		}
	}
	return v, nil
}

// program is what the switch has of csig's objects and of what csig set, by the record: with csig's IDs. An object that is
// not the one that csig made, as after a cold start whose numbers begin anew, is not csig's.
func (l *Live) program(v *view) *Program {
	p := &Program{Switch: Object{Type: SwitchObject, OID: v.switchID}}
	l.ids = idMap{}
	objects := slices.Clone(l.rec.Objects)
	slices.SortStableFunc(objects, func(a, b recordObject) int { return cmp.Compare(b.ID.Type(), a.ID.Type()) }) // a TAM behind what it refers to
	for i := range objects {
		made := &objects[i]
		if !made.ID.own() {
			continue
		}
		if real := l.rec.IDs[made.ID.String()]; l.is(made, real, v) {
			l.ids[made.ID] = real
		} else if w := l.rec.Pending; w != nil && w.ID == made.ID {
			for _, real := range slices.Sorted(maps.Keys(v.objects)) {
				if l.ids[made.ID] == 0 && !slices.Contains(w.Before, real) && l.ids.own(real) == real && l.is(made, real, v) {
					l.ids[made.ID] = real
				}
			}
		}
	}
	mapped := func(name, value string) Value {
		if is := attribute(name); is != nil && is.Type == typeOIDs {
			if list, err := parseOIDs(value); err == nil {
				for i := range list {
					list[i] = l.ids.own(list[i])
				}
				return list
			}
		}
		return text(value)
	}
	for i := range objects {
		made := &objects[i]
		real, there := l.ids[made.ID]
		if !there {
			continue
		}
		o := Object{Type: made.ID.Type(), OID: made.ID}
		for _, name := range slices.Sorted(maps.Keys(v.objects[real])) {
			if attribute(name) != nil {
				o.Attrs = append(o.Attrs, Attr{name, mapped(name, v.objects[real][name])})
			}
		}
		p.Own = append(p.Own, o)
	}
	for i := range l.rec.Objects {
		id := l.rec.Objects[i].ID
		has := v.set[id]
		if id.Type() != PortObject || has == nil {
			continue
		}
		o := Object{Type: PortObject, OID: id}
		for _, name := range []string{portStrip, portLocator} {
			if has[name] != nil {
				o.Attrs = append(o.Attrs, Attr{name, text(*has[name])})
			}
		}
		p.Ports = append(p.Ports, o)
	}
	if v.bound != nil {
		list := make(OIDs, len(v.bound))
		for i := range list {
			list[i] = l.ids.own(v.bound[i])
		}
		p.Switch.Attrs = []Attr{{switchTAM, list}}
	}
	return p
}

// foreign are the TAM objects that others have bound.
func (l *Live) foreign(v *view) (out []OID) {
	for _, id := range v.bound {
		if l.ids.own(id) == id {
			out = append(out, id)
		}
	}
	return out
}

// is reports whether an object of the switch is one that csig made: it has what cannot be set of that, and a TAM has
// no object but csig's.
func (l *Live) is(made *recordObject, real OID, v *view) bool {
	has := v.objects[real]
	if has == nil || real.Type() != made.ID.Type() {
		return false
	}
	for _, a := range made.Attrs {
		if is := attribute(a[0]); is != nil && is.CreateOnly && has[a[0]] != a[1] {
			return false
		}
	}
	list, err := parseOIDs(cmp.Or(has[attrInts], "0:null"))
	return err == nil && (real.Type() != TAMObject || len(list) > 0) && !slices.ContainsFunc(list, func(id OID) bool { return l.ids.own(id) == id })
}

// damage is what a switch has other than csig left it, by port; "" is the whole device.
func (l *Live) damage(v *view, names map[OID]string) map[string]string {
	out := map[string]string{}
	is := l.program(v)
	note := func(port, format string, args ...any) {
		if out[port] == "" {
			out[port] = fmt.Sprintf(format, args...)
		}
	}
	has := byOID(append(append(append([]Object(nil), is.Own...), is.Ports...), is.Switch))
	for i := range l.rec.Objects {
		made := l.rec.Objects[i].object()
		port := ""
		if made.Type == PortObject {
			port = names[made.OID]
			if port == "" {
				continue // it is no more; the setup's ports that have no object are named below
			}
		}
		o := has[made.OID]
		switch {
		case o == nil && made.Type == PortObject:
			note(port, "its object %s is not in ASIC_DB", made.OID)
			continue
		case o == nil && made.OID.own():
			note("", "the %s %s is gone", strings.TrimPrefix(made.Type.String(), "SAI_OBJECT_TYPE_"), strings.Join(describe(&made), " "))
			continue
		case o == nil:
			continue
		}
		for _, a := range made.Attrs {
			value := o.get(a.Name)
			if value == nil {
				value = attribute(a.Name).Default
			}
			if made.Type == SwitchObject { // others may have bound theirs since
				if list, ok := value.(OIDs); !ok || !slices.ContainsFunc(list, OID.own) {
					note("", "csig's TAM object is not bound on the switch")
				}
				continue
			}
			if value == nil || value.String() != a.Value.String() {
				note(port, "%s is %v, want %v", a.Name, value, a.Value)
			}
		}
	}
	return out
}

// describe names an object by what cannot be set of it.
func describe(o *Object) (out []string) {
	for _, name := range []string{tamInt + "TYPE", tamInt + "ETH_TYPE_CODE_POINT", attrSignal} {
		if v := o.get(name); v != nil {
			out = append(out, strings.TrimPrefix(strings.TrimPrefix(v.String(), "SAI_TAM_INT_TYPE_"), "SAI_CSIG_SIGNAL_TYPE_"))
		}
	}
	return out
}

// setupWith is the recorded setup with what is not as csig left it.
func (l *Live) setupWith(v *view) vendors.Setup {
	s := l.rec.Setup
	s.Ports = slices.Clone(s.Ports)
	names := map[OID]string{}
	for _, p := range s.Ports {
		if id := v.ports[p.Port]; id != 0 {
			names[id] = p.Port
		}
	}
	damaged := l.damage(v, names)
	s.Damaged = damaged[""]
	if s.Damaged == "" && l.rec.Partly {
		s.Damaged = "the last change has not come to its end"
	}
	recorded := map[OID]bool{}
	for i := range l.rec.Objects {
		recorded[l.rec.Objects[i].ID] = true
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		switch id := v.ports[p.Port]; {
		case id == 0:
			p.Damaged = noSuchPort
		case !recorded[id]:
			p.Damaged = "its object is another one, " + id.String()
		default:
			p.Damaged = damaged[p.Port]
		}
	}
	return s
}
