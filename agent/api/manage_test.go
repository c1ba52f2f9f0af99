package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// manager records its calls.
type manager struct {
	platform Described
	file     string
	mtus     map[string]int
	err      error
	log      lines

	admitted []Operator
	refuses  error // of Admit
	left     string

	mark  string                      // of the last change
	armed *vendors.PendingRevertError // nil: it does not wait

	sent     vendors.LinkFrame // with the port
	ports    []string
	received chan vendors.LinkFrame // by its listeners
	gone     chan struct{}          // has something in it when one is closed
}

var (
	someSetup = vendors.Setup{TPID: 0x9900, Signals: []quantize.Signal{quantize.MinABW}, OnStale: "conservative", Config: someHash,
		Ports: []vendors.PortSetup{{Port: "swp1", Action: vlanrules.Update}}}
	someHash   = strings.Repeat("0a", 32)
	someHealth = []vendors.PortHealth{{Port: "swp1", Errors: 1, Discards: 2}}
)

func (m *manager) Facts(_ context.Context, platform Described) (vendors.Facts, error) {
	m.platform = platform
	return vendors.Facts{Platform: platform.Platform, Notes: []string{"a note"}}, m.err
}
func (m *manager) Setup(_ context.Context, platform Described) (vendors.Setup, error) {
	m.platform = platform
	return someSetup, m.err
}
func (m *manager) Admit(_ context.Context, op Operator) error {
	m.admitted = append(m.admitted, op)
	return m.refuses
}
func (m *manager) Leave(_ context.Context, session string) error {
	m.left = session
	return nil
}
func (m *manager) Config(_ context.Context, hash string) (string, error) {
	return "the file of " + hash, m.err
}
func (m *manager) Health(_ context.Context, platform Described) ([]vendors.PortHealth, error) {
	m.platform = platform
	return someHealth, m.err
}
func (m *manager) MTUs(_ context.Context, platform Described) (map[string]int, error) {
	m.platform = platform
	return m.mtus, m.err
}
func (m *manager) SetMTU(_ context.Context, platform Described, port string, mtu int) error {
	m.platform = platform
	if m.err == nil {
		m.mtus[port] = mtu
	}
	return m.err
}
func (m *manager) Configure(_ context.Context, file []byte, mark string) error {
	m.file, m.mark = string(file), mark
	return m.err
}
func (m *manager) RemoveSetup(_ context.Context, platform Described, mark string) error {
	m.file, m.platform, m.mark = "", platform, mark
	return m.err
}

func (m *manager) StartRevert(_ context.Context, platform Described, after time.Duration) (string, error) {
	m.platform, m.mark = platform, "m&1"
	m.armed = &vendors.PendingRevertError{Left: after}
	return m.mark, m.err
}

func (m *manager) PendingRevert(context.Context) error {
	if m.err == nil && m.armed != nil {
		return m.armed
	}
	return m.err
}

func (m *manager) Confirm(_ context.Context, mark string) error {
	m.mark, m.armed = mark, nil
	return m.err
}

func (m *manager) SendLink(_ context.Context, port string, f vendors.LinkFrame) error {
	m.ports, m.sent = append(m.ports, port), f
	return m.err
}

func (m *manager) ListenLink(_ context.Context, port string) (vendors.LinkListener, error) {
	m.ports = append(m.ports, port)
	return managerEar{m}, m.err
}

type managerEar struct{ m *manager }

func (e managerEar) Next(ctx context.Context) (vendors.LinkFrame, error) {
	select {
	case f, ok := <-e.m.received:
		if !ok {
			return f, errors.New("the port is gone")
		}
		return f, nil
	case <-ctx.Done():
		return vendors.LinkFrame{}, ctx.Err()
	}
}

func (e managerEar) Close() error {
	e.m.gone <- struct{}{}
	return nil
}

// lines takes what is written, as long as it is not full.
type lines chan string

// entry is a log that writes there.
func (l lines) entry() *logrus.Entry {
	log := logrus.New()
	log.SetOutput(l)
	return logrus.NewEntry(log)
}

func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}

// manage serves a manager, over TLS too where files are given.
func manage(t *testing.T, m *manager, own *TLSFiles) (socket string, addr net.Addr) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "agent.sock")
	s, err := Listen(socket, func() *Status { return &Status{Format: StatusFormat, Device: "s1"} })
	if err != nil {
		t.Fatal(err)
	}
	s.Manage(m)
	s.LogTo(m.log.entry())
	if own != nil {
		if addr, err = s.ListenTLS("127.0.0.1:0", *own, TLSAccess{Read: []string{"reader"}, Change: []string{"operator", "former", "switch"}}); err != nil {
			t.Fatal(err)
		}
	}
	serveToEnd(t, s)
	return socket, addr
}

