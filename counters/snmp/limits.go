package snmp

// Bounds on what an agent can make a reading take.
const (
	// maxDatagram is how many bytes a datagram may have.
	maxDatagram = 1 << 16
	// maxStrays is how many datagrams that are no answer an exchange reads past: a
	// flood must not take the processor for a whole timeout.
	maxStrays = 10_000
	// maxBindings is how many bindings an answer may have: more than any request
	// asks for.
	maxBindings = 1024
	// maxRows bounds what a walk keeps of a device that never ends.
	maxRows = 1 << 16
	// maxText is how many bytes of a text of the agent's are kept: a DisplayString.
	maxText = 255
	// maxSameName is how many rows of one name are looked at.
	maxSameName = 16
)
