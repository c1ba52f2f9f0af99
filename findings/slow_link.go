package findings

import (
	"fmt"

	"github.com/csig-agent/csig/inventory"
)

// SlowLinkReason is the reason of a SlowLink: a device reports a speed in bit/s that is less than the
// configured one.
func SlowLinkReason(configured, reported uint64) string {
	c, r := inventory.FormatSpeed(configured), inventory.FormatSpeed(reported)
	return fmt.Sprintf("the device reports a speed of %s, and the fleet file has speed: %s, so %s is the capacity: repair the link, or correct speed:, or write speed: {override: %s} where the device reports nonsense", r, c, r, c)
}
