package quantize

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// Hash identifies what all devices of a domain must agree on (draft-00 §5.3.3,
// §5.5.1): the SHA-256 of Canonical, as 64 lower-case hex digits. Two profiles
// with the same hash write and read every tag alike.
func (p *Profile) Hash() string {
	sum := sha256.Sum256([]byte(p.Canonical()))
	return hex.EncodeToString(sum[:])
}

// SameValues reports whether S and locators mean the same in two profiles, whatever tags they are in
// and over whatever interval; no profile says nothing.
func (p *Profile) SameValues(other *Profile) bool {
	if p == nil || other == nil {
		return false
	}
	q := *p
	q.Name, q.TPID, q.WideTPID, q.Interval = other.Name, other.TPID, other.WideTPID, other.Interval
	return q.Hash() == other.Hash()
}

// Canonical is the text that Hash hashes, so that two profiles with different
// hashes can be compared line by line. It holds the TPIDs, the layout and, for
// each signal, bucket bounds, quantum and locator formats, and nothing else:
// not the names of the profile and of presets, nor Interval and InitialS.
//
// The form, version 1, is ASCII, each line ended by a single line feed, numbers
// in decimal without leading zeros, names as Go string literals (a valid name
// is simply in double quotes):
//
//	csig-profile 1
//	tpid 39168
//	wide-tpid 0
//	layout draft-00
//	signal 0                          signals in wire order
//	bounds 0 90000 112000 …           33 numbers, in the signal's unit
//	quantum 0
//	lm "stage" 2 "tor"=0 "spine"=1    fields in order: name, bits, value names by value
//	wide-lm "port" 12                 likewise for the wide tag
//
// A plain number as locator format has no lm line. A change of this form
// changes the number in the first line.
func (p *Profile) Canonical() string {
	var b strings.Builder
	number := func(v uint64) { b.WriteString(strconv.FormatUint(v, 10)) }
	line := func(key string, v uint64) {
		b.WriteString(key)
		number(v)
		b.WriteByte('\n')
	}
	b.WriteString("csig-profile 1\n")
	line("tpid ", uint64(p.TPID))
	line("wide-tpid ", uint64(p.WideTPID))
	b.WriteString("layout " + p.Layout.String() + "\n")
	for _, sig := range sortedKeys(p.Signals) {
		sp := p.Signals[sig]
		line("signal ", uint64(sig))
		b.WriteString("bounds")
		for _, bound := range sp.Buckets.bounds {
			b.WriteByte(' ')
			number(bound)
		}
		b.WriteByte('\n')
		line("quantum ", sp.Quantum)
		sp.Locator.canonical(&b, "lm")
		sp.WideLocator.canonical(&b, "wide-lm")
	}
	return b.String()
}

func (l Locator) canonical(b *strings.Builder, key string) {
	for _, f := range l.Fields {
		b.WriteString(key + " " + strconv.QuoteToASCII(f.Name) + " " + strconv.Itoa(f.Bits))
		for _, name := range f.sortedNames() {
			b.WriteString(" " + strconv.QuoteToASCII(name) + "=" + strconv.Itoa(int(f.Names[name])))
		}
		b.WriteByte('\n')
	}
}
