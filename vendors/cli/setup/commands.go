package setup

import (
	"bytes"
	"context"
	"fmt"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/setuponly"
)

// recorder takes the place of a switch: it has what is written to it, and keeps the lines.
type recorder struct {
	*Dialect
	view  *View
	lines []string
}

func (p *recorder) Read(context.Context) (*setuponly.Config, error) {
	c := &setuponly.Config{Record: p.view.read().text}
	for i := range p.view.Ports {
		c.Ports = append(c.Ports, p.view.Ports[i].Port)
	}
	return c, nil
}

func (p *recorder) Write(_ context.Context, e *setuponly.Edit) error {
	lines, err := p.Dialect.lines(p.view, e)
	if p.Commit != nil && err == nil {
		lines = append(lines, p.Commit.Trial, p.Commit.Confirm)
	}
	p.lines = append(p.lines, lines...)
	return err
}

func (*recorder) Close() error { return nil }

// Commands is what Apply(want) gives to a switch for which Observe returns have, and whose
// ports had no TPID of their own before csig: for a person to read. It needs no device.
func (d *Dialect) Commands(have, want vendors.Setup) ([]byte, error) {
	changes, err := d.Platform.Diff(have, want)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	p := &recorder{Dialect: d, view: &View{Slots: map[string][]Comment{}}}
	for _, s := range []*vendors.Setup{&have, &want} {
		for _, port := range s.Ports {
			if p.view.port(port.Port) == nil {
				p.view.Ports = append(p.view.Ports, Port{Port: setuponly.Port{Name: port.Port}})
			}
		}
	}
	driver := setuponly.Open(d.Platform, p)
	if len(have.Ports) > 0 && have.TPID != 0 {
		if err := driver.Apply(context.Background(), have); err != nil {
			return nil, err
		}
		p.lines = nil
	}
	if want.Nothing() {
		err = driver.Remove(context.Background())
	} else {
		err = driver.Apply(context.Background(), want)
	}
	if err != nil || len(p.lines) == 0 {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintln(&b, d.Enter)
	for _, line := range p.lines {
		fmt.Fprintf(&b, " %s\n", line)
	}
	fmt.Fprintln(&b, d.Leave)
	return b.Bytes(), nil
}
