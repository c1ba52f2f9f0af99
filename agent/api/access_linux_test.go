package api

import (
	"context"
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
	h := guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	own := peer{uid: os.Geteuid()}
	for _, tc := range []struct {
		name string
		path string
		who  any // a peer; nil: over TLS
		want bool
	}{
		{"root", ConfigPath, peer{uid: 0}, true},
		{"the agent's user", LinkPath, own, true},
		{"TLS", ConfigPath, nil, true},
		{"another's status", StatusPath, peer{uid: 4711}, true},
		{"another's watch", WatchPath, peer{uid: 4711}, true},
		{"another's configuration", ConfigPath, peer{uid: 4711}, false},
		{"another's look at it", SetupPath, peer{uid: 4711}, false},
		{"another's frame", LinkPath, peer{uid: 4711}, false},
		{"another's arming", ArmedPath, peer{uid: 4711}, false},
		{"nobody knows who", ConfigPath, peer{err: errors.New("no credentials")}, false},
		{"a path that looks like the status", StatusPath + "/../config", peer{uid: 4711}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reached = false
			req := httptest.NewRequest(http.MethodPut, "http://agent"+tc.path, nil)
			if tc.who != nil {
				req = req.WithContext(context.WithValue(t.Context(), peerKey{}, tc.who))
			}
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
}

// A member of the group reads the status of a socket that is shared, and
// changes nothing; nobody else opens it.
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
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
	// Root does everything, as before.
	c := NewClient(socket)
	defer c.Close()
	if err := c.Configure(t.Context(), []byte("a file"), ""); err != nil || m.file != "a file" {
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
		if err := c.Configure(t.Context(), []byte("another"), ""); !errors.Is(err, fs.ErrPermission) || m.file != "a file" {
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
