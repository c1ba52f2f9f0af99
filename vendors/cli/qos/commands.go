package qos

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/reconcile"
)

// Commands is what Apply(want) gives to a switch for which Observe returns have, with its ports as csig leaves them,
// line by line from the user view: for a person to read or to run. It needs no device.
func Commands(p Platform, have, want vendors.Setup) ([]byte, error) {
	changes, err := p.Diff(have, want)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	taken := &noted{}
	d := New(p)
	d.Session, d.offline, d.View = taken, true, NewView(p.Dialect)
	old, now := reconcile.Updating(&have), reconcile.Updating(&want)
	for _, s := range []*vendors.Setup{old, now} {
		for _, port := range s.Ports {
			if d.View.Port(port.Port) == nil {
				d.View.Ports = append(d.View.Ports, &Port{Name: port.Port, TPID: DefaultTPID})
			}
		}
	}
	for i, s := range []*vendors.Setup{old, now} {
		if i == 0 && (s.Nothing() || s.TPID == 0) {
			continue
		}
		taken.lines = nil
		d.Start(s.Wanted())
		if err := d.Program(context.Background()); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	b.WriteString("system-view\n")
	depth := 1
	for _, line := range taken.lines {
		if line == "quit" {
			depth--
		}
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat(" ", depth), line)
		if p.Dialect.Opens(line) {
			depth++
		}
	}
	b.WriteString("return\n")
	return b.Bytes(), nil
}

// noted is a session that takes commands down.
type noted struct{ lines []string }

func (n *noted) Configure(_ context.Context, commands []string) error {
	n.lines = append(n.lines, commands...)
	return nil
}

func (*noted) Run(context.Context, string) ([]string, error) { return nil, nil }

func (*noted) LocalAddr() net.Addr { return nil }

func (*noted) Err() error { return nil }

func (*noted) Close() error { return nil }
