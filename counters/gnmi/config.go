package gnmi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/csig-agent/csig/counters"
)

// Mode says how a target is read.
type Mode uint8

// The modes.
const (
	// Auto takes the first of the others that the target accepts, in the order
	// in which they are listed here.
	Auto Mode = iota
	// Sample is a STREAM subscription with SAMPLE for counters, and ON_CHANGE or
	// SAMPLE for status and speed.
	Sample
	// TargetDefined is a STREAM subscription that leaves it to the target when to send
	// what.
	TargetDefined
	// Get asks for everything at every reading.
	Get
)

var modeNames = [...]string{"auto", "sample", "target-defined", "get"}

// String returns the mode as configuration spells it.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "invalid"
}

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
	Mode   Mode
	// Encoding is the one to ask for; "" takes the best one that the target has, in the
	// order PROTO, JSON_IETF, JSON.
	Encoding string

	// Live says that the target stamps a value with the instant at which it was
	// counted. Many stamp it with that of sending, and have it from a cache: their
	// samples should pass through a counters.Refresh, which leaves Live ones
	// alone.
	Live bool

	// Timeout is how long a target may take to connect and to begin to answer; 0
	// is 5 s.
	Timeout time.Duration
	// Silence is how long a stream may be without any message before it is
	// opened again; 0 is 30 s, or 10 intervals where that is longer.
	Silence time.Duration
	// Backoff and MaxBackoff bound the time between attempts to reach a target;
	// 0 are 200 ms and 30 s. A target that refuses the credentials is only asked
	// again after MaxBackoff, for the sake of accounts that get locked.
	Backoff, MaxBackoff time.Duration
	// Recheck is how often Get asks for speeds; 0 is 30 s.
	Recheck time.Duration
	// MaxMessage is the size of the largest message to accept, in bytes; 0 is 4 MiB.
	MaxMessage int

	// Now is the clock of this side; nil is time.Now. It should be monotonic.
	Now func() time.Time
	// Dial opens the connection; nil dials TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

const (
	defaultInterval   = time.Second
	defaultTimeout    = 5 * time.Second
	defaultSilence    = 30 * time.Second
	defaultBackoff    = 200 * time.Millisecond
	defaultMaxBackoff = 30 * time.Second
	defaultRecheck    = 30 * time.Second
	defaultMaxMessage = 4 << 20
)

var encodings = []string{"PROTO", "JSON_IETF", "JSON"}

// withDefaults returns the validated configuration; its error joins all mistakes.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if c.Address == "" {
		bad("address is missing: give host:port of the gNMI target")
	} else if _, port, err := net.SplitHostPort(c.Address); err != nil || port == "" {
		bad("address %s is not host:port: gNMI has port 9339, and many targets one of their own", c.Address)
	}
	if c.Device == "" {
		c.Device = c.Address
	}
	if c.Username == "" && c.Password != "" {
		bad("password without username")
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		bad("a client certificate needs both the certificate's file and the key's")
	}
	if c.Plaintext && c.TLS != (TLS{}) {
		bad("plaintext and TLS exclude each other: remove one")
	}
	if c.TLS.SkipVerify && c.TLS.CAFile != "" {
		bad("a CA file is of no use where certificates are not verified: remove one")
	}
	if c.Mode > Get {
		bad("mode %d is none of auto, sample, target-defined and get", c.Mode)
	}
	if c.Encoding != "" && !slices.Contains(encodings, c.Encoding) {
		bad("encoding %q is none of PROTO, JSON_IETF and JSON", c.Encoding)
	}
	for _, d := range []*time.Duration{&c.Interval, &c.Timeout, &c.Silence, &c.Backoff, &c.MaxBackoff, &c.Recheck} {
		if *d < 0 {
			bad("%v is negative: durations must not be", *d)
		}
	}
	if c.MaxMessage < 0 {
		bad("the size of the largest message is negative")
	}
	orElse(&c.Interval, defaultInterval)
	orElse(&c.Timeout, defaultTimeout)
	orElse(&c.Silence, max(defaultSilence, 10*c.Interval))
	orElse(&c.Backoff, defaultBackoff)
	orElse(&c.MaxBackoff, max(defaultMaxBackoff, c.Backoff))
	orElse(&c.Recheck, defaultRecheck)
	if c.MaxBackoff < c.Backoff {
		bad("the longest backoff %v is shorter than the shortest, %v", c.MaxBackoff, c.Backoff)
	}
	if c.MaxMessage == 0 {
		c.MaxMessage = defaultMaxMessage
	}
	if len(c.Ports) == 0 {
		bad("no ports: name at least one interface")
	}
	seen := make(map[string]bool, len(c.Ports))
	for i, p := range c.Ports {
		switch {
		case p == "":
			bad("port %d has an empty name", i+1)
		case p == "*":
			bad("port *: name the interfaces one by one")
		case seen[p]:
			bad("port %s is listed twice", p)
		}
		seen[p] = true
	}
	c.Ports = slices.Clone(c.Ports)
	if c.Now == nil {
		c.Now = time.Now
	}
	if err := errors.Join(errs...); err != nil {
		return c, fmt.Errorf("device %s: gNMI: %w", c.Device, err)
	}
	return c, nil
}

func orElse(d *time.Duration, def time.Duration) {
	if *d == 0 {
		*d = def
	}
}
