package eos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// script is one change of the configuration, for a session of it.
type script struct {
	dels  []string            // flows
	adds  map[string][]string // flows, with their lines
	other []string            // lines before them, each of which returns to where it began
	plus  map[string]bool     // lines that may be more in the difference
	minus map[string]bool     // and less
}

func newScript() *script {
	return &script{adds: map[string][]string{}, plus: map[string]bool{}, minus: map[string]bool{}}
}

func (s *script) empty() bool { return len(s.dels)+len(s.adds)+len(s.other) == 0 }

// add makes a flow.
func (s *script) add(r rule, f *Forwarding, priority uint16) error {
	lines, err := r.lines(f, priority)
	if err == nil {
		s.adds[r.name()] = lines
	}
	return err
}

// del takes flows out.
func (s *script) del(v *view, names ...string) {
	for _, name := range names {
		s.dels = append(s.dels, name)
		s.minus["flow "+name] = true
		for _, line := range v.flows[name] {
			s.minus[line] = true
		}
	}
}

// record makes or removes an access list.
func (s *script) record(v *view, name string, wanted bool) {
	line := "mac access-list " + name
	switch has := v.has(name); {
	case wanted && !has:
		s.other, s.plus[line] = append(s.other, line, "exit"), true
	case !wanted && has:
		s.other, s.minus[line] = append(s.other, "no "+line), true
	}
}

// tpid gives a port another TPID.
func (s *script) tpid(p *port, tpid uint16) {
	if p.tpid == tpid {
		return
	}
	line := fmt.Sprintf("switchport dot1q ethertype 0x%04x", tpid)
	s.minus[fmt.Sprintf("switchport dot1q ethertype 0x%04x", p.tpid)] = true
	if s.plus[line] = true; tpid == defaultTPID {
		line = "no switchport dot1q ethertype"
	}
	head := "interface " + p.name
	s.other = append(s.other, head, line, "exit")
	s.plus[head], s.minus[head] = true, true // a port without lines may not be shown
}

// lines are the commands within a session of the configuration.
func (s *script) lines() []string {
	out := slices.Clone(s.other)
	if len(s.dels)+len(s.adds) == 0 {
		return out
	}
	out = append(out, "directflow")
	for _, name := range s.dels {
		out = append(out, "no flow "+name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.adds)) {
		out = append(append(append(out, "flow "+name), s.adds[name]...), "exit")
	}
	return append(out, "exit")
}

// apply makes a view what it is after the change.
func (s *script) apply(v *view) {
	for _, name := range s.dels {
		delete(v.flows, name)
	}
	for name, lines := range s.adds {
		v.flows[name] = slices.Sorted(slices.Values(lines))
	}
}

// foreign is a line of the difference between the session and the running configuration
// that is not csig's, "" for none: committing would undo what another user has done since
// the session began.
func (s *script) foreign(diff []string) string {
	for name, lines := range s.adds {
		s.plus["flow "+name] = true
		for _, line := range lines {
			s.plus[line] = true
		}
	}
	more := map[string]int{} // a line that moves is none more
	for _, line := range diff {
		switch {
		case line == "" || strings.HasPrefix(line, "+++") || strings.HasPrefix(line, "---"):
		case line[0] == '+':
			more[strings.TrimSpace(line[1:])]++
		case line[0] == '-':
			more[strings.TrimSpace(line[1:])]--
		}
	}
	for _, text := range sorted(more) {
		n := more[text]
		if text != "" && text != "!" && text != "directflow" && (n > 0 && !s.plus[text] || n < 0 && !s.minus[text]) {
			return text
		}
	}
	return ""
}

// trial is a commit that the switch takes back unless it is confirmed.
type trial struct {
	token string
	after time.Duration
}

// sessionName is the configuration session of a token.
func sessionName(token string) string { return prefix + token }

// timer is the command that commits a session on trial. The switch counts in minutes and
// seconds.
func timer(after time.Duration) string {
	n := int(max(after, time.Second).Round(time.Second) / time.Second)
	return fmt.Sprintf("commit timer %02d:%02d:%02d", n/3600, n/60%60, n%60)
}

// commit carries out a change: in a session of the configuration, whose lines take effect
// together. What is refused leaves the switch as it was.
func (d *Driver) commit(ctx context.Context, s *script) (err error) {
	if s.empty() {
		return nil
	}
	token, last := vendors.NewToken(), "commit"
	if d.trial != nil {
		token, last = d.trial.token, timer(d.trial.after)
	}
	if err := d.send(ctx, "configure session "+sessionName(token)); err != nil {
		return err
	}
	committed, untouched := false, false
	defer func() {
		switch {
		case err == nil:
			s.apply(d.view)
		case d.session.Err() == nil && !committed:
			if aborted := d.send(ctx, "abort"); aborted != nil || !untouched {
				err, d.view = errors.Join(err, aborted), nil
			}
		default:
			d.view = nil // what came of it is read back
		}
	}()
	port := ""
	for _, line := range s.lines() {
		if name, ok := strings.CutPrefix(strings.TrimPrefix(line, "no "), "flow "); ok {
			port = d.portOf(name)
		}
		if err := d.send(ctx, line); errors.As(err, new(*cli.RefusedError)) {
			untouched = true
			return &vendors.PermanentError{Port: port, Err: err}
		} else if err != nil {
			return err
		}
	}
	diff, err := d.session.Send(ctx, "show session-config diffs")
	if err != nil {
		return err
	}
	if line := s.foreign(diff); line != "" {
		return fmt.Errorf("the difference has %q, which csig did not give: another user has changed the configuration at the same time, which a commit would undo, or the switch writes a line of csig's otherwise, which csig would take for an edit; nothing was written", untrusted.Text(line, 120))
	}
	if err := d.send(ctx, last); err != nil {
		return err
	}
	committed, d.trial = true, nil
	return nil
}

// send gives a command that is carried out in silence.
func (d *Driver) send(ctx context.Context, command string) error {
	answer, err := d.session.Send(ctx, command)
	if text := strings.TrimSpace(strings.Join(answer, " ")); err == nil && text != "" {
		err = fmt.Errorf("the switch answers %q with %q", command, text)
	}
	return err
}
