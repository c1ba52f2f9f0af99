package eos

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/reconcile"
)

// Platform is what fleet files say of Arista's switches.
var Platform = inventory.Platform{
	Name: "eos", Key: "eos", Doc: "Which flows forward CSIG's tags, for the platform eos.", Keys: (*Keys)(nil),
	PortName: portName,
}

// Keys are what a device's configuration cannot say.
type Keys struct {
	Forwarding []Forwarding `key:"forwarding,need" doc:"Which frames leave by which port: csig's flows output to it, and so are written once for each of these."`
	Priority   uint16       `key:"priority" range:"1 65000" doc:"The lowest of the eight priorities of csig's flows; 30000 unless given. No other flow may have it, or a higher one."`
}

// Place is nothing: the switch is at the device's address.
func (*Keys) Place(func(string) string) (string, bool) { return "", false }

// Forwarding is which frames leave by a port. VLANs are no condition: the VID is the signal.
type Forwarding struct {
	InPort string `key:"in_port,need" is:"line 64" hint:"the port that the frames come in by" doc:"The port that the frames come in by. It gets the domain's TPID, so that no ordinary tag is taken for CSIG's."`
	EthDst string `key:"eth_dst" is:"line 64" doc:"Their destination: a MAC address, or ADDRESS/MASK; any unless given."`
	IPDst  string `key:"ip_dst" is:"line 64" doc:"Their destination: an IPv4 prefix; frames of any protocol unless given."`
	Port   string `key:"port,need" is:"line 64" hint:"the port that the frames leave by" doc:"The port that they leave by."`
}

// Check wants conditions that can be read.
func (f *Forwarding) Check(m inventory.Mapping) {
	if _, _, err := f.mac(); err != nil {
		m.WrongValue("eth_dst", "", "%v", err)
	}
	if _, err := f.prefix(); err != nil {
		m.WrongValue("ip_dst", "", "%v", err)
	}
}

func (f *Forwarding) mac() (address, mask net.HardwareAddr, err error) {
	if f.EthDst == "" {
		return nil, nil, nil
	}
	text, maskText, masked := strings.Cut(f.EthDst, "/")
	address, err = net.ParseMAC(text)
	mask = bytes.Repeat([]byte{0xff}, 6)
	if err == nil && masked {
		mask, err = net.ParseMAC(maskText)
	}
	if err != nil || len(address) != 6 || len(mask) != 6 {
		return nil, nil, fmt.Errorf("eth_dst: want a MAC address, or ADDRESS/MASK, e.g. 02:00:00:00:00:01 or 02:00:00:00:00:00/ff:ff:ff:00:00:00, found %q", f.EthDst)
	}
	return address, mask, nil
}

func (f *Forwarding) prefix() (netip.Prefix, error) {
	if f.IPDst == "" {
		return netip.Prefix{}, nil
	}
	p, err := netip.ParsePrefix(f.IPDst)
	if a, errAddr := netip.ParseAddr(f.IPDst); errAddr == nil {
		p, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	if err != nil || !p.Addr().Is4() {
		return p, fmt.Errorf("ip_dst: want an IPv4 address or prefix, e.g. 192.0.2.0/24, found %q", f.IPDst)
	}
	return p.Masked(), nil
}

// String is the flow as messages name it.
func (f *Forwarding) String() string {
	text := "in_port " + f.InPort
	for _, c := range []struct{ key, value string }{{"eth_dst", f.EthDst}, {"ip_dst", f.IPDst}} {
		if c.value != "" {
			text += ", " + c.key + " " + c.value
		}
	}
	return text + " → " + f.Port
}

// id is how names of flows have it.
func (f *Forwarding) id() string {
	sum := sha256.Sum256([]byte(f.String()))
	return hex.EncodeToString(sum[:4])
}

// conditions are the lines of a flow that say which frames these are.
func (f *Forwarding) conditions() ([]string, error) {
	lines := []string{"match input interface " + f.InPort}
	address, mask, err := f.mac()
	if err != nil {
		return nil, err
	}
	if address != nil {
		line := "match destination mac " + address.String()
		if strings.Contains(f.EthDst, "/") {
			line += " " + mask.String()
		}
		lines = append(lines, line)
	}
	p, err := f.prefix()
	if err != nil {
		return nil, err
	}
	if p.IsValid() {
		lines = append(lines, "match ethertype ip", "match destination ip "+p.String())
	}
	return lines, nil
}

// overlaps reports whether some frame meets both.
func (f *Forwarding) overlaps(g *Forwarding) bool {
	if f.InPort != g.InPort {
		return false
	}
	a, am, errA := f.mac()
	b, bm, errB := g.mac()
	if errA == nil && errB == nil && a != nil && b != nil {
		for i := range a {
			if (a[i]^b[i])&am[i]&bm[i] != 0 {
				return false
			}
		}
	}
	p, errP := f.prefix()
	q, errQ := g.prefix()
	return errP != nil || errQ != nil || !p.IsValid() || !q.IsValid() || p.Overlaps(q)
}

// Undeclared is why the declared forwarding flows rule out a setup, nil where they do not.
func (c *Config) Undeclared(want *vendors.Setup) error {
	ports := reconcile.Updating(want).Ports
	if len(ports) == 0 {
		return nil
	}
	if err := resolve(c.Forwarding); err != nil {
		return &vendors.PermanentError{Err: err}
	}
	for i := range ports {
		if why := c.undeclared(ports[i].Port); why != "" {
			return &vendors.PermanentError{Port: ports[i].Port, Err: errors.New(why)}
		}
	}
	return nil
}

// undeclared is why no flow can be written for a port, "" where one can.
func (c *Config) undeclared(port string) string {
	if slices.ContainsFunc(c.Forwarding, func(f Forwarding) bool { return f.Port == port }) {
		return ""
	}
	return "no forwarding flow to it is declared: add the flows that forward to it to management: {eos: {forwarding: […]}}"
}

// resolve refuses declarations by which a frame would leave by two ports.
func resolve(list []Forwarding) error {
	if len(list) == 0 {
		return errors.New("a flow of DirectFlow names the port that frames leave by, and does not see which other one they would: declare the forwarding flows, management: {eos: {forwarding: [{in_port: IN, port: OUT}, …]}}")
	}
	for i := range list {
		if _, err := list[i].conditions(); err != nil {
			return err
		}
		for j := range i {
			if list[i].overlaps(&list[j]) {
				return fmt.Errorf("forwarding %q and %q match the same frames, and a frame leaves by one port: make them disjoint", list[j].String(), list[i].String())
			}
		}
	}
	return nil
}
