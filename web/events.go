package web

import (
	"time"

	"github.com/csig-agent/csig/agent/api"
)

// Event is something that happened to a device or a port while the page's server ran.
type Event struct {
	Time   time.Time `json:"time"`
	Port   string    `json:"port"` // "": the whole device
	What   string    `json:"what"`
	From   string    `json:"from"`
	To     string    `json:"to"`
	Reason string    `json:"reason"`
}

// record keeps what happened between two statuses, the newest of it.
func (d *boardDevice) record(was, is *api.Status, now time.Time) {
	if is == nil {
		return
	}
	var old *api.Status
	if was != nil {
		old = shown(was)
	}
	for _, c := range api.Changes(old, shown(is)) {
		d.events = append(d.events, Event{now.UTC(), clean(c.Port), c.What, clean(c.From), clean(c.To), clean(c.Reason)})
	}
	if most := eventsKept * (1 + len(d.ports)/8); len(d.events) > most {
		d.events = append([]Event(nil), d.events[len(d.events)-most:]...)
	}
}
