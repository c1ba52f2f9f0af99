package eos

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/csig-agent/csig/vendors"
)

// Commands is what Apply(want) gives to a switch for which Observe returns have, with its
// ports as csig leaves them: for a person to read or to run. It needs no device.
func Commands(cfg Config, have, want vendors.Setup) ([]byte, error) {
	changes, err := Diff(have, want)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	d := Open(cfg)
	old, now := tagging(&have), tagging(&want)
	v := &view{flows: map[string][]string{}, handlers: map[string][]string{}}
	add := func(name string) {
		if v.port(name) == nil {
			v.ports = append(v.ports, port{name: name, tpid: defaultTPID})
		}
	}
	for i := range cfg.Forwarding {
		add(cfg.Forwarding[i].InPort)
	}
	for _, s := range []*vendors.Setup{old, now} {
		for _, p := range s.Ports {
			add(p.Port)
		}
	}
	if !old.Nothing() && old.TPID != 0 {
		before := newScript()
		d.Start(old)
		if err := d.apply(before, newScript(), v, old); err != nil {
			return nil, err
		}
		if v, err = parse(before.shown(v)); err != nil {
			return nil, err
		}
	}
	s, gone := newScript(), newScript()
	d.Start(now)
	if err := d.apply(s, gone, v, now); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, one := range []*script{s, gone} {
		if one.empty() {
			continue
		}
		b.WriteString("configure session csig\n")
		depth := 1
		for _, line := range one.lines() {
			if line == "exit" {
				depth--
				continue
			}
			fmt.Fprintf(&b, "%s%s\n", strings.Repeat("   ", depth), line)
			if opens(line) {
				depth++
			}
		}
		b.WriteString("   show session-config diffs\n   commit\n")
	}
	return b.Bytes(), nil
}

// opens reports whether a command enters another mode.
func opens(line string) bool {
	return line == "directflow" || strings.HasPrefix(line, "flow ") || strings.HasPrefix(line, "interface ") || strings.HasPrefix(line, "mac access-list ")
}

// shown is the running configuration after a script on what a view has of ports.
func (s *script) shown(v *view) (out []string) {
	under := ""
	tpids := map[string]string{}
	for _, line := range s.other {
		switch {
		case strings.HasPrefix(line, "mac access-list "):
			out = append(out, line, "!")
		case strings.HasPrefix(line, "interface "):
			under = line
		case strings.HasPrefix(line, "switchport "):
			tpids[under] = line
		}
	}
	for _, p := range v.ports {
		head := "interface " + p.name
		out = append(out, head)
		if tpids[head] != "" {
			out = append(out, "   "+tpids[head])
		}
	}
	out = append(out, "directflow")
	for _, name := range sorted(s.adds) {
		out = append(out, "   flow "+name)
		for _, line := range s.adds[name] {
			out = append(out, "      "+line)
		}
	}
	return out
}
