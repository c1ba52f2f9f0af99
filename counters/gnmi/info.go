package gnmi

import "fmt"

import "github.com/csig-agent/csig/counters/gnmi/oc"

// Info is what is known of the target and of how it is read.
type Info struct {
	Mode     Mode   // Auto while there was no contact
	Request  string // what it was asked for, in words
	Encoding string
	Version  string // of gNMI, as the target says
	Synced   bool   // the stream has sent everything once
	Repeats  bool   // the target sends unchanged counters too

	Streams       uint64 // opened so far
	Notifications uint64 // taken in
	OutOfOrder    uint64 // updates that were older than what was known
	Invalid       uint64 // updates that could not be used
	LastInvalid   string // why, where it concerned no particular port
	LastError     string // of a stream
}

// Info describes the target. It may be called at any time.
func (s *Source) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.info
	info.Repeats = s.repeats
	return info
}

// Facts is what is known of one port.
type Facts struct {
	Port      string
	Packets   string // the leaves that the samples' Packets are from
	Speed     uint64 // bit/s, 0 where the target does not report it
	SpeedFrom string // the leaf it is from
	Status    string // oper-status, "" where unknown
}

// Facts says how each port is read, in the order of the samples. It may be called at any
// time.
func (s *Source) Facts() []Facts {
	s.mu.Lock()
	defer s.mu.Unlock()
	facts := make([]Facts, len(s.ports))
	for i := range s.ports {
		p := &s.ports[i]
		f := &facts[i]
		f.Port, f.Packets = p.name, p.packets().String()
		var from leafID
		if f.Speed, from = p.speed(); f.Speed != 0 {
			f.SpeedFrom = from.String()
		}
		if l := &p.leaves[operStatus]; l.set {
			f.Status = oc.E_Interface_OperStatus(l.val).String()
		}
	}
	return facts
}

// Details returns how the target is read, and what it does not show, a sentence each.
func (s *Source) Details() (details, limitations []string) {
	info := s.Info()
	details = []string{fmt.Sprintf("gNMI %s, %s, encoding %s: %s", info.Version, info.Mode, info.Encoding, info.Request)}
	if !info.Repeats {
		limitations = append(limitations, "an idle port from a silent target, by one value: the target does not repeat unchanged counters")
	}
	return details, limitations
}
