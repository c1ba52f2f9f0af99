package quantize

import (
	"errors"
	"fmt"
)

// Insert returns a copy of an untagged frame with t behind its VLAN tags, as a
// sender host makes it (draft-00 §4.4.1). The tag's TPID must be the one of
// tpids for its format. A frame that already has a CSIG tag, in either format,
// is an error, and so is what FindTag and Tag.Encode refuse.
func Insert(frame []byte, tpids TPIDs, l Layout, t Tag) ([]byte, error) {
	want := tpids.Compact
	if t.Wide {
		want = tpids.Wide
	}
	if t.TPID != want || want == 0 {
		return nil, fmt.Errorf("insert a %s tag: its TPID is 0x%04x, the domain's is 0x%04x", t.format(), t.TPID, want)
	}
	p, err := FindTag(frame, tpids)
	switch {
	case err == nil:
		return nil, fmt.Errorf("insert a CSIG tag: the frame already has one at offset %d", p.Offset)
	case !errors.Is(err, ErrNoTag):
		return nil, fmt.Errorf("insert a CSIG tag: %w", err)
	}
	out := make([]byte, 0, len(frame)+t.Size())
	out = append(out, frame[:p.EtherType]...)
	if out, err = t.AppendTo(out, l); err != nil {
		return nil, fmt.Errorf("insert a CSIG tag: %w", err)
	}
	return append(out, frame[p.EtherType:]...), nil
}

// Remove returns a copy of a frame without its CSIG tag, as a port that strips
// sends it (draft-00 §6.1). Errors are FindTag's.
func Remove(frame []byte, tpids TPIDs) ([]byte, error) {
	p, err := FindTag(frame, tpids)
	if err != nil {
		return nil, fmt.Errorf("remove the CSIG tag: %w", err)
	}
	out := make([]byte, 0, len(frame)-(p.EtherType-p.Offset))
	out = append(out, frame[:p.Offset]...)
	return append(out, frame[p.EtherType:]...), nil
}
