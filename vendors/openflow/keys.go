package openflow

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
)

// Platforms is what fleet files say of switches of OpenFlow 1.3, whatever their maker.
func Platforms() (list []inventory.Platform) {
	for _, name := range Names {
		hint := "management: {openflow: {tls: {ca: /PATH, cert: /PATH, key: /PATH}, ordinary_vlans: not-handed-over}}; or the level that it has"
		if name == OFDPA {
			hint = "management: {openflow: {tls: {ca: /PATH, cert: /PATH, key: /PATH}, ordinary_vlans: not-handed-over, forwarding: [{in_port: IN, port: OUT}]}}; or the level that it has"
		}
		list = append(list, inventory.Platform{
			Name: name, Key: "openflow", Doc: "How csig speaks OpenFlow 1.3 with the switch, and what its operator declares.", Keys: (*Keys)(nil),
			Missing: "it says how csig speaks OpenFlow with the switch",
			Hint:    hint,
			PortName: func(name string) string {
				if len(name) > maxName {
					return "OpenFlow has 15 bytes of a port's name"
				}
				return ""
			},
		})
	}
	return list
}

// Keys are how a switch is reached, and what its operator declares.
type Keys struct {
	Listen    string        `key:"listen" is:"line 45" doc:"Address of this machine that the switch connects to; without it csig connects to the device's address."`
	Port      uint16        `key:"port" is:"port" default:"6653" doc:"TCP, of the end that listens; 6653 unless given."`
	Datapath  string        `key:"datapath" is:"line 18" doc:"The switch's datapath ID, in hexadecimal, e.g. 0x00000000000000a1; needed with listen."`
	TLS       inventory.TLS `key:"tls" without:"insecure_skip_verify" doc:"The certificates of both ends; server_name is the name in the switch's own; unless given, its address has to be there."`
	Plaintext bool          `key:"plaintext" doc:"Without TLS: any machine on the way can change flows. With listen, the switch is who connects from the device's address with the datapath ID."`
	Role      string        `key:"role" words:"equal master" default:"equal" doc:"equal unless given; master makes every other controller a slave, and is for switches without another one."`
	Table     uint8         `key:"table" range:"1 252" default:"10" low:"every frame begins in table 0, which is the operator's own" hint:"1 or more, e.g. table: 10" doc:"The first of csig's three flow tables; 10 unless given."`

	OrdinaryVLANs string `key:"ordinary_vlans" words:"not-handed-over not-parsed" doc:"Why csig's flows meet no frame with an ordinary VLAN tag, which no match tells from a CSIG tag: no flow hands one over, or the switch takes CSIG's TPID alone for a VLAN tag's. Needed by ports that update or strip."`

	Forwarding []Forwarding `key:"forwarding" doc:"The operator's flows that forward, for a switch with one table for all flows, or without metadata: csig's flows are copies of them beside them. Needed by the platform ofdpa."`
	Priority   uint16       `key:"priority" range:"1 65532" doc:"With forwarding: the lowest of the four priorities of csig's flows; 30000 unless given."`
	Entries    int          `key:"entries" range:"1 16777216" doc:"With forwarding: how many flows the table takes, the operator's among them, where the switch does not say; else the facts' are taken."`
}

// Check wants a way to know the other end, and which of the switches that connect it is.
func (k *Keys) Check(m inventory.Mapping) {
	whole := k.TLS.CA != "" && k.TLS.Cert != "" && k.TLS.Key != ""
	switch {
	case k.Plaintext && m.Has("tls"):
		m.WrongValue("plaintext", "leave one of them out", "want tls or plaintext: true, found both")
	case !k.Plaintext && !m.Has("tls"):
		m.Wrong("", "add tls: {ca: /PATH, cert: /PATH, key: /PATH}; or plaintext: true, where no one else can reach that network", "it does not say how the two ends know each other")
	case m.Has("tls") && !whole:
		m.WrongValue("tls", "the switch takes orders: who gives them has to be known", "tls: want ca, cert and key")
	}
	if m.Has("listen") && !m.Has("datapath") {
		m.Wrong("listen", "add datapath: 0x…, which the switch shows beside its controllers", "any switch may connect there: which one it is, its datapath ID says")
	}
	if _, err := netip.ParseAddr(k.Listen); m.Has("listen") && err != nil {
		m.WrongValue("listen", "e.g. listen: 192.0.2.5, or 0.0.0.0 for all", "want an IP address of this machine")
	}
	for _, key := range []string{"priority", "entries"} {
		if m.Has(key) && !m.Has("forwarding") {
			m.Wrong(key, "leave it out, or declare the flows that forward", "it is of switches with forwarding")
		}
	}
	if _, err := k.datapath(); err != nil {
		m.WrongValue("datapath", "e.g. datapath: 0x00000000000000a1", "want 1 to 16 hexadecimal digits behind 0x")
	}
}

