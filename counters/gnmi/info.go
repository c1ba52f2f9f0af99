package gnmi

import "fmt"

// Info is what is known of the target and of how it is read.
type Info struct {
	Mode     Mode   // Auto while it is not known
	Request  string // what it was asked for, in words
	Encoding string
	Version  string // of gNMI, as the target says
	Repeats  bool   // the target sends unchanged counters too

	Streams     uint64 // opened so far
	OutOfOrder  uint64 // updates that were older than what was known
	Invalid     uint64 // updates that could not be used
	LastInvalid string // why, where it concerned no particular port
	LastError   string // of a stream
}

// Info describes the target. It may be called at any time.
func (s *Source) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
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
