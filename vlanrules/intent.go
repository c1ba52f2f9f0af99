package vlanrules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/quantize"
)

// Action is what an egress port does with CSIG-tagged frames.
type Action uint8

// The actions (draft-00 §6.1, §6.2).
const (
	Passthrough Action = iota // forward the tag untouched
	Update                    // compare-and-replace
	Strip                     // remove the tag
)

var actionNames = [...]string{"passthrough", "update", "strip"}

// String returns "passthrough", "update" or "strip", and "Action(9)" for what
// is none of them.
func (a Action) String() string { return nameOf("Action", a, actionNames[:]) }

// nameOf is names[v], or v with the name of its type where it has none.
func nameOf[T ~uint8 | ~uint16](kind string, v T, names []string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, v)
}

// valueOf is the inverse of nameOf.
func valueOf[T ~uint8](kind string, v *T, text []byte, names []string) error {
	i := slices.Index(names, string(text))
	if i < 0 {
		return fmt.Errorf("%q is no %s that this csig knows: want %s", text, kind, strings.Join(names, ", "))
	}
	*v = T(i)
	return nil
}

// Intent is the wanted behaviour of one egress port for one signal. With
// Update, tags that ask for Signal and carry an S that the local bucket is worse
// than (a larger one for a min signal, a smaller one for a max signal) get the
// local bucket and LM (draft-00 §5.4).
// Intents are values: two equal intents ask for the same behaviour.
type Intent struct {
	Signal quantize.Signal
	Action Action
	S      uint8  // local bucket, 0…31; only with Update
	LM     uint16 // locator to write; only with Update
}

// Level is how well a device can carry out an intent.
type Level uint8

// The levels of a verdict. A driver never approximates silently.
const (
	Full Level = iota
	Degraded
	Refused
)

var levelNames = [...]string{"full", "degraded", "refused"}

// String returns "full", "degraded" or "refused".
func (l Level) String() string { return nameOf("Level", l, levelNames[:]) }

// MarshalText is String, for JSON.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (l *Level) UnmarshalText(text []byte) error { return valueOf("level", l, text, levelNames[:]) }

// Verdict is a level with the reason a network engineer understands; Reason
// is "" exactly when the level is Full.
type Verdict struct {
	Level  Level  `json:"level"`
	Reason string `json:"reason"`
}
