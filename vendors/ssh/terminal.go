package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/scrapli/scrapligo/transport"
	"golang.org/x/crypto/ssh"
)

// terminal is a command on a terminal of the far side, in the form that
// scrapligo's drivers take (options.WithCustomTransport). It is for one driver.
type terminal struct {
	client  *Client
	command string

	session *ssh.Session
	in      io.Writer
	screen  *screen
	stays   bool // when the driver is closed
}

var _ transport.Implementation = (*terminal)(nil)

// Open starts the command on a terminal of the size that the driver wants. It
// does not echo: what is typed there first is a password.
func (t *terminal) Open(a *transport.Args) (err error) {
	if t.session != nil {
		return errors.New("the terminal is open already")
	}
	session, err := t.client.ssh.NewSession()
	if err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	defer func() {
		if err != nil {
			session.Close()
		}
	}()
	if t.in, err = session.StdinPipe(); err != nil {
		return err
	}
	t.screen = newScreen()
	session.Stdout = t.screen
	const baud = 115200
	modes := ssh.TerminalModes{ssh.ECHO: 0, ssh.TTY_OP_ISPEED: baud, ssh.TTY_OP_OSPEED: baud}
	if err = session.RequestPty("dumb", a.TermHeight, a.TermWidth, modes); err != nil {
		return fmt.Errorf("sshd there gives this user no terminal, which sudo needs to ask for a password: look for PermitTTY in its sshd_config, and for no-pty or restrict in the user's authorized_keys (%w)", err)
	}
	if err = session.Start(t.command); err != nil {
		return fmt.Errorf("start a command: %w", err)
	}
	go func() {
		_ = session.Wait() // what the terminal showed says why
		if t.screen.end() {
			t.client.Close()
		}
	}()
	t.session = session
	return nil
}

// Close ends the command, unless that is to stay.
func (t *terminal) Close() error {
	if t.session == nil || t.stays {
		return nil
	}
	err := t.session.Close()
	t.session = nil
	t.screen.end()
	if errors.Is(err, io.EOF) { // it has ended by itself
		return nil
	}
	return err
}

// IsAlive tells whether the command has been started and not been ended.
func (t *terminal) IsAlive() bool { return t.session != nil }

// Read reads what the terminal shows, n bytes at most.
func (t *terminal) Read(n int) ([]byte, error) {
	b := make([]byte, n)
	n, err := t.screen.login.Read(b)
	return b[:n], err
}

// Write types b.
func (t *terminal) Write(b []byte) error {
	_, err := t.in.Write(b)
	return err
}

// detach ends the driver's part. The command stays on its terminal, whose end is
// the connection's end from then on; what it shows is nothing to anybody.
func (t *terminal) detach() {
	t.stays = true
	t.screen.detach()
}

// screen is what a terminal shows, for the driver to read.
type screen struct {
	login *io.PipeReader
	to    *io.PipeWriter

	mu       sync.Mutex
	detached bool
	text     bytes.Buffer // the last that was shown
}

// maxShown bounds what is kept of what sudo says, in bytes.
const maxShown = 4 << 10

func newScreen() *screen {
	s := &screen{}
	s.login, s.to = io.Pipe()
	return s
}

// Write is called with what the far side prints.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.text.Write(p)
	s.text.Next(max(0, s.text.Len()-maxShown))
	s.mu.Unlock()
	if _, err := s.to.Write(p); err != nil && !errors.Is(err, io.ErrClosedPipe) { // which nobody reads any more
		return 0, err
	}
	return len(p), nil
}

func (s *screen) detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detached = true
	s.to.Close()
}

// end tells the driver that nothing more will come, or whether it is detached.
func (s *screen) end() (detached bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to.Close()
	return s.detached
}

// shown is the end of what the terminal shows; drivers drop what they have
// not looked at when the far side ends.
func (s *screen) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