func (k *Keys) datapath() (uint64, error) {
	if k.Datapath == "" {
		return 0, nil
	}
	return strconv.ParseUint(k.Datapath, 0, 64)
}

// Place is the switch: where several connect to one address, their datapath IDs tell
// them apart.
func (k *Keys) Place(func(string) string) (string, bool) {
	if k.Datapath != "" {
		return "datapath " + k.Datapath, true
	}
	return fmt.Sprintf("OpenFlow port %d", cmp.Or(k.Port, defaultPort)), true
}

// IsMaster reports whether csig is to make slaves of all other controllers.
func (k *Keys) IsMaster() bool { return k.Role == "master" }

// defaultPort is IANA's for OpenFlow.
const defaultPort = 6653

// Reaches is where the two ends meet.
func (k *Keys) Reaches(address string) string {
	if k.Listen != "" && (address != "" || !k.Plaintext) { // else it is not known who connects
		return fmt.Sprintf("OpenFlow, datapath %s at %s", k.Datapath, k.at(k.Listen))
	}
	if address == "" {
		return ""
	}
	return "OpenFlow to " + k.at(address)
}

// Listens is where the agent waits for the switch.
func (k *Keys) Listens() string {
	if k.Listen == "" {
		return ""
	}
	return k.at(k.Listen)
}

func (k *Keys) at(host string) string {
	return net.JoinHostPort(host, strconv.Itoa(int(cmp.Or(k.Port, defaultPort))))
}

// Session is how to reach a device with these keys and this address.
func (k *Keys) Session(address string) (ofp.Config, error) {
	c := ofp.Config{TLS: ofp.TLS{CA: k.TLS.CA, Cert: k.TLS.Cert, Key: k.TLS.Key, Peer: k.TLS.ServerName}, Plain: k.Plaintext, Role: ofp.RoleEqual}
	if !k.Plaintext {
		c.TLS.Peer = cmp.Or(k.TLS.ServerName, address)
	}
	if k.IsMaster() {
		c.Role = ofp.RoleMaster
	}
	if c.Listen = k.Listen; c.Listen != "" {
		c.Listen = k.at(k.Listen)
		if k.Plaintext {
			c.From = address
		}
	} else {
		c.Connect = k.at(address)
	}
	var err error
	c.Datapath, err = k.datapath()
	return c, err
}

// Names are the platforms of the driver.
var Names = []string{"comware-openflow", OFDPA, "onyx", "openflow", "picos"}

// OFDPA is the platform whose flows are in Policy ACL.
const OFDPA = "ofdpa"

// Titles are what people call them.
var Titles = map[string]string{
	"comware-openflow": "H3C and HPE Comware, OpenFlow mode",
	OFDPA:              "Broadcom OF-DPA, Policy ACL",
	"onyx":             "NVIDIA Onyx, OpenFlow",
	"openflow":         "OpenFlow 1.3 switch",
	"picos":            "Pica8 PicOS, Open vSwitch mode",
}

// Flat is what a device's keys say of a switch with one table; false where csig has
// tables of its own.
func (k *Keys) Flat(cfg Config) (FlatConfig, bool) {
	f := FlatConfig{Config: cfg, Priority: k.Priority, Entries: k.Entries, OFDPA: cfg.Platform == OFDPA, Forwarding: k.Forwarding}
	f.Table = 0
	return f, f.OFDPA || len(k.Forwarding) > 0
}
