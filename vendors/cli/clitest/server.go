package clitest

import (
	"bufio"
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
)

// Shell is one login: an interpreter of a vendor's grammar. The server calls it from one
// goroutine at a time, for all logins.
type Shell interface {
	// Prompt is what the next command is asked for with.
	Prompt() string

	// Do carries out a line and returns what the switch prints, "" for nothing; end ends
	// the session.
	Do(line string) (answer string, end bool)

	// Page is how many lines the switch prints at a time, and what it writes below them;
	// 0: all of them.
	Page() (lines int, more string)
}

// Faults are what a switch does wrong.
type Faults struct {
	Slow  time.Duration // before each answer
	Bytes bool          // echo each byte by itself

	// Drop ends the session instead of the answer to the command for which it returns
	// true: before it is carried out, or with Half after.
	Drop func(line string) bool
	Half bool

	// Answer replaces the answer to a command, of which nothing is carried out; ok is false
	// for those it leaves alone. Endless repeats it without end, NoPrompt sends no prompt
	// behind it.
	Answer   func(line string) (text string, ok bool)
	Endless  bool
	NoPrompt bool

	// After is called when a command was carried out, before its answer is sent.
	After func(line string)
}

// Server is a switch at an address of this machine, or in memory.
type Server struct {
	Address string
	Login   inventory.SSH
	Dial    func(ctx context.Context, network, address string) (net.Conn, error) // nil: the network's

	open func() Shell
	ln   *sshtest.Listener
	work chan struct{} // has room for one command at a time; who waits for it waits durably

	mu     sync.Mutex // guards what follows
	faults Faults
	lines  []Line
	logins []*Login
}

// Line is a command that was carried out.
type Line struct {
	Text string
	By   *Login
}

// New starts a switch; open makes the interpreter of a login. It ends with the test.
func New(t testing.TB, open func() Shell) *Server {
	t.Helper()
	return start(t, open, sshtest.Listen)
}

// InMemory is New without a socket, for tests in a bubble of testing/synctest: clients connect
// by Dial.
func InMemory(t testing.TB, open func() Shell) *Server {
	t.Helper()
	return start(t, open, sshtest.InMemory)
}

func start(t testing.TB, open func() Shell, listen func(testing.TB, *ssh.ServerConfig, func(net.Conn)) *sshtest.Listener) *Server {
	t.Helper()
	s := &Server{open: open, work: make(chan struct{}, 1)}
	cfg := &ssh.ServerConfig{PasswordCallback: func(c ssh.ConnMetadata, given []byte) (*ssh.Permissions, error) {
		if c.User() != "admin" || subtle.ConstantTimeCompare(given, []byte(sshtest.Password)) != 1 {
			return nil, errors.New("wrong password")
		}
		return nil, nil
	}}
	s.ln = listen(t, cfg, func(conn net.Conn) { s.serve(conn, cfg) })
	s.Address, s.Login, s.Dial = s.ln.Address, s.ln.Login, s.ln.Dial
	return s
}

// Set changes what the switch does wrong, from the next command on.
func (s *Server) Set(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// Log is what was carried out so far.
func (s *Server) Log() []Line {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}

// Lines are the commands of Log.
func (s *Server) Lines() (lines []string) {
	for _, l := range s.Log() {
		lines = append(lines, l.Text)
	}
	return lines
}

// Forget empties Lines.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = nil
}

// Take is Lines, and empties them.
func (s *Server) Take() []string {
	lines := s.Lines()
	s.Forget()
	return lines
}

// EndAt ends the session at the nth command from now on.
func (s *Server) EndAt(n int) {
	s.Set(Faults{Drop: func(string) bool { n--; return n == 0 }})
}

// Cut ends every session, as a device that restarts does.
func (s *Server) Cut() { s.ln.Cut() }

// Close ends the server and its sessions.
func (s *Server) Close() { s.ln.Close() }

// serve carries on one connection, with one shell.
func (s *Server) serve(conn net.Conn, cfg *ssh.ServerConfig) {
	sc, channels, requests, err := ssh.NewServerConn(conn, cfg)
	if err != nil {
		return
	}
	defer sc.Close()
	go ssh.DiscardRequests(requests)
	for nc := range channels {
		if nc.ChannelType() != "session" {
			_ = nc.Reject(ssh.UnknownChannelType, "sessions only")
			continue
		}
		ch, reqs, err := nc.Accept()
		if err != nil {
			return
		}
		for r := range reqs {
			shell := r.Type == "shell"
			_ = r.Reply(shell || r.Type == "pty-req", nil)
			if shell {
				go ssh.DiscardRequests(reqs)
				s.session(ch, sc.User(), conn)
				return
			}
		}
	}
}

