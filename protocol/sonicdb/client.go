package sonicdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// Options is how to reach a switch's Redis.
type Options struct {
	// Dial connects to a unix socket or a TCP address of the switch.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// ReadFile reads a file of the switch; nil reads none. A file that is not
	// there is fs.ErrNotExist.
	ReadFile func(ctx context.Context, path string) ([]byte, error)

	File    string // database_config.json; "" is DefaultFile
	Socket  string // of Redis, in place of what the file says
	Address string // host:port of Redis, likewise

	// Password fetches that of AUTH; nil for none. It is asked again for each
	// connection, and kept nowhere.
	Password func(context.Context) (string, error)

	// Timeout is how long Redis may take for one round trip; 0 is Timeout.
	Timeout time.Duration

	// Connect is how much longer the first answer may take, since the switch is
	// logged in at for it.
	Connect time.Duration

	// Token is that of the switch's owner, where several controllers may drive it; higher for
	// each owner than for the one before. 0: no other does.
	Token uint64

	// Close is called when the client is closed; nil for nothing.
	Close func() error
}

// Timeout is how long Redis may take for all answers of one round trip.
const Timeout = 5 * time.Second

// Client is the databases of one switch. It connects when it is first used,
// and again after a connection was lost: that is the error of the call that
// notices it. It is not safe for concurrent use.
type Client struct {
	opt    Options
	layout *Layout
	conns  map[string]*conn // by instance
}

// New returns a client that has not connected yet.
func New(opt Options) *Client {
	if opt.File == "" {
		opt.File = DefaultFile
	}
	opt.Timeout = cmp.Or(opt.Timeout, Timeout)
	return &Client{opt: opt, conns: map[string]*conn{}}
}

// Close ends the connections.
func (c *Client) Close() error {
	c.drop()
	if c.opt.Close != nil {
		return c.opt.Close()
	}
	return nil
}

// Dial connects to another socket of the switch than Redis', in the same way.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return c.opt.Dial(ctx, network, address)
}

// drop forgets every connection.
func (c *Client) drop() {
	for name, cn := range c.conns {
		_ = cn.Close()
		delete(c.conns, name)
	}
	c.layout = nil // the switch may come back as another one
}

// Layout is where the databases are.
func (c *Client) Layout(ctx context.Context) (*Layout, error) {
	if c.layout != nil {
		return c.layout, nil
	}
	l := Default()
	if c.opt.ReadFile != nil {
		text, err := c.opt.ReadFile(ctx, c.opt.File)
		switch {
		case err == nil:
			if l, err = Parse(text); err != nil {
				return nil, fmt.Errorf("%s of the switch: %w", c.opt.File, err)
			}
			l.From = c.opt.File
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
			if c.opt.File != DefaultFile { // it was asked for
				return nil, fmt.Errorf("the map of the switch's databases: %w", err)
			}
		default:
			return nil, fmt.Errorf("the map of the switch's databases: %w", err)
		}
	}
	var err error
	switch {
	case c.opt.Socket != "":
		err = l.move(instance{"unix", c.opt.Socket})
	case c.opt.Address != "":
		err = l.move(instance{"tcp", c.opt.Address})
	}
	if err != nil {
		return nil, err
	}
	c.layout = l
	return l, nil
}

// Do sends commands and returns their answers, in one round trip. A command is
// the database's name, the command's and its arguments. An answer is what
// redigo makes of it: nil, int64, []byte, string or []any, or a redis.Error of that
// one command. The error is for all of them: then it is not known which of them
// were carried out.
func (c *Client) Do(ctx context.Context, commands ...[]string) ([]any, error) {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	expand := func(answers []any) ([]any, error) { return answers, nil }
	if c.opt.Token > 0 {
		var err error
		if commands, expand, err = fence(c.opt.Token, commands); err != nil {
			return nil, err
		}
	}
	answers, err := c.do(ctx, commands)
	if err == nil {
		answers, err = expand(answers)
	}
	if err != nil {
		c.drop()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("the switch's Redis: %w", err)
	}
	return answers, nil
}

// All is Do, where the first command that is refused is an error: of those in a
// transaction, too.
func (c *Client) All(ctx context.Context, commands ...[]string) ([]any, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	answers, err := c.Do(ctx, commands...)
	if err == nil {
		err = refusal(answers)
	}
	return answers, err
}

