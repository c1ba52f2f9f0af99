package plans

import (
	"errors"
	"fmt"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// updateRefused is why a device whose level the fleet file does not give is to have csig, and
// cannot have it now. Drivers that have more than a setup are for platforms that update tags,
// so that a refusal is of this device and may pass (another program, a full table): it is
// no level, and no reason to take off what the device has.
func (b *builder) updateRefused(n *node) error {
	update := n.seen.Facts.Updates(b.fleet.Profile.TPID)
	const level = "give it its level in the fleet file, passthrough or discard"
	switch {
	case update.Level != vlanrules.Refused, n.seen.Facts.SetupOnly:
	case n.seen.Facts.Update.Level == vlanrules.Refused && n.seen.Setup.Nothing():
		return fmt.Errorf("it cannot update tags as it is: %s; repair that (csig assess -i %s --device %s tells more), or %s", update.Reason, untrusted.ShellWord(b.fleet.Path), untrusted.ShellWord(n.dev.Name), level)
	case n.seen.Facts.Update.Level == vlanrules.Refused:
		return fmt.Errorf("it has csig, and cannot update tags as it is: %s; repair that (csig assess -i %s --device %s tells more), or %s, to plan that csig is taken off it", update.Reason, untrusted.ShellWord(b.fleet.Path), untrusted.ShellWord(n.dev.Name), level)
	case !n.seen.Setup.Nothing(): // of another TPID: the platform's limit, which stays
		return fmt.Errorf("it has csig, and cannot have it in this domain: %s; restore the TPID, or %s, to plan that csig is taken off it", update.Reason, level)
	}
	return nil
}

// noteNothingToDo notes that csig has nothing to do with a device that it could drive, and
// why.
func (n *node) noteNothingToDo() {
	switch {
	case n.seen.Err != nil || !n.want.Nothing() || !n.seen.Setup.Nothing():
	case n.level.Support == inventory.LevelNative && !n.level.SetUp:
		n.leftReason = AloneNative
	case n.dev.Level.Support == inventory.LevelAuto && n.seen.Facts.SetupOnly:
		n.leftReason = AloneDiscards
	case n.dev.Level.Support == inventory.LevelAuto:
		n.leftReason = AloneTPID
	}
}

// assumeLevel takes a device that nothing can drive as its platform's facts have
// it, and one that does not answer, or that nothing is known of, as the fleet
// file describes it, where it has nothing to be given.
func (b *builder) assumeLevel(n *node) {
	switch {
	case n.seen.NoDriver != "":
		n.unmanaged, n.leftReason = true, AloneNoDriver
		if n.level.Support != inventory.LevelSoftware { // judge has more to say
			b.find(findings.LeftAlone, findings.Warning, n, nil, "left alone, its level is %s: %s", n.level.Support, n.seen.NoDriver)
		}
		return
	case n.seen.Err == nil:
		return
	}
	switch n.dev.Level.Support {
	case inventory.LevelDiscard, inventory.LevelPassthrough, inventory.LevelNative:
		n.unmanaged, n.leftReason = true, AloneUnreached
		if errors.As(n.seen.Err, new(*vendors.NoDriverError)) {
			n.leftReason = AloneUnknown
		}
		b.find(findings.LeftAlone, findings.Warning, n, nil, "taken as its level says, %s, and left alone: %v", n.dev.Level.Support, n.seen.Err)
		n.seen = Observation{Via: n.seen.Via, Facts: vendors.Facts{Strip: vlanrules.Verdict{Level: vlanrules.Refused, Reason: "csig does not drive it"}}}
	}
}
