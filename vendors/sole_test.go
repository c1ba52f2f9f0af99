package vendors

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/vlanrules"
)

// calls is a driver that notes what is called, beside what formers note.
type calls struct {
	Driver
	seen  []string
	apply error
}

func (c *calls) Probe(context.Context) (Facts, error)   { return Facts{Notes: []string{"its own"}}, nil }
func (c *calls) Observe(context.Context) (Setup, error) { return Setup{}, nil }
func (c *calls) Apply(context.Context, Setup) error     { c.seen = append(c.seen, "apply"); return c.apply }
func (c *calls) Remove(context.Context) error           { c.seen = append(c.seen, "remove"); return nil }

// former is one that notes its removal.
func (c *calls) former(name, by string, apart bool, err error) Former {
	return Former{What: name, By: by, Apart: apart, Remove: func(context.Context) error {
		c.seen = append(c.seen, "remove "+name)
		return err
	}}
}

// TestSole: what another platform left at the device's ports is damage, goes after the setup is
// there, and is refused while another process drives it. What is elsewhere stays, and is named.
func TestSole(t *testing.T) {
	broken := errors.New("the kernel is busy")
	port := Setup{Ports: []PortSetup{{Port: "p1", Action: vlanrules.Update}}}
	for name, tc := range map[string]struct {
		by      string
		apart   bool
		apply   error // of the driver
		remove  error // of the former
		unread  error
		seen    []string
		fails   string
		off     string // how Remove fails
		damaged bool
		left    bool
	}{
		"left over":                 {seen: []string{"apply", "remove table"}, damaged: true},
		"driven":                    {by: "process 7", fails: "table is at its ports: it is programmed by process 7", off: "table is removed, and process 7 may restore it", damaged: true},
		"elsewhere":                 {apart: true, seen: []string{"apply"}, left: true},
		"another device's":          {apart: true, by: "process 7", seen: []string{"apply"}},
		"the setup is refused":      {apply: &PermanentError{Err: errors.New("no room")}, seen: []string{"apply"}, fails: "no room", damaged: true},
		"the setup fails":           {apply: broken, seen: []string{"apply"}, fails: "the kernel is busy", damaged: true},
		"cannot be looked at":       {unread: broken, seen: []string{"apply"}, left: true, off: "table could not be looked at, and flows of csig's may be there: the kernel is busy"},
		"may not be looked at":      {unread: os.ErrPermission, seen: []string{"apply"}, left: true},
		"a port is refused":         {apply: &PermanentError{Port: "p2", Err: errors.New("no such port")}, seen: []string{"apply", "remove table"}, fails: "no such port", damaged: true},
		"it cannot be removed":      {remove: broken, seen: []string{"apply", "remove table"}, fails: "port p1: remove what an earlier configuration left, table: the kernel is busy", off: "remove table: the kernel is busy", damaged: true},
		"of a port, and not joined": {apply: errors.Join(&PortError{Port: "p1", Err: broken}), seen: []string{"apply", "remove table"}, fails: "port p1: the kernel is busy", damaged: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &calls{apply: tc.apply}
			s := &Sole{Driver: c, Formers: func(context.Context) ([]Former, error) {
				o := c.former("table", tc.by, tc.apart, tc.remove)
				o.Unread = tc.unread
				return []Former{o}, nil
			}}
			check := func(what string, err error, want string) {
				t.Helper()
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %q", what, err, want)
				}
			}
			check("apply", s.Apply(t.Context(), port), tc.fails)
			if !slices.Equal(c.seen, tc.seen) {
				t.Errorf("apply calls %v, want %v", c.seen, tc.seen)
			}
			c.seen = nil
			check("apply again", s.Apply(t.Context(), port), tc.fails)
			if again := slices.Contains(c.seen, "remove table"); again != (tc.remove != nil) {
				t.Errorf("apply again calls %v", c.seen)
			}
			c.seen = nil
			check("remove", s.Remove(t.Context()), tc.off)
			if gone := slices.Contains(c.seen, "remove table"); gone == (tc.apart || tc.unread != nil) || c.seen[0] != "remove" {
				t.Errorf("remove calls %v", c.seen)
			}
			seen, err := s.Observe(t.Context())
			if err != nil || (seen.Damaged != "") != tc.damaged || seen.Nothing() == tc.damaged {
				t.Errorf("%+v, %v", seen, err)
			}
			f, err := s.Probe(t.Context())
			if err != nil || (len(f.Left) == 1) != tc.left || (len(f.Notes) == 2) != tc.left {
				t.Errorf("%+v, %v", f, err)
			}
			c.seen = nil
			if err := Alone(s).Remove(t.Context()); err != nil || len(c.seen) != 1 {
				t.Errorf("%v, %v", c.seen, err)
			}
		})
	}
}

// TestSoleCannotLook: where what is left cannot be looked for nothing is changed.
func TestSoleCannotLook(t *testing.T) {
	c := &calls{}
	s := &Sole{Driver: c, Formers: func(context.Context) ([]Former, error) { return nil, errors.New("netlink ended") }}
	if err := s.Apply(t.Context(), Setup{}); err == nil || len(c.seen) != 0 {
		t.Errorf("%v, %v", c.seen, err)
	}
	if _, err := s.Observe(t.Context()); err == nil {
		t.Error("it is observed")
	}
	if err := s.Remove(t.Context()); err == nil || len(c.seen) != 1 {
		t.Errorf("%v, %v", c.seen, err)
	}
}
