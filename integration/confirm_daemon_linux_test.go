package integration

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
)

// between stands between csig and the daemon of a row's s2, as a forwarded
// connection does, and can be cut.
type between struct {
	r      *row
	socket string
	proxy  *httputil.ReverseProxy
	hang   chan struct{} // closed at the end: what hangs ends

	mu     sync.Mutex
	server *http.Server                 // nil: it is cut
	meets  func(req *http.Request) bool // called for each request; true: it gets no answer. nil: not called
}

// betweenDaemon puts one into the fleet file.
func betweenDaemon(r *row) *between {
	r.t.Helper()
	b := &between{r: r, socket: r.path("via"), hang: make(chan struct{})}
	b.proxy = &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.Out.URL.Scheme, p.Out.URL.Host = "http", "agent" },
		FlushInterval: -1,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", r.socket(1))
		}},
	}
	r.edit("daemon: {socket: "+r.socket(1)+"}", "daemon: {socket: "+b.socket+"}")
	b.lay()
	r.t.Cleanup(func() {
		close(b.hang)
		b.cut()
	})
	return b
}

// lay lets connections through, cut ends them all and lets none through.
func (b *between) lay() {
	b.r.t.Helper()
	ln, err := net.Listen("unix", b.socket)
	if err != nil {
		b.r.t.Fatal(err)
	}
	s := &http.Server{Handler: b, ReadHeaderTimeout: time.Minute}
	b.mu.Lock()
	b.server = s
	b.mu.Unlock()
	go func() { _ = s.Serve(ln) }() // until it is cut
}

func (b *between) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server != nil {
		_ = b.server.Close() // it is to break
		b.server = nil
	}
}

func (b *between) meet(f func(req *http.Request) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.meets = f
}

func (b *between) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	b.mu.Lock()
	meets := b.meets
	b.mu.Unlock()
	if meets != nil && meets(req) {
		select {
		case <-b.hang:
		case <-req.Context().Done():
		}
		return
	}
	b.proxy.ServeHTTP(w, req)
}

// hasTable reports whether a switch has a table of csig's.
func (r *row) hasTable(nth int) bool {
	r.t.Helper()
	out, err := r.switches[nth].Command("nft", "list", "tables", "netdev").CombinedOutput()
	if err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	return strings.Contains(string(out), "table netdev csig\n")
}

func confirms(req *http.Request) bool {
	return req.Method == http.MethodDelete && req.URL.Path == api.RevertPath
}

// killBeforeConfirm runs apply, and kills it when s2 has its change and is about to
// be confirmed.
func (b *between) killBeforeConfirm(journal, revert string) {
	r := b.r
	r.t.Helper()
	cmd := r.from.Command(csig, "apply", r.path("plan"), "--soak", "0s", "--parallel", "1", "--revert", revert, "--journal", journal)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	started, killed := make(chan struct{}), make(chan error, 1)
	b.meet(func(req *http.Request) bool {
		if confirms(req) {
			<-started
			killed <- cmd.Process.Kill()
			return true
		}
		return false
	})
	defer b.meet(nil)
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	close(started)
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
		r.t.Fatalf("%v:\n%s", err, out.String())
	}
	select { // it may have ended before Kill has returned
	case err := <-killed:
		if err != nil {
			r.t.Fatal(err)
		}
	case <-time.After(patience):
		r.t.Fatalf("killed by another process:\n%s", out.String())
	}
	if !strings.Contains(out.String(), "s2 reverts by itself after") {
		r.t.Errorf("the output lacks that s2 reverts:\n%s", out.String())
	}
}

// Whatever comes next ends what waits (rollout's TestArmedByAnother: also a resumed apply without
// auto-revert), and the cut of the connection leads to the old setup.
func TestLongDaemonArmed(t *testing.T) {
	t.Parallel()
	if !mayStrip(t) {
		return
	}
	r := newMixedRow(t, byRow, byDaemon, byRow)
	a := r.daemons()[0]
	b := betweenDaemon(r)
	before := r.rulesets()
	r.want(2, "plan", "-i", r.fleet, "-o", r.path("plan"))
	for _, c := range []struct {
		name    string
		undo    bool
		off     bool
		restart bool
		again   string // --revert
	}{
		{name: "resumed at once", again: "1h"},
		{name: "rolled back at once", undo: true, again: "1h"},
		{name: "rolled back at once, without auto-revert", undo: true, again: "0"},
		{name: "its daemon is killed, too", restart: true, again: "1h"},
		{name: "taken off", off: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			journal := r.path(c.name)
			b.killBeforeConfirm(journal, "1h")
			if !r.hasTable(1) {
				t.Fatal("the change has not come")
			}
			if c.restart {
				_ = a.signal(syscall.SIGKILL) // its exit status does not matter
				a = r.daemon(1)
				a.await("that it is as before", waits)
				if !within(patience, func() bool { return !r.hasTable(1) }) { // it waits before it has removed them
					t.Fatal("its rules are still there")
				}
			}
			if c.off {
				if out := r.want(1, "plan", "-i", r.fleet); !strings.Contains(out, "s2: an auto-revert from an earlier csig is pending") {
					t.Errorf("a new plan while an auto-revert is pending:\n%s", out)
				}
				r.want(0, "off", "-i", r.fleet)
				r.wantRules(before, "after csig off")
				return
			}
			if !c.undo {
				r.want(0, "apply", "--resume", journal, "--soak", "0s", "--revert", c.again)
				r.want(0, "plan", "-i", r.fleet)
			}
			r.want(0, "rollback", journal, "--revert", c.again)
			r.wantRules(before, "after the rollback")
			r.want(2, "plan", "-i", r.fleet) // nothing waits
		})
	}

	t.Run("cut off", func(t *testing.T) {
		b.meet(func(req *http.Request) bool {
			if !confirms(req) {
				return false
			}
			go b.cut() // not from within what it ends
			return true
		})
		out := r.want(1, "apply", r.path("plan"), "--soak", "0s", "--revert", "8s", "--journal", r.path("cut"))
		if !strings.Contains(out, "it auto-reverts within 8s to what it had before") {
			t.Errorf("the output lacks what happens to s2:\n%s", out)
		}
		b.meet(nil)
		a.await("that it is as before", waits)
		b.lay()
		r.want(0, "apply", "--resume", r.path("cut"), "--soak", "0s")
		r.want(0, "rollback", r.path("cut"))
		r.wantRules(before, "after the rollback")
	})
}
