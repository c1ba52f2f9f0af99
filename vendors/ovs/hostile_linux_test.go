package ovs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// hostile answers an ovsdb-server's client with whatever a test gives it.
type hostile struct {
	sent atomic.Int64
}

// serve reads requests off c, and answers each with what f writes.
func (h *hostile) serve(c net.Conn, f func(w io.Writer, id int) error) {
	defer c.Close()
	dec := json.NewDecoder(c)
	for {
		var asked request
		if dec.Decode(&asked) != nil || f(counted{c, &h.sent}, asked.ID) != nil {
			return
		}
	}
}

type counted struct {
	io.Writer
	n *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n.Add(int64(n))
	return n, err
}

// forever writes a text again and again.
func forever(w io.Writer, first, text string) error {
	if _, err := io.WriteString(w, first); err != nil {
		return err
	}
	some := bytes.Repeat([]byte(text), 1+1<<16/len(text))
	for {
		if _, err := w.Write(some); err != nil {
			return err
		}
	}
}

// TestHostileDatabase has an ovsdb-server that floods, lies, is slow or ends. It
// is an error of the bridge's that comes soon, and takes little memory.
func TestHostileDatabase(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	const begin = `{"id":%d,"error":null,"result":[{"rows":[]},{"rows":`
	for _, tc := range []struct {
		name, want string
		answer     func(w io.Writer, id int) error
	}{
		{"blanks for ever", "longer than csig accepts", func(w io.Writer, _ int) error { return forever(w, "", " \n") }},
		{"one text for ever", "longer than csig accepts", func(w io.Writer, id int) error { return forever(w, fmt.Sprintf(`{"id":%d,"result":"`, id), "abc") }},
		{"rows for ever", "longer than csig accepts", func(w io.Writer, id int) error { return forever(w, fmt.Sprintf(begin+`[{}`, id), `,{}`) }},
		{"too many rows", "more than 65536 rows", func(w io.Writer, id int) error {
			_, err := fmt.Fprintf(w, begin+`[{}%s]},{"rows":[]},{"rows":[]}]}`, id, strings.Repeat(`,{}`, 5<<20))
			return err
		}},
		{"brackets", "brackets within each other", func(w io.Writer, id int) error {
			_, err := fmt.Fprintf(w, begin+`%s%s}]}`, id, strings.Repeat(`["set",[`, 4000), strings.Repeat(`]]`, 4000))
			return err
		}},
		{"more brackets", "depth", func(w io.Writer, _ int) error { return forever(w, "", "[") }},
		{"other answers for ever", "no answer", func(w io.Writer, _ int) error { return forever(w, "", `{"id":"x","result":[]}`) }},
		{"questions for ever", "no answer", func(w io.Writer, _ int) error {
			return forever(w, "", `{"method":"echo","params":["`+strings.Repeat("a", 1000)+`"],"id":"x"}`)
		}},
		{"silence", "no answer", func(io.Writer, int) error { return nil }},
		{"drops", "no answer", func(w io.Writer, _ int) error {
			for {
				if _, err := w.Write([]byte(" ")); err != nil {
					return err
				}
				<-time.After(time.Millisecond)
			}
		}},
		{"half an answer", "EOF", func(w io.Writer, _ int) error {
			_, _ = io.WriteString(w, `{"id":1,"res`)
			return io.EOF
		}},
		{"no JSON", "invalid character", func(w io.Writer, _ int) error {
			_, err := io.WriteString(w, "SSH-2.0-\x1b[31m\n")
			return err
		}},
		{"rows of another kind", "no rows", func(w io.Writer, id int) error {
			_, err := fmt.Fprintf(w, begin+`7},{"rows":[]},{"rows":[]}]}`, id)
			return err
		}},
		{"a refusal with colours", `the database refuses transact: {"error":"\u001b[31mno\u001b[0m"}`, func(w io.Writer, id int) error {
			_, err := fmt.Fprintf(w, `{"id":%d,"result":null,"error":{"error":"\u001b[31mno\u001b[0m"}}`, id)
			return err
		}},
		{"names with colours", "there is no bridge csig", func(w io.Writer, id int) error {
			_, err := fmt.Fprintf(w, begin+`[]},{"rows":[{"_uuid":["uuid","a"],"name":"\u001b[31m"}]},{"rows":[]}]}`, id)
			return err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h hostile
			d, err := Open(Config{Bridge: "csig", RunDir: s.Dir, Dial: func(ctx context.Context, to string) (net.Conn, error) {
				if path.Base(to) != "db.sock" {
					return (&net.Dialer{}).DialContext(ctx, "unix", to)
				}
				here, there := net.Pipe()
				go h.serve(there, tc.answer)
				return here, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			wait := soon
			if tc.want == "no answer" {
				wait = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), wait, errors.New("no answer in time"))
			defer cancel()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = d.Probe(ctx)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
				t.Errorf("%v, want %s", err, tc.want)
			}
			if sent := h.sent.Load(); sent > maxMessage+1<<20 {
				t.Errorf("%d bytes were read", sent)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 200<<20 {
				t.Errorf("%d bytes were allocated", took)
			}
		})
	}
}

// TestTooDeep looks at brackets, and not at those of texts.
func TestTooDeep(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth):         false,
		strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1):     true,
		strings.Repeat(`{"a":`, maxDepth+1) + "1":                             true,
		`["` + strings.Repeat("[", 2*maxDepth) + `"]`:                         false,
		`["\"` + strings.Repeat("[", 2*maxDepth) + `"]`:                       false,
		`["\\",` + strings.Repeat("[", maxDepth) + "]":                        true,
		"[" + strings.Repeat("[],", 2*maxDepth) + "[]]":                       false,
		strings.Repeat(`{"a":{}},`, maxDepth) + strings.Repeat("{", maxDepth): false,
	} {
		if tooDeep([]byte(text)) != want {
			t.Errorf("%s: %t", text, !want)
		}
	}
}
