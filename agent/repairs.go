package agent

import (
	"fmt"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// repairs are those of a device's objects that were restored lately. Each object of each port is
// counted by itself: neither another object nor another port ends its row.
type repairs map[repaired]*repairRow

type repaired struct{ port, object string } // port "": all ports share it

// repairRow are repairs of one object, one after the other.
type repairRow struct {
	last  time.Time
	apart time.Duration // of the last two
	times int
}

// Repairs belong to one row where they are less than repairGap apart; after the last one it takes
// as long as three of them, and at least repairRest, until rules count as what they were written to.
const (
	repairGap  = 2 * time.Minute
	repairRest = 15 * time.Second
)

const doesNotStay = "another process changes them, or the device confirms changes and does not carry them out"

// note takes in a repair, and forgets rows that have ended. It reports whether it is not the first of its row.
func (r repairs) note(now time.Time, what *vendors.Repair) (again bool) {
	for key, row := range r {
		if now.Sub(row.last) >= repairGap && row.recurs(now) == "" {
			delete(r, key)
		}
	}
	key := repaired{what.Port, what.Object}
	row := r[key]
	if row == nil {
		r[key] = &repairRow{last: now, times: 1}
		return false
	}
	if now.Equal(row.last) { // of the same update
		return row.times > 1
	}
	if row.apart = now.Sub(row.last); row.apart >= repairGap {
		row.times = 0
	}
	row.last = now
	row.times++
	return row.times > 1
}

// recurs says why the object may not be what was written, "" where nothing says so: a single repair
// is none of a device that does not do as it says.
func (row *repairRow) recurs(now time.Time) string {
	if row.times < 2 || now.Sub(row.last) >= max(repairRest, 3*row.apart) {
		return ""
	}
	return fmt.Sprintf("its rules were restored %d times in a row, %v ago at last: %s", row.times, now.Sub(row.last).Round(time.Second), doesNotStay)
}

// recur says why rules of a port may not be what was written, "" where nothing says so; port ""
// is what all ports share.
func (r repairs) recur(port string, now time.Time) (why string) {
	times := 0
	for key, row := range r {
		if key.port == port && row.times > times {
			if text := row.recurs(now); text != "" {
				why, times = text, row.times
			}
		}
	}
	return why
}

const notReadBack = "what was written was not read back yet"

// noteRepairs takes in what an update had to restore.
func (a *Agent) noteRepairs(res *vendors.UpdateResult, now time.Time) {
	if len(res.Repaired) == 0 {
		return
	}
	a.cycle.Repairs++
	again := false
	for i := range res.Repaired {
		again = a.cycle.repairs.note(now, &res.Repaired[i]) || again
	}
	why := "rules changed by another process; restored"
	switch {
	case res.Restarted:
		why = "rules lost in a restart of the device; restored"
	case again:
		why = "rules restored again: " + doesNotStay
	}
	a.log.WithField("what", res.Repaired.String()).Warn(why)
}

// noteFailedUpdate takes in what an update had restored before it failed.
func (a *Agent) noteFailedUpdate(res *vendors.UpdateResult) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(res.Repaired) > 0 {
		a.noteRepairs(res, time.Now())
		a.noteReadBack(res, false)
	}
}

// noteReadBack takes in what an update knows of what the device has. A port is live when the
// device was read and had what was written: after its first value, and after each repair. lost
// tells that the rules were not all there before.
func (a *Agent) noteReadBack(res *vendors.UpdateResult, lost bool) {
	for i := range a.ports {
		p := &a.ports[i]
		if p.cfg.Action != vlanrules.Update || p.held {
			continue
		}
		restored := ""
		for j := range res.Repaired {
			if r := &res.Repaired[j]; r.Port == "" || r.Port == p.cfg.Name {
				restored = r.Text
			}
		}
		written := len(p.programmed) > 0 // by an earlier update
		switch {
		case p.refused != "":
			p.unread = notReadBack
		case res.ReadBack == vendors.ReadBackAfter:
			p.unread = ""
		case restored != "":
			p.unread = "its rules were restored, and not read back yet: " + restored
		case lost || !written:
			p.unread = notReadBack
		case res.ReadBack == vendors.ReadBackBefore:
			p.unread = ""
		}
	}
}

// unreadLocked is why no port is known to have what was written; "" where one is, or none has a value.
func (a *Agent) unreadLocked() (why string) {
	for i := range a.ports {
		p := &a.ports[i]
		switch {
		case p.cfg.Action != vlanrules.Update || len(p.programmed) == 0:
		case p.unread == "":
			return ""
		default:
			why = p.unread
		}
	}
	return why
}
