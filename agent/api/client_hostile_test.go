package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/protocol/memnet"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// daemonThat is a daemon in memory that answers so.
func daemonThat(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	ln := memnet.Listen("agent.sock")
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // from then on the server notices that the client goes away
		answer(w, r)
	})}
	go func() { _ = server.Serve(ln) }()
	c := NewDialClient("agent.sock", ln.Dial)
	c.unix = true
	t.Cleanup(func() { c.Close(); server.Close() })
	return c
}

// endless writes text again and again, after a beginning.
func endless(w io.Writer, begin, text string) {
	chunk := bytes.Repeat([]byte(text), 1<<16/len(text))
	_, err := io.WriteString(w, begin)
	for err == nil {
		_, err = w.Write(chunk)
	}
}

// A hostileAnswer is what a daemon answers, and what csig says about it ("": nothing).
type hostileAnswer struct {
	answer http.HandlerFunc
	want   string
}

// TestHostileDaemon: whatever a daemon answers, each request ends soon, in little
// memory, with an error that is one line of printable text.
func TestHostileDaemon(t *testing.T) {
	hostileDaemon(t, map[string]hostileAnswer{
		"headers without end": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, "headers exceeded"},
		"redirected":          {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/v1/other", http.StatusFound) }, "302"},
		"nothing":             {func(http.ResponseWriter, *http.Request) {}, "closed the connection"},
		"silence":             {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "no answer in time"},
		"half, and silence": {func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, `{"fo`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, "no answer in time"},
		"another format": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"format":"\u001b[2J"}`) }, `\x1b[2J`},
		"an error with escapes": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, `{"format":"csig.error/v1","error":"a\u001b[2J\nb"}`)
		}, `a\x1b[2J b`},
		"a reason with escapes": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["X"] = nil
			hijack(w, "HTTP/1.1 500 \x1b[2J\r\n\r\n")
		}, `\x1b[2J`},
		"no HTTP": {func(w http.ResponseWriter, _ *http.Request) { hijack(w, "\x1b[2J\n") }, `\x1b[2J`},
		"a number for a text": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"format":1e400}`)
		}, "number"},
	})
}

// TestLongEndlessDaemon: as TestHostileDaemon, where the answer ends at csig's limit for answers.
func TestLongEndlessDaemon(t *testing.T) {
	hostileDaemon(t, map[string]hostileAnswer{
		"a string without end":  {func(w http.ResponseWriter, _ *http.Request) { endless(w, `{"format":"`, "x") }, "longer than csig accepts"},
		"blanks without end":    {func(w http.ResponseWriter, _ *http.Request) { endless(w, "", " ") }, "longer than csig accepts"},
		"lists without end":     {func(w http.ResponseWriter, _ *http.Request) { endless(w, "", "[") }, "agent at"},
		"an object without end": {func(w http.ResponseWriter, _ *http.Request) { endless(w, "{", `"a":"b",`) }, "longer than csig accepts"},
		"an error without end": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			endless(w, `{"error":"`, "x")
		}, "500"},
	})
}

func hostileDaemon(t *testing.T, rows map[string]hostileAnswer) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := daemonThat(t, row.answer)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for what, ask := range map[string]func(ctx context.Context) error{
					"status": func(ctx context.Context) error { _, err := c.Status(ctx); return err },
					"watch":  func(ctx context.Context) error { return c.Watch(ctx, func(*Status) error { return nil }) },
					"facts":  func(ctx context.Context) error { _, err := c.Probe(ctx); return err },
					"setup":  func(ctx context.Context) error { _, err := c.Observe(ctx); return err },
					"config": func(ctx context.Context) error { _, err := c.Config(ctx, "x"); return err },
					"armed":  func(ctx context.Context) error { return c.PendingRevert(ctx) },
					"arm":    func(ctx context.Context) error { _, err := c.StartRevert(ctx, time.Second); return err },
					"forget": func(ctx context.Context) error { return c.Remove(ctx) },
					"links": func(ctx context.Context) error {
						l, err := c.ListenLink(ctx, "p1")
						if err != nil {
							return err
						}
						defer l.Close()
						_, err = l.Next(ctx)
						return err
					},
				} {
					silent := name == "silence" || name == "half, and silence"
					if strings.HasSuffix(name, "without end") && name != "a string without end" && what != "status" && what != "watch" && what != "links" {
						continue // they read as these do
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					err := ask(ctx)
					cancel()
					format := what != "forget" && what != "links" || name != "another format" && name != "a number for a text"
					switch {
					case what == "forget" && !format:
						if err == nil {
							t.Errorf("%s: no error", what)
						}
					case err == nil && format:
						t.Errorf("%s: no error", what)
					case err == nil, (what == "links" || what == "watch") && silent: // it ended
					case !strings.Contains(strings.ReplaceAll(err.Error(), c.name, ""), row.want) && what != "links" || err.Error() != untrusted.Text(err.Error(), 1<<20):
						t.Errorf("%s: %.300q, want %q", what, err, row.want)
					}
				}
				runtime.ReadMemStats(&after)
				if got := after.TotalAlloc - before.TotalAlloc; got > 9*8*maxAnswer {
					t.Errorf("%d MiB allocated", got>>20)
				}
			})
		})
	}
}

