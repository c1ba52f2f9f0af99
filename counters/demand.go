package counters

// demand tests another rule: a cache that is filled by the reading which finds it
// too old. Each refresh is then at its b, and one time to live separates, after
// every refresh, the readings that found the cache young enough from the one that
// did not.
type demand struct {
	n     int   // gaps between refreshes that agree with the rule
	young int64 // the oldest cache that was still used
	least int64 // the youngest that was not
}

// add takes a refresh at b, with the reading before at a, after one at before.
func (d *demand) add(before, a, b, gap int64) {
	young, old := a-before, b-before
	if d.n > 0 && max(d.young, young) > min(d.least, old)+gap/50 {
		d.n = 0
	}
	if d.n == 0 {
		*d = demand{1, young, old}
		return
	}
	d.n++
	d.young, d.least = max(d.young, young), min(d.least, old)
}
