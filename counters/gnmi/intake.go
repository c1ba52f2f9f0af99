package gnmi

import (
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// intake is a Source as the sink of its decoder. Its methods run with the
// Source's lock held.
type intake Source

var _ sink = (*intake)(nil)

// take brings one notification into the state. The caller holds the lock.
func (s *Source) take(n *pb.Notification, now time.Time) {
	s.message++
	s.now, s.at = now, max(n.GetTimestamp(), 0)
	err := func() (err error) {
		defer untrusted.Recover(&err) // one device's message must not end the readings of all
		s.dec.notification(n)
		return nil
	}()
	if err != nil {
		(*intake)(s).damaged("", err)
	}
}

// update is sink's.
func (in *intake) update(name string, id leafID, v *gnmi.Value) {
	s := (*Source)(in)
	i, ours := s.byName[name]
	if !ours || id >= kept {
		return
	}
	p := &s.ports[i]
	n, err := id.number(v)
	if err != nil {
		s.info.Invalid++
		p.leaves[id] = leaf{stream: s.stream, err: err}
		return
	}
	p.damage = nil
	old := p.leaves[id]
	octets := &p.leaves[outOctets]
	again := old.set && old.at >= octets.at && s.at > old.at // it has come in the sample of these octets
	if id <= outBroadcast && octets.set && (again || s.at-octets.at > int64(s.tolerance())) {
		// A new sample begins, however soon; what belongs to the one before has arrived.
		p.settle(s.now, s.grace(), s.tolerance(), true)
	}
	next := leaf{set: true, val: n, at: s.at, arrived: s.now, message: s.message, stream: s.stream}
	if !p.take(id, next) {
		s.info.OutOfOrder++
		if id == outOctets && p.clockSetBack(s.at, s.now, s.interval()) {
			for l := range p.leaves {
				p.leaves[l].at = 0
			}
			s.evidence = evidence{}
			p.take(id, next)
		}
		return
	}
	if id != outOctets {
		return
	}
	p.backwards = 0
	if s.at == 0 {
		return
	}
	if old.set && s.at > old.at {
		p.still = n == old.val
	}
	if s.asked {
		return
	}
	p.sampled = s.at
	s.evidence.note(moment{s.at, s.now}, s.grace())
	if s.refresh && old.set && old.stream == s.stream && s.at > old.at {
		gap := time.Duration(s.at - old.at)
		if n != old.val {
			s.period.note(gap)
		} else if gap < s.interval()*3/2 {
			s.info.Repeats = true
		}
	}
}

// remove is sink's.
func (in *intake) remove(name string, n *node) {
	s := (*Source)(in)
	for i := range s.ports {
		p := &s.ports[i]
		if name != "" && p.name != name {
			continue
		}
		for id := range p.leaves {
			if l := &p.leaves[id]; l.set && l.message != s.message && n.under(leafID(id)) && (l.stream != s.stream || s.at >= l.at) {
				p.drop(leafID(id))
			}
		}
	}
}

// damaged is sink's.
func (in *intake) damaged(name string, err error) {
	s := (*Source)(in)
	s.info.Invalid++
	err = untrusted.ErrorOf(err, gnmi.MaxText)
	if i, ours := s.byName[name]; ours {
		s.ports[i].damage = err
	} else if name == "" {
		s.info.LastInvalid = err.Error()
	}
}