func hijack(w http.ResponseWriter, text string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, text)
	conn.Close()
}

// Only a process of this machine can be continued from here.
func TestNoAnswerSaysWhatToDo(t *testing.T) {
	for c, here := range map[*Client]bool{NewClient("s"): true, NewDialClient("leaf1:7443", nil): false} {
		if err := c.noAnswer(); !errors.Is(err, ErrNoAnswer) || strings.Contains(err.Error(), "kill -CONT") != here || strings.Contains(err.Error(), "cannot be reached") == here {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestPrintable: the text of an answer is safe to print, and a fleet file is as it
// was sent.
func TestPrintable(t *testing.T) {
	c := daemonThat(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case StatusPath:
			fmt.Fprint(w, `{"format":"csig.status/v1","device":"a\u001b[2J","ports":[{"port":"p\n1","signals":[{"locator":"\u202e"}]}],"verdicts":[{"reason":"x\u0007"}]}`)
		case FactsPath:
			fmt.Fprint(w, `{"format":"csig.facts/v1","rules":{"match":"range","transaction":"table"},"update":{"level":"refused","reason":"\u001b]8;;http://x\u0007"},"wide":{"level":"full"},"strip":{"level":"full"},"lease":{"level":"full"},"passthrough":{"level":"full"},"notes":["a\nb"]}`)
		case MTUPath:
			fmt.Fprint(w, `{"format":"csig.mtu/v1","ports":[{"port":"p\u001b","mtu":1500}]}`)
		case ConfigPath:
			fmt.Fprint(w, `{"format":"csig.config/v1","config_hash":"x","config":"a: 1\nb: 2\n"}`)
		}
	})
	s, err := c.Status(t.Context())
	if err != nil || s.Device != `a\x1b[2J` || s.Ports[0].Port != "p 1" || s.Ports[0].Signals[0].Locator != `\u202e` || s.Verdicts[0].Reason != `x\x07` {
		t.Errorf("status %+v, %v", s, err)
	}
	f, err := c.Probe(t.Context())
	if err != nil || f.Update.Reason != `\x1b]8;;http://x\x07` || f.Notes[0] != "a b" {
		t.Errorf("facts %+v, %v", f, err)
	}
	if m, err := c.MTUs(t.Context()); err != nil || m[`p\x1b`] != 1500 {
		t.Errorf("MTUs %v, %v", m, err)
	}
	if text, err := c.Config(t.Context(), "x"); err != nil || string(text) != "a: 1\nb: 2\n" {
		t.Errorf("configuration %q, %v", text, err)
	}
}

// TestDeadlineHeader: a daemon of this machine learns how long its client waits.
func TestDeadlineHeader(t *testing.T) {
	got := make(chan string, 1)
	c := daemonThat(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get(DeadlineHeader)
		fmt.Fprint(w, "{}")
	})
	for _, row := range []struct {
		unix  bool
		limit time.Duration
	}{{true, 20 * time.Second}, {true, 0}, {false, 20 * time.Second}} {
		c.unix = row.unix
		ctx, want := t.Context(), time.Now().Add(maxRequest)
		if row.limit != 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, row.limit)
			defer cancel()
			want, _ = ctx.Deadline()
		}
		if err := c.Remove(ctx); err != nil {
			t.Fatal(err)
		}
		header := <-got
		at, err := time.Parse(time.RFC3339Nano, header)
		if row.unix && (err != nil || at.Sub(want).Abs() > 10*time.Second || !strings.HasSuffix(header, "Z")) || !row.unix && header != "" {
			t.Errorf("%+v: the header has %q, want about %v", row, header, want)
		}
	}
}

// TestWatchLong: a watch may go on for more than one answer's size.
func TestWatchLong(t *testing.T) {
	status := []byte(`{"format":"csig.status/v1","device":"` + strings.Repeat("x", maxAnswer/3) + `"}` + "\n")
	c := daemonThat(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 10 {
			_, _ = w.Write(status)
		}
	})
	n := 0
	err := c.Watch(t.Context(), func(*Status) error { n++; return nil })
	if n != 10 || !errors.Is(err, io.EOF) {
		t.Errorf("%d statuses, %v", n, err)
	}
}
