package sonic

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
	"github.com/csig-agent/csig/vendors/ssh"
)

// Redis returns the databases of a device: those of this machine where the
// device is local, else those of its address through SSH. It connects when it
// is first used, and the password, where there is one, is fetched then.
func Redis(cfg vendors.Config) (*sonicdb.Client, error) {
	dev := &cfg.Device
	var how inventory.Redis
	if dev.Management.Redis != nil {
		how = *dev.Management.Redis
	}
	opt := sonicdb.Options{File: how.Databases, Socket: how.Socket}
	if how.Port != 0 {
		opt.Address = net.JoinHostPort("127.0.0.1", strconv.Itoa(int(how.Port)))
	}
	if !how.Password.IsZero() {
		opt.Password = how.Password.Resolve
	}
	switch {
	case dev.Local:
		opt.Dial = (&net.Dialer{}).DialContext
		opt.ReadFile = func(_ context.Context, path string) ([]byte, error) { return os.ReadFile(path) }
		return sonicdb.New(opt), nil
	case dev.Management.SSH == nil:
		return nil, &vendors.PermanentError{Err: errors.New("csig does not know how to reach its Redis: mark it local: true on the switch itself, or give management: ssh")}
	case dev.Address == "":
		return nil, &vendors.PermanentError{Err: errors.New("the device has no address: add one to the fleet file")}
	}
	t := &tunnel{cfg: ssh.Config{Address: dev.Address, Login: *dev.Management.SSH, Dial: cfg.Dial}}
	opt.Dial, opt.ReadFile, opt.Close = t.dial, t.readFile, t.close
	return sonicdb.New(opt), nil
}

// tunnel is a login at the switch, made anew after it was lost.
type tunnel struct {
	cfg ssh.Config

	mu     sync.Mutex
	client *ssh.Client
}

func (t *tunnel) get(ctx context.Context) (*ssh.Client, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client == nil {
		c, err := ssh.Dial(ctx, t.cfg)
		if err != nil {
			return nil, err
		}
		t.client = c
	}
	return t.client, nil
}

func (t *tunnel) lose(c *ssh.Client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client == c {
		c.Close()
		t.client = nil
	}
}

func (t *tunnel) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := t.get(ctx)
	if err != nil {
		return nil, err
	}
	var conn net.Conn
	if network == "unix" {
		conn, err = c.DialUnix(ctx, address)
	} else {
		conn, err = c.DialTCP(ctx, address)
	}
	if err != nil {
		t.lose(c)
	}
	return conn, err
}

// readFile reads a file of the switch; a path without quotes, which an
// inventory's paths may have, is the shell's to read.
func (t *tunnel) readFile(ctx context.Context, path string) ([]byte, error) {
	c, err := t.get(ctx)
	if err != nil {
		return nil, err
	}
	out, err := c.Run(ctx, "cat '"+strings.ReplaceAll(path, "'", `'\''`)+"'", nil)
	var exit *ssh.ExitError
	switch {
	case errors.As(err, &exit):
		return nil, fmt.Errorf("%w: %w", exit, fs.ErrNotExist)
	case err != nil:
		t.lose(c)
	}
	return out, err
}

func (t *tunnel) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client == nil {
		return nil
	}
	return t.client.Close()
}
