package ssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// DefaultTimeout is how long connecting and logging in may take together.
const DefaultTimeout = 15 * time.Second

// A command may take maxRun where its caller sets no deadline.
const maxRun = 5 * time.Minute

// Bounds, in bytes: what a command may print, what is kept of its standard
// error, and what a switch may send until the login is done.
const (
	maxOutput = 4 << 20
	maxStderr = 4 << 10
	maxLogin  = 1 << 20
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
	root *root           // makes commands root's; nil: they run as the account
	lost context.Context // ends with the connection
	once sync.Once
	err  error // of Close
}

// Dial connects, logs in and, where cfg.Login has sudo, checks that the account may
// become root. The error names the host, and what to do where its key is unknown or
// another one, or the login is refused; no error has a part of a credential. When
// ctx ends, so does the attempt. cfg.Timeout bounds the login, and sudo, each.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	c, err := login(ctx, cfg)
	if err != nil || cfg.Login.Sudo == nil {
		return c, err
	}
	c.becomeRoot(cfg.Login, cfg.Timeout)
	if _, err := c.Run(ctx, "true", nil); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func login(ctx context.Context, cfg Config) (*Client, error) {
	port := cfg.Login.Port
	if port == 0 {
		port = inventory.DefaultSSHPort
	}
	host := net.JoinHostPort(cfg.Address, strconv.Itoa(int(port)))
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.Timeout, fmt.Errorf("no answer for %v: is the address right, and sshd running?", cfg.Timeout))
	defer cancel()
	c, err := connect(ctx, cfg, host)
	if err != nil {
		return nil, failed(ctx, host, err)
	}
	return c, nil
}

// failed adds the host to an error, and why ctx ended if that was the cause.
// Errors of SSH have the switch's own words: they are cleaned here.
func failed(ctx context.Context, host string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("ssh to %s: %w", host, untrusted.Error(err))
}

// LocalAddr is the address of this machine that the connection came from.
func (c *Client) LocalAddr() net.Addr { return c.ssh.LocalAddr() }

// within bounds an operation that ends the connection when it takes too long.
func (c *Client) within(ctx context.Context, limit time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer for %v", limit))
	ctx, lose := context.WithCancelCause(ctx)
	stop := context.AfterFunc(ctx, func() { c.Close() })
	unlost := context.AfterFunc(c.lost, func() {
		time.AfterFunc(time.Second, func() { lose(errLost) }) // what has arrived is still read
	})
	return ctx, func() { unlost(); stop(); cancel(); lose(nil) }
}

var errLost = errors.New("the connection was lost, or closed")

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
	login := &loginConn{Conn: conn}
	sc, channels, requests, err := ssh.NewClientConn(login, host, &ssh.ClientConfig{
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
		case login.sent.Load() > maxLogin:
			return nil, fmt.Errorf("it sends more than %d bytes before the login is done", maxLogin)
		case strings.Contains(err.Error(), "unable to authenticate"):
			return nil, fmt.Errorf("login as %s is refused: try ssh -l %s %s by hand, and look at %s (%w)", cfg.Login.User, cfg.Login.User, cfg.Address, auth.tried(), err)
		}
		return nil, err
	}
	if !stop() { // ctx has ended meanwhile, and took the connection along
		sc.Close()
		return nil, ctx.Err()
	}
	login.done.Store(true)
	c := &Client{host: host, ssh: ssh.NewClient(sc, channels, requests)}
	var lose context.CancelFunc
	c.lost, lose = context.WithCancel(context.Background())
	go func() {
		defer lose()
		_ = c.ssh.Wait() // operations have better errors
	}()
	return c, nil
}

// loginConn bounds what a switch sends until the login is done: banners and
// questions have no end of their own.
type loginConn struct {
	net.Conn
	sent atomic.Int64
	done atomic.Bool
}

func (c *loginConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.done.Load() && c.sent.Add(int64(n)) > maxLogin {
		return 0, untrusted.ErrTooLong
	}
	return n, err
}

// await is f's result, or the end of ctx: what waits for a switch does not always
// notice that its connection is closed.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() { done <- r }()
		defer untrusted.Recover(&r.err)
		r.v, r.err = f()
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// ExitError is a command that ended with another status than 0.
type ExitError struct {
	Host    string
	Command string
	Status  int    // of the command; 128 + n where signal n ended it
	Stderr  string // the beginning of it, as one line of printable text
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("%s: %s: exit status %d: %s", e.Host, e.Command, e.Status, cmp.Or(e.Stderr, "it printed no reason"))
}

