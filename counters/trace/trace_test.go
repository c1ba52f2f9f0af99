package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/untrusted"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// script is a source that says what the test has it say, and takes as long.
type script struct {
	readings []Reading
	closed   bool
}

func (s *script) Read(_ context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	r := s.readings[0]
	s.readings = s.readings[1:]
	time.Sleep(r.Took)
	return append(dst[:0], r.Samples...), r.Err
}

func (s *script) Close() error { s.closed = true; return nil }

// record is a file of readings at any times.
func record(t testing.TB, h Header, readings []Reading, cfg RecorderConfig) ([]byte, *Recorder) {
	t.Helper()
	var file bytes.Buffer
	src := &script{}
	cfg.Header = h
	rec, err := NewRecorder(src, &file, cfg)
	if err != nil {
		t.Fatal(err)
	}
	rec.flushed = start
	for i := range readings {
		if r := &readings[i]; rec.err == nil {
			rec.record(r, r.Read.Add(r.Took))
		}
	}
	if err := rec.Close(); err != nil && cfg.MaxBytes == 0 {
		t.Fatal(err)
	}
	if !src.closed {
		t.Error("the source is still open")
	}
	return file.Bytes(), rec
}

// TestRecorder passes on what its source says, and records when it was asked and how long it took, but
// not a reading that the user interrupted.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, readings := someReadings(5) // of which one fails
		readings = append(readings, Reading{Took: time.Second, Err: fmt.Errorf("device leaf1: %w", context.Canceled)})
		var file bytes.Buffer
		rec, err := NewRecorder(&script{readings: readings}, &file, RecorderConfig{Header: Header{Device: "leaf1", Ports: []string{"swp1", "swp2"}}})
		if err != nil {
			t.Fatal(err)
		}
		var want []Reading
		for _, r := range readings {
			time.Sleep(time.Minute)
			r.Read = time.Now().UTC()
			if samples, err := rec.Read(t.Context(), nil); !errors.Is(err, r.Err) || !reflect.DeepEqual(append([]counters.Sample(nil), samples...), r.Samples) {
				t.Errorf("%+v, %v", samples, err)
			}
			want = append(want, r)
		}
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := readAll(t, file.Bytes())
		if want = want[:5]; err != nil || len(got) != 5 || rec.Readings() != 5 {
			t.Fatalf("%d readings, %v", len(got), err)
		}
		for i := range want {
			if !got[i].Read.Equal(want[i].Read) || got[i].Took != want[i].Took || len(got[i].Samples) != len(want[i].Samples) || (got[i].Err == nil) != (want[i].Err == nil) {
				t.Errorf("%+v, want %+v", got[i], want[i])
			}
		}
	})
}

func readAll(t testing.TB, file []byte) ([]Reading, error) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	var out []Reading
	for {
		reading, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			if _, again := r.Next(); !errors.Is(again, err) {
				t.Errorf("%v, then %v", err, again)
			}
			return out, err
		}
		c := *reading
		c.Samples = append([]counters.Sample(nil), reading.Samples...)
		out = append(out, c)
	}
}

// whatever is read comes back as it was, and its texts fit to print.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		when := func(label string) time.Time {
			return time.Unix(0, rapid.Int64Range(1, 1<<62).Draw(rt, label)).UTC()
		}
		clean := func(s string) string { return untrusted.Text(s, maxText) }
		text := rapid.OneOf(rapid.Just(""), rapid.StringN(1, 20, 60), rapid.SampledFrom([]string{`a "quoted" <port>`, "tab\tnew\nline", "π"}))
		h := Header{Device: "leaf1", Source: "snmp", IntervalNS: 1e9, Ports: []string{"swp1", `odd "name"`}}
		var want []Reading
		for range rapid.IntRange(1, 8).Draw(rt, "readings") {
			r := Reading{Read: when("read"), Took: time.Duration(rapid.Int64Range(0, 1e10).Draw(rt, "took"))}
			if rapid.IntRange(0, 4).Draw(rt, "failed") == 0 {
				r.Err = RecordedError("device leaf1: " + text.Draw(rt, "error"))
				want = append(want, r)
				continue
			}
			for _, p := range h.Ports {
				s := counters.Sample{Port: p, At: when("at")}
				if rapid.IntRange(0, 4).Draw(rt, "port failed") == 0 {
					s.Err = RecordedError("no such instance" + text.Draw(rt, "port error"))
				} else {
					s.Octets, s.Packets = rapid.Uint64().Draw(rt, "octets"), rapid.Uint64().Draw(rt, "packets")
					s.Speed, s.Epoch = rapid.Uint64().Draw(rt, "speed"), rapid.Uint64().Draw(rt, "epoch")
					s.Cache = time.Duration(rapid.Int64Range(0, 1e11).Draw(rt, "cache"))
					s.Lag = time.Duration(rapid.Int64Range(0, 1e11).Draw(rt, "lag"))
					s.Within = time.Duration(rapid.Int64Range(0, 1e11).Draw(rt, "within"))
					s.Bits = rapid.SampledFrom([]uint8{32, 64}).Draw(rt, "bits")
					s.Overhead = rapid.Uint8().Draw(rt, "overhead")
					s.Up, s.Live = rapid.Bool().Draw(rt, "up"), rapid.Bool().Draw(rt, "live")
					s.Degraded = strings.ToValidUTF8(text.Draw(rt, "degraded"), "?")
					if rapid.Bool().Draw(rt, "device clock") {
						s.Local = when("local")
					}
				}
				r.Samples = append(r.Samples, s)
			}
			want = append(want, r)
		}
		file, rec := record(t, h, want, RecorderConfig{})
		got, err := readAll(t, file)
		if err != nil || rec.Readings() != len(want) {
			rt.Fatalf("%v, %d recorded", err, rec.Readings())
		}
		for i := range want {
			if r := &want[i]; r.Err != nil {
				r.Err = RecordedError(clean(r.Err.Error()))
			}
			for j := range want[i].Samples {
				s := &want[i].Samples[j]
				if s.Degraded = clean(s.Degraded); s.Err != nil {
					s.Err = RecordedError(clean(s.Err.Error()))
				}
			}
		}
		if !reflect.DeepEqual(got, want) {
			rt.Fatalf("\n got %+v\nwant %+v", got, want)
		}
	})
}

