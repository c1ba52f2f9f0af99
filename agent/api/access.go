package api

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"

	"github.com/csig-agent/csig/vendors"
)

// Share lets the members of a group, by its name or number, read the status at
// the socket. Whoever else may connect then, root and the agent's own user alone
// do the rest: the kernel says who is at the other end. It is called before
// Serve.
func (s *Server) Share(group string) error {
	if !knowsPeers {
		return fmt.Errorf("--socket-group %s: this system does not say who is at the other end of a socket: leave it out", group)
	}
	if g, err := user.LookupGroup(group); err == nil {
		group = g.Gid
	}
	gid, err := strconv.Atoi(group)
	if err != nil || gid < 0 {
		return fmt.Errorf("--socket-group %s: there is no such group", group)
	}
	socket := s.lns[0].Addr().String()
	if err = os.Chown(socket, -1, gid); err == nil {
		err = os.Chmod(socket, 0o660)
	}
	if err != nil {
		return fmt.Errorf("--socket-group %s: %w", group, err)
	}
	return nil
}

// peerKey is where a request's context has the user at the other end of a unix
// socket.
type peerKey struct{}

// peer is that user; err is why the kernel does not say.
type peer struct {
	uid int
	err error
}

// withPeer notes who is at the other end of a connection.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	u, ok := c.(*net.UnixConn)
	if !ok { // TLS: who gets in has a certificate
		return ctx
	}
	uid, err := peerOf(u)
	return context.WithValue(ctx, peerKey{}, peer{uid, err})
}

// guard leaves all but the status to root and to the agent's own user, where the
// kernel says who asks. Where it does not, the socket's mode is the guard.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, unix := r.Context().Value(peerKey{}).(peer)
		switch {
		case r.URL.Path == StatusPath, r.URL.Path == WatchPath, !unix, !knowsPeers, p.err == nil && (p.uid == 0 || p.uid == os.Geteuid()):
			next.ServeHTTP(w, r)
		case p.err != nil:
			writeError(w, &vendors.PermanentError{Err: fmt.Errorf("who asks cannot be told: %w: %w", fs.ErrPermission, p.err)})
		default:
			writeError(w, &vendors.PermanentError{Err: fmt.Errorf("user %d may read the status, and no more: %w: ask as root, or as the user that the agent runs as", p.uid, fs.ErrPermission)})
		}
	})
}