// Run runs a command line of the account's login shell, or of root's /bin/sh, gives
// it stdin and returns what it prints on standard output. A status other than 0 is an
// *ExitError, and the connection stays of use. When ctx ends, or the command prints
// more than csig accepts, the connection is closed; the command may have done its work
// all the same. After a *SudoError every other command has that too, and sudo is not
// asked again.
func (c *Client) Run(ctx context.Context, command string, stdin []byte) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, failed(ctx, c.host, ctx.Err())
	}
	limit := maxRun
	if end, ok := ctx.Deadline(); ok {
		limit = time.Until(end) + time.Second // the caller's, with its own cause
	}
	ctx, done := c.within(ctx, limit)
	defer done()
	out, err := await(ctx, func() ([]byte, error) {
		var p *process
		var err error
		if c.root != nil {
			p, err = c.root.start(ctx, command)
		} else {
			p, err = c.start(command, &limited{})
		}
		if err != nil {
			return nil, err
		}
		defer p.session.Close()
		go func() { // a command need not read its input; its exit status reports the outcome
			_, _ = p.in.Write(stdin)
			_ = p.in.Close()
		}()
		out, err := untrusted.ReadAll(p.out, maxOutput)
		if err != nil {
			c.Close() // it may still be sending
			return nil, fmt.Errorf("%s prints more than %d bytes: %w", brief(command), maxOutput, err)
		}
		status, err := p.status()
		if err == nil && status != 0 {
			err = &ExitError{Host: c.host, Command: brief(command), Status: status, Stderr: p.stderr.text()}
		}
		return out, err
	})
	switch {
	case err == nil:
		return out, nil
	case errors.As(err, new(*SudoError)) || errors.As(err, new(*ExitError)):
		return nil, err
	}
	return nil, failed(ctx, c.host, err)
}

// process is a command on an exec channel.
type process struct {
	session *ssh.Session
	in      io.WriteCloser
	out     io.Reader
	stderr  stderr
	ended   chan struct{} // closed when err is what came of it
	err     error
}

// stderr keeps the beginning of a command's standard error.
type stderr interface {
	io.Writer
	text() string
}

// start starts a command line of the remote login shell.
func (c *Client) start(command string, why stderr) (*process, error) {
	s, err := c.ssh.NewSession()
	if err != nil {
		return nil, fmt.Errorf("open a session (does sshd permit another one? MaxSessions): %w", err)
	}
	p := &process{session: s, stderr: why, ended: make(chan struct{})}
	var reasons io.Reader
	if p.in, err = s.StdinPipe(); err == nil {
		p.out, err = s.StdoutPipe()
	}
	if err == nil {
		reasons, err = s.StderrPipe()
	}
	if err == nil {
		err = s.Start(command)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("start a command: %w", err)
	}
	go func() {
		defer close(p.ended)
		if _, p.err = io.Copy(why, untrusted.NewReader(reasons, maxOutput)); p.err != nil {
			c.Close() // it may still be sending
			return
		}
		p.err = s.Wait()
	}()
	return p, nil
}

// status waits for the command's end and returns its exit status.
func (p *process) status() (int, error) {
	<-p.ended
	if exit := (*ssh.ExitError)(nil); errors.As(p.err, &exit) {
		return exit.ExitStatus(), nil
	}
	if errors.As(p.err, new(*ssh.ExitMissingError)) {
		return 0, fmt.Errorf("the command ended without a status: %w", errLost)
	}
	return 0, p.err
}

// brief is enough of a command to know it by.
func brief(command string) string {
	if len(command) > 200 {
		return command[:200] + "…"
	}
	return command
}

// limited keeps the first maxStderr bytes and drops the rest.
type limited struct {
	mu   sync.Mutex
	kept []byte
}

func (l *limited) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, p[:min(len(p), maxStderr-len(l.kept))]...)
	return len(p), nil
}

func (l *limited) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return untrusted.Text(string(l.kept), maxStderr)
}

// DialUnix connects to a unix socket of the switch: as root through python3 there, or
// as the account by direct-streamlocal@openssh.com, which sshd has to permit
// (AllowStreamLocalForwarding). ctx is for connecting only, which may take
// DefaultTimeout; when it ends meanwhile, the whole client is closed.
func (c *Client) DialUnix(ctx context.Context, path string) (net.Conn, error) {
	if c.root != nil {
		return c.root.dialUnix(ctx, path)
	}
	// sshd does not report which of them it is.
	return c.dial(ctx, "unix", path, "unix socket "+path, "is the daemon running there, may this user open its socket, and does sshd permit it (AllowStreamLocalForwarding)?")
}

// DialTCP connects from the switch to a TCP address, as direct-tcpip (RFC 4254
// §7.2); sshd has to permit it (AllowTcpForwarding). Otherwise it is as DialUnix.
func (c *Client) DialTCP(ctx context.Context, address string) (net.Conn, error) {
	return c.dial(ctx, "tcp", address, address, "does anything listen there, and does sshd permit it (AllowTcpForwarding)?")
}

func (c *Client) dial(ctx context.Context, network, address, what, advice string) (net.Conn, error) {
	if ctx.Err() != nil {
		return nil, failed(ctx, c.host, ctx.Err())
	}
	ctx, done := c.within(ctx, DefaultTimeout)
	defer done()
	conn, err := await(ctx, func() (net.Conn, error) { return c.ssh.Dial(network, address) })
	if err == nil {
		return withDeadlines(conn), nil
	}
	if errors.As(err, new(*ssh.OpenChannelError)) {
		err = fmt.Errorf("%s: %s (%w)", what, advice, err)
	}
	return nil, failed(ctx, c.host, err)
}

// withDeadlines makes a connection with deadlines of a channel, which has none and
// whose Read does not end with Close where the switch does not answer that.
func withDeadlines(channel io.ReadWriteCloser) net.Conn {
	near, far := net.Pipe()
	go func() {
		_, _ = io.Copy(far, channel)
		far.Close()
	}()
	go func() {
		_, _ = io.Copy(channel, far)
		channel.Close()
		far.Close()
	}()
	return near
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
