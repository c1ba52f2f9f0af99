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
	"time"
)

// Server answers on the agent's socket. Publish tells it that a cycle ended.
type Server struct {
	status func() *Status
	http   http.Server
	mux    *http.ServeMux
	lns    []net.Listener
	quiet  time.Duration // after which a watcher hears of a cycle that does not come

	mu    sync.Mutex
	cycle chan struct{} // closed at each cycle, then replaced
	stop  chan struct{}
}

// Listen opens the socket, with access for the same user only. A socket file
// that nobody listens on any more is replaced; a live one is an error.
func Listen(socket string, status func() *Status) (*Server, error) {
	if err := CheckSocket(socket); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, fmt.Errorf("socket %s: %w; name another with --socket", socket, err)
	}
	if conn, err := net.DialTimeout("unix", socket, time.Second); err == nil {
		conn.Close()
		return nil, fmt.Errorf("socket %s: another agent answers there: stop it, or name another socket with --socket", socket)
	}
	if fi, err := os.Lstat(socket); err == nil {
		if fi.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("socket %s: is there already and is not a socket: name another with --socket", socket)
		}
		if err := os.Remove(socket); err != nil {
			return nil, fmt.Errorf("socket %s: left by an agent that is gone: %w", socket, err)
		}
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w; name another with --socket", socket, err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		ln.Close()
		return nil, fmt.Errorf("socket %s: %w", socket, err)
	}
	s := &Server{status: status, mux: http.NewServeMux(), lns: []net.Listener{ln}, quiet: time.Second, cycle: make(chan struct{}), stop: make(chan struct{})}
	s.mux.HandleFunc("GET "+StatusPath, s.serveStatus)
	s.mux.HandleFunc("GET "+WatchPath, s.serveWatch)
	s.http = http.Server{Handler: guard(s.mux), ConnContext: withPeer, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	return s, nil
}

// Serve answers until Close, or until one of its sockets fails.
func (s *Server) Serve() error {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cycle != nil {
		close(s.cycle)
		s.cycle = nil
	}
}

// Close ends all answers and removes the socket.
func (s *Server) Close() error {
	close(s.stop)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
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

func (s *Server) serveStatus(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.status()) // the client is gone: nobody to tell
}

func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/jsonl")
	enc := json.NewEncoder(w)
	rc := http.NewResponseController(w)
	quiet := time.NewTimer(s.quiet)
	defer quiet.Stop()
	for {
		quiet.Reset(s.quiet)
		next := s.next()
		// A watcher that does not read must not hold a goroutine for ever.
		_ = rc.SetWriteDeadline(time.Now().Add(10 * time.Second))
		if enc.Encode(s.status()) != nil || rc.Flush() != nil {
			return
		}
		select {
		case <-next:
		case <-quiet.C: // what it says of the lease and of ages is new
		case <-r.Context().Done():
			return
		case <-s.stop:
			return
		}
	}
}
