package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/csig-agent/csig/findings"
)

// WhyPath of the agent's socket: GET with ?port= is one Why.
const WhyPath = "/v1/why"

// WhyFormat names the shape of Why.
const WhyFormat = "csig.why/v1"

// Why is what has made a port's signals what they were, as far back as the agent remembers.
type Why struct {
	Format  string    `json:"format"`
	Device  string    `json:"device"`
	Port    string    `json:"port"`
	Action  string    `json:"action"`
	Time    time.Time `json:"time"`
	Hold    int       `json:"damping_hold"` // readings in a row that a better bucket takes
	OnStale string    `json:"on_stale"`
	Shadow  bool      `json:"shadow"`  // nothing is programmed: what is written would have been
	Records []Record  `json:"records"` // oldest first
}

// Record is cycles in a row of which a port came out the same: its state, its S and LM, and
// whether the device took them. First made them so.
type Record struct {
	First  Moment `json:"first"`
	Last   Moment `json:"last"`
	Cycles uint64 `json:"cycles"`
	MinABW uint64 `json:"min_abw_bps"` // of these cycles
	MaxABW uint64 `json:"max_abw_bps"`

	State    string        `json:"state"`
	Code     findings.Code `json:"code,omitempty"`
	Reason   string        `json:"reason,omitempty"`   // for the state; of the last cycle
	Failure  string        `json:"failure,omitempty"`  // why these cycles did not complete; of the last one
	Refused  string        `json:"refused,omitempty"`  // why the device did not take the values
	Held     bool          `json:"held"`               // the value waited for its turn (paced updates)
	Written  bool          `json:"written"`            // the device took the values
	Repaired string        `json:"repaired,omitempty"` // what of the rules had been changed, when the first cycle wrote them
	Signals  []Signal      `json:"signals"`            // to be written, and written where Written
}

// Moment is one cycle of a port. The numbers of a window are those of the newest one that was
// complete then.
type Moment struct {
	At          time.Time `json:"at"`      // when it ended: the device had acknowledged what it wrote
	ReadAt      time.Time `json:"read_at"` // of the counters, by the source's clock
	Octets      uint64    `json:"octets"`  // the counter
	WindowStart time.Time `json:"window_start,omitzero"`
	WindowEnd   time.Time `json:"window_end,omitzero"`
	WindowErrNS int64     `json:"window_error_ns"`
	Bits        uint64    `json:"bits"` // on the wire in the window
	Estimate    string    `json:"estimate"`
	CapacityBPS uint64    `json:"capacity_bps"`
	LoadBPS     uint64    `json:"load_bps"`
	ABWBPS      uint64    `json:"abw_bps"`
	ABWCPPM     uint32    `json:"abwc_ppm"`
	ReadNS      int64     `json:"read_ns"`
	ProgramNS   int64     `json:"program_ns"`
	Operations  uint32    `json:"operations"` // of the whole device
	LeaseEnds   time.Time `json:"lease_ends,omitzero"`
	Buckets     []int     `json:"buckets"` // of the values themselves, before damping, beside Record.Signals
}

// RecordFormat names the shape of a KeptRecord.
const RecordFormat = "csig.record/v1"

// KeptRecord is a line of a file that an agent keeps records in.
type KeptRecord struct {
	Format  string `json:"format"`
	Device  string `json:"device"`
	Port    string `json:"port"`
	Action  string `json:"action"`
	Hold    int    `json:"damping_hold"`
	OnStale string `json:"on_stale"`
	Record  Record `json:"record"`
}

// OlderRecords is what the name of such a file has behind it when it is full and another has
// begun.
const OlderRecords = ".1"

// maxKept bounds a line of such a file, and mostKept how many records are read of it.
const (
	maxKept  = 1 << 20
	mostKept = 1 << 16
)

// KeptWhy is what a file of records, and the older one, say of a port: the newest ones.
func KeptWhy(path, port string) (w *Why, err error) {
	for range 3 { // where the file becomes the older one meanwhile: 16 MiB are not written while 16 MiB are read
		before, _ := os.Stat(path)
		w, err = keptWhy(path, port)
		if after, _ := os.Stat(path); os.SameFile(before, after) || before == nil && after == nil {
			break
		}
	}
	return w, err
}

func keptWhy(path, port string) (*Why, error) {
	w := &Why{Format: WhyFormat, Port: port, Time: time.Now(), Records: []Record{}}
	older := false
	for _, name := range []string{path + OlderRecords, path} {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) && (name != path || older) { // a full one is the older one before another begins
			continue
		}
		if err != nil {
			return nil, err
		}
		older = name != path
		err = w.read(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return w, nil
}

// read adds the records of one file. Lines that are not whole are left out: a process was killed
// while it wrote them, the disk was full, or one is being written. A file that has none but such
// lines is another's.
func (w *Why) read(f io.Reader) error {
	lines := bufio.NewReaderSize(f, maxKept)
	whole, broken := false, false
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case err == nil:
		case errors.Is(err, bufio.ErrBufferFull): // as the disk of a machine without power may leave it
			broken = true
			continue
		case errors.Is(err, io.EOF):
			if !whole && (broken || len(line) > 0) {
				return fmt.Errorf("no line of it is a %s", RecordFormat)
			}
			return nil
		default:
			return err
		}
		r := new(KeptRecord)
		if err := json.Unmarshal(line, r); err != nil || r.Format != RecordFormat {
			broken = true
			continue
		}
		if whole = true; r.Port != w.Port {
			continue
		}
		printable(reflect.ValueOf(r))
		w.Device, w.Action, w.Hold, w.OnStale = r.Device, r.Action, r.Hold, r.OnStale
		if w.Records = append(w.Records, r.Record); len(w.Records) > mostKept {
			w.Records = slices.Delete(w.Records, 0, mostKept/2)
		}
	}
}

// Explain lets the server answer WhyPath. It is called before Serve.
func (s *Server) Explain(why func(port string) (*Why, error)) {
	s.mux.HandleFunc("GET "+WhyPath, answer(func(r *http.Request) (any, error) {
		return why(argument(r, "port"))
	}))
}

// Why asks what has made a port's signals what they were.
func (c *Client) Why(ctx context.Context, port string) (*Why, error) {
	w := new(Why)
	if err := c.object(ctx, http.MethodGet, c.at(WhyPath, "port", port), nil, w, WhyFormat, &w.Format); err != nil {
		return nil, err
	}
	return w, nil
}
