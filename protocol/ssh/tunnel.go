package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/crypto/ssh"
)

// Tunnel is a login, as root where the fleet file has sudo, that is made when it is
// first needed and again after it was lost. Its methods may be called from several
// goroutines.
type Tunnel struct {
	cfg Config

	mu      sync.Mutex
	login   *Client
	refused error // sudo's answer: asking again may lock the account
}

// NewTunnel returns one that has not logged in.
func NewTunnel(cfg Config) *Tunnel { return &Tunnel{cfg: cfg} }

// get returns the login, and whether it was there already. After a *SudoError there
// is no further try until Close.
func (t *Tunnel) get(ctx context.Context) (c *Client, old bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.login != nil:
		return t.login, true, nil
	case t.refused != nil:
		return nil, false, t.refused
	}
	t.login, err = Dial(ctx, t.cfg)
	if errors.As(err, new(*SudoError)) {
		t.refused = err
	}
	return t.login, false, err
}

// lose ends a login that err shows to be broken.
func (t *Tunnel) lose(c *Client, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if errors.As(err, new(*SudoError)) {
		t.refused = err
	}
	if t.login == c {
		_ = c.Close() // it is lost
		t.login = nil
	}
}

// Dial connects to a unix socket ("unix") or to a TCP address ("tcp") of the
// switch. A login that turns out to be lost is made again, once.
func (t *Tunnel) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	for {
		c, old, err := t.get(ctx)
		if err != nil {
			return nil, err
		}
		var conn net.Conn
		switch network {
		case "unix":
			conn, err = c.DialUnix(ctx, address)
		case "tcp":
			conn, err = c.DialTCP(ctx, address)
		default:
			return nil, fmt.Errorf("%s %s: %w", network, address, errors.ErrUnsupported)
		}
		if err == nil || Refused(err) {
			return conn, err
		}
		t.lose(c, err)
		if !old || ctx.Err() != nil || errors.As(err, new(*SudoError)) {
			return nil, err
		}
	}
}

// Refused reports whether an error of Dial is the switch's answer: the login is good, and
// what was to be opened there does not exist or may not be opened.
func Refused(err error) bool {
	var channel *ssh.OpenChannelError
	return errors.As(err, &channel) || errors.As(err, new(*refusedError))
}

// Run is Client.Run, once.
func (t *Tunnel) Run(ctx context.Context, command string, stdin []byte) ([]byte, error) {
	c, _, err := t.get(ctx)
	if err != nil {
		return nil, err
	}
	out, err := c.Run(ctx, command, stdin)
	if err != nil && !errors.As(err, new(*ExitError)) {
		t.lose(c, err)
	}
	return out, err
}

// Close ends the login.
func (t *Tunnel) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused = nil
	if t.login == nil {
		return nil
	}
	err := t.login.Close()
	t.login = nil
	return err
}
