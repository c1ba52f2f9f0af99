package comware

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/vendors/cli/qos"
)

// reserved are the types that Comware takes for no TPID (HPE 5950 Layer 2 - LAN Switching
// Command Reference 5200-2215a, qinq ethernet-type).
var reserved = []uint16{0, 0x0806, 0x0200, 0x8035, 0x0800, 0x86dd, 0x8863, 0x8864, 0x8847, 0x8848, 0x8137, 0x8000, 0x8809, 0x88cc, 0x888e, 0x8902, 0x88a7, 0xfffd, 0xfffe, 0xffff}

// portName is why the platform can have no port of a name, "" where it can.
func portName(name string) string {
	switch {
	case len(qos.PolicyName(name)) > qos.MaxName:
		return fmt.Sprintf("Comware has %d bytes for the name of its QoS policy, %s", qos.MaxName, qos.PolicyName(name))
	case strings.HasPrefix(strings.ToLower(name), "bridge-aggregation"):
		return "Comware applies a QoS policy to an aggregate's inbound direction alone: name its members"
	case strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/:.-") != "":
		return "want the interface as Comware writes it, e.g. Ten-GigabitEthernet1/0/1"
	}
	return ""
}
