package sai

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// Bounds of a file of recordings.
const (
	maxPlayed = 64 << 20 // bytes
	maxLine   = 1 << 20
	maxAttrs  = 64
)

// setupMark begins the comment with the setup that the lines after it make.
const setupMark = "# csig-setup "

// comment is a line that saiplayer skips: it takes what follows the first | for a call, so
// that a comment has none.
func comment(text string) []byte {
	return append([]byte("# "), strings.NewReplacer("|", "/", "\n", " ").Replace(text)+"\n"...)
}

// setupLine is the comment that says what setup the lines after it make.
func setupLine(s *vendors.Setup) ([]byte, error) {
	text, err := json.Marshal(s.Wanted())
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s%s\n", setupMark, bytes.ReplaceAll(text, []byte("|"), []byte(`\u007c`))), nil
}

// readPlayed reads a file of what was played; one that is not there is nothing.
func readPlayed(path string, read func(io.Reader) error) error {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("what was played: %w", err)
	}
	defer f.Close()
	if err := read(f); err != nil {
		return &vendors.PermanentError{Err: fmt.Errorf("what was played: %s:%w", path, err)}
	}
	return nil
}

// exists tells whether there is a file of what was played.
func exists(path string) bool {
	_, err := os.Stat(path)
	return path != "" && err == nil
}

// readSetup reads what follows setupMark.
func readSetup(text string, s *vendors.Setup) error {
	*s = vendors.Setup{}
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return fmt.Errorf("the setup: %s", untrusted.Text(err.Error(), 200))
	}
	return nil
}

// eachLine calls f for every line that is no comment, and reads the setup of those that csig
// has it in.
func eachLine(r io.Reader, setup *vendors.Setup, f func(line string) error) error {
	lines := bufio.NewScanner(io.LimitReader(r, maxPlayed+1))
	lines.Buffer(nil, maxLine)
	size, n := 0, 1
	for ; lines.Scan(); n++ {
		line := lines.Text()
		if size += len(line) + 1; size > maxPlayed {
			return fmt.Errorf("%d: it has more than %d bytes", n, maxPlayed)
		}
		err := error(nil)
		if text, ok := strings.CutPrefix(line, setupMark); ok {
			err = readSetup(text, setup)
		} else if line != "" && line[0] != '#' {
			err = f(line)
		}
		if err != nil {
			return fmt.Errorf("%d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%d: %w", n, err)
	}
	return nil
}

// played reads a file of recordings that were played.
func played(path string) (p *Program, s vendors.Setup, err error) {
	err = readPlayed(path, func(r io.Reader) (err error) {
		p, s, err = replay(r)
		return err
	})
	return p, s, err
}

// text is the value of an attribute that was read.
type text string

func (t text) String() string { return string(t) }

// state is what recordings have made so far: csig's objects, and what was set of others.
type state struct {
	objects  map[OID]*Object
	switches Object
}

// replay carries out the lines of recordings, and returns csig's objects at their end.
func replay(r io.Reader) (*Program, vendors.Setup, error) {
	var setup vendors.Setup
	now := state{objects: map[OID]*Object{}}
	if err := eachLine(r, &setup, now.replay); err != nil {
		return nil, setup, err
	}
	p := &Program{Switch: now.switches}
	for _, o := range now.objects {
		if o.Type == PortObject {
			p.Ports = append(p.Ports, *o)
		} else {
			p.Own = append(p.Own, *o)
		}
	}
	byID := func(a, b Object) int { return cmp.Compare(a.OID, b.OID) }
	slices.SortFunc(p.Ports, byID)
	slices.SortFunc(p.Own, func(a, b Object) int { // what a TAM refers to stands before it
		return cmp.Or(cmp.Compare(b.Type, a.Type), byID(a, b))
	})
	if len(p.Own) == 0 {
		return nil, setup, nil
	}
	return p, setup, nil
}

// replay carries out one line.
func (s *state) replay(line string) error {
	fields := strings.Split(line, "|")
	bad := func() error { return fmt.Errorf("%q is no call", untrusted.Text(line, 120)) }
	if len(fields) < 2 {
		return bad()
	}
	op := fields[1]
	if op != "c" && op != "s" && op != "r" {
		return nil // queries, answers and comments
	}
	if len(fields) < 3 || len(fields) > 3+maxAttrs {
		return bad()
	}
	name, id, _ := strings.Cut(fields[2], ":")
	o := Object{}
	for t, known := range objectNames {
		if name == known {
			o.Type = t
		}
	}
	if o.Type == 0 {
		return nil // of no concern to csig
	}
	oid, err := ParseOID(id)
	if err != nil || oid.Type() != o.Type {
		return bad()
	}
	o.OID = oid
	for _, f := range fields[3:] {
		key, value, ok := strings.Cut(f, "=")
		if !ok {
			return bad()
		}
		if a := attribute(key); a != nil && a.Object == o.Type {
			o.set([]Attr{{a.Name, text(strings.Clone(value))}})
		}
	}
	have := s.objects[oid]
	switch {
	case o.Type == SwitchObject:
		return s.bound(&o)
	case o.Type == PortObject && len(o.Attrs) == 0, o.Type != PortObject && !oid.own():
		return nil // nothing of csig's
	case op != "c" && have == nil && o.Type != PortObject:
		return fmt.Errorf("%s is set or removed, and not there", oid)
	case op == "c" && have != nil && o.Type != PortObject:
		return fmt.Errorf("%s is created, and there already", oid)
	case op == "r":
		delete(s.objects, oid)
	case have != nil:
		have.set(o.Attrs)
	case len(s.objects) >= MaxPorts:
		return errors.New("there are too many objects")
	default:
		s.objects[oid] = &o
	}
	return nil
}

// bound takes what is set of the switch.
func (s *state) bound(o *Object) error {
	value := o.get(switchTAM)
	if value == nil {
		return nil
	}
	_, ids, _ := strings.Cut(value.String(), ":")
	var bound OIDs
	for _, id := range strings.Split(ids, ",") {
		if id == "null" {
			continue
		}
		oid, err := ParseOID(id)
		if err != nil {
			return err
		}
		bound = append(bound, oid)
	}
	s.switches = Object{Type: o.Type, OID: o.OID, Attrs: []Attr{{switchTAM, bound}}}
	return nil
}
