package inventory

import (
	"fmt"
	"net"
	"strconv"
	"time"
)

// Counters says where a device's counters come from, and what csig cannot find
// out about them.
type Counters struct {
	// Source is the protocol that they are read with; "" is the platform's own
	// way. SNMP and GNMI are set for the source of that name, and only then.
	Source Source `key:"source" words:"linux snmp gnmi sonic ovs openflow" doc:"The protocol; the platform's own way unless given."`

	// Overhead is what each frame takes on the wire beyond what the octet
	// counter counts, in bytes: preamble and gap (20), and the FCS (4) where
	// the counter omits it. nil: the source knows.
	Overhead *uint8 `key:"overhead" range:"0 64" doc:"Bytes that a frame takes on the wire beyond what its octet counter counts."`

	// Refresh is how often the device refreshes its counters, as its vendor says;
	// 0 where the file does not say. It matters where that is more often than they
	// are read, which readings cannot show; what is longer is learned.
	Refresh time.Duration `key:"refresh" range:"1ms 1h" doc:"How often the device itself brings its counters up to date, where csig cannot find out."`

	SNMP *SNMP `key:"snmp" doc:"With source: snmp."`
	GNMI *GNMI `key:"gnmi" doc:"With source: gnmi."`
}

// Source is how counters are read.
type Source string

// The sources.
const (
	PlatformSource Source = ""      // what the device's platform has
	LinuxSource    Source = "linux" // this machine's kernel
	SNMPSource     Source = "snmp"  // the SNMP agent at the device's address
	GNMISource     Source = "gnmi"  // the gNMI target at the device's address
)

// Check wants the block of the source, and no other.
func (c *Counters) Check(m Mapping) {
	if c.Source == PlatformSource && m.get("source") != nil {
		return // it is wrong, and reported
	}
	for _, source := range []Source{SNMPSource, GNMISource} {
		key := string(source)
		switch given := m.Has(key); {
		case given && c.Source == PlatformSource:
			m.Wrong(key, "add source: "+key, "%s is given, but the source is the platform's own", key)
		case given && c.Source != source:
			m.Wrong(key, "remove it, or make the source "+key, "%s is given, but the source is %s", key, c.Source)
		case !given && c.Source == source:
			m.Wrong("", map[Source]string{
				SNMPSource: "e.g. snmp: {version: 2c, community: {env: SNMP_COMMUNITY}}",
				GNMISource: "e.g. gnmi: {tls: {ca: /etc/csig/ca.pem}}, or gnmi: {} for the defaults",
			}[source], "%q is missing: it says how to ask the device", key)
		}
	}
}

// DefaultSNMPTimeout is the timeout of SNMP where the file has none.
var DefaultSNMPTimeout = keysOf[SNMP]().filled.Interface().(SNMP).Timeout

// SNMP is how a device's SNMP agent is asked. Defaults are filled in.
type SNMP struct {
	Version   string `key:"version,need" words:"2c 3" hint:"2c, or 3" doc:"2c, or 3."`
	Port      uint16 `key:"port" is:"port" default:"161" doc:"UDP; 161 unless given."`
	Community Secret `key:"community" doc:"Of version 2c."`

	// User, Auth and Priv are version 3's. The security level follows from
	// which of Auth and Priv have a protocol.
	User string   `key:"user" is:"line 32" doc:"Of version 3."`
	Auth SNMPAuth `key:"auth" hash:"flat" doc:"Of version 3."`
	Priv SNMPPriv `key:"priv" hash:"flat" doc:"Of version 3."`
	// Context is the name of version 3's context (RFC 3411 §3.3.1); mostly "".
	Context string `key:"context" is:"line 32" doc:"Of version 3."`

	Timeout time.Duration `key:"timeout" range:"1ms 1m" default:"2s" doc:"Of one try."`
	Retries int           `key:"retries" range:"0 10" default:"2" doc:"Tries after the first one."`
	// Recheck is how often names, link status and speed are read again at
	// least, where the agent says when its interfaces change; 0 is at every
	// reading.
	Recheck  time.Duration `key:"recheck" range:"0s 24h" default:"0s" doc:"How often names, link status and speed are re-read at least."`
	Discards string        `key:"discards" words:"learn included excluded" default:"learn" doc:"Whether packets count those discarded."`
}

// Check wants the credentials of the version, and no others.
func (s *SNMP) Check(m Mapping) {
	switch s.Version {
	case "2c":
		m.needToo("version 2c", "e.g. community: {env: SNMP_COMMUNITY}", "community")
		m.refuse("belongs to version 3", "user", "auth", "priv", "context")
	case "3":
		m.needToo("version 3", "the name that the device knows csig by", "user")
		m.refuse("belongs to version 2c", "community")
		if m.Has("priv") {
			m.needToo("priv", "SNMPv3 has no privacy without authentication", "auth")
		}
	}
}

// SNMPAuth is a protocol of SNMPv3's authentication and its passphrase; the zero
// value is none.
type SNMPAuth struct {
	Protocol string `key:"protocol,need" words:"md5 sha sha224 sha256 sha384 sha512" hint:"want md5, sha, sha224, sha256, sha384 or sha512" doc:"Of authentication."`
	Key      Secret `key:"key,need" hint:"e.g. key: {file: /etc/csig/snmp-key}" doc:"The passphrase."`
}

