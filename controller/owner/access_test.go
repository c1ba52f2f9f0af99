package owner

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest/freeport"
)

// logged is a log whose lines are looked at.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines are those with a text.
func (l *logged) lines(with string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range strings.Split(l.text.String(), "\n") {
		if strings.Contains(line, with) {
			found = append(found, line)
		}
	}
	return found
}

func (l *logged) entry() *logrus.Entry {
	log := logrus.New()
	log.SetOutput(l)
	return logrus.NewEntry(log)
}

// free are so many addresses of this machine where nothing listens.
func free(t testing.TB, n int) (addr []string) {
	t.Helper()
	for range n {
		addr = append(addr, net.JoinHostPort("localhost", strconv.Itoa(int(freeport.TCP(t)))))
	}
	return addr
}

// certified is the TLS of one with a certificate for these names.
func certified(t *testing.T, a *tlstest.Authority, names ...string) *tls.Config {
	t.Helper()
	cert, key := a.Certify(names[0], names[1:]...)
	conf, err := api.TLSFiles{Cert: cert, Key: key, CA: a.CA}.Client("")
	if err != nil {
		t.Fatal(err)
	}
	return conf
}

// cluster is three nodes that know each other, a client and an observer.
type cluster struct {
	nodes   []*Server
	logs    []*logged
	ours    *tlstest.Authority
	routes  []string // where they listen for each other
	clients []string // and for clients
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{ours: tlstest.New(t), routes: free(t, 3), clients: free(t, 3)}
	for i := range 3 {
		var peers []Peer
		for j := range 3 {
			if j != i {
				peers = append(peers, Peer{Name: fmt.Sprintf("c%d", j+1), Addr: c.routes[j]})
			}
		}
		l := new(logged)
		s, err := Serve(t.Context(), ServerConfig{
			Name: fmt.Sprintf("c%d", i+1), Dir: t.TempDir(), Listen: c.routes[i], Peers: peers, TLS: certified(t, c.ours, fmt.Sprintf("c%d", i+1), "localhost"),
			ClientsAt: c.clients[i], Roles: Roles{Clients: []string{"c7", "c8"}, Observers: []string{"prom"}}, Log: l.entry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sync.OnceFunc(s.Close))
		c.nodes, c.logs = append(c.nodes, s), append(c.logs, l)
	}
	return c
}

// connect is a client's connection, with no second try.
func (c *cluster) connect(t *testing.T, at string, conf *tls.Config, name string) (*nats.Conn, error) {
	t.Helper()
	opts := []nats.Option{nats.NoReconnect(), nats.CustomInboxPrefix(inbox(name)), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
	if conf != nil {
		opts = append(opts, nats.Secure(conf))
	}
	nc, err := nats.Connect("nats://"+at, opts...)
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

// await waits until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(4 * patience); !is(); time.Sleep(5 * time.Millisecond) { // between looks
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// TestCluster has three nodes do what belongs to NATS: who may connect and what for, and that they keep
// what one of them has lost.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	t.Run("handshakes", c.handshakes)
	t.Run("roles", c.roles)
	t.Run("silent clients", c.silentClients)
	t.Run("a lost node", c.lostNode)
}

// handshakes: at the address of the nodes and at that of clients, who is not listed there is
// refused in the handshake, with one line that has the names of its certificate and its address.
func (c *cluster) handshakes(t *testing.T) {
	foreign := tlstest.New(t)
	cert, key := c.ours.Expire("c2")
	expired, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		who          string
		conf         func() *tls.Config
		node, client bool // it gets in
		names        string
		quiet        bool // the authority has not vouched for it: there is no certificate to name
	}{
		{who: "a listed node", conf: func() *tls.Config { return certified(t, c.ours, "c2") }, node: true, names: "c2"},
		{who: "a listed client", conf: func() *tls.Config { return certified(t, c.ours, "c7") }, client: true, names: "c7"},
		{who: "an observer", conf: func() *tls.Config { return certified(t, c.ours, "prom") }, client: true, names: "prom"},
		{who: "another of the CA", conf: func() *tls.Config { return certified(t, c.ours, "stranger", "two.example") }, names: "stranger"},
		{who: "the node's own name", conf: func() *tls.Config { return certified(t, c.ours, "c1") }, names: "c1"},
		{who: "a foreign CA", conf: func() *tls.Config { return certified(t, foreign, "c2") }, quiet: true},
		{who: "no certificate", conf: func() *tls.Config { return &tls.Config{} }, quiet: true},
		{who: "expired", conf: func() *tls.Config {
			return &tls.Config{Certificates: []tls.Certificate{expired}}
		}, quiet: true},
	} {
		for _, at := range []struct {
			kind, addr string
			in         bool
		}{{"node", c.routes[0], test.node}, {"client", c.clients[0], test.client}} {
			t.Run(test.who+" as "+at.kind, func(t *testing.T) {
				conf := test.conf()
				conf.InsecureSkipVerify = true // who dials is looked at, not where
				raw, err := net.Dial("tcp", at.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer raw.Close()
				_ = raw.SetDeadline(time.Now().Add(30 * time.Second))
				if at.kind == "client" { // NATS asks for TLS in a line of its own
					for b := make([]byte, 1); b[0] != '\n'; {
						if _, err := raw.Read(b); err != nil {
							t.Fatal(err)
						}
					}
				}
				tc := tls.Client(raw, conf)
				err = tc.Handshake()
				if err == nil { // with TLS 1.3 the refusal comes after it
					_, err = tc.Write([]byte("PING\r\n"))
				}
				if err == nil && !at.in {
					_, err = tc.Read(make([]byte, 1))
				}
				if (err == nil) != at.in {
					t.Errorf("in: %v, want %v", err, at.in)
				}
				if at.in || test.quiet {
					return
				}
				from := raw.LocalAddr().String()
				await(t, "no line of the refusal", func() bool { return len(c.logs[0].lines(from)) > 0 })
				got := c.logs[0].lines(from)
				if len(got) != 1 || !strings.Contains(got[0], "["+test.names) {
					t.Errorf("the log: %q", got)
				}
				if test.names == "c1" && !strings.Contains(got[0], "--name") {
					t.Errorf("of two controllers with one name: %q", got)
				}
			})
		}
	}
}

// roles: what a node, a client and an observer may do at three nodes.
func (c *cluster) roles(t *testing.T) {
	at := map[string]*nats.Conn{}
	for i, role := range []string{"client c7", "client c8", "observer prom"} {
		_, name, _ := strings.Cut(role, " ")
		nc, err := c.connect(t, c.clients[i], certified(t, c.ours, name), name)
		if err != nil {
			t.Fatal(role, err)
		}
		at[name] = nc
	}
	if _, err := c.connect(t, c.clients[0], nil, "c7"); err == nil {
		t.Error("a client without TLS is let in")
	}
	node, err := c.nodes[0].Connect("c1", quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Close)
	at["c1"] = node

	first := opened(t, onNATS(t, node, 3, patience), "c1", unending)
	await(t, "the stores are not created", func() bool {
		ctx, done := context.WithTimeout(t.Context(), retried)
		defer done()
		_, err := first.bucket(ctx)
		if err == nil {
			_, err = first.configs(ctx)
		}
		if err == nil {
			_, err = first.journalBucket(ctx)
		}
		if err == nil {
			err = errors.Join(first.PublishStatus(ctx, "leaf1", []byte("{}")), first.PublishEvent(ctx, Event{Device: "leaf1"}))
		}
		return err == nil
	})

	// A client owns a device, as nodes do; what it asks of another's is in its own name.
	member := opened(t, onNATS(t, at["c7"], 3, patience), "c7", unending)
	lease := taken(t, member)
	t.Cleanup(func() { _ = lease.Close(context.Background(), false) }) // for the next that takes the device
	if err := lease.KeepConfig(t.Context(), []byte("x")); err != nil {
		t.Error("a client keeps a configuration:", err)
	}
	if all, err := lease.Configs(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("a client reads %d configurations: %v", len(all), err)
	}
	const id = "20260101T000000Z-aa"
	if err := member.AppendJournal(t.Context(), id, 0, []byte("y"), api.Operator{}); err != nil {
		t.Error("a client keeps a journal:", err)
	}
	if list, err := member.Journals(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("a client lists %d journals: %v", len(list), err)
	}
	// Of operators that append at once one does: with replicas NATS has an error of its own for those
	// that come while it writes.
	var won atomic.Int32
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			err := []*Store{first, member}[i%2].AppendJournal(t.Context(), id, 1, fmt.Appendf(nil, "operator %d", i), api.Operator{})
			switch {
			case err == nil:
				won.Add(1)
			case !errors.As(err, new(*vendors.PermanentError)):
				t.Error("appended at once:", err)
			}
		})
	}
	if all.Wait(); won.Load() != 1 {
		t.Errorf("%d operators appended to one place", won.Load())
	}
	if err := errors.Join(member.PublishStatus(t.Context(), "leaf1", []byte("{}")), member.PublishEvent(t.Context(), Event{Device: "leaf1"})); err != nil {
		t.Error("a client publishes:", err)
	}
	if text, err := member.Status(t.Context(), "leaf1"); err != nil || string(text) != "{}" {
		t.Errorf("a client reads a status: %q, %v", text, err)
	}
	ln, err := first.Listen("leaf2")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if conn, err := member.Dial(t.Context(), "leaf2"); err == nil {
			defer conn.Close()
			<-t.Context().Done()
		}
	}()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := conn.(api.Trusted); !ok || p.Peer() != "controller c7" {
		t.Errorf("the peer is %v", conn)
	}
	conn.Close()

	// What each may publish and subscribe to: NATS says which it refuses before it answers a ping.
	refused := func(nc *nats.Conn, do func() error) bool {
		before := nc.LastError()
		if err := errors.Join(do(), nc.Flush()); err != nil {
			t.Fatal(err)
		}
		return nc.LastError() != before //nolint:errorlint // another one, be it of the same text
	}
	for subject, who := range map[string]string{
		"$JS.API.STREAM.DELETE." + stream: "", "$JS.API.STREAM.PURGE." + stream: "", "$JS.API.STREAM.MSG.DELETE." + stream: "", "$JS.API.STREAM.DELETE.KV_" + configs: "",
		"$JS.API.STREAM.CREATE.x": "c1", "$JS.API.STREAM.UPDATE." + stream: "c1", "$JS.API.STREAM.DELETE.x": "c1", "$JS.API.STREAM.LEADER.STEPDOWN." + stream: "c1", "$JS.API.META.LEADER.STEPDOWN": "c1",
		"$JS.API.CONSUMER.CREATE." + statuses: "c1 c7", "$JS.API.CONSUMER.CREATE.x": "c1", "$JS.API.STREAM.LIST": "c1", "$JS.API.STREAM.INFO." + stream: "c1 c7",
		// An answer goes to the subject that the request names: who may ask for one may write a store.
		"$JS.API.STREAM.INFO." + statuses: "c1 c7", "$JS.API.STREAM.MSG.GET." + statuses: "c1 c7", "$JS.API.STREAM.MSG.GET.KV_" + configs: "c1 c7", "$JS.API.DIRECT.GET.KV_" + configs + ".x": "c1 c7",
		"$KV.csig_owners.x": "c1 c7", "$KV.csig_configs.x": "c1 c7", "csig_events.x": "c1 c7", "csig_status.x": "c1 c7", "csig_journals.x": "c1 c7",
		"csig_device.x.c7": "c1 c7", "csig_device.x.c8": "c1", "csig_device.x.prom": "c1", "_INBOX.c7.x": "c1 c7", "foreign": "c1", "$SYS.REQ.SERVER.PING": "c1",
	} {
		for name, nc := range at {
			may := slices.Contains(strings.Fields(who), name)
			if got := refused(nc, func() error { return nc.PublishRequest(subject, inbox(name)+".answer", []byte("no request")) }); got == may && name != "c8" {
				t.Errorf("%s publishes %s: refused %v", name, subject, got)
			}
		}
	}
	for subject, who := range map[string]string{
		"_INBOX.c7.x": "c1 c7", "_INBOX.prom.x": "c1", "_INBOX.c8.x": "c1", "_INBOX.>": "c1", ">": "c1", "$KV.csig_configs.>": "c1", "$SYS.>": "c1",
		"csig_status.>": "c1 c7 prom", "csig_events.>": "c1 c7", "csig_journals.>": "c1", "csig_device.>": "c1", "csig_device.*.*": "c1 c7",
	} {
		for name, nc := range at {
			may := slices.Contains(strings.Fields(who), name)
			var sub *nats.Subscription
			if got := refused(nc, func() (err error) { sub, err = nc.SubscribeSync(subject); return err }); got == may && name != "c8" {
				t.Errorf("%s subscribes to %s: refused %v", name, subject, got)
			}
			_ = sub.Unsubscribe()
		}
	}
	members, err := jetstream.New(at["c7"])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := members.PublishMsg(t.Context(), &nats.Msg{Subject: "$KV." + bucket + ".leaf1", Header: nats.Header{"Nats-Rollup": {"all"}}}); err == nil {
		t.Error("one message takes the place of all keys")
	}
	// A consumer sends what is kept to any subject: the API takes no orders from it.
	const other = "$JS.API.STREAM.DELETE." + stream
	orders := make(chan *nats.Msg, 10)
	if _, err := node.ChanSubscribe(other, orders); err != nil {
		t.Fatal(err)
	}
	if _, err := members.CreatePushConsumer(t.Context(), events, jetstream.ConsumerConfig{DeliverSubject: other, AckPolicy: jetstream.AckNonePolicy}); err == nil {
		select {
		case <-orders: // it was sent
		case <-time.After(30 * time.Second):
			t.Error("the consumer sends nothing")
		}
	}
	sub, err := at["prom"].SubscribeSync(statuses + ".>")
	if err != nil {
		t.Fatal(err)
	}
	// Which member it is at, the others hear a moment after it has its answer.
	var heard *nats.Msg
	for end := time.Now().Add(30 * time.Second); heard == nil && time.Now().Before(end); {
		if err := first.PublishStatus(t.Context(), "leaf1", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		heard, err = sub.NextMsg(time.Second)
	}
	if heard == nil || heard.Subject != "csig_status.leaf1" || !bytes.Equal(heard.Data, []byte("{}")) {
		t.Errorf("an observer hears a status: %v, %v", heard, err)
	}
	if b, err := first.bucket(t.Context()); err != nil || b.Epoch() != lease.Token.Epoch {
		t.Errorf("the owners' store: %+v, %v", b, err)
	}
	if err := lease.Close(t.Context(), false); err != nil {
		t.Error(err)
	}
}

