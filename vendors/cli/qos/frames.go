package qos

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/vendors"
)

// Frames is how long frames may be at a port, in bytes with the L2 header and the FCS.
type Frames struct {
	Port string
	Line string // of its view by which that is configured, "" for the default
	Now  int    // the longest, as the switch reports it; 0: it does not
}

// MinFrame is the least that jumboframe enable takes, and what passes without it.
const MinFrame = 1536

// FrameLine reports whether a line of a port's view is about the longest frame.
func FrameLine(line string) bool {
	return jumboLine.MatchString(line)
}

var (
	jumboLine = regexp.MustCompile(`^(?:undo jumboframe enable|jumboframe enable(?: \d{1,5}(?: \d{1,5})?)?)$`)
	longest   = regexp.MustCompile(`(?i)\bmaximum frame length(?: is|:)\s*(\d{1,5})\b`)
)

// ReadFrames reads `display interface`: the longest frame of each port, as the switch reports
// it. What belongs to a port begins with a line of its name, behind which some have its state.
func ReadFrames(lines []string, known func(port string) bool) map[string]int {
	out := map[string]int{}
	port := ""
	for _, line := range lines {
		if strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "description") {
			continue // an operator's own words
		}
		if w := strings.Fields(line); len(w) > 0 && (len(w) == 1 || w[1] == "current") && (strings.Contains(w[0], "/") || known(w[0])) {
			port = w[0]
		}
		if m := longest.FindStringSubmatch(line); m != nil && known(port) {
			out[port], _ = strconv.Atoi(m[1]) // it has digits alone
		}
	}
	return out
}

// foundFrames is the longest frame of a port that csig replaced. The name of a behavior
// without actions records it.
type foundFrames struct {
	how      byte // how it was configured
	was, now int
	port     uint64 // hash of its name
}

// How the longest frame of a port is configured.
const (
	asDefault = 'd'
	sized     = 's'
	denied    = 'n' // undo jumboframe enable
)

func (f *foundFrames) behavior() string {
	return fmt.Sprintf("%smtu-%c%04x-%04x-%010x", Prefix, f.how, f.was, f.now, f.port)
}

func parseFrames(name string) (f foundFrames, ok bool) {
	if _, err := fmt.Sscanf(name, Prefix+"mtu-%c%04x-%04x-%010x", &f.how, &f.was, &f.now, &f.port); err != nil {
		return f, false
	}
	return f, f.behavior() == name && strings.ContainsRune(string([]byte{asDefault, sized, denied}), rune(f.how))
}

// HasFrames reports whether there is a record of a port's longest frame among behaviors.
func HasFrames(behaviors map[string][]string, port string) bool {
	_, all := recordsOf(behaviors, Frames{Port: port})
	return len(all) > 0
}

func framesOf(behaviors map[string][]string) (list []foundFrames) {
	for _, name := range slices.Sorted(maps.Keys(behaviors)) {
		if f, ok := parseFrames(name); ok {
			list = append(list, f)
		}
	}
	return list
}

// Jumbo is what a vendor does by the lines of jumboframe enable.
type Jumbo struct {
	Denies bool // undo jumboframe enable keeps longer frames than MinFrame out; otherwise it gives back the default
}

