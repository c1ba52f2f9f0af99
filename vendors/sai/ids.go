package sai

import "fmt"

// idMap has the IDs that the switch gave csig's objects, by those that csig has for them in programs.
type idMap map[OID]OID

// real is a call with the switch's IDs in the place of csig's. An object that is created keeps csig's.
func (m idMap) real(op Op) (Op, error) {
	id := func(id OID) (OID, error) {
		if !id.own() {
			return id, nil
		}
		if is, known := m[id]; known {
			return is, nil
		}
		return 0, fmt.Errorf("%w: %s is not on the switch", errNotSent, id)
	}
	var err error
	if op.Kind != CreateOp {
		if op.Object.OID, err = id(op.Object.OID); err != nil {
			return op, err
		}
	}
	attrs := make([]Attr, len(op.Object.Attrs))
	for i, a := range op.Object.Attrs {
		if list, is := a.Value.(OIDs); is {
			real := make(OIDs, len(list))
			for k := range list {
				if real[k], err = id(list[k]); err != nil {
					return op, err
				}
			}
			a.Value = real
		}
		attrs[i] = a
	}
	op.Object.Attrs = attrs
	return op, nil
}

// own is csig's ID of an object of the switch, which is the switch's where it is none of csig's.
func (m idMap) own(real OID) OID {
	for id, is := range m {
		if is == real {
			return id
		}
	}
	return real
}