// silentClients: connections that do not say who they are keep no client out, nor do those of
// one certificate.
func (c *cluster) silentClients(t *testing.T) {
	for range 2 * maxClients {
		conn, err := net.Dial("tcp", c.clients[0])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	for range clientConns {
		if _, err := c.connect(t, c.clients[0], certified(t, c.ours, "c7"), "c7"); err != nil {
			t.Fatal("beside silent connections: ", err)
		}
	}
	if _, err := c.connect(t, c.clients[0], certified(t, c.ours, "c7"), "c7"); err == nil {
		t.Error("one certificate has more connections than it may")
	}
	if _, err := c.connect(t, c.clients[0], certified(t, c.ours, "c8"), "c8"); err != nil {
		t.Error("beside those of another client: ", err)
	}
	c.nodes[0].end() // as when its disk is full
	if _, err := c.connect(t, c.clients[0], certified(t, c.ours, "c8"), "c8"); err == nil {
		t.Error("a server that has stopped takes clients")
	}
	await(t, "it is not started again", func() bool {
		_, err := c.connect(t, c.clients[0], certified(t, c.ours, "c8"), "c8")
		return err == nil
	})
}

// lostNode: the others keep what a node has lost, here who gave a device up, and a server of another
// authority has nothing of it.
func (c *cluster) lostNode(t *testing.T) {
	foreign := tlstest.New(t)
	stranger, err := Serve(t.Context(), ServerConfig{
		Name: "c4", Dir: t.TempDir(), Listen: free(t, 1)[0], TLS: certified(t, foreign, "c4", "localhost"), Log: quiet(),
		Peers: []Peer{{"c1", c.routes[0]}, {"c2", c.routes[1]}, {"c3", c.routes[2]}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stranger.Close)
	join := func(node int, name string) *Lease { // what was given up is taken at once
		l, _ := own(t, opened(t, onNATS(t, connected(t, c.nodes[node]), 3, retried), name, func(c *Config) { c.Term = 8 * MinTerm }))
		return l
	}
	l := join(0, "c1")
	if err := l.Close(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	c.nodes[0].Close()
	next := join(1, "c2")
	if !next.GivenUp || next.Token.Epoch != l.Token.Epoch || next.Token.Revision <= l.Token.Revision {
		t.Errorf("beside a server that is lost: %+v after %+v", next.Token, l.Token)
	}
	if n := stranger.now().NumRoutes(); n != 0 {
		t.Errorf("a server of another authority has %d routes", n)
	}
}
