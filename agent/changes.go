package agent

import (
	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/vendors"
)

// stateChanges are the ports whose state changed in a cycle: what happens to
// all ports of a switch at once is one line of the log, and not sixty-four.
type stateChanges struct {
	ways  []stateChange // in the order they came
	ports map[stateChange][]findings.Finding
}

type stateChange struct{ from, to string }

// add is for a port whose state may be logged; it does nothing where the log has it.
func (c *stateChanges) add(p *port) {
	if p.state == p.logged {
		return
	}
	way := stateChange{p.logged, p.state}
	if c.ports == nil {
		c.ports = map[stateChange][]findings.Finding{}
	}
	if c.ports[way] == nil {
		c.ways = append(c.ways, way)
	}
	c.ports[way] = append(c.ports[way], findings.Finding{Code: p.code, Ports: []string{p.cfg.Name}, Reason: p.reason})
	p.logged = p.state
}

func (c *stateChanges) log(log *logrus.Entry) {
	for _, way := range c.ways {
		for _, f := range findings.Merge(c.ports[way]) {
			fields, text := logrus.Fields{"port": f.Ports[0], "from": way.from, "to": way.to}, "port changed state"
			if len(f.Ports) > 1 {
				delete(fields, "port")
				fields["ports"], text = vendors.Names(f.Ports), "ports changed state"
			}
			if f.Reason != "" {
				fields["code"], fields["reason"] = f.Code, f.Reason
			}
			level := logrus.InfoLevel
			if way.to == api.StateStale || way.to == api.StateDown {
				level = logrus.WarnLevel
			}
			log.WithFields(fields).Log(level, text)
		}
	}
}
