package owner

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/vendors"
)

// TestOneTakes: of two controllers that have seen a device's key as it is, silent or not there
// at all, one takes it.
func TestOneTakes(t *testing.T) {
	t.Parallel()
	server := served(t)
	a, b := opened(t, connected(t, server), "c1"), opened(t, connected(t, server), "c2")
	k := key("sw1")
	for _, what := range []string{"a key that is not there", "a silent one"} {
		var seen [2]sighting
		for i, s := range []*Store{a, b} {
			var err error
			if seen[i], err = s.look(t.Context(), k); err != nil {
				t.Fatal(err)
			}
		}
		first, err := a.take(t.Context(), k, seen[0])
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := b.take(t.Context(), k, seen[1]); !isStale(err) {
			t.Errorf("%s: the second one takes it, too: %v", what, err)
		}
		if at, err := b.look(t.Context(), k); err != nil || at.owner != "c1" || at.revision != first.revision {
			t.Errorf("%s: %+v, %v; want c1 with revision %d", what, at, err, first.revision)
		}
	}
}

// TestLoginsOfALostKey: what a key that is gone said of logins is unknown; what it says is kept
// until an owner replaces it.
func TestLoginsOfALostKey(t *testing.T) {
	t.Parallel()
	server := served(t)
	a, b := opened(t, connected(t, server), "c1"), opened(t, connected(t, server), "c2")
	l, _ := own(t, a)
	if got := l.Open(); !slices.Equal(got, []string{vendors.UnknownLogin}) {
		t.Errorf("of a key that was not there: %q", got)
	}
	if err := l.Keep(t.Context(), []string{"vty 0"}); err != nil {
		t.Fatal(err)
	}
	l.stop() // as if killed
	next, _ := own(t, b)
	if got := next.Open(); !slices.Equal(got, []string{"vty 0"}) {
		t.Errorf("of the owner before: %q", got)
	}
	if err := next.Keep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := next.Close(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if l, _ = own(t, a); !l.GivenUp || len(l.Open()) > 0 {
		t.Errorf("given up: %t, %q", l.GivenUp, l.Open())
	}
}

// TestPortInUse: a server that cannot listen does not start, and says why.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := Serve(t.Context(), ServerConfig{Name: "n1", Dir: t.TempDir(), Listen: l.Addr().String(), Peers: peersAt("127.0.0.1:1", "127.0.0.1:2"), Log: quiet()})
	if err == nil {
		s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("%v", err)
	}
}

// TestNATSLogIsBounded: what any host can make a server log does not fill the disk.
func TestNATSLogIsBounded(t *testing.T) {
	var out bytes.Buffer
	logger := logrus.New()
	logger.SetOutput(&out)
	l := newNATSLog(logrus.NewEntry(logger))
	for range 1000 {
		l.Errorf("TLS route handshake error: %v", errors.New("bad\x1b[31m"))
		l.Debugf("not logged at this level, nor counted")
	}
	if n := strings.Count(out.String(), "handshake"); n != logLines || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%d lines:\n%.500s", n, out.String())
	}
	l.since = time.Now().Add(-logWindow)
	out.Reset()
	l.Errorf("the next")
	if want := "970 more lines of the NATS server were left out"; !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "the next") {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
