package sonic

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/protocol/sonicmq"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

// mqProxy stands in front of orchagent's ZeroMQ socket.
type mqProxy struct {
	path string
	to   string

	mu     sync.Mutex
	mangle func(answer []byte, to io.Writer) (goOn bool) // nil: answers pass
}

func newMQProxy(t *testing.T, sw *sonictest.Switch) *mqProxy {
	t.Helper()
	p := &mqProxy{path: filepath.Join(sw.Redis.Dir, "proxy"), to: sw.Endpoint()}
	ln, err := net.Listen("unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	var conns []net.Conn
	t.Cleanup(func() {
		ln.Close()
		p.mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		p.mu.Unlock()
		wait.Wait()
	})
	wait.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			conns = append(conns, c)
			p.mu.Unlock()
			wait.Go(func() {
				defer c.Close()
				o, err := net.Dial("unix", p.to)
				if err != nil {
					return
				}
				defer o.Close()
				wait.Go(func() {
					_, _ = io.Copy(o, c)
					o.Close()
				})
				p.answers(bufio.NewReader(o), c)
			})
		}
	})
	return p
}

// answers passes what orchagent sends: the handshake, and messages of a short frame and a
// long one.
func (p *mqProxy) answers(from io.Reader, to io.Writer) {
	if _, err := io.CopyN(to, from, 64+27); err != nil {
		return
	}
	for {
		var head [11]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint64(head[3:]))
		if _, err := io.ReadFull(from, body); err != nil {
			return
		}
		p.mu.Lock()
		mangle := p.mangle
		p.mu.Unlock()
		if mangle == nil {
			mangle = send
		}
		if !mangle(body, to) {
			return
		}
	}
}

// send sends an answer as it is.
func send(body []byte, to io.Writer) bool {
	b := binary.BigEndian.AppendUint64([]byte{1, 0, 2}, uint64(len(body)))
	_, err := to.Write(append(b, body...))
	return err == nil
}

func (p *mqProxy) set(mangle func(body []byte, to io.Writer) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mangle = mangle
}

// other sends another answer.
func other(change func(rows []sonicmq.Row) []sonicmq.Row) func([]byte, io.Writer) bool {
	return func(body []byte, to io.Writer) bool {
		_, _, rows, err := sonicmq.Decode(body)
		if err == nil {
			body, err = sonicmq.Encode("APPL_DB", "P4RT_TABLE", change(rows))
		}
		return err == nil && send(body, to)
	}
}

func raw(text string, goOn bool) func([]byte, io.Writer) bool {
	return func(_ []byte, to io.Writer) bool {
		_, err := io.WriteString(to, text)
		return goOn && err == nil
	}
}

// TestHostileMQ: whatever comes from orchagent's ZeroMQ socket in place of an answer, an
// update ends in time and says so; every tag leaves with its old or its new value, and with
// the new one when answers come again.
func TestHostileMQ(t *testing.T) {
	t.Parallel()
	for name, mangle := range map[string]func([]byte, io.Writer) bool{
		"no answer":   func([]byte, io.Writer) bool { return true },
		"the end":     raw("", false),
		"half of one": func(b []byte, to io.Writer) bool { send(b[:len(b)/2], to); return false },
		"half the rows": other(func(rows []sonicmq.Row) []sonicmq.Row {
			return append(rows[:len(rows)/2], sonicmq.Row{Key: "x", Fields: [][2]string{{rcSuccess, ""}}})
		}),
		"another value": other(func(rows []sonicmq.Row) []sonicmq.Row {
			for i := range rows {
				rows[i].Fields = append(rows[i].Fields, [2]string{"param/x", "0x1"})
			}
			return rows
		}),
		"no status": other(func(rows []sonicmq.Row) []sonicmq.Row { rows[0].Fields = nil; return rows }),
		"a status to print": other(func(rows []sonicmq.Row) []sonicmq.Row {
			for i := range rows {
				rows[i].Fields[0] = [2]string{"\x1b[2J" + strings.Repeat("x", 1<<10), strings.Repeat("\r\n\x00", 1<<10)}
			}
			return rows
		}),
		"another table": func(b []byte, to io.Writer) bool {
			return send(bytes.Replace(b, []byte("P4RT_TABLE"), []byte("P4RT_LABEL"), 1), to)
		},
		"no message":         func(_ []byte, to io.Writer) bool { return send([]byte("x"), to) },
		"a message too long": raw("\x01\x00\x02\x7f\xff\xff\xff\xff\xff\xff\xff", true),
		"no frame":           raw("\xff\xff\xff", true),
		"frames without end": func(_ []byte, to io.Writer) bool {
			for {
				if _, err := to.Write([]byte("\x01\x00\x01\x01x")); err != nil {
					return false
				}
			}
		},
		"messages without end": func(b []byte, to io.Writer) bool {
			for send(b[:len(b)-1], to) {
			}
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, sonictest.R202605, "Ethernet0", "Ethernet4")
			p := newMQProxy(t, l.sw)
			l.cfg.Endpoint = p.path
			l.apply(setupOf(quantize.Draft00, "Ethernet0", "Ethernet4"))
			l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}, vendors.PortUpdate{Port: "Ethernet4", Intents: intents(6, 21, 10, 11)})
			us := []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(7, 10, 21, 20)}, {Port: "Ethernet4", Intents: intents(8, 9, 21, 20)}}
			l.expect(us)
			l.cfg.Patience = 200 * time.Millisecond
			for _, after := range []int{0, 2} {
				var mu sync.Mutex
				p.set(func(b []byte, to io.Writer) bool {
					mu.Lock()
					defer mu.Unlock()
					if after--; after >= 0 {
						return send(b, to)
					}
					return mangle(b, to)
				})
				if l.session != nil {
					l.session.patience = l.cfg.Patience
				}
				start := time.Now()
				if _, err := l.Update(t.Context(), us, time.Second); err == nil {
					t.Errorf("after %d answers: no error", after)
				} else {
					for line := range strings.Lines(err.Error()) {
						printable(t, strings.TrimSuffix(line, "\n"))
					}
				}
				if took := time.Since(start); took > 30*time.Second {
					t.Errorf("it took %v", took)
				}
			}
			p.set(nil)
			l.cfg.Patience = l.patience
			if l.session != nil {
				l.session.patience = l.patience
			}
			var err error
			for range 2 { // the first may find the connection lost
				if _, err = l.Update(t.Context(), us, time.Second); err == nil {
					break
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			l.exact()
			l.clean()
		})
	}
}

// TestTwice: an answer that comes twice is not taken for the one to the next message.
func TestTwice(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202605, "Ethernet0")
	p := newMQProxy(t, l.sw)
	l.cfg.Endpoint = p.path
	l.apply(setupOf(quantize.Draft00, "Ethernet0"))
	key, fields := entryKey("Ethernet0", &l.ports[0].have[0]), entryRow(&l.ports[0].have[0])
	p.set(func(b []byte, to io.Writer) bool { send(b, to); return send(b, to) })
	c := &chain{ops: []rowOp{{key: key, to: fields, was: fields}}}
	if err := l.run(t.Context(), []*chain{c}); err != nil || c.err != nil {
		t.Fatal(err, c.err)
	}
	sonictest.Await(t, "an answer to nothing is left", func() bool { return l.session.lost() })
	l.loose = true
	p.set(nil)
	l.hangUp()
	l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)})
	if l.session.lost() {
		t.Error("the session is lost")
	}
}
