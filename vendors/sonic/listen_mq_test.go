package sonic

import (
	"bytes"
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vlanrules"
)

// refusedOverMQ wants Apply to refuse the switch and to change nothing, and Probe to say why.
func (l *lab) refusedOverMQ(words string) {
	l.t.Helper()
	var perm *vendors.PermanentError
	if err := l.Apply(l.t.Context(), setupOf(quantize.Draft00, "Ethernet0")); !errors.As(err, &perm) || !strings.Contains(err.Error(), words) {
		l.t.Errorf("Apply: %v, want %q", err, words)
	}
	f, err := l.Probe(l.t.Context())
	if err != nil || f.Update.Level != vlanrules.Refused || !strings.Contains(f.Update.Reason, words) {
		l.t.Errorf("Probe: %+v, %v", f.Update, err)
	}
	l.clean()
	if got := l.sw.Redis.Hash(4, "PORT|Ethernet0")["tpid"]; got != "" || len(l.sw.Redis.Keys(6, "*CSIG*")) > 0 || l.sw.Ops() != 0 {
		l.t.Errorf("TPID %q, notes %v, %d operations", got, l.sw.Redis.Keys(6, "*CSIG*"), l.sw.Ops())
	}
}

// changedConn is a connection on which another text comes than was sent.
type changedConn struct {
	net.Conn
	from, to string
}

func (c changedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	copy(b[:n], bytes.ReplaceAll(b[:n], []byte(c.from), []byte(c.to)))
	return n, err
}

// TestFindMQ: where orchagent takes no rows from Redis csig finds out what it has, and
// guesses nothing.
func TestFindMQ(t *testing.T) {
	t.Parallel()
	fresh := func(t *testing.T) *lab {
		t.Parallel()
		l := newLab(t, sonictest.R202605, "Ethernet0")
		l.cfg.Patience = 200 * time.Millisecond
		return l
	}
	t.Run("no socket", func(t *testing.T) {
		l := fresh(t)
		l.cfg.Endpoint = filepath.Join(l.sw.Redis.Dir, "none")
		l.refusedOverMQ("the image has no P4Orch")
	})
	t.Run("a socket that was left", func(t *testing.T) {
		l := fresh(t)
		l.cfg.Endpoint = filepath.Join(l.sw.Redis.Dir, "left")
		ln, err := net.Listen("unix", l.cfg.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		ln.(*net.UnixListener).SetUnlinkOnClose(false)
		ln.Close()
		l.refusedOverMQ("connection refused")
	})
	for name, bits := range map[string]string{"32 bits": "32", "no bits": "  "} {
		t.Run(name, func(t *testing.T) {
			l := fresh(t)
			db := sonicdb.New(sonicdb.Options{File: l.sw.Redis.File, Socket: l.sw.Redis.Socket, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := sonictest.Dial(ctx, network, address)
				return changedConn{c, "arch_bits:64", "arch_bits:" + bits}, err
			}})
			_ = l.db.Close()
			l.db = db
			l.refusedOverMQ("arch_bits")
		})
	}
	t.Run("p4rt_app", func(t *testing.T) {
		l := fresh(t)
		u := vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}
		c, err := redis.Dial("unix", l.sw.Redis.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ps := redis.PubSubConn{Conn: c}
		subscribe := func() {
			if err := ps.Subscribe(appResponses); err != nil {
				t.Fatal(err)
			}
			ps.Receive()
		}
		subscribe()
		l.refusedOverMQ("p4rt_app")
		if err := ps.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
		ps.Receive()
		l.cfg.Patience = time.Minute
		l.apply(setupOf(quantize.Draft00, "Ethernet0"))
		l.update(u)
		subscribe() // and in the middle
		var perm *vendors.PermanentError
		if res, err := l.Update(t.Context(), []vendors.PortUpdate{u}, time.Second); !errors.As(err, &perm) || res.Leased {
			t.Errorf("%+v, %v", res, err)
		}
	})
	t.Run("two of csig", func(t *testing.T) {
		l := fresh(t)
		l.cfg.Patience = time.Minute
		l.apply(setupOf(quantize.Draft00, "Ethernet0"))
		other := Open(Config{Redis: clientOf(l.sw.Redis), Endpoint: l.sw.Endpoint()})
		defer other.Close()
		if err := other.Apply(t.Context(), setupOf(quantize.Draft00, "Ethernet0")); !errors.Is(err, errOtherCSIG) || !vendors.Passes(err) {
			t.Errorf("%v, which passes: %v", err, vendors.Passes(err))
		}
		l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)})
	})
}

