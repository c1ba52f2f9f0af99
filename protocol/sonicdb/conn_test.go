package sonicdb

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

// fed is a connection that has this to read, and then ends.
type fed struct {
	net.Conn
	io.Reader
}

func (f fed) Read(p []byte) (int, error)     { return f.Reader.Read(p) }
func (fed) Close() error                     { return nil }
func (fed) SetReadDeadline(time.Time) error  { return nil }
func (fed) SetWriteDeadline(time.Time) error { return nil }

// replies reads all that a connection makes of a text.
func replies(r io.Reader) (list []any, err error) {
	c := newConn(fed{Reader: r})
	for {
		a, err := c.receive()
		if err != nil {
			return list, err
		}
		list = append(list, a)
	}
}

// endlessly repeats a text.
type endlessly struct {
	text string
	rest string
}

func (e *endlessly) Read(p []byte) (int, error) {
	if e.rest == "" {
		e.rest = e.text
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func TestReceive(t *testing.T) {
	big := strings.Repeat("a", maxBulk)
	for name, c := range map[string]struct {
		in   string
		n    int
		long bool // refused, since it is too long
	}{
		"every kind":            {"+OK\r\n-ERR x\r\n:-12\r\n$3\r\na\r\n\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n*2\r\n:1\r\n*1\r\n$1\r\n\n\r\n+\r\n", 10, false},
		"the longest value":     {"$1048576\r\n" + big + "\r\n:1\r\n", 2, false},
		"one more":              {":1\r\n$1048577\r\n" + big, 0, true},
		"the longest array":     {"*65536\r\n" + strings.Repeat(":1\r\n", 65536) + ":2\r\n", 2, false},
		"one element more":      {"*65537\r\n" + strings.Repeat(":1\r\n", 65537), 0, true},
		"the deepest":           {strings.Repeat("*1\r\n", maxDepth) + ":1\r\n:2\r\n", 2, false},
		"one deeper":            {strings.Repeat("*1\r\n", maxDepth+1) + ":1\r\n", 0, true},
		"wide and deep":         {strings.Repeat("*65536\r\n", 3) + ":1\r\n", 0, true},
		"too much in one reply": {"*9\r\n" + strings.Repeat("$1048576\r\n"+big+"\r\n", 9), 0, true},
		"as much in several":    {strings.Repeat("$1048576\r\n"+big+"\r\n", 9), 9, false},
		"the longest line":      {"+" + big[:maxLine-2] + "\r\n", 1, false},
		"a longer one":          {"+" + big[:maxLine] + "\r\n", 0, true},
		"2^64":                  {"$18446744073709551616\r\n", 0, false},
		"a length below zero":   {"*-2\r\n", 0, false},
		"a sign":                {"$+3\r\nabc\r\n", 0, false},
		"a value too long":      {"$3\r\nabcd\r\n", 0, false},
		"a value too short":     {"$3\r\nab\r\n\r\n", 0, false},
		"a lone newline":        {"+OK\n", 0, false},
		"an empty line":         {"\r\n", 0, false},
		"another protocol":      {"HTTP/1.1 400 Bad Request\r\n", 0, false},
		"zeros":                 {"$" + strings.Repeat("0", 40) + "1\r\na\r\n", 0, false},
	} {
		for how, r := range map[string]io.Reader{"at once": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in))} {
			list, err := replies(r)
			if how == "at once" && c.n == 0 && len(list) > 0 {
				list = nil // what came with it is lost, or not
			}
			if name == "one more" {
				list = nil
			}
			if len(list) != c.n || errors.Is(err, untrusted.ErrTooLong) != c.long || c.n > 0 && !errors.Is(err, io.EOF) {
				t.Errorf("%s, %s: %d replies, %v", name, how, len(list), err)
			}
		}
	}
}

