package comware

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Commands is what Apply(want) gives to a switch for which Observe returns have, with its
// ports as csig leaves them, line by line from the user view: for a person to read or to
// run. It needs no device.
func Commands(cfg Config, have, want vendors.Setup) ([]byte, error) {
	changes, err := Diff(have, want)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	d := Open(cfg)
	old, now := updating(&have), updating(&want)
	v := &view{classes: map[string][]string{}, behaviors: map[string][]string{}, policies: map[string][]pair{}, odd: map[string]string{}, customer: want.TPID}
	for _, s := range []*vendors.Setup{old, now} {
		for _, p := range s.Ports {
			if v.port(p.Port) == nil {
				v.ports = append(v.ports, port{name: p.Port, service: want.TPID})
			}
		}
	}
	if !old.Nothing() && old.TPID != 0 {
		if err := d.apply(&script{view: v, at: d.at()}, *old); err != nil {
			return nil, err
		}
	}
	s := &script{view: v, at: d.at()}
	if err := d.apply(s, *now); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("system-view\n")
	depth := 1
	for _, line := range s.lines {
		if line == "quit" {
			depth--
		}
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat(" ", depth), line)
		if opens(line) {
			depth++
		}
	}
	b.WriteString("return\n")
	return b.Bytes(), nil
}

// opens tells whether a command of system view enters another view.
func opens(line string) bool {
	for _, head := range []string{"traffic classifier ", "traffic behavior ", "qos policy ", "interface "} {
		if strings.HasPrefix(line, head) {
			return true
		}
	}
	return false
}

// apply adds to a script what makes a setup of what the view has.
func (d *Driver) apply(s *script, want vendors.Setup) error {
	ports := updating(&want)
	old := s.view.setup(d.at())
	fresh := describe(&old) != describe(&want) || old.Damaged != ""
	s.record(recordName(&want, d.at()))
	for _, name := range s.view.ours() {
		if !ports.HasPort(name) {
			s.drop(name)
		}
	}
	compiler := vlanrules.NewCompiler(Rules(), want.Layout)
	for i := range ports.Ports {
		if err := d.setUp(s, compiler, &want, ports.Ports[i].Port, fresh); err != nil {
			return err
		}
	}
	if len(s.lines) > 0 {
		s.tidy() // what Update made and has no use for is no reason to write
	}
	return nil
}