// SNMPPriv is a protocol of SNMPv3's privacy and its passphrase; the zero value is
// none.
type SNMPPriv struct {
	Protocol string `key:"protocol,need" words:"des aes aes192 aes256 aes192c aes256c" hint:"want des, aes, aes192, aes256, aes192c or aes256c" doc:"Of privacy."`
	Key      Secret `key:"key,need" hint:"e.g. key: {file: /etc/csig/snmp-key}" doc:"The passphrase."`
}

// GNMI is how a device's gNMI target is asked, for counters and, as the own keys of
// platforms that are set up so, for configuration. Defaults are filled in.
type GNMI struct {
	Port      uint16 `key:"port" is:"port" default:"9339" doc:"TCP; 9339 unless given."` // IANA's for gNMI
	TLS       TLS    `key:"tls" doc:"The certificates."`                                 // zero under Plaintext
	Plaintext bool   `key:"plaintext" doc:"Without TLS."`

	// Username and Password are sent as metadata: both or neither. Under
	// Plaintext that needs AllowPlaintextPassword.
	Username               string `key:"username" is:"line 255" doc:"Sent as metadata."`
	Password               Secret `key:"password" doc:"Sent as metadata."`
	AllowPlaintextPassword bool   `key:"allow_plaintext_password" doc:"Under plaintext, on a network where the password cannot be intercepted."`

	// Target is the name in the prefix of requests, for a gateway that serves many
	// devices (gNMI §2.2.2.1); "" puts none.
	Target string `key:"target" is:"line 255" doc:"Name of the target behind a gateway."`

	// Mode is by subscription (sample, target-defined), by polling (get), or auto.
	Mode    string        `key:"mode" words:"auto sample target-defined get" default:"auto" doc:"How values come; auto unless given."`
	Timeout time.Duration `key:"timeout" range:"1ms 1m" default:"5s" doc:"Of connecting, and of one Get."`
}

// Place is the target: a gateway serves many devices, and a machine has simulated ones by port.
func (g *GNMI) Place(func(string) string) (string, bool) {
	text := fmt.Sprintf("gNMI port %d", g.Port)
	if g.Target != "" {
		text += " target " + g.Target
	}
	return text, true
}

// Reaches is where the target is.
func (g *GNMI) Reaches(address string) string {
	if address == "" {
		return ""
	}
	return "gNMI to " + net.JoinHostPort(address, strconv.Itoa(int(g.Port)))
}

// Check keeps the password from a network that can read it.
func (g *GNMI) Check(m Mapping) {
	m.together("username", "password")
	if m.Has("password") && g.Plaintext && !g.AllowPlaintextPassword {
		m.Wrong("password", "use tls; or, on a network where the password cannot be intercepted, add allow_plaintext_password: true", "plaintext would show the password to the network")
	}
	if g.Plaintext {
		m.refuse("has no meaning under plaintext", "tls")
	}
}

// TLS says how the two ends of a connection know each other. The zero value
// checks the target's certificate against the system's authorities.
type TLS struct {
	CA                 string `key:"ca" is:"path" doc:"PEM file of the authorities to trust instead of the system's."`
	Cert               string `key:"cert" is:"path" doc:"PEM file of csig's own certificate."`
	Key                string `key:"key" is:"path" doc:"PEM file of its key."`
	ServerName         string `key:"server_name" is:"address" doc:"The name in the device's certificate; its address unless given."`
	InsecureSkipVerify bool   `key:"insecure_skip_verify" doc:"Take any certificate."`
}

// Check wants both halves of csig's certificate.
func (t *TLS) Check(m Mapping) {
	m.together("cert", "key")
	if t.InsecureSkipVerify {
		m.refuse("would not be looked at under insecure_skip_verify", "ca")
	}
}

// Estimator is how samples become a rate (draft-00 §5.1.1). The zero value is
// Raw.
type Estimator struct {
	Method       Method        `key:"method,need" words:"raw ewma dre" hint:"raw, ewma or dre" doc:"Its name."`
	TimeConstant time.Duration `key:"time_constant" range:"1ms 1h" doc:"Of ewma and dre."` // 0 for Raw
}

// Method is an estimator's.
type Method string

// The methods.
const (
	Raw  Method = "raw"  // the averaging window alone
	EWMA Method = "ewma" // exponentially weighted moving average
	DRE  Method = "dre"  // discounting rate estimator, as CONGA's
)

// Check wants a time constant where the method has one.
func (e *Estimator) Check(m Mapping) {
	switch e.Method {
	case Raw:
		m.refuse("has no meaning for raw, which averages over the interval", "time_constant")
	case EWMA, DRE:
		m.needToo(string(e.Method), "e.g. time_constant: 500ms", "time_constant")
	}
}

// orRaw gives the zero value its method.
func (e Estimator) orRaw() Estimator {
	if e.Method == "" {
		e.Method = Raw
	}
	return e
}

// Damping holds back a better bucket until it has proved itself; a worse one is advertised
// at once. The zero value is off.
type Damping struct {
	Hold   int    `key:"hold" range:"0 1000" doc:"Readings for which it has to hold."`
	Margin uint64 `key:"margin" is:"margin" doc:"How far past a bucket's edge it has to be, of the bucket's width."` // in ppm of the width
}
