package gnmi

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