func someReadings(n int) (Header, []Reading) {
	h := Header{Device: "leaf1", IntervalNS: 1e9, Ports: []string{"swp1", "swp2"}}
	var out []Reading
	for i := range n {
		at := start.Add(time.Duration(i) * time.Second)
		if i == 3 {
			out = append(out, Reading{Read: at, Took: time.Second, Err: RecordedError("device leaf1: no answer")})
			continue
		}
		out = append(out, Reading{Read: at, Took: time.Millisecond, Samples: []counters.Sample{
			{Port: "swp1", Octets: uint64(i) * 60_000_000, Packets: uint64(i) * 50_000, Speed: 1e9, Up: true, At: at, Bits: 64, Overhead: 24},
			{Port: "swp2", Octets: 7, Packets: 1, Speed: 1e9, Up: i < 8, At: at, Bits: 64, Overhead: 24},
		}})
	}
	return h, out
}

func TestTraceThatWasCutOff(t *testing.T) {
	h, readings := someReadings(12)
	file, _ := record(t, h, readings, RecorderConfig{Flush: time.Second})
	if got, err := readAll(t, file); err != nil || len(got) != 12 {
		t.Fatalf("%d readings, %v", len(got), err)
	}
	best := 0
	for cut := range len(file) {
		got, err := readAll(t, file[:cut])
		if err == nil {
			t.Fatalf("cut at %d of %d bytes: no error", cut, len(file))
		}
		if len(got) > 0 && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		best = max(best, len(got))
	}
	if best < 11 {
		t.Errorf("at most %d of 12 readings survive", best)
	}
}

