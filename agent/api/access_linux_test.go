package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The guard leaves everything but the status to root and to the agent's user.
func TestGuard(t *testing.T) {
	reached := false
	s := &Server{tls: &serverTLS{access: TLSAccess{Read: []string{"reader"}, Change: []string{"operator"}}}}
	h := s.guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	own, member := peer{name: "own", role: roleChange}, peer{name: "user 4711", role: roleStatus}
	certificate := func(names ...string) *tls.ConnectionState {
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{DNSNames: names, Subject: pkix.Name{CommonName: "operator"}}}}
	}
	for _, tc := range []struct {
		name   string
		method string
		path   string
		who    peer
		tls    *tls.ConnectionState
		want   bool
	}{
		{"root", "PUT", ConfigPath, own, nil, true},
		{"root's test frames", "GET", LinkPath, own, nil, true},
		{"another's status", "GET", StatusPath, member, nil, true},
		{"another's watch", "GET", WatchPath, member, nil, true},
		{"another's configuration", "PUT", ConfigPath, member, nil, false},
		{"another's look at it", "GET", SetupPath, member, nil, false},
		{"another's frame", "GET", LinkPath, member, nil, false},
		{"another peer's auto-revert", "POST", RevertPath, member, nil, false},
		{"an unknown user", "GET", StatusPath, peer{name: "unknown user", err: errors.New("no credentials")}, nil, false},
		{"a path that looks like the status", "PUT", StatusPath + "/../config", member, nil, false},
		{"an operator", "DELETE", ConfigPath, peer{}, certificate("x", "operator"), true},
		{"a reader", "GET", WhyPath, peer{}, certificate("reader"), true},
		{"a reader's look at the device", "GET", SetupPath, peer{}, certificate("reader"), false},
		{"a reader's look at the configuration", "GET", ConfigPath, peer{}, certificate("reader"), false},
		{"a reader's change", "PUT", MTUPath, peer{}, certificate("reader"), false},
		{"a reader's test frames", "GET", LinkPath, peer{}, certificate("reader"), false},
		{"a common name beside other names", "GET", SetupPath, peer{}, certificate("leaf2"), false},
		{"a common name alone", "GET", SetupPath, peer{}, certificate(), true},
		{"a name's beginning", "GET", SetupPath, peer{}, certificate("operator2", "oper"), false},
		{"no certificate", "GET", StatusPath, peer{}, &tls.ConnectionState{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reached = false
			req := httptest.NewRequest(tc.method, "http://agent"+tc.path, nil)
			req.TLS = tc.tls
			req = req.WithContext(context.WithValue(t.Context(), connKey{}, &conn{peer: tc.who}))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			var e Error
			if !tc.want && (json.Unmarshal(w.Body.Bytes(), &e) != nil || e.Kind != KindForbidden || !e.Permanent) {
				t.Errorf("answer %d %s", w.Code, w.Body)
			}
			if reached != tc.want {
				t.Errorf("reached: %v, want %v", reached, tc.want)
			}
		})
	}
	if s.requests["user 4711"] != 0 {
		t.Errorf("requests that are over are still counted: %v", s.requests)
	}
}

// A member of the group reads the status of a socket that is shared, and
// changes nothing; other users cannot open it.
func TestShare(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this needs root, to be another user")
	}
	dir, err := os.MkdirTemp("", "csig-share-") // others may enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "agent.sock")
	s, err := Listen(socket, func() *Status { return &Status{Format: StatusFormat, Device: "s1"} })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Share("no such group"); err == nil || !strings.Contains(err.Error(), "--socket-group no such group: there is no such group") {
		t.Errorf("got %v", err)
	}
	const gid = 47110
	if err := s.Share("47110"); err != nil {
		t.Fatal(err)
	}
	m := &manager{file: "as it was"}
	s.Manage(m)
	serveToEnd(t, s)
	// Root does everything, as before.
	c := NewClient(socket)
	defer c.Close()
	if err := c.Configure(t.Context(), []byte("a file")); err != nil || m.file != "a file" {
		t.Errorf("root: %v, %q", err, m.file)
	}
	for _, tc := range []struct {
		name   string
		groups []uint32
		want   error // of a status; nil: it may read it
	}{{"a member", []uint32{gid}, nil}, {"another", []uint32{47112}, fs.ErrPermission}} {
		c := NewDialClient(tc.name, func(context.Context) (net.Conn, error) { return dialAs(47111, tc.groups, socket) })
		if st, err := c.Status(t.Context()); tc.want == nil && (err != nil || st.Device != "s1") || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: status %+v, %v", tc.name, st, err)
		}
		if err := c.Configure(t.Context(), []byte("another")); !errors.Is(err, fs.ErrPermission) || m.file != "a file" {
			t.Errorf("%s: %v, and the file is %q", tc.name, err, m.file)
		}
		c.Close()
	}
}

// dialAs connects as another user. The thread that became that user ends with
// its goroutine.
func dialAs(uid int, groups []uint32, socket string) (net.Conn, error) {
	type answer struct {
		conn net.Conn
		err  error
	}
	got := make(chan answer)
	go func() {
		runtime.LockOSThread() // never unlocked
		for _, call := range [][4]uintptr{
			{unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0},
			{unix.SYS_SETRESGID, uintptr(uid), uintptr(uid), uintptr(uid)},
			{unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)},
		} {
			if _, _, e := unix.RawSyscall(call[0], call[1], call[2], call[3]); e != 0 {
				got <- answer{err: e}
				return
			}
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			got <- answer{err: err}
			return
		}
		f := os.NewFile(uintptr(fd), socket)
		defer f.Close()
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
			got <- answer{err: &os.SyscallError{Syscall: "connect", Err: err}}
			return
		}
		conn, err := net.FileConn(f)
		got <- answer{conn, err}
	}()
	a := <-got
	return a.conn, a.err
}
