package qualify

import (
	"io"
	"time"

	"github.com/csig-agent/csig/probe"
)

// captured is how many frames a capture file holds at most.
const captured = 100_000

// recorder writes frames to a capture file. The nil one writes none.
type recorder struct {
	*probe.Capture
	frames int
	err    error
}

func newRecorder(w io.Writer) (*recorder, error) {
	c, err := probe.NewCapture(w)
	return &recorder{Capture: c}, err
}

func (r *recorder) write(at time.Time, frame []byte) {
	if r == nil || r.err != nil || r.frames == captured {
		return
	}
	r.frames++
	r.err = r.Write(at, frame)
}
