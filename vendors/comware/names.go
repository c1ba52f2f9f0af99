package comware

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/csig-agent/csig/vendors/cli/qos"
)

// prefix marks what is csig's.
const prefix = qos.Prefix

// position is which tag of a frame the CSIG tag is.
type position = qos.Position

const inner, outer = qos.Inner, qos.Outer

// side is what Comware calls a tag.
func side(p position) string {
	if p == inner {
		return "customer"
	}
	return "service"
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
func policyName(port string) string { return qos.PolicyName(port) }

// portName is why the platform can have no port of a name, "" where it can.
func portName(name string) string {
	switch {
	case len(policyName(name)) > qos.MaxName:
		return fmt.Sprintf("Comware has %d bytes for the name of its QoS policy, %s", qos.MaxName, policyName(name))
	case strings.HasPrefix(strings.ToLower(name), "bridge-aggregation"):
		return "Comware applies a QoS policy to an aggregate's inbound direction alone: name its members"
	case strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/:.-") != "":
		return "want the interface as Comware writes it, e.g. Ten-GigabitEthernet1/0/1"
	}
	return ""
}
