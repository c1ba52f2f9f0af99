package clitest

import (
	"net"
	"slices"
	"sync/atomic"
	"time"
)

// Login is one of those that are open at a switch.
type Login struct {
	Line  int // the VTY line, the lowest that was free
	User  string
	From  string // the address it comes from
	Since time.Time

	conn  net.Conn
	ended atomic.Bool
}

// End ends a login: nothing that it sent and that is not carried out yet will be.
func (l *Login) End() {
	l.ended.Store(true)
	l.conn.Close()
}

// LogIn is for shells that show logins, or end them.
type LogIn interface {
	LogIn(own *Login, all func() []*Login)
}

// Logins are those that are open, by line.
func (s *Server) Logins() []*Login {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.logins)
}

// logIn gives a login a line until out is called.
func (s *Server) logIn(user string, conn net.Conn) (l *Login, out func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	l = &Login{User: user, From: from, Since: time.Now(), conn: conn}
	for ; l.Line < len(s.logins) && s.logins[l.Line].Line == l.Line; l.Line++ {
	}
	s.logins = slices.Insert(s.logins, l.Line, l)
	return l, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.logins = slices.DeleteFunc(s.logins, func(o *Login) bool { return o == l })
	}
}
