package quantize

import "fmt"

// Layout is how the 16 data bits of a compact tag are divided. Read as a
// VLAN TCI, T is the PCP, R the DEI and the rest the VID.
type Layout uint8

// The two layouts in use.
const (
	Draft00 Layout = iota // T(3) R(1) S(5) LM(7): draft-00 §4.1.1
	UEC                   // T(3) R(1) S(5) LM(6) D(1): SAI v1.18 doc/CSIG
)

// String returns "draft-00" or "uec".
func (l Layout) String() string {
	if l == UEC {
		return "uec"
	}
	return "draft-00"
}

// ParseLayout is the inverse of String.
func ParseLayout(name string) (Layout, error) {
	switch name {
	case "draft-00":
		return Draft00, nil
	case "uec":
		return UEC, nil
	}
	return 0, fmt.Errorf("unknown layout %q: want draft-00 or uec", name)
}

// LMBits is the width of the compact locator: 7, or 6 in uec.
func (l Layout) LMBits() int {
	if l == UEC {
		return 6
	}
	return 7
}

// WideLMBits is the width of the wide locator: 16, or 15 in uec.
func (l Layout) WideLMBits() int {
	if l == UEC {
		return 15
	}
	return 16
}

// LMAllOnes is the compact locator with every bit set. It is reserved: with
// S=31 it would make VID 4095, which gear drops.
func (l Layout) LMAllOnes() uint16 { return lmAllOnes(l.LMBits()) }

// LMNone is the locator a sender starts with: no device has written yet.
// All-ones minus one: 126, or 62 in uec.
func (l Layout) LMNone() uint16 { return l.LMAllOnes() - 1 }

// LMStale is the locator of a port whose agent is gone or whose counters are
// stale, so that the worst bucket, which such a port falls back to, never
// reads as a saturated link. All-ones minus two: 125, or 61 in uec.
func (l Layout) LMStale() uint16 { return l.LMAllOnes() - 2 }

// LMReserved returns why the compact locator lm cannot name a port, or "" when it
// can. The reservations are ours: the draft leaves LM to the deployment
// (§5.5.1), but a compact tag is also read as a VLAN tag.
func (l Layout) LMReserved(lm uint16) string { return lmReserved(l.LMBits(), lm) }

func lmReserved(bits int, lm uint16) string {
	ones := lmAllOnes(bits)
	switch {
	case lm > ones:
		return fmt.Sprintf("%d does not fit %d bits", lm, bits)
	case lm == 0:
		return "0 is reserved: with S=0 it would make VID 0"
	case lm == ones:
		return fmt.Sprintf("%d (all ones) is reserved: with S=31 it would make VID 4095", lm)
	case lm == ones-1:
		return fmt.Sprintf("%d is reserved for \"none\", the sender's start value", lm)
	case lm == ones-2:
		return fmt.Sprintf("%d is reserved for \"stale\"", lm)
	}
	return ""
}

func lmAllOnes(bits int) uint16 { return uint16(1<<bits - 1) }

// TCI is the 16 data bits of a compact tag: PCP(3) DEI(1) VID(12).
type TCI uint16

// Pack encodes a compact tag without its TPID; bits that do not fit their field
// are an error.
func (l Layout) Pack(t Tag) (TCI, error) {
	t.Wide = false
	if err := t.check(l); err != nil {
		return 0, err
	}
	tci := TCI(t.T)<<13 | TCI(t.R)<<12 | TCI(l.VID(uint8(t.S), t.LM))
	if t.D {
		tci |= 1
	}
	return tci, nil
}

// Unpack decodes t as a compact tag without its TPID; every TCI is valid.
func (l Layout) Unpack(t TCI) Tag {
	f := Tag{T: Signal(t >> 13), R: uint8(t >> 12 & 1), S: uint32(t >> 7 & 31)}
	if l == UEC {
		f.LM, f.D = uint16(t>>1&63), t&1 == 1
	} else {
		f.LM = uint16(t & 127)
	}
	return f
}

// VID is the 12-bit VID a device writes for (s, lm), with D=0: S and LM seen
// as a VLAN tag's lower 12 bits. Both must fit their fields.
func (l Layout) VID(s uint8, lm uint16) uint16 {
	if l == UEC {
		return uint16(s)<<7 | lm<<1
	}
	return uint16(s)<<7 | lm
}