func TestUncompressedTraceAndItsMistakes(t *testing.T) {
	const header = `{"format":"csig.trace/v1","device":"d","ports":["p","q"]}` + "\n"
	const good = `{"read":1,"took":2,"ports":[{"at":1,"octets":5,"packets":1,"overhead":24},{"at":1,"error":"gone"}]}` + "\n"
	got, err := readAll(t, []byte(header+good))
	if err != nil || len(got) != 1 || got[0].Samples[0].Octets != 5 || !got[0].Samples[0].Up || got[0].Samples[0].Bits != 64 || got[0].Samples[1].Err == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	const evil = `\u001b[31m\nred`
	r, err := NewReader(strings.NewReader(`{"format":"csig.trace/v1","device":"` + evil + `","source":"` + evil + `","note":"` + evil + `","ports":["p","q"]}` + "\n" + `{"read":1,"error":"` + evil + `"}` + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	const fit = `\x1b[31m red`
	if reading, err := r.Next(); err != nil || reading.Err.Error() != fit || r.Header().Device != fit || r.Header().Source != fit || r.Header().Note != fit {
		t.Errorf("%+v, %+v, %v", r.Header(), reading, err)
	}
	for _, tt := range []struct{ name, file, want string }{
		{"empty", "", "empty file"},
		{"another file", "hello\n", "line 1: this is no trace"},
		{"another format", `{"format":"csig.plan/v1","ports":["p"]}` + "\n", `format "csig.plan/v1": this csig reads csig.trace/v1`},
		{"later version", `{"format":"csig.trace/v2","ports":["p"]}` + "\n", "csig.trace/v2"},
		{"no ports", `{"format":"csig.trace/v1","ports":[]}` + "\n", "0 ports"},
		{"port twice", `{"format":"csig.trace/v1","ports":["p","p"]}` + "\n", "p is listed twice"},
		{"port without a name", `{"format":"csig.trace/v1","ports":[""]}` + "\n", "port name"},
		{"port that does not print", `{"format":"csig.trace/v1","ports":["p\u001b[31m"]}` + "\n", `port name "p\x1b[31m": want what prints`},
		{"ports without end", header + `{"read":1,"ports":[` + strings.Repeat("{},", maxPorts) + "{}]}\n", "more than 65536 ports"},
		{"ports that are none", header + `{"read":1,"ports":7}` + "\n", "no list"},
		{"interval", `{"format":"csig.trace/v1","interval_ns":-1,"ports":["p"]}` + "\n", "interval"},
		{"not JSON", header + good + "x\n", "device d: line 3: invalid character"},
		{"unknown field", header + `{"read":1,"ports":[{"at":1,"bytes":5}]}` + "\n", "line 2"},
		{"two values", header + strings.TrimSpace(good) + " {}\n", "more than one value"},
		{"neither", header + `{"read":1}` + "\n", "neither ports nor an error"},
		{"too few ports", header + `{"read":1,"ports":[{"at":1}]}` + "\n", "1 ports, the header names 2"},
		{"width", header + `{"read":1,"ports":[{"at":1,"bits":16},{"at":1}]}` + "\n", "port p: a counter of 16 bits"},
		{"negative", header + `{"read":1,"ports":[{"at":1,"octets":-1},{"at":1}]}` + "\n", "line 2"},
		{"took", header + `{"read":1,"took":-1,"error":"x"}` + "\n", "took -1 ns"},
		{"cut off", header + good + good[:20], "line 3: cut off"},
		{"a line without end", header + strings.Repeat(" ", maxLine+1) + "\n", "longer than 32 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := readAll(t, []byte(tt.file)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// A port's buckets are known from its first window on.
func TestKnownFromTheFirstWindowOn(t *testing.T) {
	h, readings := someReadings(3)
	for _, r := range readings {
		for i := range r.Samples {
			r.Samples[i].Live = true
		}
	}
	file, _ := record(t, h, readings, RecorderConfig{})
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var known []bool
	if _, err := Play(r, counters.PipelineConfig{}, func(s *Step) error {
		known = append(known, s.Ports[0].Known)
		return nil
	}); err != nil || !slices.Equal(known, []bool{false, true, true}) {
		t.Errorf("%v, %v", known, err)
	}
}

func TestRecorderThatCannotGoOn(t *testing.T) {
	h, readings := someReadings(200)
	file, rec := record(t, h, readings, RecorderConfig{MaxBytes: 600, Flush: time.Nanosecond})
	if !errors.Is(rec.Err(), ErrFull) || len(file) > 600 || rec.Readings() == 0 || rec.Readings() == 200 {
		t.Errorf("%v, %d bytes, %d readings", rec.Err(), len(file), rec.Readings())
	}
	if got, err := readAll(t, file); !errors.Is(err, io.ErrUnexpectedEOF) || len(got) < rec.Readings()-1 {
		t.Errorf("%d readings, %v", len(got), err)
	}
	if _, err := NewRecorder(&script{}, io.Discard, RecorderConfig{}); err == nil {
		t.Error("no ports is fine")
	}
	if _, err := NewRecorder(&script{}, broken{}, RecorderConfig{Header: h}); err == nil {
		t.Error("a writer that fails is fine")
	}
	one := h
	one.Ports = h.Ports[:1]
	var b bytes.Buffer
	src := &script{readings: readings[:1]}
	if rec, err := NewRecorder(src, &b, RecorderConfig{Header: one}); err != nil {
		t.Fatal(err)
	} else if s, err := rec.Read(t.Context(), nil); err != nil || len(s) != 2 || rec.Err() == nil {
		t.Errorf("%v, %v, %v", s, err, rec.Err())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func FuzzReader(f *testing.F) {
	h, readings := someReadings(5)
	file, _ := record(f, h, readings, RecorderConfig{})
	f.Add(file)
	gz, _ := gzip.NewReader(bytes.NewReader(file))
	plain, _ := io.ReadAll(gz)
	f.Add(plain)
	f.Add(plain[:len(plain)-10])
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := NewReader(bytes.NewReader(file))
		if err != nil {
			return
		}
		ports := len(r.Header().Ports)
		sum, err := Play(r, counters.PipelineConfig{}, func(s *Step) error {
			if len(s.Ports) != ports {
				t.Fatalf("%d ports, want %d", len(s.Ports), ports)
			}
			return nil
		})
		if err != nil || sum.Failed > sum.Readings {
			t.Fatalf("%+v, %v", sum, err)
		}
	})
}
