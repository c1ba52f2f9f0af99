package comware

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

// prefix marks what is csig's.
const prefix = "csig-"

// maxObject is how long a name of a class, behavior or policy may be (HPE 5130 HI ACL and
// QoS Command Reference 5998-8424b, classifier behavior).
const maxObject = 31

// position is which tag of a frame the CSIG tag is.
type position byte

const (
	inner position = 'i'
	outer position = 'o'
)

// side is what Comware calls the tag.
func (p position) side() string {
	if p == inner {
		return "customer"
	}
	return "service"
}

func (p position) String() string {
	if p == inner {
		return "inner"
	}
	return "outer"
}

// recordName is the name of the behavior without actions that says which setup the
// device has.
func recordName(s *vendors.Setup, at position) string {
	bits := 0
	for _, sig := range s.Signals {
		bits |= 1 << sig
	}
	return fmt.Sprintf("%ssetup-%04x-%x-%c-%c", prefix, s.TPID, bits, s.OnStale[0], at)
}

// parseRecord is the inverse of recordName; ok is false for any other name.
func parseRecord(name string) (s vendors.Setup, at position, ok bool) {
	var tpid, bits uint16
	var stale, where byte
	if _, err := fmt.Sscanf(name, prefix+"setup-%04x-%x-%c-%c", &tpid, &bits, &stale, &where); err != nil {
		return s, 0, false
	}
	s = vendors.Setup{TPID: tpid, OnStale: inventory.Conservative}
	if stale == inventory.StalePassthrough[0] {
		s.OnStale = inventory.StalePassthrough
	}
	for _, sig := range quantize.Signals {
		if bits>>sig&1 == 1 {
			s.Signals = append(s.Signals, sig)
		}
	}
	at = position(where)
	return s, at, recordName(&s, at) == name && (at == inner || at == outer)
}

// found is a TPID that csig replaced: of the switch's inner tags, or of a port's outer
// ones. It is recorded in the name of a behavior without actions.
type found struct {
	at       position
	was, now uint16
	port     uint64 // hash of its name; 0: of the switch
}

func (f *found) behavior() string {
	name := fmt.Sprintf("%swas-%c%04x-%04x", prefix, f.at, f.was, f.now)
	if f.port != 0 {
		name += fmt.Sprintf("-%010x", f.port)
	}
	return name
}

// parseFound is the inverse of behavior.
func parseFound(name string) (f found, ok bool) {
	if n, _ := fmt.Sscanf(name, prefix+"was-%c%04x-%04x-%010x", &f.at, &f.was, &f.now, &f.port); n < 3 {
		return f, false
	}
	return f, f.behavior() == name && (f.at == inner && f.port == 0 || f.at == outer && f.port != 0)
}

// hashOf is a port's name in 40 bits, for want of room for the whole of it.
func hashOf(port string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(port)) //nolint:errcheck // never fails
	return h.Sum64()>>24 | 1
}

// policyName is that of a port's policy.
func policyName(port string) string { return prefix + port }

// rule is what a class matches: a signal, in the tag at a position, with a VID from First
// to Last. Bank tells two classes that match the same apart.
type rule struct {
	at          position
	pcp         uint16
	first, last uint16
	bank        byte
}

func (r *rule) class() string {
	return fmt.Sprintf("%s%c%d-%d-%d%c", prefix, r.at, r.pcp, r.first, r.last, r.bank)
}

// parseClass is the inverse of class.
func parseClass(name string) (r rule, ok bool) {
	if _, err := fmt.Sscanf(name, prefix+"%c%d-%d-%d%c", &r.at, &r.pcp, &r.first, &r.last, &r.bank); err != nil {
		return r, false
	}
	return r, r.class() == name && (r.at == inner || r.at == outer) && (r.bank == 'a' || r.bank == 'b')
}

// matches are the lines of the class.
func (r *rule) matches() []string {
	vids := strconv.Itoa(int(r.first))
	if r.last != r.first { // "vlan-id1 must be smaller than vlan-id2"
		vids += " to " + strconv.Itoa(int(r.last))
	}
	return []string{fmt.Sprintf("if-match %s-dot1p %d", r.at.side(), r.pcp), fmt.Sprintf("if-match %s-vlan-id %s", r.at.side(), vids)}
}

// value is what a behavior marks. Bank tells two behaviors that mark the same apart.
type value struct {
	at   position
	vid  uint16
	bank byte
}

func (v *value) behavior() string { return fmt.Sprintf("%s%c%d%c", prefix, v.at, v.vid, v.bank) }

// parseBehavior is the inverse of behavior.
func parseBehavior(name string) (v value, ok bool) {
	if _, err := fmt.Sscanf(name, prefix+"%c%d%c", &v.at, &v.vid, &v.bank); err != nil {
		return v, false
	}
	return v, v.behavior() == name && (v.at == inner || v.at == outer) && (v.bank == 'a' || v.bank == 'b')
}

// banks are those of classes and behaviors: one that is in use and not as csig left it is
// replaced by the other, and no frame misses both.
var banks = []byte("ab")

// mark is the line of the behavior.
func (v *value) mark() string { return fmt.Sprintf("remark %s-vlan-id %d", v.at.side(), v.vid) }

// portName is why the platform can have no port of a name, "" where it can.
func portName(name string) string {
	switch {
	case len(policyName(name)) > maxObject:
		return fmt.Sprintf("Comware has %d bytes for the name of its QoS policy, %s", maxObject, policyName(name))
	case strings.HasPrefix(strings.ToLower(name), "bridge-aggregation"):
		return "Comware applies a QoS policy to an aggregate's inbound direction alone: name its members"
	case strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/:.-") != "":
		return "want the interface as Comware writes it, e.g. Ten-GigabitEthernet1/0/1"
	}
	return ""
}
