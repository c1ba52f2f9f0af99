package snmp

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/csig-agent/csig/counters"
)

// Version is the SNMP version to speak.
type Version uint8

// The supported versions.
const (
	V2c Version = iota
	V3
)

// String returns v2c or v3.
func (v Version) String() string {
	switch v {
	case V2c:
		return "v2c"
	case V3:
		return "v3"
	}
	return "invalid"
}

// Discards says whether a device's packet counters include packets that it
// discarded instead of sending (RFC 2863 permits it; see the package comment).
type Discards uint8

// The kinds of packet counters.
const (
	// DiscardsLearn leaves it to the agent to show it.
	DiscardsLearn Discards = iota
	// DiscardsIncluded takes ifOutDiscards and ifOutErrors out of the packets.
	DiscardsIncluded
	// DiscardsExcluded takes the packets as they are.
	DiscardsExcluded
)

// String returns learn, included or excluded.
func (d Discards) String() string {
	switch d {
	case DiscardsLearn:
		return "learn"
	case DiscardsIncluded:
		return "included"
	case DiscardsExcluded:
		return "excluded"
	}
	return "invalid"
}

// Config is what a Source needs to know. It prints without its secrets.
type Config struct {
	Device  string // the device's name in errors; Address if empty
	Address string // IP address or host name
	Port    uint16 // UDP port; 0 is 161

	Version   Version
	Community counters.Secret // v2c; at most 127 bytes

	// SNMPv3's user-based security model (RFC 3414). The security level follows
	// from which of Auth and Priv are set.
	User           string
	Auth           string          // "", MD5, SHA, SHA224, SHA256, SHA384 or SHA512
	AuthPassphrase counters.Secret // at least 8 bytes
	// Priv is "", DES, AES (128 bits), AES192, AES256 (key extension by
	// Blumenthal), AES192C or AES256C (by Reeder, which Cisco uses).
	Priv           string
	PrivPassphrase counters.Secret // at least 8 bytes
	Context        string          // context name, mostly ""

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
	// Discards says whether packets include discarded ones.
	Discards Discards
	// Recheck is how often names, link status, speed and discontinuity are read
	// again on agents that have ifTableLastChange. 0 is at every reading. It is
	// how late a link that went down is noticed at most.
	Recheck time.Duration

	// Now is the clock of the samples; nil is time.Now. It should be monotonic.
	Now func() time.Time
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

// withDefaults returns the validated configuration; its error joins all mistakes.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if c.Address == "" {
		bad("address is missing: give the IP address or name of the SNMP agent")
	}
	if c.Device == "" {
		c.Device = c.Address
	}
	if c.Port == 0 {
		c.Port = defaultPort
	}
	switch c.Version {
	case V2c:
		switch n := len(c.Community); {
		case n == 0:
			bad("community is missing: SNMPv2c needs one")
		case n > 127:
			bad("community is %d bytes long: at most 127 are possible", n)
		}
		if c.User != "" || c.Auth != "" || c.Priv != "" {
			bad("user, auth and priv belong to SNMPv3: set the version, or remove them")
		}
	case V3:
		c.checkUser(bad)
	default:
		bad("SNMP version %d is none of v2c and v3", c.Version)
	}
	if c.Discards > DiscardsExcluded {
		bad("discards %d is none of learn, included and excluded", c.Discards)
	}
	if c.Timeout < 0 || c.Within < 0 || c.Recheck < 0 {
		bad("timeout and recheck must not be negative")
	}
	switch {
	case c.Retries == 0:
		c.Retries = defaultRetries
	case c.Retries < 0:
		c.Retries = 0
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
		if c.Within > 0 { // some of it is left for what else a reading does
			c.Timeout = min(c.Timeout, max(c.Within*9/10/time.Duration(c.Retries+1), shortestTry))
		}
	}
	if len(c.Ports) == 0 {
		bad("no ports: name at least one by its ifName")
	}
	seen := make(map[string]bool, len(c.Ports))
	for i, p := range c.Ports {
		switch {
		case p == "":
			bad("port %d has an empty name", i+1)
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
		return c, fmt.Errorf("device %s: SNMP: %w", c.Device, err)
	}
	return c, nil
}

func (c *Config) checkUser(bad func(string, ...any)) {
	if c.User == "" {
		bad("user is missing: SNMPv3 needs one")
	}
	if len(c.User) > 32 {
		bad("user %s has %d bytes: SNMPv3 allows 32", c.User, len(c.User))
	}
	if c.Community != "" {
		bad("community belongs to SNMPv2c: set the version, or remove it")
	}
	if _, ok := authProtocols[c.Auth]; !ok {
		bad("auth %q is none of %s", c.Auth, names(authProtocols))
	}
	if _, ok := privProtocols[c.Priv]; !ok {
		bad("priv %q is none of %s", c.Priv, names(privProtocols))
	}
	if c.Priv != "" && c.Auth == "" {
		bad("priv needs auth: SNMPv3 has no privacy without authentication")
	}
	if c.Auth != "" && len(c.AuthPassphrase) < 8 {
		bad("the auth passphrase is shorter than 8 bytes, which SNMPv3 requires")
	}
	if c.Priv != "" && len(c.PrivPassphrase) < 8 {
		bad("the priv passphrase is shorter than 8 bytes, which SNMPv3 requires")
	}
}

func names[V any](m map[string]V) string {
	var list []string
	for k := range m {
		if k != "" {
			list = append(list, k)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func (c *Config) endpoint() string {
	return net.JoinHostPort(c.Address, strconv.Itoa(int(c.Port)))
}
