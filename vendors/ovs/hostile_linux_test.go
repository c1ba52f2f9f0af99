package ovs

import (
	"context"
	"errors"
	"net"
	"path"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

// counted counts what is sent, and says when that is much.
type counted struct {
	net.Conn
	n    *atomic.Int64
	much func()
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.n.Add(int64(n)) > 1<<20 {
		c.much()
	}
	return n, err
}

// TestHostileDatabase has an ovsdb-server that floods, lies, is slow or ends. It
// is an error of the bridge's that comes soon, and takes little memory. Of those that are
// too long it has one, and TestLongHostileDatabase all.
func TestHostileDatabase(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	long := 0
	for _, tc := range ovstest.HostileDatabases() {
		if strings.Contains(tc.Want, "longer") {
			if long++; long > 1 && !vendorstest.Long(t) {
				continue
			}
		}
		t.Run(tc.Name, func(t *testing.T) {
			var sent atomic.Int64
			much := func() {}
			d, err := Open(Config{Bridge: "csig", RunDir: s.Dir, Dial: func(ctx context.Context, to string) (net.Conn, error) {
				if path.Base(to) != "db.sock" {
					return (&net.Dialer{}).DialContext(ctx, "unix", to)
				}
				here, there := net.Pipe()
				go tc.Serve(counted{there, &sent, much})
				return here, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			wait := soon
			if tc.Want == ovstest.Slow {
				wait = 300 * time.Millisecond
			} else {
				d.askWait = soon
			}
			late := errors.New("no answer in time")
			ended, end := context.WithCancelCause(t.Context())
			defer end(nil)
			ctx, cancel := context.WithTimeoutCause(ended, wait, late)
			defer cancel()
			if tc.Want == ovstest.Slow { // what others are answered is read as fast as the machine can, until time is over
				much = func() { end(late) }
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = d.Probe(ctx)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), tc.Want) || strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
				t.Errorf("%v, want %s", err, tc.Want)
			}
			if n := sent.Load(); n > maxMessage+1<<20 && tc.Want != ovstest.Slow {
				t.Errorf("%d bytes were read", n)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 200<<20 {
				t.Errorf("%d bytes were allocated", took)
			}
		})
	}
}

// TestLongHostileDatabase is TestHostileDatabase with all of them.
func TestLongHostileDatabase(t *testing.T) { TestHostileDatabase(t) }