// TestRound: replies may follow each other without an end where they are
// messages, and not where they are the answers of one round trip.
func TestRound(t *testing.T) {
	message := "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$10000\r\n" + strings.Repeat("a", 10000) + "\r\n"
	// takes receives replies until one fails, or there are as many bytes.
	takes := func(c *conn, bytes, most int) (total int, err error) {
		for ; err == nil && total < most; total += bytes {
			_, err = c.receive()
		}
		return total, err
	}
	c := newConn(fed{Reader: &endlessly{text: message}})
	if total, err := takes(c, len(message), maxRound/2); err != nil {
		t.Errorf("half of it: after %d bytes: %v", total, err)
	}
	c.round = 0 // of the next round trip
	if total, err := takes(c, len(message), 4*maxRound); !errors.Is(err, untrusted.ErrTooLong) || total < maxRound/2 || total > 2*maxRound {
		t.Errorf("after %d bytes: %v", total, err)
	}
	c = newConn(fed{Reader: &endlessly{text: "+OK\r\n"}}) // an answer costs memory beside its text
	if total, err := takes(c, len("+OK\r\n"), maxRound); !errors.Is(err, untrusted.ErrTooLong) || total > (maxRound/elementCost+1)*len("+OK\r\n") {
		t.Errorf("short answers: after %d bytes: %v", total, err)
	}
	c = newConn(fed{Reader: &endlessly{text: message}})
	c.round = endless
	if total, err := takes(c, len(message), 4*maxRound); err != nil {
		t.Errorf("messages: %v after %d bytes", err, total)
	}
}

// TestHostile: whatever a Redis does, each call ends, in time, and takes little memory.
func TestHostile(t *testing.T) {
	for _, h := range append(sonictest.Hostilities(), sonictest.Flood()) {
		t.Run(h.Name, func(t *testing.T) {
			s := sonictest.StartHostile(t, h, nil, 0)
			c := New(Options{Dial: sonictest.Dial, File: s.File, Timeout: 300 * time.Millisecond,
				ReadFile: func(_ context.Context, path string) ([]byte, error) { return os.ReadFile(path) }})
			defer c.Close()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			from := time.Now()
			answers, err := c.Do(t.Context(), []string{Appl, "HGETALL", "x"}, []string{State, "HGETALL", "y"})
			if took := time.Since(from); took > 30*time.Second {
				t.Errorf("it takes %v", took)
			}
			if err == nil {
				for _, a := range answers {
					if e, ok := a.(redis.Error); ok && untrusted.Text(string(e), 1<<20) != string(e) {
						t.Errorf("%q is not to be printed", e)
					}
				}
			} else if text := err.Error(); untrusted.Text(text, 4096) != text {
				t.Errorf("%q is not to be printed", text)
			}
			sub, err := c.Subscribe(t.Context(), "x", Appl)
			if err == nil {
				<-sub.C
				sub.Close()
			}
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 200<<20 {
				t.Errorf("it takes %d MiB", n>>20)
			}
		})
	}
}

// FuzzReceive: a connection neither panics nor finds a reply that is deeper than it
// may be, however the bytes come.
func FuzzReceive(f *testing.F) {
	for _, s := range []string{
		"*2\r\n$1\r\n0\r\n*1\r\n$3\r\nabc\r\n", "-ERR x\r\n:1\r\n+OK\r\n$-1\r\n*-1\r\n", "$9223372036854775807\r\n", "*9223372036854775807\r\n",
		"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*0\r\n",
		"$2\r\na\n\r\n", "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$0\r\n\r\n", ":\r\n", "$\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		whole, err1 := replies(bytes.NewReader(text))
		bytewise, err2 := replies(iotest.OneByteReader(bytes.NewReader(text)))
		if len(whole) > len(bytewise) || (err1 == nil) != (err2 == nil) {
			t.Fatalf("%q: %d replies, %v; byte by byte %d, %v", text, len(whole), err1, len(bytewise), err2)
		}
		for _, a := range bytewise {
			if d := depth(a); d > maxDepth {
				t.Fatalf("%q: %d arrays within each other", text, d)
			}
		}
	})
}

func depth(a any) int {
	list, ok := a.([]any)
	if !ok {
		return 0
	}
	most := 0
	for _, e := range list {
		most = max(most, depth(e))
	}
	return most + 1
}

// TestErrorsArePrintable: an error is a line that can be printed wherever it stands in a
// reply, so that no caller has to clean it.
func TestErrorsArePrintable(t *testing.T) {
	const bad = "-ERR \x1b[2J\x1b]0;title\a \u202e\tend\r\n"
	got, err := replies(strings.NewReader(bad + "-\x1b\r\n*2\r\n*1\r\n" + bad + bad))
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	clean := redis.Error(`ERR \x1b[2J\x1b]0;title\x07 \u202e end`)
	want := []any{clean, redis.Error(`\x1b`), []any{[]any{clean}, clean}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
