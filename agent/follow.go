package agent

import (
	"reflect"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// follow takes up what the driver found, where the set-up is somebody else's
// and has changed.
func (a *Agent) follow() {
	f, ok := a.cfg.Driver.(vendors.Follower)
	if !ok || !a.cfg.Follow {
		return
	}
	if s := f.Followed(); s != a.followed {
		a.take(s)
	}
}

// take makes the ports' actions those of a set-up; nil, and one of nothing,
// is that of a device without one.
func (a *Agent) take(s *vendors.Setup) {
	a.mu.Lock()
	defer a.mu.Unlock()
	same := reflect.DeepEqual(s, a.followed)
	if a.followed = s; same {
		return
	}
	there := s != nil && s.TPID != 0
	found := map[string]vlanrules.Action{}
	if there {
		for _, p := range s.Ports {
			found[p.Port] = p.Action
		}
	}
	a.log.WithFields(logrus.Fields{"ports": len(found), "set_up": there}).Info("following the set-up as it is now")
	for i := range a.ports {
		p := &a.ports[i]
		action, known := found[p.cfg.Name]
		if p.found = known; !known {
			action = vlanrules.Passthrough
		}
		if p.action = action; action != vlanrules.Update {
			p.programmed = p.programmed[:0]
		}
	}
}

// foundLocked is the action that a followed set-up has for a port, "" for none.
func (a *Agent) foundLocked(p *port) string {
	if !a.cfg.Follow || !p.found {
		return ""
	}
	return p.action.String()
}
