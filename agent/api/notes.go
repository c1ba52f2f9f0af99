package api

import (
	"strings"

	"github.com/csig-agent/csig/vendors"
)

// AnyPort stands for each port's name in a Note of several.
const AnyPort = "PORT"

// Note is a text that is true of several ports.
type Note struct {
	Ports []string // in the order they came
	Text  string   // about AnyPort, where there are several
}

// String is the note on one line, after the ports it is about.
func (n *Note) String() string { return vendors.Names(n.Ports) + ": " + n.Text }

// Notes gathers texts about ports: those that differ in the port's name alone
// become one. The zero value is ready to use.
type Notes struct {
	list []*Note
	by   map[string]*Note
}

// Add takes a text about a port; kind keeps apart what must not become one.
func (n *Notes) Add(kind, port, text string) {
	// Some texts begin with the port; the note does so anyway.
	text = strings.TrimPrefix(text, "port "+port+": ")
	general := withoutName(text, port)
	key := kind + "\x00" + general
	note := n.by[key]
	if note == nil {
		note = &Note{Text: text}
		if n.by == nil {
			n.by = map[string]*Note{}
		}
		n.by[key] = note
		n.list = append(n.list, note)
	} else {
		// The note names the ports itself.
		note.Text = strings.ReplaceAll(general, ": port "+AnyPort+": ", ": ")
	}
	note.Ports = append(note.Ports, port)
}

// List is what was gathered, in the order it came.
func (n *Notes) List() []*Note { return n.list }

// withoutName writes AnyPort for a port's name wherever that stands alone.
func withoutName(text, port string) string {
	if port == "" {
		return text
	}
	var b strings.Builder
	for rest, before := text, byte(' '); ; {
		i := strings.Index(rest, port)
		if i < 0 {
			return b.String() + rest
		}
		if i > 0 {
			before = rest[i-1]
		}
		b.WriteString(rest[:i])
		rest = rest[i+len(port):]
		if ofName(before) || before == '.' || len(rest) > 0 && ofName(rest[0]) || len(rest) > 1 && rest[0] == '.' && ofName(rest[1]) {
			b.WriteString(port)
		} else {
			b.WriteString(AnyPort)
		}
		before = port[len(port)-1]
	}
}

// ofName tells whether a character next to a name makes it a longer one.
func ofName(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '-' || c == '/'
}
