package snmp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/csig-agent/csig/protocol/secret"
)

// Version is the SNMP version to speak, as the fleet file spells it.
type Version string

// The supported versions.
const (
	V2c Version = "2c"
	V3  Version = "3"
)

// Discards reports whether a device's packet counters include packets that it
// discarded instead of sending (RFC 2863 permits it; see the package comment), as the
// fleet file spells it.
type Discards string

// The kinds of packet counters.
const (
	// DiscardsLearn leaves it to the agent to show it.
	DiscardsLearn Discards = "learn"
	// DiscardsIncluded takes ifOutDiscards and ifOutErrors out of the packets.
	DiscardsIncluded Discards = "included"
	// DiscardsExcluded takes the packets as they are.
	DiscardsExcluded Discards = "excluded"
)

// Config is what a Source needs to know. It prints without its secrets.
type Config struct {
	Device  string // the device's name in errors; Address if empty
	Address string // IP address or host name
	Port    uint16 // UDP port; 0 is 161

	Version   Version     // "" is V2c
	Community secret.Text // v2c; at most 127 bytes

	// SNMPv3's user-based security model (RFC 3414). The security level follows
	// from which of Auth and Priv are set.
	User           string
	Auth           string      // "", MD5, SHA, SHA224, SHA256, SHA384 or SHA512
	AuthPassphrase secret.Text // at least 8 bytes
	// Priv is "", DES, AES (128 bits), AES192, AES256 (key extension by
	// Blumenthal), AES192C or AES256C (by Reeder, which Cisco uses).
	Priv           string
	PrivPassphrase secret.Text // at least 8 bytes
	Context        string      // context name, mostly ""

	// Timeout is that of one try. 0 is 2 s, or less: so that all tries of one
	// request fit into Within.
	Timeout time.Duration
	Retries int // tries after the first one; 0 is 2, negative is none
	// Within is how long a reading may take before its caller gives up; 0 is
	// forever.
	Within time.Duration

	Ports []string // ifNames, in the order of the samples

	// Overhead is what a packet costs on the wire beyond the agent's octets, in
	// bytes. 0 is 24 for net-snmp on Linux, whose octets have no FCS, else 20.
	Overhead uint8
	// Discards reports whether packets include discarded ones; "" is DiscardsLearn.
	Discards Discards
	// Recheck is how often names, link status, speed and discontinuity are read
	// again on agents that have ifTableLastChange. 0 is at every reading. It is
	// how late a link that went down is noticed at most.
	Recheck time.Duration

	// Dial opens a socket to the agent, as net.Dialer's DialContext does; nil is that one.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	defaultPort    = 161
	defaultTimeout = 2 * time.Second
	defaultRetries = 2
	// shortestTry is the shortest default of a try: an answer that takes longer
	// than the tries is never accepted.
	shortestTry = 100 * time.Millisecond
)

var authProtocols = map[string]gosnmp.SnmpV3AuthProtocol{
	"":       gosnmp.NoAuth,
	"MD5":    gosnmp.MD5,
	"SHA":    gosnmp.SHA,
	"SHA224": gosnmp.SHA224,
	"SHA256": gosnmp.SHA256,
	"SHA384": gosnmp.SHA384,
	"SHA512": gosnmp.SHA512,
}

var privProtocols = map[string]gosnmp.SnmpV3PrivProtocol{
	"":        gosnmp.NoPriv,
	"DES":     gosnmp.DES,
	"AES":     gosnmp.AES,
	"AES192":  gosnmp.AES192,
	"AES256":  gosnmp.AES256,
	"AES192C": gosnmp.AES192C,
	"AES256C": gosnmp.AES256C,
}

// withDefaults returns the configuration without zeros. The fleet file's reader has
// checked what it says, but not the secrets.
func (c Config) withDefaults() (Config, error) {
	c.Device = cmp.Or(c.Device, c.Address)
	c.Port = cmp.Or(c.Port, defaultPort)
	c.Version = cmp.Or(c.Version, V2c)
	c.Discards = cmp.Or(c.Discards, DiscardsLearn)
	c.Retries = max(cmp.Or(c.Retries, defaultRetries), 0)
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
		if c.Within > 0 { // some of it is left for what else a reading does
			c.Timeout = min(c.Timeout, max(c.Within*9/10/time.Duration(c.Retries+1), shortestTry))
		}
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: c.Timeout}).DialContext
	}
	var errs []error
	switch n := len(c.Community); {
	case c.Version == V2c && n == 0:
		errs = append(errs, errors.New("community is missing: SNMPv2c needs one"))
	case n > 127:
		errs = append(errs, fmt.Errorf("community is %d bytes long: at most 127 are possible", n))
	}
	if c.Auth != "" && len(c.AuthPassphrase) < 8 {
		errs = append(errs, errors.New("the auth passphrase is shorter than 8 bytes, which SNMPv3 requires"))
	}
	if c.Priv != "" && len(c.PrivPassphrase) < 8 {
		errs = append(errs, errors.New("the priv passphrase is shorter than 8 bytes, which SNMPv3 requires"))
	}
	if len(c.Ports) == 0 {
		errs = append(errs, errors.New("no ports: name at least one by its ifName"))
	}
	if err := errors.Join(errs...); err != nil {
		return c, fmt.Errorf("device %s: SNMP: %w", c.Device, err)
	}
	return c, nil
}

func (c *Config) endpoint() string {
	return net.JoinHostPort(c.Address, strconv.Itoa(int(c.Port)))
}
