package agent

import (
	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors"
)

// stateChanges are the ports whose state changed in a cycle: what happens to
// all ports of a switch at once is one line of the log, and not sixty-four.
type stateChanges struct {
	notes api.Notes
	ways  []stateChange // beside the notes
}

type stateChange struct{ from, to string }

// add is for a port whose state may be logged; it does nothing where the log has it.
func (c *stateChanges) add(p *port) {
	if p.state == p.logged {
		return
	}
	n := len(c.notes.List())
	c.notes.Add(p.logged+" "+p.state, p.cfg.Name, p.reason)
	if len(c.notes.List()) > n {
		c.ways = append(c.ways, stateChange{p.logged, p.state})
	}
	p.logged = p.state
}

func (c *stateChanges) log(log *logrus.Entry) {
	for i, n := range c.notes.List() {
		way := c.ways[i]
		fields, text := logrus.Fields{"port": n.Ports[0], "from": way.from, "to": way.to}, "port changed state"
		if len(n.Ports) > 1 {
			delete(fields, "port")
			fields["ports"], text = vendors.Names(n.Ports), "ports changed state"
		}
		if n.Text != "" {
			fields["reason"] = n.Text
		}
		level := logrus.InfoLevel
		if way.to == api.StateStale || way.to == api.StateDown {
			level = logrus.WarnLevel
		}
		log.WithFields(fields).Log(level, text)
	}
}
