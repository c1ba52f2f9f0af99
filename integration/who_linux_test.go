package integration

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/csig-agent/csig/fabric"
)

// Where something is tried, and what is tried: the first two columns of the table in SECURITY.md.
const (
	atAgent       = "agent"
	atControllers = "controllers"

	doJoin    = "join the cluster"
	doRead    = "read a stream"
	doWrite   = "write the owners' store"
	doPut     = "put a configuration"
	doOpen    = "have a device opened"
	doCommand = "have a command run"
	doSecret  = "have a secret sent"
	doUseUp   = "use up the listener"
)

var (
	whats  = []string{doJoin, doRead, doWrite, doPut, doOpen, doCommand, doSecret, doUseUp}
	wheres = []string{atAgent, atControllers}
)

// means is the rule for cells that make no sense: an agent has no cluster.
func means(where, what string) bool {
	return where != atAgent || what != doJoin && what != doRead && what != doWrite
}

// visitor is one who tries: a column of the table.
type visitor struct {
	who   string
	plain bool // without TLS
	name  string
	cert  *tls.Certificate // nil: none
}

// Names of certificates. The operators are the agent's, the others the controllers'.
const (
	mayRead, mayChange = "noc.example", "ops.example"
	metricsReader      = "prom.example"
	daemonName         = "sw1"
	unlistedNode       = "c9"
	listedNode         = "c3"
	alsoListed         = "c2" // so that each of the three lists one of its names: no node sends on what it got from another
)

// visitors all have certificates of one authority, which is that of every flag: so their names
// alone tell them apart. What the foreign one certified has each name that is listed anywhere.
func visitors(t *testing.T, ca *tlstest.Authority) []visitor {
	t.Helper()
	certified := func(a *tlstest.Authority, name string, more ...string) *tls.Certificate {
		cert, err := tls.LoadX509KeyPair(a.Certify(name, more...))
		if err != nil {
			t.Fatal(err)
		}
		return &cert
	}
	list := []visitor{
		{who: "no TLS", plain: true},
		{who: "no certificate"},
		{who: "foreign CA", cert: certified(tlstest.New(t), listedNode, mayRead, mayChange, metricsReader, daemonName)},
		{who: "reader of metrics", name: metricsReader},
		{who: "operator, reads", name: mayRead},
		{who: "operator, changes", name: mayChange},
		{who: "switch's daemon", name: daemonName},
		{who: "unlisted node", name: unlistedNode},
		{who: "listed node", name: listedNode},
	}
	for i := range list {
		if v := &list[i]; v.name != "" {
			v.cert = certified(ca, v.name)
			if v.name == listedNode {
				v.cert = certified(ca, v.name, alsoListed)
			}
		}
	}
	return list
}

// named is the visitor with a name.
func named(list []visitor, name string) *visitor {
	return &list[slices.IndexFunc(list, func(v visitor) bool { return v.name == name })]
}

// conf is the TLS of a visitor, who does not care whom they reach.
func (v *visitor) conf() *tls.Config {
	conf := &tls.Config{InsecureSkipVerify: true, ServerName: "agent"}
	if v.cert != nil {
		conf.Certificates = []tls.Certificate{*v.cert}
	}
	return conf
}

// dial connects to a port of a host's loopback, from one of its addresses.
func dialFrom(ctx context.Context, host *fabric.Node, from, to string) (c net.Conn, err error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	err = host.Do(func() error { // the goroutines of a dial of names would be elsewhere
		c, err = d.DialContext(ctx, "tcp4", to)
		return err
	})
	return c, err
}

// outcomes are those that were observed at one place.
type outcomes map[string]map[string]bool // by what, then by who: it was done

func (o outcomes) set(what, who string, done bool) {
	if o[what] == nil {
		o[what] = map[string]bool{}
	}
	o[what][who] = o[what][who] || done
}

// cell is what the table says of an outcome.
func (o outcomes) cell(where, what, who string) string {
	done, tried := o[what][who]
	switch {
	case !means(where, what):
		return "—"
	case !tried:
		return "not tried"
	case done:
		return "allowed"
	}
	return "refused"
}

// whoTable is the table of SECURITY.md.
type whoTable struct {
	who   []string
	cells map[[3]string]string // where, what, who
}

func readWhoTable(t *testing.T) *whoTable {
	t.Helper()
	text := readFile(t, "../SECURITY.md")
	w := &whoTable{cells: map[[3]string]string{}}
	_, rest, _ := strings.Cut(string(text), "## Who may do what\n")
	rest, _, _ = strings.Cut(rest, "\n## ")
	for _, line := range strings.Split(rest, "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case w.who == nil:
			w.who = cells[2:]
		case len(cells) != len(w.who)+2:
			t.Fatalf("SECURITY.md: %d cells in %q, want %d", len(cells), line, len(w.who)+2)
		default:
			for i, who := range w.who {
				w.cells[[3]string{cells[0], cells[1], who}] = cells[i+2]
			}
		}
	}
	return w
}

