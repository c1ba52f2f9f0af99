package ssh

import (
	"errors"
	"fmt"
	"io"

	"github.com/scrapli/scrapligo/transport"
	"golang.org/x/crypto/ssh"
)

// Shell is a terminal with the far side's login shell, in the form that
// scrapligo's drivers take (options.WithCustomTransport). It is for one driver.
type Shell struct {
	client  *Client
	session *ssh.Session
	in      io.WriteCloser
	out     io.Reader
}

var _ transport.Implementation = (*Shell)(nil)

// Shell returns a shell that is opened by the driver it is given to. Closing it
// leaves the client open.
func (c *Client) Shell() *Shell { return &Shell{client: c} }

// Open starts the shell on a terminal of the size that the driver wants.
func (s *Shell) Open(a *transport.Args) (err error) {
	if s.session != nil {
		return errors.New("the shell is open already")
	}
	session, err := s.client.ssh.NewSession()
	if err != nil {
		return fmt.Errorf("ssh to %s: open a shell: %w", s.client.host, err)
	}
	defer func() {
		if err != nil {
			session.Close()
			err = fmt.Errorf("ssh to %s: open a shell: %w", s.client.host, err)
		}
	}()
	if s.in, err = session.StdinPipe(); err != nil {
		return err
	}
	if s.out, err = session.StdoutPipe(); err != nil {
		return err
	}
	const baud = 115200
	modes := ssh.TerminalModes{ssh.ECHO: 1, ssh.TTY_OP_ISPEED: baud, ssh.TTY_OP_OSPEED: baud}
	if err = session.RequestPty("xterm", a.TermHeight, a.TermWidth, modes); err != nil {
		return err
	}
	if err = session.Shell(); err != nil {
		return err
	}
	s.session = session
	return nil
}

// Close ends the shell.
func (s *Shell) Close() error {
	if s.session == nil {
		return nil
	}
	err := s.session.Close()
	s.session = nil
	if errors.Is(err, io.EOF) { // it has ended by itself
		return nil
	}
	return err
}

// IsAlive tells whether the shell is open.
func (s *Shell) IsAlive() bool { return s.session != nil }

// Read reads what the terminal shows, n bytes at most.
func (s *Shell) Read(n int) ([]byte, error) {
	b := make([]byte, n)
	n, err := s.out.Read(b)
	return b[:n], err
}

// Write types b.
func (s *Shell) Write(b []byte) error {
	_, err := s.in.Write(b)
	return err
}
