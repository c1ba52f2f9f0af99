package probe

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// snapLength is the longest frame a capture holds, in bytes.
const snapLength = 1 << 16

// What a pcap file starts with (draft-ietf-opsawg-pcap §4, pcap-linktype(7)).
const (
	pcapNanoseconds = 0xa1b23c4d // the magic number of timestamps in nanoseconds
	pcapMajor       = 2
	pcapMinor       = 4
	linkEthernet    = 1
)

// Capture writes frames to a pcap file with timestamps in nanoseconds. It does
// not buffer and is not safe for concurrent use.
type Capture struct {
	w      io.Writer
	record []byte
}

// NewCapture writes the file's header to w (draft-ietf-opsawg-pcap §4).
func NewCapture(w io.Writer) (*Capture, error) {
	le := binary.LittleEndian
	h := le.AppendUint32(nil, pcapNanoseconds)
	h = le.AppendUint16(h, pcapMajor)
	h = le.AppendUint16(h, pcapMinor)
	h = le.AppendUint64(h, 0) // two fields that mean nothing any more
	h = le.AppendUint32(h, snapLength)
	h = le.AppendUint32(h, linkEthernet)
	if _, err := w.Write(h); err != nil {
		return nil, fmt.Errorf("capture: write the header: %w", err)
	}
	return &Capture{w: w}, nil
}

// Write adds a frame, from its destination address on and without FCS, as a
// packet record of draft-ietf-opsawg-pcap §5.
func (c *Capture) Write(at time.Time, frame []byte) error {
	le := binary.LittleEndian
	n := min(len(frame), snapLength)
	r := le.AppendUint32(c.record[:0], uint32(at.Unix())) // unsigned: good until 2106
	r = le.AppendUint32(r, uint32(at.Nanosecond()))
	r = le.AppendUint32(r, uint32(n))
	r = le.AppendUint32(r, uint32(len(frame)))
	c.record = append(r, frame[:n]...)
	if _, err := c.w.Write(c.record); err != nil {
		return fmt.Errorf("capture: write a frame: %w", err)
	}
	return nil
}