// TestLeftBehind: what a csig that was killed has sent, and orchagent has not looked at, is
// carried out before the next csig reads a row, and does not come behind its back.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202605, "Ethernet0")
	l.apply(setupOf(quantize.Draft00, "Ethernet0"))
	u := vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}
	l.update(u)
	key := entryKey("Ethernet0", &l.ports[0].have[0])
	l.loose = true
	l.open()
	l.sw.Hold(true)
	l.fetched(rowOp{key: key, to: row{"action": setAction, paramVID: "0x7ff"}})
	ops := l.sw.Ops()
	var keys []string // in which order orchagent carries them out
	l.sw.Mute = func(key string) bool { keys = append(keys, key); return false }
	l.sw.Hold(false)
	if res, err := l.Update(t.Context(), []vendors.PortUpdate{u}, time.Second); err != nil || !res.Leased {
		t.Fatalf("%+v, %v", res, err)
	}
	l.exact()
	l.clean()
	if l.sw.Ops() < ops+2 {
		t.Errorf("%d operations: what was left behind, and its repair, are two", l.sw.Ops()-ops)
	}
	if len(keys) < 4 || keys[0] != key || keys[1] != fenceKey || keys[2] != fenceKey {
		t.Errorf("orchagent was asked for %q", keys)
	}
}

// TestListenerMoves: an orchagent that takes rows over ZeroMQ since csig began to listen to
// Redis is seen, and no connection to it is left open.
func TestListenerMoves(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202605, "Ethernet0")
	var subscribed atomic.Bool
	var open atomic.Int32
	db := sonicdb.New(sonicdb.Options{File: l.sw.Redis.File, Socket: l.sw.Redis.Socket, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := sonictest.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if address == l.sw.Endpoint() {
			open.Add(1)
			return &countedConn{Conn: c, open: &open}, nil
		}
		return movedConn{c, &subscribed}, nil
	}})
	_ = l.db.Close()
	l.db, l.cfg.Endpoint = db, l.sw.Endpoint()
	if err := l.listen(t.Context()); err == nil || !strings.Contains(err.Error(), "looks again") {
		t.Fatalf("listen: %v", err)
	}
	if n := open.Load(); n != 0 {
		t.Errorf("%d connections to orchagent are open", n)
	}
	if err := l.listen(t.Context()); err != nil || !l.session.overMQ() || open.Load() != 1 {
		t.Errorf("again: %v, %d connections", err, open.Load())
	}
}

// movedConn is a connection to a Redis of which a process seems to take P4RT_TABLE until csig
// waits for its answers.
type movedConn struct {
	net.Conn
	subscribed *atomic.Bool
}

func (c movedConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("SUBSCRIBE")) {
		c.subscribed.Store(true)
	}
	return c.Conn.Write(b)
}

func (c movedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.subscribed.Load() {
		copy(b[:n], bytes.ReplaceAll(b[:n], []byte("P4RT_TABLE_CHANNEL@0\r\n:0"), []byte("P4RT_TABLE_CHANNEL@0\r\n:1")))
	}
	return n, err
}

// countedConn counts itself while it is open.
type countedConn struct {
	net.Conn
	open   *atomic.Int32
	closed sync.Once
}

func (c *countedConn) Close() error {
	c.closed.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}