// session reads commands, echoing what comes as it comes.
func (s *Server) session(ch io.ReadWriteCloser, user string, conn net.Conn) {
	defer ch.Close()
	login, out := s.logIn(user, conn)
	defer out()
	s.work <- struct{}{}
	sh := s.open()
	if in, ok := sh.(LogIn); ok {
		in.LogIn(login, s.Logins)
	}
	prompt := sh.Prompt()
	<-s.work
	if end, ok := sh.(interface{ Ended() }); ok { // it gives back locks
		defer func() {
			s.work <- struct{}{}
			defer func() { <-s.work }()
			end.Ended()
		}()
	}
	in := bufio.NewReader(ch)
	var line []byte
	if !put(ch, "\r\n"+prompt) {
		return
	}
	for {
		b, err := in.ReadByte()
		switch {
		case err != nil || login.ended.Load():
			return
		case b == 3: // Ctrl-C
			line = nil
		case b == '\r' || b == '\n':
			if !s.command(ch, in, sh, Line{strings.TrimSpace(string(line)), login}) {
				return
			}
			line = nil
		case len(line) < 511:
			echo := []byte{b}
			for more, _ := in.Peek(s.together(in)); len(more) > 0 && more[0] >= ' ' && len(line)+len(echo) < 511; more = more[1:] {
				echo = append(echo, more[0])
			}
			_, _ = in.Discard(len(echo) - 1) // they are there
			line = append(line, echo...)
			if !put(ch, string(echo)) {
				return
			}
		}
	}
}

// together is how many bytes that have come are echoed with the one before them.
func (s *Server) together(in *bufio.Reader) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.Bytes {
		return 0
	}
	return in.Buffered()
}

func put(w io.Writer, text string) bool {
	_, err := io.WriteString(w, text)
	return err == nil
}

// command carries out a line and writes the echo of its end, the answer and the next prompt; false
// ends the session.
func (s *Server) command(ch io.Writer, in *bufio.Reader, sh Shell, given Line) bool {
	line := given.Text
	s.mu.Lock()
	f := s.faults
	s.mu.Unlock()
	drop := f.Drop != nil && line != "" && f.Drop(line)
	if drop && !f.Half {
		return false
	}
	echo := "\r\n"
	if f.Slow > 0 {
		put(ch, echo)
		echo = ""
		time.Sleep(f.Slow)
	}
	if f.Answer != nil && line != "" {
		if text, ok := f.Answer(line); ok {
			for put(ch, echo+text) && f.Endless {
			}
			return f.NoPrompt || put(ch, sh.Prompt())
		}
	}
	answer, end := s.carryOut(sh, given, f.After)
	if drop || end {
		return false
	}
	return page(ch, in, sh, echo, answer)
}

func (s *Server) carryOut(sh Shell, given Line, after func(string)) (answer string, end bool) {
	line := given.Text
	s.work <- struct{}{}
	defer func() { <-s.work }()
	if line != "" {
		s.mu.Lock()
		s.lines = append(s.lines, given)
		s.mu.Unlock()
	}
	answer, end = sh.Do(line)
	if after != nil && line != "" {
		after(line)
	}
	return answer, end
}

// page writes an answer a page at a time, the last one with the next prompt behind it, at once: a
// blank asks for the next page, anything else ends it.
func page(ch io.Writer, in *bufio.Reader, sh Shell, echo, answer string) bool {
	var lines []string
	if answer != "" {
		lines = strings.Split(strings.TrimRight(answer, "\n"), "\n")
	}
	size, more := sh.Page()
	var text strings.Builder
	text.WriteString(echo)
	for i, line := range lines {
		if size > 0 && i > 0 && i%size == 0 {
			if !put(ch, text.String()+more) {
				return false
			}
			text.Reset()
			key, err := in.ReadByte()
			if err != nil {
				return false
			}
			text.WriteString("\r" + strings.Repeat(" ", len(more)) + "\r")
			if key != ' ' {
				break
			}
		}
		text.WriteString(line + "\r\n")
	}
	return put(ch, text.String()+sh.Prompt())
}
