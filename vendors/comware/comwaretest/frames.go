package comwaretest

import (
	"fmt"
	"strconv"
)

// jumbo is the least that counts as a jumbo frame, and the most without their support.
const jumbo = 1536

// jumboframe is jumboframe enable [ size ] and undo jumboframe enable in interface view, by which
// an interface discards jumbo frames (H3C S6850, H3C WX6600: configuring jumbo frame support).
func (c *Switch) jumboframe(i *iface, w []string) string {
	undo := w[0] == "undo"
	if undo {
		w = w[1:]
	}
	if len(w) < 2 || w[1] != "enable" {
		return unrecognized
	}
	n := c.Longest
	if len(w) == 3 {
		var err error
		if n, err = strconv.Atoi(w[2]); err != nil || n < jumbo || n > maxFrame {
			return wrong
		}
	}
	switch {
	case len(w) > 3:
		return tooMany
	case undo:
		i.denied, i.longest = true, 0
	case n == c.Longest: // the default is not displayed
		i.denied, i.longest = false, 0
	default:
		i.denied, i.longest = false, n
	}
	return ""
}

// frames is the longest frame of an interface, and its line of configuration.
func (c *Switch) frames(i *iface) (longest int, line string) {
	switch {
	case i.denied:
		return jumbo, "undo jumboframe enable"
	case i.longest > 0:
		return i.longest, fmt.Sprintf("jumboframe enable %d", i.longest)
	}
	return c.Longest, ""
}

// report is what display interface says of an interface, as Comware 7 words it.
func (c *Switch) report(i *iface) string {
	longest, _ := c.frames(i)
	pass := "Allow jumbo frames to pass\n"
	if i.denied {
		pass = ""
	}
	if c.Silent {
		return i.name + "\nCurrent state: UP\n\n"
	}
	return fmt.Sprintf("%s\nCurrent state: UP\nLine protocol state: UP\nIP packet frame type: Ethernet II, hardware address: 0023-8900-0000\nDescription: Maximum frame length: 1\nBandwidth: 10000000 kbps\nLoopback is not set\nMaximum frame length: %d\n%sBroadcast max-ratio: 100%%\nPVID: 1\nPort link-type: Trunk\n\n", i.name, longest, pass)
}
