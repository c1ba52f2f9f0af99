package owner

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/controller/owner/kv"
	"github.com/csig-agent/csig/controller/owner/kv/kvtest"
)

// patience is how long a busy machine's server has for an answer.
const patience = 30 * time.Second

// unending is a term of tests on real servers in which none ends.
func unending(c *Config) { c.Term = time.Hour }

// peersAt are peers at these addresses, with certificates for this machine.
func peersAt(addr ...string) (list []Peer) {
	for _, a := range addr {
		list = append(list, Peer{Name: "localhost", Addr: a})
	}
	return list
}

// served is a server of this test's own.
func served(t *testing.T, log *logrus.Entry) *Server {
	t.Helper()
	s, err := Serve(t.Context(), ServerConfig{Name: "n1", Dir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// connected is a connection of its own.
func connected(t testing.TB, s *Server) *nats.Conn {
	t.Helper()
	nc, err := s.Connect("test", quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// retried is how long an answer has that is asked for again where it does not come: while a cluster
// chooses a leader, requests are lost.
const retried = patience / 6

// onNATS is the store of a connection, with so long for an answer.
func onNATS(t testing.TB, nc *nats.Conn, replicas int, wait time.Duration) kv.Store {
	t.Helper()
	on, err := newNATSStore(nc, wait, replicas)
	if err != nil {
		t.Fatal(err)
	}
	return on
}

// taken takes leaf1 without the wait for its former owner's term.
func taken(t *testing.T, s *Store) *Lease {
	t.Helper()
	at, err := s.look(t.Context(), "leaf1")
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.take(t.Context(), "leaf1", at)
	if err != nil {
		t.Fatal(err)
	}
	close(l.ended) // nothing renews it
	l.cancel, l.stop = func(error) {}, func() {}
	s.owned.Add(1)
	return l
}

// TestNATSConforms has the server of a controller be the store that owners need.
func TestNATSConforms(t *testing.T) {
	t.Parallel()
	s := served(t, quiet())
	// What no connection of a controller may do.
	a := s.options.CustomClientAuthentication.(*admission)
	may := a.node
	a.node = nil
	admin, err := jetstream.New(connected(t, s))
	a.node = may
	if err != nil {
		t.Fatal(err)
	}
	kvtest.Conform(t, kvtest.Servers{
		Connect: func(t *testing.T) (kv.Store, func()) {
			nc := connected(t, s)
			return onNATS(t, nc, 1, patience), nc.Close
		},
		Remove: func(t *testing.T, bucket string) {
			if err := admin.DeleteKeyValue(t.Context(), bucket); err != nil {
				t.Fatal(err)
			}
		},
		Delete: func(t *testing.T, bucket, key string) {
			b, err := admin.KeyValue(t.Context(), bucket)
			if err == nil {
				err = b.Delete(t.Context(), key)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	})
}

// TestServerStartsAgain: a server that gave up JetStream starts again once its disk takes
// writes, and not before; clients of the process connect to it, and find what they kept.
func TestServerStartsAgain(t *testing.T) {
	t.Parallel()
	log := new(logged)
	s := served(t, log.entry())
	store := opened(t, onNATS(t, connected(t, s), 1, patience), "c1", unending)
	if err := taken(t, store).KeepConfig(t.Context(), []byte("kept")); err != nil {
		t.Fatal(err)
	}
	blocked := filepath.Join(s.options.StoreDir, "room") // a folder: no file of that name can be written
	if err := os.Mkdir(blocked, 0o700); err != nil {
		t.Fatal(err)
	}
	before := s.now()
	if err := before.ShutdownJetStream(); err != nil { // what the server does when a write fails
		t.Fatal(err)
	}
	await(t, "nobody notices that it cannot write", func() bool { return len(log.lines("cannot write: the others continue")) > 0 })
	if s.now() != before {
		t.Error("the server started again though its disk takes no writes")
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	await(t, "it does not start again", func() bool { return s.now() != before && s.now().JetStreamEnabled() })
	var text []byte
	await(t, "it does not answer", func() (ok bool) {
		var err error
		text, err = read(t, store, "leaf1")
		return err == nil
	})
	if string(text) != "kept" {
		t.Errorf("after the start %q", text)
	}
}

// TestPortInUse: a server that cannot listen does not start, and says why.
func TestPortInUse(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
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
		time.Sleep(logWindow)
		out.Reset()
		l.Errorf("the next")
		if want := "970 more lines of the NATS server were left out"; !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "the next") {
			t.Errorf("%q, want %q", out.String(), want)
		}
	})
}
