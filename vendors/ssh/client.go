package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/csig-agent/csig/inventory"
)

// DefaultTimeout is how long connecting and logging in may take together.
const DefaultTimeout = 15 * time.Second

// maxOutput bounds what a command may print, in bytes; maxStderr what is kept
// of its standard error.
const (
	maxOutput = 256 << 20
	maxStderr = 4 << 10
)

// Config is where to log in, and how.
type Config struct {
	Address string        // a host's name or IP address
	Login   inventory.SSH // a Port of 0 is inventory.DefaultSSHPort
	Timeout time.Duration // to connect and log in; 0 is DefaultTimeout

	// Dial makes the connection; nil is net.Dialer's DialContext.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client is a connection that has logged in. Its methods may be called from
// several goroutines.
type Client struct {
	host string // for messages
	ssh  *ssh.Client
	once sync.Once
	err  error // of Close
}

// Dial connects and logs in. The error names the host, and what to do where
// its key is unknown or another one, or the login is refused; no error has a
// part of a credential. When ctx ends, so does the attempt.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	port := cfg.Login.Port
	if port == 0 {
		port = inventory.DefaultSSHPort
	}
	host := net.JoinHostPort(cfg.Address, strconv.Itoa(int(port)))
	timeout := cfg.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer for %v: is the address right, and sshd running?", timeout))
	defer cancel()
	c, err := connect(ctx, cfg, host)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("ssh to %s: %w", host, err)
	}
	return c, nil
}

func connect(ctx context.Context, cfg Config, host string) (*Client, error) {
	keys, err := readKnownHosts(cfg.Login.KnownHosts)
	if err != nil {
		return nil, err
	}
	auth := &authenticator{ctx: ctx, login: cfg.Login}
	defer auth.close()
	methods, err := auth.methods()
	if err != nil {
		return nil, err
	}
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conn, err := dial(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	remote := conn.RemoteAddr()
	sc, channels, requests, err := ssh.NewClientConn(conn, host, &ssh.ClientConfig{
		User:              cfg.Login.User,
		Auth:              methods,
		HostKeyCallback:   keys.check,
		HostKeyAlgorithms: keys.algorithms(host, remote),
	})
	if err != nil {
		conn.Close()
		switch {
		case keys.refused != nil:
			return nil, keys.refused
		case auth.failed != nil:
			return nil, auth.failed
		case strings.Contains(err.Error(), "unable to authenticate"):
			return nil, fmt.Errorf("login as %s is refused: try ssh -l %s %s by hand, and look at the switch's authorized_keys (%w)", cfg.Login.User, cfg.Login.User, cfg.Address, err)
		}
		return nil, err
	}
	if !stop() { // ctx has ended meanwhile, and took the connection along
		sc.Close()
		return nil, ctx.Err()
	}
	return &Client{host: host, ssh: ssh.NewClient(sc, channels, requests)}, nil
}

// ExitError is a command that ended with another status than 0.
type ExitError struct {
	Host    string
	Command string
	Status  int    // of the command; 128 + n where signal n ended it
	Stderr  string // the beginning of it
}

func (e *ExitError) Error() string {
	why := strings.TrimSpace(e.Stderr)
	if why == "" {
		why = "it printed no reason"
	}
	return fmt.Sprintf("%s: %s: exit status %d: %s", e.Host, e.Command, e.Status, why)
}

// Run runs a command line of the far side's login shell, gives it stdin and
// returns what it prints on standard output. A status other than 0 is an
// *ExitError, and the connection stays of use. When ctx ends, the connection is
// closed; the command may have done its work all the same.
func (c *Client) Run(ctx context.Context, command string, stdin []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("ssh to %s: %w", c.host, context.Cause(ctx))
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	out, err := c.run(command, stdin)
	var exit *ExitError
	switch {
	case err == nil || errors.As(err, &exit):
		return out, err
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return nil, fmt.Errorf("ssh to %s: %w", c.host, err)
}

func (c *Client) run(command string, stdin []byte) ([]byte, error) {
	s, err := c.ssh.NewSession()
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	defer s.Close()
	out, why := &limited{max: maxOutput, fail: true}, &limited{max: maxStderr}
	s.Stdout, s.Stderr = out, why
	in, err := s.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := s.Start(command); err != nil {
		return nil, fmt.Errorf("start a command: %w", err)
	}
	go func() { // a command need not read what it is given; its status says what came of it
		_, _ = in.Write(stdin)
		_ = in.Close()
	}()
	err = s.Wait()
	var exit *ssh.ExitError
	switch {
	case out.over:
		return nil, fmt.Errorf("%s prints more than %d bytes", brief(command), maxOutput)
	case errors.As(err, &exit):
		return nil, &ExitError{Host: c.host, Command: brief(command), Status: exit.ExitStatus(), Stderr: why.kept.String()}
	case err != nil:
		return nil, err
	}
	return out.kept.Bytes(), nil
}

// brief is enough of a command to know it by.
func brief(command string) string {
	if len(command) > 200 {
		return command[:200] + "…"
	}
	return command
}

// limited keeps the first max bytes; more is dropped, or an error.
type limited struct {
	kept bytes.Buffer
	max  int
	fail bool
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	room := min(len(p), l.max-l.kept.Len())
	l.kept.Write(p[:room])
	if room < len(p) && l.fail {
		l.over = true
		return room, io.ErrShortWrite
	}
	return len(p), nil
}

// DialUnix connects to a unix socket on the far side, as
// direct-streamlocal@openssh.com; sshd has to permit it
// (AllowStreamLocalForwarding). Deadlines of the connection are not supported:
// close it instead. ctx is for connecting only; when it ends meanwhile, the
// whole client is closed.
func (c *Client) DialUnix(ctx context.Context, path string) (net.Conn, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("ssh to %s: %w", c.host, context.Cause(ctx))
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	conn, err := c.ssh.Dial("unix", path)
	if err != nil {
		var refused *ssh.OpenChannelError
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case errors.As(err, &refused): // sshd does not tell which
			err = fmt.Errorf("is the daemon running there, may this user open its socket, and does sshd permit it (AllowStreamLocalForwarding)? (%w)", err)
		}
		return nil, fmt.Errorf("ssh to %s: unix socket %s: %w", c.host, path, err)
	}
	return conn, nil
}

// Close ends the connection, and every command and connection on it. It may be
// called many times.
func (c *Client) Close() error {
	c.once.Do(func() {
		if err := c.ssh.Close(); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
			c.err = fmt.Errorf("ssh to %s: %w", c.host, err)
		}
	})
	return c.err
}
