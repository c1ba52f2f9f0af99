// Package cover describes sets of the 32 values of S (draft-00 §4.1.3.2) by
// ternary patterns: single patterns, lists of patterns in which the first
// match decides, and the shortest lists for "S is above s".
package cover

import "math/bits"

// Bits is the width of S, All the set of its 32 values: bit v is S=v.
const (
	Bits = 5
	All  = ^uint32(0)
)

// Cube is a pattern over the bits of S: those in Mask must equal Value, the
// others are wildcards.
type Cube struct{ Value, Mask uint8 }

// sets[c] is computed once, because every compile asks for it many times.
var sets = func() (t [1 << (2 * Bits)]uint32) {
	for mask := range uint8(1 << Bits) {
		for v := range uint8(1 << Bits) {
			t[index(Cube{v & mask, mask})] |= 1 << v
		}
	}
	return t
}()

func index(c Cube) int { return int(c.Mask)<<Bits | int(c.Value) }

// Set is the values a cube takes.
func (c Cube) Set() uint32 { return sets[index(c)] }

// Len is the number of bits a cube tests.
func (c Cube) Len() int { return bits.OnesCount8(c.Mask) }

// Mirror is the cube that takes 31-v wherever c takes v.
func (c Cube) Mirror() Cube { return Cube{c.Value ^ c.Mask, c.Mask} }

// IsPrefix reports whether a cube takes one aligned run of values.
func (c Cube) IsPrefix() bool {
	wild := ^c.Mask & (1<<Bits - 1)
	return wild&(wild+1) == 0
}

// UpTo is the set {0…m}; -1 gives the empty one.
func UpTo(m int) uint32 { return uint32(uint64(1)<<(m+1) - 1) }

// Largest is the largest aligned run within set that holds v, which set does.
func Largest(set uint32, v int) Cube {
	c := Cube{uint8(v), 1<<Bits - 1}
	for n := range Bits {
		mask := uint8(1<<Bits-1) << (n + 1) & (1<<Bits - 1)
		wider := Cube{uint8(v) & mask, mask}
		if wider.Set()&^set != 0 {
			break
		}
		c = wider
	}
	return c
}

// Rule is one element of a list in which the first match decides.
type Rule struct {
	Cube
	Rewrite bool // else leave as it is
}

// Rewritten is the set of values that a list rewrites; what no rule takes is
// left alone.
func Rewritten(list []Rule) uint32 {
	var rewritten, decided uint32
	for _, r := range list {
		if r.Rewrite {
			rewritten |= r.Set() &^ decided
		}
		decided |= r.Set()
	}
	return rewritten
}