func TestManage(t *testing.T) {
	m := &manager{mtus: map[string]int{"swp10": 1500, "swp9": 1600}}
	socket, _ := manage(t, m, nil)
	c := NewClient(socket)
	defer c.Close()
	ctx := t.Context()
	c.Device.Platform = "a platform"
	if f, err := c.Probe(ctx); err != nil || f.Platform != "a platform" || len(f.Notes) != 1 {
		t.Errorf("facts %+v, %v", f, err)
	}
	c.Device.Platform = "b"
	if s, err := c.Observe(ctx); err != nil || !reflect.DeepEqual(s, someSetup) || m.platform.Platform != "b" {
		t.Errorf("setup %+v, %v", s, err)
	}
	if text, err := c.Config(ctx, someHash); err != nil || string(text) != "the file of "+someHash {
		t.Errorf("configuration %q, %v", text, err)
	}
	if _, err := c.Config(ctx, "../../etc/passwd"); err == nil || !strings.Contains(err.Error(), "64 hexadecimal digits") {
		t.Errorf("a configuration that none is: %v", err)
	}
	c.Device.Platform = "c"
	if h, err := c.Health(ctx); err != nil || !reflect.DeepEqual(h, someHealth) || m.platform.Platform != "c" {
		t.Errorf("health %+v, %v", h, err)
	}
	c.Device.Platform = "e"
	if mtus, err := c.MTUs(ctx); err != nil || !maps.Equal(mtus, m.mtus) || m.platform.Platform != "e" {
		t.Errorf("MTUs %v, %v", mtus, err)
	}
	c.Device.Platform = "f"
	if err := c.SetMTU(ctx, "swp9", 9216); err != nil || m.mtus["swp9"] != 9216 || m.platform.Platform != "f" {
		t.Errorf("set the MTU: %v, %v", err, m.mtus)
	}
	for text, want := range map[string]string{"{": "reading the MTUs", `{"format":"csig.mtu/v2"}`: "csig.mtu/v2"} {
		if err := c.change(ctx, http.MethodPut, MTUPath, []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	file := strings.Repeat("a long file\n", 50_000)
	if err := c.Configure(ctx, []byte(file)); err != nil || m.file != file {
		t.Errorf("configure: %v, %d bytes", err, len(m.file))
	}
	c.Device.Platform = "d"
	if err := c.Remove(ctx); err != nil || m.file != "" || m.platform.Platform != "d" {
		t.Errorf("forget: %v", err)
	}
	if err := c.Configure(ctx, make([]byte, maxConfig+1)); err == nil || !strings.Contains(err.Error(), "too large") || m.file != "" {
		t.Errorf("a file that is too large: %v", err)
	}

	// A client whose deadline passed while the daemon was stopped, or asleep.
	var perm *vendors.PermanentError
	for late, want := range map[time.Duration]string{-time.Second: "nothing was done", time.Minute: ""} {
		m.file = "as it was"
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://agent"+ConfigPath, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(DeadlineHeader, time.Now().Add(late).UTC().Format(time.RFC3339Nano))
		resp, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(text), want) || (m.file == "as it was") != (want != "") {
			t.Errorf("a deadline in %v: %s, %v; the file is %q", late, text, err, m.file)
		}
	}
	m.file = ""

	m.err = errors.New("not now")
	for _, permanent := range []bool{false, true} {
		if permanent {
			m.err = &vendors.PermanentError{Port: "swp1", Err: errors.New("never")}
		}
		want := "agent at " + socket + ": " + m.err.Error()
		if err := c.Configure(ctx, []byte("x")); err == nil || err.Error() != want || errors.As(err, &perm) != permanent {
			t.Errorf("%v (%T), want %q", err, err, want)
		}
		if err := c.SetMTU(ctx, "swp9", 1500); err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := c.Observe(ctx); err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// files are those of a name's certificate, and of this authority.
func files(a *tlstest.Authority, name string) TLSFiles {
	cert, key := a.Files(name)
	return TLSFiles{Cert: cert, Key: key, CA: a.CA}
}

func TestOnlyCertificatesGetIn(t *testing.T) {
	ours, theirs := tlstest.New(t), tlstest.New(t)
	ours.Certify("leaf1")
	ours.Certify("operator")
	theirs.Certify("operator")
	ours.Expire("former")
	ours.Certify("reader")
	ours.Certify("leaf2")
	ours.CertifyServer("switch")
	server := files(ours, "leaf1")
	m := &manager{log: make(lines, 64)}
	_, addr := manage(t, m, &server)
	stranger := files(theirs, "operator")
	stranger.CA = files(ours, "operator").CA // who trusts the daemon, and is not trusted
	for _, tc := range []struct {
		name   string
		files  TLSFiles
		server string
		edit   func(*tls.Config)
		want   string // "": the request is permitted
	}{
		{"ours", files(ours, "operator"), "leaf1", nil, ""},
		{"without a certificate", files(ours, "operator"), "leaf1", func(c *tls.Config) { c.Certificates = nil }, "refuses csig's own certificate " + files(ours, "operator").Cert},
		{"of another authority", stranger, "leaf1", nil, "refuses csig's own certificate " + stranger.Cert + ", which is valid until "},
		{"with one that has expired", files(ours, "former"), "leaf1", nil, "refuses csig's own certificate " + files(ours, "former").Cert + ", which is valid until "},
		{"who does not trust the daemon", files(theirs, "operator"), "leaf1", nil, "it comes from none of the authorities in " + theirs.CA},
		{"who wants another daemon", files(ours, "operator"), "leaf2", nil, "not leaf2: give the name that is in it (management: daemon: tls: server_name)"},
		{"with a server's certificate", files(ours, "switch"), "leaf1", nil, "made for client authentication (clientAuth)"},
		{"with the daemon's own", files(ours, "leaf1"), "leaf1", nil, "refuses csig's own certificate"},
		{"another switch", files(ours, "leaf2"), "leaf1", nil, "certificate [leaf2]: none of its names may do anything here: name it with the daemon's --tls-read or --tls-change"},
		{"a reader", files(ours, "reader"), "leaf1", nil, "certificate [reader] may read only: use a certificate with a name that the daemon has in --tls-change"},
		{"with an older TLS", files(ours, "operator"), "leaf1", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }, "protocol version"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m.file = ""
			cfg, err := tc.files.Client(tc.server)
			if err != nil {
				t.Fatal(err)
			}
			if tc.edit != nil {
				tc.edit(cfg)
			}
			c := NewTLSClient(addr.String(), cfg, tc.files)
			defer c.Close()
			err = c.Configure(t.Context(), []byte("a file"))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if got := m.file != ""; got != (tc.want == "") {
				t.Errorf("the daemon took %q", m.file)
			}
			if _, err := c.Status(t.Context()); (err == nil) != (tc.want == "" || tc.name == "a reader") {
				t.Errorf("status: %v", err)
			}
		})
	}
}

func TestTLSFilesNameWhatIsWrong(t *testing.T) {
	a := tlstest.New(t)
	a.Certify("leaf1")
	for _, tc := range []struct {
		edit func(*TLSFiles)
		want string
	}{
		{func(f *TLSFiles) { f.Cert = "/nowhere.pem" }, "certificate /nowhere.pem"},
		{func(f *TLSFiles) { f.CA = "/nowhere.pem" }, "/nowhere.pem"},
		{func(f *TLSFiles) { f.CA = f.Key }, "there is no certificate in it"},
	} {
		f := files(a, "leaf1")
		tc.edit(&f)
		_, err := (&serverTLS{files: f}).load()
		_, err2 := f.Client("leaf1")
		if err == nil || err2 == nil || fmt.Sprint(err) != fmt.Sprint(err2) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v and %v, want %q", err, err2, tc.want)
		}
	}
}

