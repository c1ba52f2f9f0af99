package gnmi

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/csig-agent/csig/counters"
)

// Mode says how a target is read, as the fleet file spells it.
type Mode string

// The modes.
const (
	// Auto takes the first of the others that the target accepts, in the order
	// in which they are listed here.
	Auto Mode = "auto"
	// Sample is a STREAM subscription with SAMPLE for counters, and ON_CHANGE or
	// SAMPLE for status and speed.
	Sample Mode = "sample"
	// TargetDefined is a STREAM subscription that leaves it to the target when to send
	// what.
	TargetDefined Mode = "target-defined"
	// Get asks for everything at every reading.
	Get Mode = "get"
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

// Config is what a Source needs to know. It prints without its secrets.
type Config struct {
	Device  string   // the device's name in errors; Address if empty
	Address string   // host:port of the gNMI target
	Ports   []string // names of interfaces, in the order of the samples

	// Interval is how often the target is to sample its counters; 0 is 1 s. A
	// target that refuses it is asked for its shortest one.
	Interval time.Duration

	// Plaintext does without TLS: everything travels in the clear, the password
	// as well.
	Plaintext bool
	TLS       TLS
	Username  string          // in the metadata of each call; "" sends none
	Password  counters.Secret // goes with Username

	// Target is the name to put into the prefix of requests, for gateways that
	// serve many devices; "" puts none.
	Target string
	Mode   Mode // "" is Auto

	// Timeout is how long a target may take to connect and to begin to answer; 0
	// is 5 s.
	Timeout time.Duration
	// Backoff and MaxBackoff bound the time between attempts to reach a target;
	// 0 are 200 ms and 30 s. A target that refuses the credentials is only asked
	// again after MaxBackoff, for the sake of accounts that get locked.
	Backoff, MaxBackoff time.Duration

	// Dial connects to Address; nil is net.Dialer's DialContext.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// silence is how long a stream may be without any message before it is
	// opened again; 0 is 30 s, or 10 intervals where that is longer.
	silence    time.Duration
	maxMessage int // bytes of the largest message to accept; 0 is 4 MiB
}

const (
	defaultInterval   = time.Second
	defaultTimeout    = 5 * time.Second
	defaultSilence    = 30 * time.Second
	defaultBackoff    = 200 * time.Millisecond
	defaultMaxBackoff = 30 * time.Second
	defaultMaxMessage = 4 << 20
)

// withDefaults returns the configuration without zeros. The fleet file's reader has
// checked what it says.
func (c Config) withDefaults() (Config, error) {
	c.Device = cmp.Or(c.Device, c.Address)
	switch {
	case len(c.Ports) == 0:
		return c, fmt.Errorf("device %s: gNMI: no ports: name at least one interface", c.Device)
	case slices.Contains(c.Ports, "*"):
		return c, fmt.Errorf("device %s: gNMI: port *: name the interfaces one by one", c.Device)
	}
	c.Mode = cmp.Or(c.Mode, Auto)
	c.Interval = cmp.Or(c.Interval, defaultInterval)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.Backoff = cmp.Or(c.Backoff, defaultBackoff)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, max(defaultMaxBackoff, c.Backoff))
	c.silence = cmp.Or(c.silence, max(defaultSilence, 10*c.Interval))
	c.maxMessage = cmp.Or(c.maxMessage, defaultMaxMessage)
	return c, nil
}
