package ssh

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/inventory"
)

// root runs a client's commands as root by sudo, each on an exec channel of its own.
// Its methods may be called from several goroutines.
type root struct {
	client  *Client
	login   inventory.SSH
	timeout time.Duration // for sudo's part of a command

	turn chan struct{} // has an element while sudo looks at a password: a wrong one is sent once

	mu       sync.Mutex
	password string // once sudo has asked for it
	refused  error  // a *SudoError: asking again may lock the account
}

// becomeRoot makes the commands from now on root's, as login.Sudo has it; timeout
// bounds sudo's part of each.
func (c *Client) becomeRoot(login inventory.SSH, timeout time.Duration) {
	c.root = &root{client: c, login: login, timeout: timeout, turn: make(chan struct{}, 1)}
}

// start starts a command as root.
func (r *root) start(ctx context.Context, command string) (*process, error) {
	if strings.IndexByte(command, 0) >= 0 {
		return nil, fmt.Errorf("%q has a zero byte, which no command can have", brief(command))
	}
	if err := r.refusal(); err != nil {
		return nil, err
	}
	ctx, done := r.client.within(ctx, r.timeout)
	defer done()
	b := newSudoSession(r)
	p, err := await(ctx, func() (*process, error) {
		p, err := r.client.start(b.line(command), b)
		if err != nil {
			return nil, err
		}
		if err := b.answerPrompt(ctx, p); err != nil {
			p.session.Close() // sudo treats the end of its input as an answer
			return nil, err
		}
		return p, nil
	})
	if err == nil {
		return p, nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w%s", context.Cause(ctx), b.last("; sudo reports"))
	}
	if errors.As(err, new(*SudoError)) {
		return nil, err
	}
	return nil, fmt.Errorf("become root by sudo: %w", err)
}

// refusal is what sudo has answered for good.
func (r *root) refusal() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// refuse keeps a *SudoError, and drops the password.
func (r *root) refuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil {
		r.refused, r.password = err, ""
	}
}

// secret returns sudo's password and where it is from, which sudo has asked for.
func (r *root) secret(ctx context.Context) (password string, from inventory.Secret, err error) {
	from = r.login.Sudo.Password
	if from.IsZero() {
		from = r.login.Password
	}
	if from.IsZero() {
		return "", from, errors.New("it asks for a password, and the fleet file has none: add sudo: {password: {file: /PATH}} (management: ssh), or permit the account sudo without one (NOPASSWD)")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.password == "" {
		password, err := from.Resolve(ctx)
		if err != nil {
			return "", from, err
		}
		if strings.ContainsFunc(password, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return "", from, fmt.Errorf("the password from %s has a control character, which cannot be typed: give the account another one", from)
		}
		r.password = password
	}
	return r.password, from, nil
}
