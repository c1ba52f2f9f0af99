package qos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Dialect is a vendor's words.
type Dialect struct {
	All    string             // what says behind a classifier's name that all its lines have to match, e.g. "operator and"
	Policy string             // what a policy's name stands behind, e.g. "traffic policy"
	Noun   string             // what its documents call one, e.g. "QoS policy"
	Words  map[Position]Words // for the tag at each position that the vendor has

	Idle []string // lines that behaviors have without being told to, and that change no frame

	// Apply is the line of a port's view that applies a policy to what the port sends, and
	// Unapply the one that takes it off.
	Apply, Unapply func(policy string) string

	// TPID is the line that gives a TPID to the tag at a position: of a port's view, or for inner tags of the
	// system view where they are the switch's.
	TPID func(at Position, tpid uint16) string

	// Numbered is where a binding has a number of its own in its policy ("precedence"), and
	// no two can have the same.
	Numbered bool
}

// DefaultTPID is every vendor's, of either tag.
const DefaultTPID = 0x8100

// Words are the commands for one tag, each without its value.
type Words struct{ PCP, VID, Mark string }

// classLines are the lines of a classifier.
func (d *Dialect) classLines(r *Rule) []string {
	w := d.Words[r.At]
	vids := strconv.Itoa(int(r.First))
	if r.Last != r.First { // vendors want the second to be the larger
		vids += " to " + strconv.Itoa(int(r.Last))
	}
	lines := []string{fmt.Sprintf("%s %d", w.PCP, r.PCP), w.VID + " " + vids}
	slices.Sort(lines)
	return lines
}

// markLine is the line of a behavior.
func (d *Dialect) markLine(v *Value) string { return fmt.Sprintf("%s %d", d.Words[v.At].Mark, v.VID) }

// bindLine is the line of a policy that adds a binding.
func (d *Dialect) bindLine(b *Binding) string {
	line := "classifier " + b.Class + " behavior " + b.Behavior
	if d.Numbered {
		line += " precedence " + strconv.Itoa(b.Number)
	}
	return line
}

// parseBinding reads a line of a policy; ok is false where it is none that binds.
func (d *Dialect) parseBinding(line string) (b Binding, ok bool) {
	w := strings.Fields(line)
	if d.Numbered && len(w) == 6 && w[4] == "precedence" {
		n, err := strconv.Atoi(w[5])
		b.Number, ok = n, err == nil
		w = w[:4]
	} else {
		ok = len(w) == 4
	}
	if !ok || w[0] != "classifier" || w[2] != "behavior" {
		return b, false
	}
	b.Class, b.Behavior = w[1], w[3]
	return b, true
}

// Opens reports whether a line of system view enters another view.
func (d *Dialect) Opens(line string) bool {
	for _, head := range []string{"traffic classifier ", "traffic behavior ", d.Policy + " ", "interface "} {
		if strings.HasPrefix(line, head) {
			return true
		}
	}
	return false
}
