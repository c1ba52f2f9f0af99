package probe

import (
	"fmt"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// snapLength is the longest frame a capture holds, in bytes.
const snapLength = 1 << 16

// Capture writes frames to a pcap file with timestamps in nanoseconds. It does
// not buffer and is not safe for concurrent use.
type Capture struct {
	w *pcapgo.Writer
}

// NewCapture writes the file's header to w.
func NewCapture(w io.Writer) (*Capture, error) {
	c := &Capture{w: pcapgo.NewWriterNanos(w)}
	if err := c.w.WriteFileHeader(snapLength, layers.LinkTypeEthernet); err != nil {
		return nil, fmt.Errorf("capture: write the header: %w", err)
	}
	return c, nil
}

// Write adds a frame, from its destination address on and without FCS.
func (c *Capture) Write(at time.Time, frame []byte) error {
	n := min(len(frame), snapLength)
	info := gopacket.CaptureInfo{Timestamp: at, CaptureLength: n, Length: len(frame)}
	if err := c.w.WritePacket(info, frame[:n]); err != nil {
		return fmt.Errorf("capture: write a frame: %w", err)
	}
	return nil
}
