package quantize

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes of the two tag formats in bytes, TPID included (draft-00 §4.1).
const (
	CompactSize = 4
	WideSize    = 8
)

// Tag is a CSIG tag of either format with its fields apart. Which values fit
// depends on the format: T 0…7, R 0…1, S 0…31 and LM 7 bits (6 in uec) in a
// compact tag; T 0…15, R 0…255, S 0…1,048,575 and LM 16 bits (15 in uec) in a
// wide one.
type Tag struct {
	TPID uint16
	Wide bool
	T    Signal
	R    uint8
	S    uint32
	LM   uint16
	D    bool // trimmed, do not update; uec only
}

// Size is the tag's length on the wire in bytes: 4, or 8 when wide.
func (t Tag) Size() int {
	if t.Wide {
		return WideSize
	}
	return CompactSize
}

// DecodeTag reads the tag that b holds, from the TPID on; b is exactly 4 bytes
// long, or 8 with wide, and any other length is an error. Every content is a
// valid tag, whatever its TPID: the caller knows which TPID it looks for.
// Implements draft-00 §4.1.1 and §4.1.2, and SAI v1.18 doc/CSIG for uec.
func DecodeTag(b []byte, l Layout, wide bool) (Tag, error) {
	t := Tag{Wide: wide}
	if len(b) != t.Size() {
		return Tag{}, fmt.Errorf("a %s tag is %d bytes long, got %d", t.format(), t.Size(), len(b))
	}
	tpid, data := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	if !wide {
		t = l.Unpack(TCI(data))
		t.TPID = tpid
		return t, nil
	}
	t.TPID, t.LM = tpid, data
	if l == UEC {
		t.LM, t.D = data>>1, data&1 == 1
	}
	rest := binary.BigEndian.Uint32(b[4:])
	t.T, t.S, t.R = Signal(rest>>28), rest>>8&MaxWideS, uint8(rest)
	return t, nil
}

// Encode returns the tag's 4 or 8 bytes. A value that does not fit its field
// is an error; nothing is cut off.
func (t Tag) Encode(l Layout) ([]byte, error) {
	return t.AppendTo(make([]byte, 0, WideSize), l)
}

// AppendTo appends the tag's 4 or 8 bytes to dst; on an error, the same as
// Encode's, it returns dst as it was.
func (t Tag) AppendTo(dst []byte, l Layout) ([]byte, error) {
	if !t.Wide {
		tci, err := l.Pack(t)
		if err != nil {
			return dst, err
		}
		dst = binary.BigEndian.AppendUint16(dst, t.TPID)
		return binary.BigEndian.AppendUint16(dst, uint16(tci)), nil
	}
	if err := t.check(l); err != nil {
		return dst, err
	}
	lm := t.LM
	if l == UEC {
		lm <<= 1
		if t.D {
			lm |= 1
		}
	}
	dst = binary.BigEndian.AppendUint16(dst, t.TPID)
	dst = binary.BigEndian.AppendUint16(dst, lm)
	return binary.BigEndian.AppendUint32(dst, uint32(t.T)<<28|t.S<<8|uint32(t.R)), nil
}

// check finds a value that does not fit its field.
func (t Tag) check(l Layout) error {
	signal, bucket, locator, of := 3, 5, l.LMBits(), l.String()
	if t.Wide {
		signal, bucket, locator, of = 4, 20, l.WideLMBits(), "a wide tag in "+of
	}
	switch {
	case t.T>>signal != 0:
		return fmt.Errorf("T=%d does not fit %d bits", t.T, signal)
	case !t.Wide && t.R > 1:
		return fmt.Errorf("R=%d does not fit 1 bit", t.R)
	case t.S>>bucket != 0:
		return fmt.Errorf("S=%d does not fit %d bits", t.S, bucket)
	case t.LM>>locator != 0:
		return fmt.Errorf("LM=%d does not fit the %d bits of %s", t.LM, locator, of)
	case t.D && l != UEC:
		return errors.New("D=1 exists only in the uec layout")
	}
	return nil
}

func (t Tag) format() string {
	if t.Wide {
		return "wide"
	}
	return "compact"
}
