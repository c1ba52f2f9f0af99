package counters

// Capacity returns the capacity C of a port in bit/s, 0 where neither speed is known (0): the
// smaller one. What is configured may be a part of the link, and a link that negotiated down or an
// aggregate that lost a member has less than is configured.
func Capacity(configured, reported uint64) uint64 {
	if configured == 0 || reported != 0 && reported < configured {
		return reported
	}
	return configured
}
