package counters

import (
	"fmt"
	"strconv"
)

// Secret is a password, passphrase or community. It prints, and is marshalled,
// as <secret>, or as "" where it is empty.
type Secret string

const hidden = "<secret>"

// String returns "<secret>", or "" for an empty Secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString is String, for %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// Format is String for every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// MarshalText is String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
