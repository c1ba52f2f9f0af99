package trace

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/csig-agent/csig/counters"
)

// RecorderConfig says what to record and how much.
type RecorderConfig struct {
	Header Header // Format is filled in

	// Hide are words that are left out of the texts of errors, as all IP addresses
	// are: host names, user names.
	Hide []string

	// MaxBytes ends the recording, not the reading, when the file would become
	// larger; 0 is 1 GiB.
	MaxBytes int64
	// Flush is how much of the recording is lost at most when the process is
	// killed; 0 is 5 s.
	Flush time.Duration
}

const (
	defaultMaxBytes = 1 << 30
	defaultFlush    = 5 * time.Second
)

// ErrFull ends a recording that has reached MaxBytes.
var ErrFull = errors.New("the trace has reached its largest size")

var errClosed = errors.New("the recording is closed")

// Recorder is a Source that writes down what another one reads. A recording that
// fails never makes a reading fail: see Err.
type Recorder struct {
	src counters.Source
	cfg RecorderConfig

	out     limited
	gz      *gzip.Writer
	enc     *json.Encoder // into gz, a line each
	flushed time.Time
	count   int
	err     error
}

// limited counts what is written, and refuses what is too much.
type limited struct {
	w    io.Writer
	left int64
}

func (l *limited) Write(p []byte) (int, error) {
	if int64(len(p)) > l.left {
		return 0, ErrFull
	}
	n, err := l.w.Write(p)
	l.left -= int64(n)
	return n, err
}

// NewRecorder writes the header to w and returns a Source that reads src, in
// the header's order of ports, and records to w. The caller closes w, after the
// Recorder.
func NewRecorder(src counters.Source, w io.Writer, cfg RecorderConfig) (*Recorder, error) {
	cfg.Header.Format = Format
	if err := cfg.Header.check(); err != nil {
		return nil, fmt.Errorf("recording device %s: %w", cfg.Header.Device, err)
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	if cfg.Flush <= 0 {
		cfg.Flush = defaultFlush
	}
	r := &Recorder{src: src, cfg: cfg, out: limited{w, cfg.MaxBytes}, flushed: time.Now()}
	r.gz = gzip.NewWriter(&r.out)
	r.enc = json.NewEncoder(r.gz)
	if err := errors.Join(r.enc.Encode(&cfg.Header), r.gz.Flush()); err != nil {
		return nil, fmt.Errorf("recording device %s: %w", cfg.Header.Device, err)
	}
	return r, nil
}

// Read reads the source and records what it says, errors included.
func (r *Recorder) Read(ctx context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	start := time.Now()
	dst, err := r.src.Read(ctx, dst)
	end := time.Now()
	if r.err == nil && !errors.Is(err, context.Canceled) {
		r.record(&Reading{Read: start, Took: end.Sub(start), Samples: dst, Err: err}, end)
	}
	return dst, err
}

func (r *Recorder) record(reading *Reading, now time.Time) {
	if n := len(reading.Samples); reading.Err == nil && n != len(r.cfg.Header.Ports) {
		r.err = fmt.Errorf("recording device %s: the source has %d ports, the header %d", r.cfg.Header.Device, n, len(r.cfg.Header.Ports))
		return
	}
	err := r.enc.Encode(lineOf(reading, r.cfg.Hide))
	if err == nil && now.Sub(r.flushed) >= r.cfg.Flush {
		r.flushed = now
		err = r.gz.Flush()
	}
	if err != nil {
		r.err = fmt.Errorf("recording device %s after %d readings: %w", r.cfg.Header.Device, r.count, err)
		return
	}
	r.count++
}

// Readings is how many readings have been recorded.
func (r *Recorder) Readings() int { return r.count }

// Err is why the recording ended before its time, nil while it runs.
func (r *Recorder) Err() error { return r.err }

// Close completes the file and closes the source. Its error is that of Err, of the
// last write, or of the source.
func (r *Recorder) Close() error {
	err := r.err
	if err == nil {
		if err = r.gz.Close(); err != nil {
			err = fmt.Errorf("recording device %s: %w", r.cfg.Header.Device, err)
		}
	}
	if r.err == nil {
		r.err = errClosed
	}
	return errors.Join(err, r.src.Close())
}
