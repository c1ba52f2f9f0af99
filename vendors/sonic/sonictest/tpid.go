package sonictest

import (
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// defaultTPID is that of a port and of an aggregate without a configured one.
const defaultTPID = 0x8100

// tpids is how portmgrd, teammgrd, orchagent and SAI deal with TPIDs: those of
// aggregates go to all members, also to later ones, and who leaves has the default
// (SAI doc/TPID/TPID_SAI_proposal.md), which orchagent is not told of
// (orchagent/portsorch.cpp: it sets a TPID that is another than it set last).
type tpids struct {
	set  map[string]uint16 // by orchagent, of ports and aggregates
	lag  map[string]string // of members
	asic map[string]uint16 // of ports
}

// TPID is the one that a port has in the ASIC.
func (s *Switch) TPID(port string) uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return orDefault(s.tpids.asic[port])
}

func orDefault(tpid uint16) uint16 {
	if tpid == 0 {
		return defaultTPID
	}
	return tpid
}

// configured takes in what has changed in CONFIG_DB; how is what to it. It is
// done when APPL_DB says so.
func (s *Switch) configured(key, how string) {
	table, name, _ := strings.Cut(key, "|")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch table {
	case "PORT":
		if how == "del" {
			s.leave(name)
			return
		}
		s.appear(name)
		s.carry(name, "PORT|", "PORT_TABLE:", []string{name})
	case "PORTCHANNEL":
		if s.NoTeammgrd {
			return
		}
		var members []string
		for port, lag := range s.tpids.lag {
			if lag == name {
				members = append(members, port)
			}
		}
		s.carry(name, "PORTCHANNEL|", "LAG_TABLE:", members)
	case "PORTCHANNEL_MEMBER":
		lag, port, _ := strings.Cut(name, "|")
		if how == "del" {
			delete(s.tpids.lag, port)
			s.tpids.asic[port] = defaultTPID
			_, _ = s.Redis.do(0, "DEL", "LAG_MEMBER_TABLE:"+lag+":"+port)
			return
		}
		s.tpids.lag[port] = lag
		s.tpids.asic[port] = orDefault(s.tpids.set[lag])
		_, _ = s.Redis.do(0, "HSET", "LAG_MEMBER_TABLE:"+lag+":"+port, "status", "enabled")
	}
}

// carry copies the TPID of a row from CONFIG_DB, as it is written there, and gives
// it to ports; one that is deleted there stays.
func (s *Switch) carry(name, from, to string, ports []string) {
	text, err := redis.String(s.Redis.do(4, "HGET", from+name, "tpid"))
	if err != nil {
		return
	}
	v, err := strconv.ParseUint(text, 0, 16)
	if err != nil {
		return
	}
	if tpid := uint16(v); orDefault(s.tpids.set[name]) != tpid {
		s.tpids.set[name] = tpid
		if tpid != defaultTPID && s.RefuseTPID != nil && s.RefuseTPID(name) {
			ports, s.dying = nil, s.TPIDEnds
		}
		for _, p := range ports {
			s.tpids.asic[p] = tpid
			if p == name {
				_, _ = s.Redis.do(1, "HSET", s.portObject(p), "SAI_PORT_ATTR_TPID", strconv.Itoa(int(tpid)))
			}
		}
	}
	_, _ = s.Redis.do(0, "HSET", to+name, "tpid", text)
}

// leave is a port that CONFIG_DB has deleted: portmgrd takes it from APPL_DB, and
// orchagent keeps it for as long as entries name it (orchagent/portsorch.cpp,
// doPortTask: m_port_ref_count).
func (s *Switch) leave(port string) {
	_, _ = s.Redis.do(0, "DEL", "PORT_TABLE:"+port)
	s.asic.mu.Lock()
	defer s.asic.mu.Unlock()
	if s.ports[port] {
		s.leaving[port] = true
	}
	s.letGoOf(port)
}

// letGo takes the ports away that were kept and need not be any more.
func (s *Switch) letGo() {
	s.asic.mu.Lock()
	defer s.asic.mu.Unlock()
	for port := range s.leaving {
		s.letGoOf(port)
	}
}

func (s *Switch) letGoOf(port string) {
	for _, t := range s.asic.tables {
		for _, e := range t.entries {
			if e.port == port {
				return
			}
		}
	}
	if s.leaving[port] {
		_, _ = s.Redis.do(1, "DEL", s.portObject(port))
		_, _ = s.Redis.do(2, "HDEL", "COUNTERS_PORT_NAME_MAP", port)
		delete(s.leaving, port)
		delete(s.ports, port)
	}
}

// Kept reports whether orchagent cannot remove a port.
func (s *Switch) Kept(port string) bool {
	s.seen()
	s.asic.mu.Lock()
	defer s.asic.mu.Unlock()
	return s.leaving[port]
}

// appear is a port of CONFIG_DB that orchagent does not have.
func (s *Switch) appear(port string) {
	s.asic.mu.Lock()
	defer s.asic.mu.Unlock()
	if s.ports[port] {
		return
	}
	if _, err := redis.String(s.Redis.do(4, "HGET", "PORT|"+port, "lanes")); err != nil {
		return
	}
	s.ports[port] = true
	delete(s.tpids.set, port)
	delete(s.tpids.asic, port)
	s.showPort(port)
}

// Join makes ports members of an aggregate, as config portchannel does, and
// Leave ends that.
func (s *Switch) Join(lag string, ports ...string) {
	s.t.Helper()
	s.Redis.Do(4, "HSET", "PORTCHANNEL|"+lag, "admin_status", "up", "mtu", "9100")
	for _, p := range ports {
		s.Redis.Do(4, "HSET", "PORTCHANNEL_MEMBER|"+lag+"|"+p, "NULL", "NULL")
	}
	s.seen()
}

// Leave ends what Join began.
func (s *Switch) Leave(lag string, ports ...string) {
	s.t.Helper()
	for _, p := range ports {
		s.Redis.Do(4, "DEL", "PORTCHANNEL_MEMBER|"+lag+"|"+p)
	}
	s.seen()
}

// seen returns when what was written to CONFIG_DB so far was taken in: what is
// published comes in its order.
func (s *Switch) seen() {
	s.mu.Lock()
	running, done := s.subs != nil, s.mark
	s.mu.Unlock()
	if running {
		s.Redis.Do(0, "PUBLISH", markChannel, "")
		<-done
	}
}

const markChannel = "SONICTEST_MARK"
