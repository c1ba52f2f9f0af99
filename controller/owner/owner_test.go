package owner

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/api/tlstest"
)

const term = 2 * MinTerm // shorter ones end while a busy machine holds the test up

func quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}

// peersAt are peers at these addresses, with certificates for this machine.
func peersAt(addr ...string) (list []Peer) {
	for _, a := range addr {
		list = append(list, Peer{Name: "localhost", Addr: a})
	}
	return list
}

// served is a server of this test's own.
func served(t *testing.T) *Server {
	t.Helper()
	s, err := Serve(t.Context(), ServerConfig{Name: "n1", Dir: t.TempDir(), Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// connected is a connection of its own.
func connected(t *testing.T, s *Server) *nats.Conn {
	t.Helper()
	nc, err := s.Connect("test", quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// lose takes the owners' store away, which no connection of a controller may.
func lose(t *testing.T, s *Server) error {
	t.Helper()
	a := s.options.CustomClientAuthentication.(*admission)
	may := a.node
	a.node = nil
	nc := connected(t, s)
	a.node = may
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return js.DeleteKeyValue(t.Context(), bucket)
}

// opened is a controller's store, which follows the keys.
func opened(t *testing.T, nc *nats.Conn, name string, change ...func(*Config)) *Store {
	t.Helper()
	cfg := Config{Name: name, Term: term, Replicas: 1, Log: quiet()}
	for _, c := range change {
		c(&cfg)
	}
	s, err := Open(nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var w sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	w.Go(func() { s.Watch(ctx) })
	t.Cleanup(func() { stop(); w.Wait() })
	return s
}

// lasting is a term of tests in which none ends: a request that takes a sixth of one fails.
func lasting(c *Config) { c.Term = 12 * MinTerm }

func own(t *testing.T, s *Store) (*Lease, context.Context) {
	t.Helper()
	l, ctx, err := s.Own(t.Context(), "leaf1")
	if err != nil {
		t.Fatal(err)
	}
	return l, ctx
}

// TestTakeOver: a device whose owner is cut off is another's a term later, and not while the
// first may still write; what the first learns is that it is not the owner.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	s := served(t)
	cut := connected(t, s)
	a, b := opened(t, cut, "c1"), opened(t, connected(t, s), "c2")
	la, actx := own(t, a)
	took := make(chan *Lease)
	go func() {
		l, _, err := b.Own(t.Context(), "leaf1")
		if err != nil {
			t.Error(err)
		}
		if err := la.MayWrite(); !errors.Is(err, ErrNotOwner) {
			t.Errorf("beside the next owner the one before may write: %v", err)
		}
		took <- l
	}()
	select { // it stays the owner while it renews
	case <-took:
		t.Fatal("a device with an owner was taken")
	case <-actx.Done():
		t.Fatal("the owner lost the device: ", context.Cause(actx))
	case <-time.After(2 * term):
	}
	if got := b.Owner("leaf1"); got != "c1" {
		t.Errorf("the owner is %q", got)
	}
	cut.Close()
	start := time.Now()
	lb := <-took
	if d := time.Since(start); d > 2*term {
		t.Errorf("taken after %v", d)
	}
	<-actx.Done()
	if err := context.Cause(actx); !errors.Is(err, ErrNotOwner) {
		t.Errorf("the owner before: %v", err)
	}
	if lb.Token.Epoch != la.Token.Epoch || lb.Token.Revision <= la.Token.Revision {
		t.Errorf("the token %v after %v", lb.Token, la.Token)
	}
}

// TestEnding: while a controller ends, it owns its devices until it has given them up.
func TestEnding(t *testing.T) {
	t.Parallel()
	s := served(t)
	a, b := opened(t, connected(t, s), "c1"), opened(t, connected(t, s), "c2")
	ctx, stop := context.WithCancel(t.Context())
	l, octx, err := a.Own(ctx, "leaf1")
	if err != nil {
		t.Fatal(err)
	}
	stop()
	<-octx.Done()
	took := make(chan struct{})
	go func() { own(t, b); close(took) }()
	select {
	case <-took:
		t.Error("the device is taken from one that ends")
	case <-time.After(2 * term):
	}
	if err := l.MayWrite(); err != nil {
		t.Error(err)
	}
	if err := l.Close(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	<-took
}

// TestGivenUp: what is given up is another's at once, though it waits long for one that is silent.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	s := served(t)
	nc := connected(t, s)
	const long = 30 * time.Second
	a, b := opened(t, nc, "c1"), opened(t, nc, "c2", func(c *Config) { c.Term = long })
	la, actx := own(t, a)
	took := make(chan *Lease)
	go func() {
		l, _ := own(t, b)
		took <- l
	}()
	if err := la.Close(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	lb := <-took
	if d := time.Since(start); d > long/2 || !lb.GivenUp {
		t.Errorf("taken after %v, given up: %t", d, lb.GivenUp)
	}
	if la.MayWrite() == nil || actx.Err() == nil || lb.MayWrite() != nil {
		t.Errorf("may write: %v, then %v", la.MayWrite(), lb.MayWrite())
	}
}

// TestStreamAgain: a stream that was lost has a higher epoch when it is created again, though
// the clock was set back; the owner before loses the device, and no other takes it within a term.
func TestStreamAgain(t *testing.T) {
	t.Parallel()
	s := served(t)
	nc := connected(t, s)
	future := hours() + 1000
	var saved uint64
	a := opened(t, nc, "c1", func(c *Config) { c.Epoch = future; c.SawEpoch = func(e uint64) error { saved = e; return nil } })
	la, actx := own(t, a)
	if la.Token.Epoch != future+1 || saved != future+1 {
		t.Fatalf("the first epoch is %d, %d is kept; want %d", la.Token.Epoch, saved, future+1)
	}
	if err := lose(t, s); err != nil {
		t.Fatal(err)
	}
	gone := time.Now()
	b := opened(t, nc, "c2", func(c *Config) { c.Epoch = saved })
	lb, _ := own(t, b)
	if d := time.Since(gone); d < term {
		t.Errorf("taken %v after the stream was gone", d)
	}
	if err := la.MayWrite(); err == nil || lb.Token.Epoch <= la.Token.Epoch {
		t.Errorf("the token %v after %v; the owner before may write: %v", lb.Token, la.Token, err)
	}
	<-actx.Done()
}

// TestRevisionsOfAnotherStream: what was seen of a key in a stream that was created again since
// takes nothing in the new one, whose keys were written in the same order.
func TestRevisionsOfAnotherStream(t *testing.T) {
	t.Parallel()
	s := served(t)
	nc := connected(t, s)
	a, b := opened(t, nc, "c1"), opened(t, nc, "c2")
	k := key("sw1")
	var seen sighting
	for i := range 2 {
		none, err := a.look(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = a.take(t.Context(), k, none); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			break
		}
		if seen, err = b.look(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		if err := lose(t, s); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.take(t.Context(), k, seen); !isStale(err) {
		t.Errorf("with revision %d of the stream before: %v", seen.revision, err)
	}
}

// TestUnsettled: what may be on its way from an owner that gives up is told the next one, with
// the logins that it knows of.
func TestUnsettled(t *testing.T) {
	t.Parallel()
	nc := connected(t, served(t))
	a, b := opened(t, nc, "c1"), opened(t, nc, "c2")
	l, _ := own(t, a)
	if err := l.Keep(t.Context(), []string{"vty 0"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	next, _ := own(t, b)
	if next.GivenUp || !slices.Equal(next.Open(), []string{"vty 0"}) {
		t.Errorf("given up: %t, logins %q", next.GivenUp, next.Open())
	}
}

// TestLongerTerm: a taker with a shorter term than the owner's waits for the owner's.
func TestLongerTerm(t *testing.T) {
	t.Parallel()
	nc := connected(t, served(t))
	a, b := opened(t, nc, "c1"), opened(t, nc, "c2", func(c *Config) { c.Term = MinTerm })
	l, _ := own(t, a)
	l.stop() // as if stopped
	own(t, b)
	if err := l.MayWrite(); err == nil {
		t.Error("beside the next owner the one before may write")
	}
}

// TestLostAnswer: a renewal that arrived and whose answer did not is no loss.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	a := opened(t, connected(t, served(t)), "c1")
	l, ctx := own(t, a)
	kv, err := a.js.KeyValue(ctx, bucket)
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	_, err = kv.Update(ctx, l.key, a.value("c1", nil), l.revision) // of this session, unknown to the lease
	l.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
		t.Errorf("lost: %v", context.Cause(ctx))
	case <-time.After(2 * term):
	}
}

// TestTouched: a key that another process writes or deletes ends the ownership; what is no
// record of csig's counts as an owner until a term has passed.
func TestTouched(t *testing.T) {
	t.Parallel()
	for name, touch := range map[string]func(context.Context, jetstream.KeyValue, string) error{
		"deleted": func(ctx context.Context, kv jetstream.KeyValue, k string) error { return kv.Delete(ctx, k) },
		"garbage": func(ctx context.Context, kv jetstream.KeyValue, k string) error {
			_, err := kv.PutString(ctx, k, "\x1b[2J{")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc := connected(t, served(t))
			a := opened(t, nc, "c1")
			l, actx := own(t, a)
			kv, err := a.js.KeyValue(actx, bucket)
			if err == nil {
				err = touch(actx, kv, l.key)
			}
			if err != nil {
				t.Fatal(err)
			}
			at := time.Now()
			<-actx.Done()
			own(t, opened(t, nc, "c2"))
			if d := time.Since(at); d < term {
				t.Errorf("taken after %v", d)
			}
		})
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"leaf1": "leaf1", "a.b": "a=2eb", "dc1/leaf=1": "dc1=2fleaf=3d1", ">*": "=3e=2a"} {
		if got := key(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestClusterTLS: three servers of one authority are a cluster, that keeps what one of them
// has lost; one with another authority's certificate gets nothing of it.
func TestClusterTLS(t *testing.T) {
	t.Parallel()
	ours, others := tlstest.New(t), tlstest.New(t)
	addr := make([]string, 4)
	for i := range addr { // free ones
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		addr[i] = net.JoinHostPort("localhost", port)
		l.Close()
	}
	serve := func(i int, a *tlstest.Authority) *Server {
		cert, key := a.Certify("localhost")
		conf, err := api.TLSFiles{Cert: cert, Key: key, CA: a.CA}.Client("")
		if err != nil {
			t.Fatal(err)
		}
		conf.ClientCAs, conf.ClientAuth = conf.RootCAs, tls.RequireAndVerifyClientCert
		peers := slices.Delete(slices.Clone(addr[:3]), min(i, 2), min(i+1, 3))
		s, err := Serve(t.Context(), ServerConfig{Name: addr[i], Dir: t.TempDir(), Listen: addr[i], Peers: peersAt(peers...), TLS: conf, Log: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	three := func(c *Config) { c.Replicas = 3; c.Term = 2 * time.Second }
	var servers []*Server
	for i := range 3 {
		servers = append(servers, serve(i, ours))
	}
	t.Cleanup(func() {
		for _, s := range servers[1:] {
			s.Close()
		}
	})
	stranger := serve(3, others)
	t.Cleanup(stranger.Close)
	l, _ := own(t, opened(t, connected(t, servers[0]), "c1", three))
	if err := l.Close(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	servers[0].Close()
	next, _ := own(t, opened(t, connected(t, servers[1]), "c2", three))
	if !next.GivenUp || next.Token.Revision <= l.Token.Revision {
		t.Errorf("beside a server that is lost: %+v after %+v", next.Token, l.Token)
	}
	if n := stranger.now().NumRoutes(); n != 0 {
		t.Errorf("a server of another authority has %d routes", n)
	}
}
