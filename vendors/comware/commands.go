package comware

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
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
	var lines []string
	d.offline, d.view = &lines, newView()
	old, now := updating(&have), updating(&want)
	for _, s := range []*vendors.Setup{old, now} {
		for _, p := range s.Ports {
			if d.view.Port(p.Port) == nil {
				d.view.Ports = append(d.view.Ports, &qos.Port{Name: p.Port, TPID: defaultTPID})
			}
		}
	}
	for i, s := range []*vendors.Setup{old, now} {
		if i == 0 && (s.Nothing() || s.TPID == 0) {
			continue
		}
		lines = nil
		d.start(s.Wanted())
		if err := d.program(context.Background(), s.Wanted()); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	b.WriteString("system-view\n")
	depth := 1
	for _, line := range lines {
		if line == "quit" {
			depth--
		}
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat(" ", depth), line)
		if dialect.Opens(line) {
			depth++
		}
	}
	b.WriteString("return\n")
	return b.Bytes(), nil
}
