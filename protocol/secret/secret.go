// Package secret has the secrets of configurations, which nothing prints.
package secret

import (
	"fmt"
	"strconv"
)

// Text is a password, passphrase or community. It prints, and is marshalled,
// as <secret>, or as "" where it is empty.
type Text string

const hidden = "<secret>"

// String returns "<secret>", or "" for an empty Text.
func (s Text) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString is String, for %#v.
func (s Text) GoString() string { return strconv.Quote(s.String()) }

// Format is String for every verb.
func (s Text) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// MarshalText is String.
func (s Text) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
