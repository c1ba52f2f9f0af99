package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
)

// Server answers on the agent's socket. Publish notifies it that a cycle ended.
type Server struct {
	status  func() *Status
	socket  string
	http    *http.Server
	mux     *http.ServeMux
	lns     []net.Listener
	tls     *serverTLS                            // nil without ListenTLS
	admit   func(context.Context, Operator) error // lets an operator change the device
	forward http.Handler                          // nil: this one answers all
	audit   *logrus.Entry                         // of changes; nil without LogTo
	sparse  *sparseLog                            // of connections; the same
	plain   bool                                  // at a loopback address, without TLS
	warn    func(format string, args ...any)

	mu       sync.Mutex
	cycle    chan struct{} // closed at each cycle, then replaced
	requests map[string]int
	framesBy string    // sent the last test frames
	framesAt time.Time // when the log named it
	stop     chan struct{}

	encoding sync.Mutex // held while a status is made
	encoded  []byte     // the last one, as JSON
	made     time.Time
	cycled   atomic.Bool // a cycle ended since
}

// nameAnother is what to do about a socket that cannot be opened.
const nameAnother = "name another with --socket (of a controller's device: management.daemon.socket in the fleet file)"

// goneTimeout is how long a socket may answer whose agent was killed a moment ago.
const goneTimeout = time.Second

// Listen opens the socket.
func Listen(socket string, status func() *Status) (*Server, error) {
	ln, err := ListenSocket(socket)
	if err != nil {
		return nil, err
	}
	s := newServer(status, &limited{Listener: ln})
	s.socket = socket
	return s, nil
}

// ListenSocket opens a unix socket, with access for the same user only. A socket file
// without a listener is replaced; a live one is an error.
func ListenSocket(socket string) (net.Listener, error) {
	if err := CheckSocket(socket); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, fmt.Errorf("socket %s: %w; %s", socket, err, nameAnother)
	}
	for end := time.Now().Add(goneTimeout); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.DialTimeout("unix", socket, time.Second)
		if err != nil {
			break
		}
		pid := pidOf(conn)
		conn.Close()
		if !time.Now().Before(end) {
			who := "it"
			if pid != 0 {
				who = fmt.Sprintf("it (process %d)", pid)
			}
			return nil, fmt.Errorf("socket %s: another csig answers there: stop %s, or %s", socket, who, nameAnother)
		}
	}
	if fi, err := os.Lstat(socket); err == nil {
		if fi.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("socket %s: is there already and is not a socket: %s", socket, nameAnother)
		}
		if err := os.Remove(socket); err != nil {
			return nil, fmt.Errorf("socket %s: left by an agent that is gone: %w", socket, err)
		}
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w; %s", socket, err, nameAnother)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // it may be another's by then
	own := &ownSocket{Listener: ln, path: socket}
	err = os.Chmod(socket, 0o600)
	if err == nil {
		own.is, err = os.Lstat(socket)
	}
	if err != nil {
		ln.Close()
		return nil, fmt.Errorf("socket %s: %w", socket, err)
	}
	return own, nil
}

// ownSocket removes its file when it is closed, unless another agent's is there by then.
type ownSocket struct {
	net.Listener
	path string
	is   os.FileInfo
}

// Close is the listener's.
func (o *ownSocket) Close() error {
	if now, err := os.Lstat(o.path); err == nil && os.SameFile(now, o.is) {
		_ = os.Remove(o.path) // what stays is found dead by the next one
	}
	return o.Listener.Close()
}

// newServer returns a server that answers at these listeners; status is nil where it answers none.
func newServer(status func() *Status, lns ...net.Listener) *Server {
	s := &Server{status: status, mux: http.NewServeMux(), lns: lns, cycle: make(chan struct{}), stop: make(chan struct{}), warn: func(string, ...any) {}}
	if status != nil {
		s.mux.HandleFunc("GET "+StatusPath, s.serveStatus)
		s.mux.HandleFunc("GET "+WatchPath, s.serveWatch)
	}
	s.http = newHTTP(s.guard(s.mux), takesBody)
	return s
}

// Serve answers until Close, or until one of its sockets fails.
func (s *Server) Serve() error {
	if s.tls != nil {
		go s.tls.watch(s.stop)
	}
	ended := make(chan error, len(s.lns))
	for _, ln := range s.lns {
		go func() { ended <- s.http.Serve(ln) }()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Publish wakes the watchers. Without watchers it costs one allocation-free
// lock.
func (s *Server) Publish() {
	s.cycled.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cycle != nil {
		close(s.cycle)
		s.cycle = nil
	}
}

// Close ends all answers and removes the socket. A client that has sent half of its request, or
// does not read, has a second.
func (s *Server) Close() error {
	close(s.stop)
	if s.sparse != nil {
		defer s.sparse.stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if ctx.Err() != nil {
		err = s.http.Close()
	}
	for _, ln := range s.lns { // those that Serve has not begun with
		_ = ln.Close() // most are closed already
	}
	return err
}

func (s *Server) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cycle == nil {
		s.cycle = make(chan struct{})
	}
	return s.cycle
}

// statusAge is how old a status may be that is given to a client without a cycle
// having ended since: it has ages and the lease's state.
const statusAge = 100 * time.Millisecond

// encodedStatus is the status as one line of JSON. It is made once for all
// clients, one at a time, however many ask: a cycle waits for
// each reader of its ports.
func (s *Server) encodedStatus() ([]byte, error) {
	s.encoding.Lock()
	defer s.encoding.Unlock()
	if now := time.Now(); s.cycled.Swap(false) || s.encoded == nil || now.Sub(s.made) > statusAge {
		text, err := json.Marshal(s.status())
		if err != nil {
			return nil, err
		}
		s.encoded, s.made = append(text, '\n'), now
	}
	return s.encoded, nil
}

func (s *Server) serveStatus(w http.ResponseWriter, _ *http.Request) {
	text, err := s.encodedStatus()
	if err != nil {
		WriteError(w, err)
		return
	}
	reply(w, http.StatusOK, text)
}

// reply writes an answer of JSON, to a client that has to take it in time.
func reply(w http.ResponseWriter, code int, text []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text) // an error: the client is gone
}

// quietTime is after which a watcher gets a status though no cycle ended.
const quietTime = time.Second

func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/jsonl")
	quiet := time.NewTimer(quietTime)
	defer quiet.Stop()
	for {
		quiet.Reset(quietTime)
		next := s.next()
		text, err := s.encodedStatus()
		if err != nil {
			return
		}
		if Send(w, text, writeTimeout) != nil { // a watcher that does not read must not hold a goroutine for ever
			return
		}
		select {
		case <-next:
		case <-quiet.C: // the state of the lease and the ages are new
		case <-r.Context().Done():
			return
		case <-s.stop:
			return
		}
	}
}
