package vrptest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// defaultFrame is the longest frame without jumboframe enable.
const defaultFrame = 9216

func (i *iface) frames() int { return cmp.Or(i.Longest, defaultFrame) }

// jumboframe is jumboframe enable VALUE, by which longer frames are discarded, and undo
// jumboframe enable, which gives back the default (CloudEngine 8800 and 6800 V300R023C00
// Command Reference). The S series has the same, from 1536 to 12288 bytes.
func (s *shell) jumboframe(i *iface, w []string, undo bool) string {
	least, most := 1536, 12288
	if s.c.cloud {
		least, most = 1518, 9500
	}
	switch {
	case slices.ContainsFunc(i.Lines, func(l string) bool { return strings.HasPrefix(l, "eth-trunk ") }):
		return "Error: The configuration is not allowed at a member of an Eth-Trunk."
	case len(w) < 2 || w[1] != "enable":
		return unrecognized
	case len(w) > 3:
		return tooMany
	case undo:
		i.Longest = 0
	case len(w) == 2 && s.c.cloud:
		return incomplete
	case len(w) == 2:
		i.Longest = 0
	default:
		n, err := strconv.Atoi(w[2])
		if err != nil || n < least || n > most {
			return wrong
		}
		if i.Longest = n; n == defaultFrame { // which is not displayed
			i.Longest = 0
		}
	}
	return ""
}

// report is what display interface says of an interface.
func (i *iface) report() string {
	return fmt.Sprintf("%s current state : UP\nLine protocol current state : UP\nDescription:The Maximum Frame Length is 1\nSwitch Port, PVID :    1, TPID : %04x(Hex), The Maximum Frame Length is %d\nIP Sending Frames' Format is PKTFMT_ETHNT_2, Hardware address is 4c1f-cc5b-21a1\n\n", i.Name, i.TPID, i.frames())
}
