package ssh

import (
	"context"
	"errors"
	"io"

	"golang.org/x/crypto/ssh"
)

// terminal is the form of a shell's terminal: wide, so that the device does not break the
// lines that it echoes.
const (
	terminalType   = "vt100"
	terminalHeight = 255
	terminalWidth  = 511
)

// Shell is the login shell of a device on a terminal (RFC 4254 §6.2, §6.5): a switch's
// command line. What Read returns is the device's own, neither bounded nor cleaned.
type Shell struct {
	io.Reader
	io.WriteCloser
	session *ssh.Session
}

// Shell starts the login shell. ctx is for starting only, which may take DefaultTimeout;
// when it ends meanwhile, the whole client is closed.
func (c *Client) Shell(ctx context.Context) (*Shell, error) {
	if ctx.Err() != nil {
		return nil, failed(ctx, c.host, ctx.Err())
	}
	ctx, done := c.within(ctx, DefaultTimeout)
	defer done()
	sh, err := await(ctx, c.shell)
	if err != nil {
		return nil, failed(ctx, c.host, err)
	}
	return sh, nil
}

func (c *Client) shell() (*Shell, error) {
	s, err := c.ssh.NewSession()
	if err != nil {
		return nil, err
	}
	sh := &Shell{session: s}
	if sh.WriteCloser, err = s.StdinPipe(); err == nil {
		sh.Reader, err = s.StdoutPipe()
	}
	if err == nil {
		err = s.RequestPty(terminalType, terminalHeight, terminalWidth, ssh.TerminalModes{ssh.ECHO: 1})
	}
	if err == nil {
		err = s.Shell()
	}
	if err != nil {
		return nil, errors.Join(err, closed(s.Close()))
	}
	return sh, nil
}

// Close ends the shell.
func (s *Shell) Close() error { return closed(s.session.Close()) }

// closed is an error of closing what may be closed already.
func closed(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
