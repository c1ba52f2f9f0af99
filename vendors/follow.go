package vendors

import (
	"errors"
	"fmt"
)

// ErrNoSetup is what an Update of a driver that follows wraps while the device
// has nothing of ours: nothing is programmed then, and no lease given.
var ErrNoSetup = errors.New("there is no set-up of csig on this device: csig apply makes one")

// CheckProfile refuses to write values of one profile under a setup that was
// made for another, with a *PermanentError: buckets of one table would be read
// by the other (draft-00 §5.3.3). A profile that nobody recorded is none to
// compare with.
func CheckProfile(recorded, own string) error {
	if recorded == "" || own == "" || recorded == own {
		return nil
	}
	return &PermanentError{Err: fmt.Errorf("the set-up on this device was made for profile %s, and this agent's file has %s: bring the device to the agent's profile with csig plan and csig apply first, or give the agent the file of the profile it has", ShortProfile(recorded), ShortProfile(own))}
}

// Follower is a driver whose Update can go by a setup that somebody else makes
// and changes: another process here, or one far away.
type Follower interface {
	// Follow is called once, in place of Apply. From then on Update looks
	// whether the setup has changed, programs the ports whose action is
	// update, and gives those among them that it is told nothing about the
	// fallback; it mends nothing. domain is what the intents are for: a setup
	// of other TPIDs, another layout or other signals is a *PermanentError of
	// Update, and so is what CheckProfile refuses. Apply and Remove are refused.
	Follow(domain Setup) error

	// Followed is the setup that the last Update found; nil where it found
	// none. The pointer changes when the setup does; it is only for reading.
	Followed() *Setup
}
