package sai

import "slices"

// Op is one call of SAI.
type Op struct {
	Kind   OpKind
	Object Object // with what is created or set; nothing of one that is removed
}

// OpKind is what a call does.
type OpKind byte

// The kinds, as recordings have them.
const (
	CreateOp OpKind = 'c'
	SetOp    OpKind = 's' // of one attribute
	RemoveOp OpKind = 'r'
)

// Changes are the calls that lead from one program to another; nil is a switch without
// CSIG. Whenever one is made all that its object refers to is there, and no object is
// removed while another refers to it. A port strips, and has its locator, before anything
// updates tags; one that strips no more has its tags updated by then.
func Changes(from, to *Program) []Op {
	var none Program
	if from == nil {
		from = &none
	}
	if to == nil {
		to = &none
	}
	var ops, last []Op
	set := func(list *[]Op, o *Object, a Attr) {
		*list = append(*list, Op{SetOp, Object{o.Type, o.OID, []Attr{a}}})
	}
	// What is set of an object that csig has set before, and which is not in the new program,
	// goes back to its default.
	differing := func(was, is *Object, f func(*Object, Attr)) {
		for _, a := range is.Attrs {
			old := was.get(a.Name)
			if old == nil {
				old = attribute(a.Name).Default
			}
			if old == nil || old.String() != a.Value.String() {
				f(is, a)
			}
		}
		for _, a := range was.Attrs {
			if d := attribute(a.Name).Default; is.get(a.Name) == nil && d.String() != a.Value.String() {
				f(was, Attr{a.Name, d})
			}
		}
	}
	port := func(o *Object, a Attr) {
		if a.Name == portStrip && a.Value == Bool(false) {
			set(&last, o, a)
			return
		}
		set(&ops, o, a)
	}
	ports, own := byOID(from.Ports), byOID(from.Own)
	for i := range to.Ports {
		is := &to.Ports[i]
		was := ports[is.OID]
		if was == nil {
			was = &Object{}
		}
		differing(was, is, port)
	}
	gone := func(list, others []Object, f func(*Object)) {
		stays := byOID(others)
		for i := range list {
			if stays[list[i].OID] == nil {
				f(&list[i])
			}
		}
	}
	for i := range to.Own {
		is := &to.Own[i]
		if was := own[is.OID]; was != nil {
			differing(was, is, func(o *Object, a Attr) { set(&ops, o, a) })
			continue
		}
		ops = append(ops, Op{CreateOp, *is})
	}
	bind := func(o *Object, a Attr) { set(&ops, o, a) }
	switch {
	case to.Switch.OID == 0 && from.Switch.OID != 0:
		// What others have bound stays.
		bound, _ := from.Switch.get(switchTAM).(OIDs)
		others := slices.DeleteFunc(slices.Clone(bound), func(id OID) bool { return own[id] != nil })
		bind(&from.Switch, Attr{switchTAM, others})
	case to.Switch.OID != 0:
		differing(&from.Switch, &to.Switch, bind)
	}
	var removed []Op
	gone(from.Own, to.Own, func(o *Object) { removed = append(removed, Op{RemoveOp, Object{Type: o.Type, OID: o.OID}}) })
	slices.Reverse(removed) // what refers to another goes before it
	ops = append(ops, removed...)
	gone(from.Ports, to.Ports, func(o *Object) { differing(o, &Object{}, func(p *Object, a Attr) { set(&last, p, a) }) })
	return append(ops, last...)
}

// byOID finds objects by their IDs.
func byOID(list []Object) map[OID]*Object {
	out := make(map[OID]*Object, len(list))
	for i := range list {
		out[list[i].OID] = &list[i]
	}
	return out
}
