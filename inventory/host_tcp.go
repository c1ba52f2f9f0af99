package inventory

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// TCP is which TCP connections of a host have tags and reflect them (csig host run).
type TCP struct {
	_ struct{} `doc:"The TCP connections that csig host run gives tags."`

	// To are prefixes; Ports and UDP are ports, or FIRST-LAST; Tag, EWMA, Jump and Ramp are "all" or "1/N":
	// PortRanges, UDPRanges, Every, Weight and Shares read them.
	To     []string `key:"to,need,flow" is:"prefix" hint:"list the prefixes of the hosts that expect tags, e.g. [10.0.0.0/16]: others never get one" doc:"Prefixes of the hosts that run csig host run, too: connections with others have no tags."`
	Ports  []string `key:"ports,flow" is:"port-ranges" doc:"Ports of the servers, as 443 or 8000-8999; all unless given."`
	UDP    []string `key:"udp,flow" is:"port-ranges" doc:"Ports of servers of UDP: programs may ask for tags of datagrams from and to them; none unless given."`
	CGroup string   `key:"cgroup" is:"path" doc:"The directory of the control group whose processes' connections these are; of all unless given."`
	Tag    string   `key:"tag" is:"share" default:"all" doc:"Which frames have a tag while the peer reflects them: all, or one in so many, as 1/8."`
	Option uint8    `key:"option" range:"35 254" default:"253" hint:"253, unless the domain has a kind of its own" doc:"The kind of the TCP option that reflects tags, the same on all hosts; 253 unless given."`

	EWMA string `key:"ewma" is:"share" hash:"late" doc:"The weight of the newest tag in a moving average of what a connection's tags show as left, e.g. 1/8; no average unless given."`

	Control string `key:"control" words:"native csig" hash:"late" doc:"csig: while the signal comes, csig's congestion control has a connection; native unless given, the system's own always."` // "" is native
	Jump    string `key:"jump" is:"share" hash:"late" doc:"With control: csig, the share of what the signal leaves that a connection takes at its start and after it was idle; 1/8 unless given."`
	Ramp    string `key:"ramp" is:"share" hash:"late" doc:"With control: csig, the share that it takes later, once in the time that its effect needs to be in the signal; 1/2 unless given."`
}

// ControlCSIG has connections under csig's congestion control while the signal comes.
const ControlCSIG = "csig"

// takenOptions are kinds that the kernel or an RFC has another use for.
var takenOptions = map[uint8]string{69: "TCP-ENO (RFC 8547)", 172: "Accurate ECN", 174: "Accurate ECN"}

// Check wants an option that nothing else means.
func (k *TCP) Check(m Mapping) {
	if use, taken := takenOptions[k.Option]; taken {
		m.WrongValue("option", "253 is for such experiments (RFC 6994)", "option: %d is that of %s", k.Option, use)
	}
	if k.Control != ControlCSIG {
		m.refuse("is of control: csig", "jump", "ramp")
	}
	if m.Has("to") && len(k.To) == 0 && m.r.mistakes() == m.before {
		m.WrongValue("to", "list the prefixes of the hosts that expect tags", "to: there is none")
	}
}

// PortRanges are the ports of the servers, first and last of each; none: all.
func (k *TCP) PortRanges() [][2]uint16 { return portRanges(k.Ports) }

// UDPRanges are the ports of servers of UDP, first and last of each.
func (k *TCP) UDPRanges() [][2]uint16 { return portRanges(k.UDP) }

func portRanges(texts []string) [][2]uint16 {
	out := make([][2]uint16, len(texts))
	for i, text := range texts {
		out[i], _ = portRange(text)
	}
	return out
}

// Every is how many frames one of which has a tag.
func (k *TCP) Every() uint32 {
	n, _ := shareOf(k.Tag)
	return n
}

// Weight is the N of the weight of the newest tag, 1/N; 0: there is no average.
func (k *TCP) Weight() uint32 {
	n, _ := shareOf(k.EWMA)
	return n
}

// Shares are the N of the shares, 1/N, that csig's congestion control takes.
func (k *TCP) Shares() (jump, ramp uint32) {
	jump, _ = shareOf(cmp.Or(k.Jump, "1/8"))
	ramp, _ = shareOf(cmp.Or(k.Ramp, "1/2"))
	return jump, ramp
}

func portRange(text string) (out [2]uint16, ok bool) {
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		last = first
	}
	a, err1 := strconv.ParseUint(first, 10, 16)
	b, err2 := strconv.ParseUint(last, 10, 16)
	return [2]uint16{uint16(a), uint16(b)}, err1 == nil && err2 == nil && 0 < a && a <= b
}

// mostShare is the N of the least share, 1/N.
const mostShare = 1024

func shareOf(text string) (uint32, bool) {
	if text == "all" {
		return 1, true
	}
	n, found := strings.CutPrefix(text, "1/")
	v, err := strconv.ParseUint(n, 10, 32)
	return uint32(v), found && err == nil && 0 < v && v <= mostShare
}

func notPrefix(text string, quote func(string) string) (problem, hint string) {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return quote(text) + " is not a prefix", "write it with its length, e.g. 10.0.0.0/16 or 2001:db8::/48; one host is 10.0.0.7/32"
	case p.Masked() != p:
		return quote(text) + " has bits behind its length", "write " + p.Masked().String()
	case p.Addr().Is4In6():
		return quote(text) + " is an IPv4 prefix in IPv6", "write it as IPv4, e.g. 10.0.0.0/16"
	}
	return "", ""
}

func notPortRange(text string, quote func(string) string) (problem, hint string) {
	if _, ok := portRange(text); !ok {
		return quote(text) + " is neither a port nor a range of ports", "e.g. 443, or 8000-8999"
	}
	return "", ""
}

func notShare(text string, quote func(string) string) (problem, hint string) {
	if _, ok := shareOf(text); !ok {
		return fmt.Sprintf("want all, or 1/N with N up to %d, found %s", mostShare, quote(text)), "e.g. 1/8, one in eight"
	}
	return "", ""
}
