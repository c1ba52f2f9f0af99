package inventory

import "time"

// Counters says where a device's counters come from, and what csig cannot find
// out about them.
type Counters struct {
	// Source is the protocol that they are read with; "" is the platform's own
	// way. SNMP and GNMI are set for the source of that name, and only then.
	Source Source

	// Overhead is what each frame takes on the wire beyond what the octet
	// counter counts, in bytes: preamble and gap (20), and the FCS (4) where
	// the counter omits it. nil: the source knows.
	Overhead *uint8

	// Refresh is how often the device refreshes its counters, as its vendor says;
	// 0 where nobody does. It matters where that is more often than they are read,
	// which readings cannot show; what is longer is learned.
	Refresh time.Duration

	SNMP *SNMP
	GNMI *GNMI
}

// Source is how counters are read.
type Source string

// The sources.
const (
	PlatformSource Source = ""      // what the device's platform has
	LinuxSource    Source = "linux" // this machine's kernel
	SNMPSource     Source = "snmp"  // the SNMP agent at the device's address
	GNMISource     Source = "gnmi"  // the gNMI target at the device's address
	SONiCSource    Source = "sonic" // COUNTERS_DB of the device's Redis
	OVSSource      Source = "ovs"   // the port statistics of Open vSwitch, by OpenFlow
)

// The defaults of a source's settings.
const (
	DefaultSNMPPort    = 161
	DefaultSNMPTimeout = 2 * time.Second
	DefaultSNMPRetries = 2
	DefaultGNMIPort    = 9339 // IANA's for gNMI
	DefaultGNMITimeout = 5 * time.Second
)

// SNMP is how a device's SNMP agent is asked. Defaults are filled in.
type SNMP struct {
	Version   string // "2c" or "3"
	Port      uint16 // UDP
	Community Secret // of version 2c

	// User, Auth and Priv are version 3's. The security level follows from
	// which of Auth and Priv have a protocol.
	User string
	Auth SNMPKey // protocol "", md5, sha, sha224, sha256, sha384 or sha512
	Priv SNMPKey // protocol "", des, aes, aes192, aes256, aes192c or aes256c
	// Context is the name of version 3's context (RFC 3411 §3.3.1); mostly "".
	Context string

	Timeout time.Duration // of one try
	Retries int           // tries after the first one; 0 is none
	// Recheck is how often names, link status and speed are read anew at
	// least, where the agent says when its interfaces change; 0 is at every
	// reading.
	Recheck  time.Duration
	Discards string // whether packets count those discarded: learn, included or excluded
}

// SNMPKey is a protocol of SNMPv3's user-based security and its passphrase; the
// zero value is none.
type SNMPKey struct {
	Protocol string
	Key      Secret
}

// GNMI is how a device's gNMI target is asked. Defaults are filled in.
type GNMI struct {
	Port      uint16 // TCP
	TLS       TLS    // zero under Plaintext
	Plaintext bool   // without TLS

	// Username and Password are sent as metadata: both or neither. Under
	// Plaintext that needs AllowPlaintextPassword.
	Username               string
	Password               Secret
	AllowPlaintextPassword bool

	// Target is the name in the prefix of requests, for a gateway that serves many
	// devices (gNMI §2.2.2.1); "" puts none.
	Target string

	Mode    string        // auto, sample, target-defined (both are subscriptions) or get (polling)
	Timeout time.Duration // of connecting, and of one Get
}

// TLS says how the two ends of a connection know each other. The zero value
// checks the target's certificate against the system's authorities.
type TLS struct {
	CA                 string // PEM file of the authorities to trust instead of the system's
	Cert, Key          string // PEM files of csig's own certificate: both or neither
	ServerName         string // in the target's certificate; the device's address unless given
	InsecureSkipVerify bool   // take any certificate
}

// Estimator is how samples become a rate (draft-00 §5.1.1). The zero value is
// Raw.
type Estimator struct {
	Method       Method
	TimeConstant time.Duration // of EWMA and DRE; 0 for Raw
}

// Method is an estimator's.
type Method string

// The methods.
const (
	Raw  Method = "raw"  // the averaging window alone
	EWMA Method = "ewma" // exponentially weighted moving average
	DRE  Method = "dre"  // discounting rate estimator, as CONGA's
)

// Damping holds good news back until it has proved itself; worse news is told
// at once. The zero value is off.
type Damping struct {
	Hold   int    // readings for which better news has to hold
	Margin uint64 // how far past a bucket's edge better news has to be, in ppm of the bucket's width
}