func refusal(answers []any) error {
	for _, a := range answers {
		switch a := a.(type) {
		case redis.Error:
			return fmt.Errorf("it refuses: %w", a)
		case []any: // EXEC's
			if err := refusal(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// limit is how long the switch may take.
func (c *Client) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := c.opt.Timeout
	if len(c.conns) == 0 {
		timeout += c.opt.Connect
	}
	return context.WithTimeoutCause(ctx, timeout, &net.OpError{Op: "read", Net: "redis", // it is not reached
		Err: fmt.Errorf("no answer for %v: does the switch's database container hang?", timeout)})
}

// sent is a command under way.
type sent struct {
	conn *conn
	of   string // the database that is selected; "" where the answer is the caller's
}

func (c *Client) do(ctx context.Context, commands [][]string) (answers []any, failed error) {
	layout, err := c.Layout(ctx)
	if err != nil {
		return nil, err
	}
	under := make([]sent, 0, len(commands)+2)
	var used []*conn
	for _, cmd := range commands {
		p, err := layout.find(cmd[0])
		if err != nil {
			return nil, err
		}
		cn, err := c.connect(ctx, layout, p.instance)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(used, cn) {
			used = append(used, cn)
			cn.round = 0
			stop := context.AfterFunc(ctx, func() { cn.Close() })
			defer func() {
				if !stop() && failed == nil { // it is closed, or will be in a moment
					failed = context.Cause(ctx)
				}
			}()
		}
		if cn.db != p.id {
			cn.send("SELECT", strconv.Itoa(p.id))
			cn.db = p.id
			under = append(under, sent{cn, cmd[0]})
		}
		cn.send(cmd[1:]...)
		under = append(under, sent{cn, ""})
	}
	for _, cn := range used {
		if err := cn.out.Flush(); err != nil {
			return nil, err
		}
	}
	answers = make([]any, 0, len(commands))
	for _, s := range under {
		a, err := s.conn.receive()
		if err != nil {
			return nil, err
		}
		refused, is := a.(redis.Error)
		switch {
		case !is:
		case locked(refused) != nil:
			return nil, locked(refused)
		case s.of != "":
			id, _ := layout.ID(s.of)
			return nil, fmt.Errorf("%s is database %d, by %s: %w; is that the file of this switch?", s.of, id, layout.From, refused)
		}
		if s.of == "" {
			answers = append(answers, a)
		}
	}
	return answers, nil
}

// connect returns the connection to an instance.
func (c *Client) connect(ctx context.Context, layout *Layout, name string) (*conn, error) {
	if cn := c.conns[name]; cn != nil {
		return cn, nil
	}
	cn, err := c.dial(ctx, layout.instances[name])
	if err != nil {
		return nil, err
	}
	c.conns[name] = cn
	return cn, nil
}

func (c *Client) dial(ctx context.Context, to instance) (*conn, error) {
	nc, err := c.opt.Dial(ctx, to.network, to.address)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		err = fmt.Errorf("%w: is the switch's database container running, and is this where its Redis listens (management: redis)?", err)
	}
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	cn := newConn(nc)
	if c.opt.Password != nil {
		word, err := c.opt.Password(ctx)
		if err == nil {
			_, err = cn.ask("AUTH", word)
		}
		if err != nil {
			nc.Close()
			return nil, fmt.Errorf("its password: %w", err)
		}
	}
	// The server's list of clients shows whose connection this is.
	var refused redis.Error
	if _, err := cn.ask("CLIENT", "SETNAME", c.name()); err != nil && (!errors.As(err, &refused) || locked(refused) != nil) {
		nc.Close()
		return nil, cmp.Or(locked(refused), err)
	}
	return cn, nil
}

// locked is the error of a Redis that wants another password; nil for any other.
func locked(refused redis.Error) error {
	if text := string(refused); strings.HasPrefix(text, "NOAUTH") || strings.HasPrefix(text, "WRONGPASS") {
		return fmt.Errorf("%w; give its password in the fleet file (management: redis: password)", refused)
	}
	return nil
}

// readable is an error of Redis as a line that can be printed.
func readable(text string) redis.Error {
	return redis.Error(cmp.Or(untrusted.Text(text, maxError), "an error without a word"))
}

const maxError = 256 // bytes

// ClientName is what csig's connections are called in Redis' CLIENT LIST, SharedName those of
// a controller that shares the switch with others.
const (
	ClientName = "csig"
	SharedName = "csig-shared"
)

func (c *Client) name() string {
	if c.opt.Token > 0 {
		return SharedName
	}
	return ClientName
}
