package snmp

import "time"

// tick is the unit of TimeTicks.
const tick = 10 * time.Millisecond

// uptime follows an agent's sysUpTime, to see when the agent restarted.
type uptime struct {
	have  bool
	ticks uint32
	at    time.Time
}

const (
	// uptimeTolerance is how far sysUpTime may lag behind our clock: agents cache it
	// too, and their clocks are not ours.
	uptimeTolerance = 15 * time.Second
	// uptimeJitter is how far sysUpTime may step back without a restart, on
	// devices where several processes answer.
	uptimeJitter = time.Second
)

// advance takes a reading and reports whether the agent restarted since the one
// before. It restarted when sysUpTime went back other than by its wrap
// after 497 days, or advanced by less than the time that passed.
func (u *uptime) advance(ticks uint32, at time.Time) (restarted bool) {
	if !u.have {
		*u = uptime{true, ticks, at}
		return false
	}
	if ticks == u.ticks {
		return false // cached, or read within the same tick
	}
	passed := at.Sub(u.at)
	moved := time.Duration(ticks-u.ticks) * tick // modulo the wrap
	tolerance := uptimeTolerance + passed/50
	switch {
	case ticks > u.ticks:
		restarted = moved+tolerance < passed
	case time.Duration(u.ticks-ticks)*tick <= uptimeJitter:
		return false
	default:
		restarted = (moved - passed).Abs() > tolerance
	}
	*u = uptime{true, ticks, at}
	return restarted
}