// Set returns lines of system view that give a port another longest frame. What it had is
// noted first, among behaviors; that length brings back the configuration that was there. One
// that another user has set since stays.
func (j Jumbo) Set(behaviors map[string][]string, p Frames, length int) ([]string, error) {
	own, all := recordsOf(behaviors, p)
	had := func(f foundFrames) bool { return f.was == length }
	if p.Now == 0 {
		return nil, errors.New("the switch does not report its longest frame (display interface)")
	}
	if own == nil && p.Now != length && slices.ContainsFunc(all, had) {
		return nil, &vendors.ForeignError{What: fmt.Sprintf("another user has set its longest frame to %d bytes since csig did: that stays", p.Now)}
	}
	var lines []string
	switch {
	case p.Now == length:
		if own != nil {
			return nil, nil
		}
	case own != nil && own.was == length:
		lines = j.restore(p, own)
	case length < MinFrame || length > 1<<16-1:
		return nil, fmt.Errorf("its longest frame would have %d bytes: jumboframe enable takes %d at least", length, MinFrame)
	default:
		f := foundFrames{how: sized, was: p.Now, now: length, port: HashOf(p.Port)}
		switch {
		case own != nil:
			f.how, f.was = own.how, own.was
		case p.Line == "":
			f.how = asDefault
		case strings.HasPrefix(p.Line, "undo "):
			f.how = denied
		}
		name := f.behavior()
		lines = append([]string{"traffic behavior " + name, "quit"}, in(p.Port, sizeLine(p, length))...)
		behaviors[name] = nil
		all = slices.DeleteFunc(all, func(old foundFrames) bool { return old == f })
	}
	return append(lines, remove(behaviors, all)...), nil
}

// Back returns lines that give a port what it had before csig, where it is still csig's, and
// remove the record.
func (j Jumbo) Back(behaviors map[string][]string, p Frames) (lines []string) {
	own, all := recordsOf(behaviors, p)
	if own != nil {
		lines = j.restore(p, own)
	}
	return append(lines, remove(behaviors, all)...)
}

// forgetFrames returns lines that remove the records of all ports but these.
func forgetFrames(behaviors map[string][]string, but []string) []string {
	return remove(behaviors, slices.DeleteFunc(framesOf(behaviors), func(f foundFrames) bool {
		return slices.ContainsFunc(but, func(port string) bool { return HashOf(port) == f.port })
	}))
}

// recordsOf are the records of a port; own is the one of what it has.
func recordsOf(behaviors map[string][]string, p Frames) (own *foundFrames, all []foundFrames) {
	for _, f := range framesOf(behaviors) {
		if f.port != HashOf(p.Port) {
			continue
		}
		if all = append(all, f); f.now == p.Now {
			own = &f
		}
	}
	return own, all
}

func remove(behaviors map[string][]string, list []foundFrames) (lines []string) {
	for _, f := range list {
		lines = append(lines, "undo traffic behavior "+f.behavior())
		delete(behaviors, f.behavior())
	}
	return lines
}

// restore is lines that give a port what a record says. Where undo denies, the default is given
// back by its number.
func (j Jumbo) restore(p Frames, f *foundFrames) []string {
	if f.how == denied || f.how == asDefault && !j.Denies {
		return in(p.Port, "undo jumboframe enable")
	}
	return in(p.Port, sizeLine(p, f.was))
}

// sizeLine sets a length, with the threshold that the port has behind it on some switches.
func sizeLine(p Frames, length int) string {
	line := "jumboframe enable " + strconv.Itoa(length)
	if w := strings.Fields(p.Line); len(w) == 4 {
		line += " " + w[3]
	}
	return line
}

func in(port, line string) []string { return []string{"interface " + port, line, "quit"} }

// Frames gives a port another longest frame, as Jumbo.Set does.
func (s *Script) Frames(j Jumbo, p Frames, length int) error {
	lines, err := j.Set(s.View.Behaviors, p, length)
	s.add(lines...)
	return err
}

// FramesBack gives a port what it had before csig, as Jumbo.Back does.
func (s *Script) FramesBack(j Jumbo, p Frames) { s.add(j.Back(s.View.Behaviors, p)...) }

// Untried removes the records of a port of what it does not have, as where the switch has
// refused that.
func (s *Script) Untried(p Frames) {
	_, all := recordsOf(s.View.Behaviors, p)
	s.add(remove(s.View.Behaviors, slices.DeleteFunc(all, func(f foundFrames) bool { return f.now == p.Now }))...)
}

// ForgetFrames removes the records of ports that are not there.
func (s *Script) ForgetFrames() {
	var ports []string
	for _, p := range s.View.Ports {
		ports = append(ports, p.Name)
	}
	s.add(forgetFrames(s.View.Behaviors, ports)...)
}