// compare wants each cell of a place to be what was observed there.
func (w *whoTable) compare(t *testing.T, where string, o outcomes) {
	t.Helper()
	var text strings.Builder
	for _, what := range whats {
		fmt.Fprintf(&text, "\n| %s | %s ", where, what)
		for _, who := range w.who {
			got := o.cell(where, what, who)
			fmt.Fprintf(&text, "| %s ", got)
			if want := w.cells[[3]string{where, what, who}]; got != want {
				t.Errorf("%s, %s: %s is %s, and SECURITY.md has %q", where, what, who, got, want)
			}
		}
		text.WriteString("|")
	}
	t.Log("observed:" + text.String())
}

// TestLongWhoMayDoWhat tries each cell of the table in SECURITY.md at csig agent with and without
// a configuration, and at three controllers. What is allowed and refused is what was seen to
// happen: a changed configuration, a file of a command, a secret that arrived, a key in a store.
func TestLongWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	want := readWhoTable(t)
	ca := tlstest.New(t)
	list := visitors(t, ca)
	for _, v := range list {
		if !slices.Contains(want.who, v.who) {
			t.Errorf("SECURITY.md has no column %q", v.who)
		}
	}
	if len(want.who) != len(list) || len(want.cells) != len(wheres)*len(whats)*len(list) {
		t.Errorf("SECURITY.md has %d columns and %d cells of outcomes", len(want.who), len(want.cells))
	}
	t.Run("controllers", func(t *testing.T) {
		t.Parallel()
		want.compare(t, atControllers, newControllersDoor(t, ca, list).tryAll(t, list))
	})
	for _, configured := range []bool{true, false} {
		t.Run(map[bool]string{true: "agent with a configuration", false: "agent without one"}[configured], func(t *testing.T) {
			t.Parallel()
			want.compare(t, atAgent, newAgentDoor(t, ca, configured).tryAll(t, list))
		})
	}
}

// sources are addresses of loopback: an attacker has the first four, others the last.
var sources = []string{"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.9"}

// hold opens connections from each of the attacker's addresses, sends a text at each, and reads
// nothing, but for the line that a server may greet with. It returns once all were sent, or refused,
// and what ends them.
func hold(t *testing.T, host *fabric.Node, v *visitor, at string, each int, greeting bool, text string) (end func()) {
	t.Helper()
	conns := make(chan net.Conn)
	n := each * (len(sources) - 1)
	for i := range n {
		go func() {
			c, err := dialFrom(t.Context(), host, sources[i%(len(sources)-1)], at)
			if err != nil {
				conns <- nil
				return
			}
			_ = c.SetDeadline(time.Now().Add(5 * time.Second)) // of a handshake that is not answered
			var w net.Conn = c
			for b := make([]byte, 1); greeting && err == nil && b[0] != '\n'; {
				_, err = c.Read(b)
			}
			if err == nil && !v.plain {
				s := tls.Client(c, v.conf())
				err, w = s.Handshake(), s
			}
			if err == nil {
				_, _ = w.Write([]byte(text))
			}
			conns <- c
		}()
	}
	var open []net.Conn
	for range n {
		if c := <-conns; c != nil {
			open = append(open, c)
		}
	}
	return func() {
		for _, c := range open {
			c.Close()
		}
	}
}

// within waits until something is so; false where it is not in time.
func within(d time.Duration, is func() bool) bool {
	for end := time.Now().Add(d); ; {
		switch {
		case is():
			return true
		case time.Now().After(end):
			return false
		}
		time.Sleep(10 * time.Millisecond) // between looks
	}
}

// datagrams is a listener at a host that keeps what arrives, and answers nothing.
type datagrams struct {
	output
	port int
}

func listenDatagrams(t *testing.T, host *fabric.Node) *datagrams {
	t.Helper()
	d := &datagrams{}
	var conn net.PacketConn
	if err := host.Do(func() (err error) { conn, err = net.ListenPacket("udp4", "127.0.0.1:0"); return err }); err != nil {
		t.Fatal(err)
	}
	d.port = conn.LocalAddr().(*net.UDPAddr).Port
	ended := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-ended })
	go func() {
		defer close(ended)
		for b := make([]byte, 64<<10); ; {
			n, _, err := conn.ReadFrom(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			_, _ = d.Write(b[:n])
		}
	}()
	return d
}

// got reports whether a text arrived.
func (d *datagrams) got(text string) bool { return strings.Contains(d.String(), text) }

// hash is that of the configuration which an agent runs now, "" for none.
func (a *agent) hash() string {
	a.t.Helper()
	s, err := a.client.Observe(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	return s.Config
}
