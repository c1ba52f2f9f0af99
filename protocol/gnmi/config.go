package gnmi

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/csig-agent/csig/protocol/secret"
)

// TLS says whom to trust, and what to show a target that asks. The zero value
// trusts the system's roots.
type TLS struct {
	// CAFile has the certificates (PEM) of those who may sign the target's; "" is
	// the system's roots.
	CAFile string
	// CertFile and KeyFile (PEM) are shown to targets that want to know who is
	// calling. They are read again at every connection, so that they can be
	// renewed.
	CertFile, KeyFile string
	// ServerName is the name in the target's certificate; "" is the host of the
	// address.
	ServerName string
	// SkipVerify accepts any certificate: an attacker on the path can then read
	// the password.
	SkipVerify bool
}

// Config is how a target is reached. It prints without its secrets.
type Config struct {
	Device  string // the device's name in errors; Address if empty
	Address string // host:port of the gNMI target

	// Plaintext does without TLS: everything travels in the clear, the password
	// as well.
	Plaintext bool
	TLS       TLS
	Username  string      // in the metadata of each call; "" sends none
	Password  secret.Text // goes with Username

	// Target is the name to put into the prefix of requests, for gateways that
	// serve many devices; "" puts none.
	Target string

	// Timeout is how long a target may take to connect and to begin to answer; 0
	// is 5 s.
	Timeout time.Duration
	// Backoff and MaxBackoff bound the time between attempts to reach a target;
	// 0 are 200 ms and 30 s. A target that refuses the credentials is only asked
	// again after MaxBackoff, for the sake of accounts that get locked.
	Backoff, MaxBackoff time.Duration

	// Dial connects to Address; nil is net.Dialer's DialContext.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	MaxMessage int // bytes of the largest message to accept; 0 is 4 MiB
}

const (
	defaultTimeout    = 5 * time.Second
	defaultBackoff    = 200 * time.Millisecond
	defaultMaxBackoff = 30 * time.Second
	defaultMaxMessage = 4 << 20
)

// WithDefaults returns the configuration without zeros. The fleet file's reader has
// checked what it says.
func (c Config) WithDefaults() Config {
	c.Device = cmp.Or(c.Device, c.Address)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.Backoff = cmp.Or(c.Backoff, defaultBackoff)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, max(defaultMaxBackoff, c.Backoff))
	c.MaxMessage = cmp.Or(c.MaxMessage, defaultMaxMessage)
	return c
}