// A daemon whose certificate has expired is distinguished from an untrusted one,
// and the daemon's log has its own words for who did not get in.
func TestDaemonWithAnExpiredCertificate(t *testing.T) {
	a := tlstest.New(t)
	a.Expire("leaf1")
	a.Certify("operator")
	server := files(a, "leaf1")
	m := &manager{log: make(lines, 64)}
	_, addr := manage(t, m, &server)
	own := files(a, "operator")
	cfg, err := own.Client("leaf1")
	if err != nil {
		t.Fatal(err)
	}
	c := NewTLSClient(addr.String(), cfg, own)
	defer c.Close()
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "the daemon's certificate: ") || !strings.Contains(err.Error(), "give the daemon a valid one") {
		t.Errorf("got %v", err)
	}
	if line := <-m.log; !strings.Contains(line, "TLS handshake error from 127.0.0.1:") {
		t.Errorf("it logs %q", line)
	}
}

// TestAnswersToChanges: an answer that is no daemon's does not count as a change that was made.
func TestAnswersToChanges(t *testing.T) {
	for body, ok := range map[string]bool{"{}": true, `{"format":"csig.status/v1"}`: false, "[]": false, "null": false, `"done"`: false, "": false} {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body+"\n") })}
		go func() { _ = srv.Serve(l) }()
		c := NewClient(socket)
		if err := c.Remove(t.Context()); (err == nil) != ok {
			t.Errorf("%q: %v", body, err)
		}
		c.Close()
		_ = srv.Close()
	}
}
