package api

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// role is what a peer may do. Each includes the ones before it.
type role int

const (
	roleNone   role = iota
	roleStatus      // the status: members of --socket-group
	roleRead        // what the daemon itself has, without opening its device: --tls-read
	roleChange      // everything: root, the agent's own user, --tls-change
)

// needs is the role that a request needs, whatever its arguments. All that opens the device, a
// secret or a program needs roleChange, as does what is not known here.
func needs(method, path string) role {
	switch {
	case path == StatusPath || path == WatchPath || slices.Contains(observePaths, path):
		return roleStatus
	case method == http.MethodGet && (path == WhyPath || path == RevertPath || path == JournalsPath || strings.HasPrefix(path, JournalsPath+"/")):
		return roleRead
	}
	return roleChange
}

// takesBody reports whether a request has a body that a handler reads.
func takesBody(r *http.Request) bool {
	return (r.Method == http.MethodPut || r.Method == http.MethodPost) && r.URL.Path != LockPath
}

// peer is who is at the other end of a connection.
type peer struct {
	name string // for the log and for limits: a user's number, or the names of a certificate
	role role
	err  error // why the role is none
}

// Bounds of the requests of one peer that are answered at a time: of one that may not change
// anything, and of a certificate that may, so that others find a place at the listener.
const (
	maxRequests = 8
	maxChanging = maxConns / 2
)

// TLSAccess is who may do what over TLS, by names of client certificates: DNS
// names, e-mail addresses and URIs of the certificate, its common name where it
// has none of them. They are compared as they are, without wildcards.
type TLSAccess struct {
	Read   []string // may read the status and what the daemon keeps about it; the device is not opened
	Change []string // may do everything
}

// certificateNames are the names of a certificate, as TLSAccess compares them.
func certificateNames(c *x509.Certificate) []string {
	names := slices.Concat(c.DNSNames, c.EmailAddresses)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	if len(names) == 0 && c.Subject.CommonName != "" {
		names = append(names, c.Subject.CommonName)
	}
	return names
}

// peerOf is the owner of a client certificate.
func (a *TLSAccess) peerOf(c *x509.Certificate) peer {
	names := certificateNames(c)
	p := peer{name: "certificate " + untrusted.Text(fmt.Sprint(names), 200)}
	holds := func(list []string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(list, n) })
	}
	switch {
	case holds(a.Change):
		p.role = roleChange
	case holds(a.Read):
		p.role = roleRead
	default:
		p.err = errors.New("none of its names may do anything here: name it with the daemon's --tls-read or --tls-change")
	}
	return p
}

// Share lets the members of a group, by its name or number, read the status at
// the socket. Only root and the agent's own user may do the rest: the kernel
// reports who is at the other end. It is called before Serve.
func (s *Server) Share(group string) error {
	if !knowsPeers {
		return fmt.Errorf("--socket-group %s: this system cannot identify the peer of a socket: leave the flag out", group)
	}
	if g, err := user.LookupGroup(group); err == nil {
		group = g.Gid
	}
	gid, err := strconv.Atoi(group)
	if err != nil || gid < 0 {
		return fmt.Errorf("--socket-group %s: there is no such group", group)
	}
	if err = os.Chown(s.socket, -1, gid); err == nil {
		err = os.Chmod(s.socket, 0o660)
	}
	if err != nil {
		return fmt.Errorf("--socket-group %s: %w", group, err)
	}
	return nil
}

// unixPeer is the user at the other end of a unix socket. Where the kernel does
// not identify users the socket's mode is the guard.
func unixPeer(c *net.UnixConn) peer {
	if !knowsPeers {
		return peer{name: "socket", role: roleChange}
	}
	uid, err := uidOf(c)
	switch {
	case err != nil:
		return peer{name: "unknown user", err: fmt.Errorf("cannot identify the peer process: %w", err)}
	case uid == 0 || uid == os.Geteuid():
		return peer{name: "user " + strconv.Itoa(uid), role: roleChange}
	}
	return peer{name: "user " + strconv.Itoa(uid), role: roleStatus}
}

// connKey is where a request's context has its connection.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, ownConn(c))
}

// connOf is the connection of a request; nil in tests without one.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// peerOf is who sends a request.
func (s *Server) peerOf(r *http.Request) peer {
	c := connOf(r)
	switch {
	case c == nil:
		return peer{name: "unknown", err: errors.New("cannot identify the peer")}
	case r.TLS == nil:
		return c.peer
	case len(r.TLS.PeerCertificates) == 0:
		return peer{name: "no certificate", err: errors.New("a client certificate is required")}
	}
	return s.tls.access.peerOf(r.TLS.PeerCertificates[0])
}

// forbidden is an answer with KindForbidden.
func forbidden(format string, args ...any) error {
	return &vendors.PermanentError{Err: fmt.Errorf("%w: %w", fmt.Errorf(format, args...), fs.ErrPermission)}
}

// guard lets requests through that their peer may send, of a client that is no
// web page, and not more of one peer at a time than it may.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.foreign(r); err != nil {
			WriteError(w, err)
			return
		}
		p := s.peerOf(r)
		switch {
		case p.role == roleNone:
			WriteError(w, forbidden("%s: %w", p.name, p.err))
			return
		case p.role == roleStatus && needs(r.Method, r.URL.Path) > p.role:
			WriteError(w, forbidden("%s may read the status only: ask as root, or as the user that the agent runs as", p.name))
			return
		case needs(r.Method, r.URL.Path) > p.role:
			WriteError(w, forbidden("%s may read only: use a certificate with a name that the daemon has in --tls-change for what opens the device or changes it", p.name))
			return
		}
		if p.role < roleChange || r.TLS != nil {
			most := maxRequests
			if p.role == roleChange {
				most = maxChanging
			}
			if !s.enter(p.name, most) {
				w.Header().Set("Retry-After", "1")
				writeErrorCode(w, http.StatusTooManyRequests, fmt.Errorf("%s has %d requests open already: end one first", p.name, most))
				return
			}
			defer s.leave(p.name)
		}
		wantBody(w, r)
		if s.forwards(r) {
			// The other end takes this one for its peer, and lets it do everything.
			switch path := r.URL.Path; {
			case needs(r.Method, path) < roleChange || path == LockPath:
			case r.Method == http.MethodPost && path == LinkPath:
				s.noteFrames(r)
			default:
				s.note(r, "request handed over to the controller that drives the device")
			}
			s.forward.ServeHTTP(stream{w}, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// foreign refuses what a browser sends for a web page of another site. csig's
// own client names its host "agent".
func (s *Server) foreign(r *http.Request) error {
	if o := r.Header.Get("Origin"); o != "" {
		return forbidden("requests of web pages are refused (Origin %s)", untrusted.Text(o, 100))
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "agent" || host == "localhost" || r.TLS != nil && s.tls.names(host) || s.plain && IsLoopback(host) {
		return nil
	}
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && r.TLS != nil {
		if h, _, err := net.SplitHostPort(a.String()); err == nil && h == host {
			return nil
		}
	}
	return forbidden("the request is for the host %s, which is not this daemon", untrusted.Text(r.Host, 100))
}

// enter counts a request of a peer, unless it has so many.
func (s *Server) enter(name string, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests[name] >= most {
		return false
	}
	if s.requests == nil {
		s.requests = map[string]int{}
	}
	s.requests[name]++
	return true
}

func (s *Server) leave(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests[name]--; s.requests[name] == 0 {
		delete(s.requests, name)
	}
}
