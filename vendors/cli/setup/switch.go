package setup

import (
	"context"
	"errors"
	"fmt"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/vendors/setuponly"
)

// Switch is one switch over its command line. Its methods are not safe for concurrent use.
type Switch struct {
	*Dialect
	dial    func(ctx context.Context) (*cli.Session, error)
	session *cli.Session // nil until it is needed, and after it was lost
	view    *View        // of the last Read
}

var _ setuponly.Switch = (*Switch)(nil)

// Open returns the driver of a switch, which connects when it is first used. inner is that the
// CSIG tag is not the first one there.
func Open(d *Dialect, inner bool, dial func(ctx context.Context) (*cli.Session, error)) *setuponly.Driver {
	p := d.Platform
	p.Inner = inner
	return setuponly.Open(p, &Switch{Dialect: d, dial: dial})
}

// connect opens a session, where there is none.
func (s *Switch) connect(ctx context.Context) error {
	if s.session != nil && s.session.Err() == nil {
		return nil
	}
	if err := s.Close(); err != nil {
		return err
	}
	var err error
	s.session, err = s.dial(ctx)
	return err
}

// Close ends the session.
func (s *Switch) Close() error {
	if s.session != nil {
		s.session.Close() //nolint:errcheck // it may have ended long ago
	}
	s.session, s.view = nil, nil
	return nil
}

// maxPorts is how many interfaces are read.
const maxPorts = 1 << 14

// Read reads the configuration, and what the switch reports of its ports.
func (s *Switch) Read(ctx context.Context) (*setuponly.Config, error) {
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	trial := ""
	if s.Commit != nil { // first: a trial that ends meanwhile is not read for what stays
		answer, err := s.session.Run(ctx, s.Commit.Show)
		if err != nil {
			return nil, err
		}
		if s.Commit.Pending(answer) {
			trial = "a commit on the switch is not confirmed yet: until it is, or is taken back, what the switch has is no more than on trial"
		}
	}
	v, err := s.look(ctx, s.session)
	if err != nil {
		return nil, err
	}
	s.view = v
	c := s.config(v)
	c.Trial = trial
	return c, nil
}

func (s *Switch) look(ctx context.Context, from *cli.Session) (*View, error) {
	var answers [][]string
	for _, command := range s.Dialect.Read {
		lines, err := from.Run(ctx, command)
		if err != nil {
			return nil, err
		}
		answers = append(answers, lines)
	}
	v := s.Parse(answers)
	switch n := len(v.Ports); {
	case n == 0:
		return nil, fmt.Errorf("%q shows no interface whose name is one of the platform: may the account read the configuration?", s.Dialect.Read[0])
	case n > maxPorts:
		return nil, fmt.Errorf("it shows more than %d interfaces", maxPorts)
	}
	return v, nil
}

// config is a view as vendors/setuponly has it.
func (s *Switch) config(v *View) *setuponly.Config {
	r := v.read()
	c := &setuponly.Config{Identity: v.Identity, Record: r.text, Damaged: r.damaged}
	if r.damaged != "" {
		c.Record = ""
	}
	for i := range v.Ports {
		p := &v.Ports[i]
		if s.Lost != nil && p.TPID != "" {
			switch {
			case p.InForce != "" && p.InForce != p.TPID:
				p.Lost = fmt.Sprintf("%s is configured, and %s in force", p.TPID, p.InForce)
			case r.set != 0 && v.Up != 0:
				p.Lost = s.Dialect.Lost(p, v.Up-r.set)
			}
		}
		c.Ports = append(c.Ports, p.Port)
	}
	return c
}

// Write gives the lines of an edit to the configuration that was read last.
func (s *Switch) Write(ctx context.Context, e *setuponly.Edit) error {
	if s.view == nil || s.session == nil {
		if _, err := s.Read(ctx); err != nil {
			return err
		}
	}
	v := s.view
	lines, err := s.lines(v, e)
	if err != nil || len(lines) == 0 {
		return err
	}
	if s.Commit == nil {
		err = s.session.Configure(ctx, lines)
	} else {
		err = s.commit(ctx, lines, v)
	}
	if err != nil {
		s.view = nil // how far it came is read back
	}
	if errors.As(err, new(*cli.RefusedError)) {
		err = &setuponly.RefusedError{Err: err}
	}
	return err
}

// commit gives lines on trial, and keeps them where a new connection reads back what is wanted.
func (s *Switch) commit(ctx context.Context, lines []string, want *View) error {
	c := s.Commit
	err := s.session.Commit(ctx, &cli.Trial{
		Commands: lines, Commit: c.Trial, Confirm: c.Confirm, Undo: c.Undo, Within: c.Within,
		Pending: func(ctx context.Context) (bool, error) {
			answer, err := s.session.Send(ctx, c.In+" "+c.Show)
			return err == nil && c.Pending(answer), err
		},
		Holds: func(ctx context.Context) error { return s.holds(ctx, want) },
	})
	trial := (*cli.TrialError)(nil)
	switch {
	case !errors.As(err, &trial):
		return err
	case trial.Undone:
		return fmt.Errorf("the change is not confirmed, and taken back: %w", trial.Err)
	}
	return fmt.Errorf("the change is not confirmed, and the switch takes it back within %v: %w", c.Within, trial.Err)
}

// lines are an edit as lines, after which the switch has what the view says.
func (d *Dialect) lines(v *View, e *setuponly.Edit) (lines []string, err error) {
	sets := false
	for _, p := range e.Ports {
		port := v.port(p.Port)
		if port == nil {
			return nil, fmt.Errorf("csig's defect: there is no port %s", p.Port)
		}
		if p.TPID != nil {
			if *p.TPID == port.TPID { // it takes the command only where that is a change
				lines = append(lines, d.TPID(p.Port, "", port.TPID)...)
				port.TPID = ""
			}
			lines = append(lines, d.TPID(p.Port, *p.TPID, port.TPID)...)
			port.TPID, port.InForce, sets = *p.TPID, *p.TPID, true
		}
		if p.MTU != nil {
			lines = append(lines, d.MTU(p.Port, *p.MTU)...)
			port.Port.MTU = *p.MTU
		}
	}
	set := v.read().set
	if sets {
		set = v.Up
		lines = append(lines, d.stamp(v)...)
	}
	if e.Record != nil {
		more, err := d.store(v, *e.Record, set)
		if err != nil {
			return nil, err
		}
		lines = append(lines, more...)
	}
	return lines, nil
}

// holds reads a change on trial back over a connection of its own: one that cuts csig off is
// not confirmed.
func (s *Switch) holds(ctx context.Context, want *View) error {
	second, err := s.dial(ctx)
	if err != nil {
		return fmt.Errorf("over a new connection after the change: %w", err)
	}
	defer second.Close()
	v, err := s.look(ctx, second)
	if err != nil {
		return fmt.Errorf("reading back over a new connection: %w", err)
	}
	for i := range want.Ports {
		p := &want.Ports[i]
		if now := v.port(p.Name); now == nil || now.TPID != p.TPID || now.MTU != p.MTU {
			return fmt.Errorf("port %s does not read back as it was configured", p.Name)
		}
	}
	if r := v.read(); r.text != want.read().text || r.damaged != "" {
		return errors.New("the record does not read back as it was written")
	}
	return nil
}
