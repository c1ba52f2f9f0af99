package vrp

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vlanrules"
)

// Commands is what Apply(want) gives to a switch for which Observe returns have, with its
// ports as csig leaves them, line by line from the user view: for a person to read or to
// run. It needs no device.
func Commands(platform string, have, want vendors.Setup) ([]byte, error) {
	changes, err := Diff(platform, have, want)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	p := profiles[platform]
	v := &view{View: qos.NewView(p.dialect)}
	old, now := updating(&have), updating(&want)
	for _, s := range []*vendors.Setup{old, now} {
		for _, port := range s.Ports {
			if v.Port(port.Port) == nil {
				v.Ports = append(v.Ports, &qos.Port{Name: port.Port, TPID: defaultTPID})
			}
		}
	}
	if !old.Nothing() && old.TPID != 0 {
		if _, err := p.halves(v, old); err != nil {
			return nil, err
		}
	}
	lists, err := p.halves(v, now)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("system-view\n")
	depth := 1
	for _, lines := range lists {
		if p.commits && len(lines) > 0 {
			lines = append(slices.Clone(lines), "commit")
		}
		for _, line := range lines {
			if line == "quit" {
				depth--
			}
			fmt.Fprintf(&b, "%s%s\n", strings.Repeat(" ", depth), line)
			if p.dialect.Opens(line) {
				depth++
			}
		}
	}
	b.WriteString("return\n")
	return b.Bytes(), nil
}

// halves are the lines of a setup's parts, where all that is new comes into hardware.
func (p *profile) halves(v *view, want *vendors.Setup) (lists [3][]string, err error) {
	x := &plan{profile: p, compiler: vlanrules.NewCompiler(Rules(), want.Layout), want: want, skip: func(string) bool { return false }}
	changes, freed := x.changes(v), []string(nil)
	scripts := [3]*qos.Script{}
	for i := range scripts {
		scripts[i] = &qos.Script{View: v.View, At: at, Freed: &freed}
	}
	x.prepare(scripts[0])
	for _, c := range changes {
		if err := c.first(scripts[0]); err != nil {
			return lists, err
		}
	}
	for _, c := range changes {
		c.second(scripts[1], true)
	}
	scripts[1].Tidy(maxIdle)
	x.finish(scripts[2])
	for i, s := range scripts {
		lists[i] = s.Lines
	}
	return lists, nil
}
