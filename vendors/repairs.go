package vendors

import "strings"

// Repair is one object that an update has found other than csig left it, and has restored.
type Repair struct {
	Port   string // "" for what all ports share
	Object string // what was restored, e.g. "flows": the same word each time that it is restored again
	Text   string // what was wrong with it, for people
}

// String is what was wrong, with the port.
func (r Repair) String() string {
	if r.Port == "" {
		return r.Text
	}
	return "port " + r.Port + ": " + r.Text
}

// Repairs are those of one update.
type Repairs []Repair

// String has all of them in one line; "" for none.
func (r Repairs) String() string {
	texts := make([]string, len(r))
	for i := range r {
		texts[i] = r[i].String()
	}
	return strings.Join(texts, "; ")
}

// NoteRepair adds one to Repaired.
func (r *UpdateResult) NoteRepair(port, object, text string) {
	r.Repaired = append(r.Repaired, Repair{Port: port, Object: object, Text: text})
}

// NoteRepairs adds the changes to Repaired that restored what was changed.
func (r *UpdateResult) NoteRepairs(changes []Change) {
	for _, c := range changes {
		r.NoteRepair(c.Port, c.What, string(c.Kind)+" "+c.Detail)
	}
}

// ReadBack is what an update knows of the device beyond what it acknowledged: a device may
// acknowledge what it does not carry out.
type ReadBack uint8

// The kinds of ReadBack.
const (
	// NotReadBack: the device acknowledged this update and was not read.
	NotReadBack ReadBack = iota

	// ReadBackBefore: the device was read before this update wrote. What earlier updates left is
	// there, but for Repaired; of what this one wrote only the acknowledgement is known.
	ReadBackBefore

	// ReadBackAfter: what this update left is there, but for the ports of its error. It was read
	// after it was written, or the kernel of this machine carried it out before it answered.
	ReadBackAfter
)
