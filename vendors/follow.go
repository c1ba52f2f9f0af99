package vendors

import "errors"

// ErrNoSetup is what an Update of a driver that follows wraps while the device
// has nothing of ours: nothing is programmed then, and no lease given.
var ErrNoSetup = errors.New("there is no set-up of csig on this device: csig apply makes one")

// Follower is a driver whose Update can go by a setup that somebody else makes
// and changes: another process here, or one far away.
type Follower interface {
	// Follow is called once, in place of Apply. From then on Update looks
	// whether the setup has changed, programs the ports whose action is
	// update, and gives those among them that it is told nothing about the
	// fallback; it mends nothing. domain is what the intents are for: a setup
	// of other TPIDs, another layout or other signals is a *PermanentError of
	// Update. Apply and Remove are refused.
	Follow(domain Setup) error

	// Followed is the setup that the last Update found; nil where it found
	// none. The pointer changes when the setup does; it is only for reading.
	Followed() *Setup
}
