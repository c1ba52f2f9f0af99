package setuponly

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Platform is what a driver needs to know of its platform.
type Platform struct {
	Offline func() vendors.Facts // Strip, Update and the list of TPIDs are taken from there

	// Format is a TPID as the platform's configuration has it; the error names those
	// that it takes.
	Format func(tpid uint16) (string, error)

	// Stepwise is a platform without a transaction: an edit may be cut off at any line, so that
	// the record is written before the ports, and again behind them.
	Stepwise bool

	// Inner is a switch to which the CSIG tag is not the first one: its ports need nothing.
	Inner bool
}

// recheck is how often Update reads the configuration back.
const recheck = time.Minute

// Driver is a vendors.Driver of one switch. Its methods are not safe for concurrent use.
type Driver struct {
	platform Platform
	sw       Switch

	want *vendors.Setup  // what the switch is to have; nil until Apply or the first Update
	read time.Time       // when it was seen to have that
	left error           // of ports that do not have it
	lost map[string]bool // ports whose hardware had lost its TPID when Observe looked last
}

var (
	_ vendors.Driver    = (*Driver)(nil)
	_ vendors.MTUSetter = (*Driver)(nil)
)

// Open returns a driver, which takes the switch over.
func Open(p Platform, sw Switch) *Driver {
	return &Driver{platform: p, sw: sw}
}

// Close ends the session; what is configured stays.
func (d *Driver) Close() error { return d.sw.Close() }

// Probe finds out what the switch is and which ports it has.
func (d *Driver) Probe(ctx context.Context) (vendors.Facts, error) {
	f := d.platform.Offline()
	c, err := d.sw.Read(ctx)
	if err != nil {
		return f, err
	}
	f.Identity = c.Identity
	r, _ := c.record() // of one that cannot be read nothing is csig's
	for i := range c.Ports {
		p := &c.Ports[i]
		f.Ports = append(f.Ports, p.Name)
		switch {
		case d.platform.Inner || r.ours(p):
		case p.Refused != "":
			f.PortIssues = append(f.PortIssues, vendors.PortVerdict{Port: p.Name, Verdict: vendors.Refusal(p.Refused)})
		case p.TPID != "" && !strings.Contains(p.TPID, "8100"):
			f.PortIssues = append(f.PortIssues, vendors.PortVerdict{Port: p.Name, Verdict: vlanrules.Verdict{Level: vlanrules.Degraded,
				Reason: "another user set its TPID, " + p.TPID + ": the domain's takes its place, and csig off gives it back"}})
		}
	}
	f.Rules.Ports = len(f.Ports)
	return f, nil
}

// look reads a configuration that the switch keeps.
func (d *Driver) look(ctx context.Context) (*Config, error) {
	c, err := d.sw.Read(ctx)
	if err == nil && c.Trial != "" {
		err = errors.New(c.Trial)
	}
	return c, err
}

// Observe reads back the record, and the TPID of its ports.
func (d *Driver) Observe(ctx context.Context) (vendors.Setup, error) {
	c, err := d.look(ctx)
	if err != nil {
		return vendors.Setup{}, err
	}
	d.lost = map[string]bool{}
	for i := range c.Ports {
		d.lost[c.Ports[i].Name] = c.Ports[i].Lost != ""
	}
	return d.setup(c), nil
}

func (d *Driver) setup(c *Config) (s vendors.Setup) {
	r, err := c.record()
	if err != nil {
		s.Damaged = "the record of the setup cannot be read: " + err.Error()
		return s
	}
	if r.Setup != nil {
		s = *r.Setup.Wanted()
	}
	for i := range c.Ports {
		if p := &c.Ports[i]; r.ours(p) && !s.HasPort(p.Name) {
			s.Damaged = "port " + p.Name + " has csig's TPID " + p.TPID + ", and is not in the setup"
		}
	}
	if r.Setup == nil {
		return s
	}
	ours, err := d.platform.Format(s.TPID)
	if err != nil {
		s.Damaged = "the record of the setup: " + err.Error()
		return s
	}
	for i := range s.Ports {
		switch p := c.port(s.Ports[i].Port); {
		case p == nil:
			s.Ports[i].Damaged = "the switch has no such port"
		case p.TPID != ours:
			s.Ports[i].Damaged = "its TPID is " + shown(p.TPID) + ", and was " + ours
		case p.Lost != "":
			s.Ports[i].Damaged = p.Lost
		}
	}
	return s
}

func shown(tpid string) string {
	if tpid == "" {
		return "the default"
	}
	return tpid
}

// Diff lists what Apply(want) would change.
func (d *Driver) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	return d.platform.Diff(have, want)
}

// Diff is Driver.Diff, without a driver.
func (p *Platform) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	f := p.Offline()
	ours, err := p.validate(&f, &want)
	if err != nil {
		return nil, err
	}
	if want = *p.managed(&want); len(want.Ports) == 0 {
		if have.Nothing() {
			return nil, nil
		}
		want = vendors.Setup{TPID: have.TPID, Profile: have.Profile}
	}
	out := append(vendors.DiffShared(&have, &want, "record", describe), vendors.DiffProfile(&have, &want)...)
	ports := vendors.DiffPorts(&have, &want,
		func(*vendors.PortSetup) string { return "TPID " + ours },
		func(h, _ *vendors.PortSetup) string {
			if have.TPID != want.TPID {
				return fmt.Sprintf("TPID 0x%04x -> %s", have.TPID, ours)
			}
			return ""
		})
	for i := range ports {
		if ports[i].Kind == vendors.Remove {
			ports[i].Detail = "the TPID and the MTU that it had before csig"
		}
		ports[i].Disruptive = f.Traits.TPIDChange.Is
	}
	return append(out, ports...), nil
}

// Edits are the ports that Apply(want) gives the TPID on a switch for which Observe returns
// have, and those that get back what they had.
func (p *Platform) Edits(have, want vendors.Setup) (edits []PortEdit, back []string, err error) {
	changes, err := p.Diff(have, want)
	if err != nil {
		return nil, nil, err
	}
	ours, err := p.Format(want.TPID)
	for _, c := range changes {
		switch {
		case c.Port == "":
		case c.Kind == vendors.Remove:
			back = append(back, c.Port)
		default:
			edits = append(edits, PortEdit{Port: c.Port, TPID: &ours})
		}
	}
	return edits, back, err
}

// managed is what of a setup is csig's to write.
func (p *Platform) managed(s *vendors.Setup) *vendors.Setup {
	out := s.Wanted()
	if p.Inner {
		out.Ports = nil
	}
	return out
}

// describe is what all ports share, in a line.
func describe(s *vendors.Setup) string { return fmt.Sprintf("tpid=0x%04x", s.TPID) }

// validate refuses what the platform cannot have, and returns the TPID as Format has it.
func (p *Platform) validate(f *vendors.Facts, s *vendors.Setup) (tpid string, err error) {
	err = s.Check(f.Strip.Reason, func(port *vendors.PortSetup) error {
		switch {
		case port.Action == vlanrules.Update:
			return errors.New("it cannot update tags: " + f.Update.Reason)
		case port.Strips():
			return errors.New("it cannot strip tags: " + f.Strip.Reason)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if p.Inner {
		return "", nil
	}
	if tpid, err = p.Format(s.TPID); err != nil {
		return "", &vendors.PermanentError{Err: err}
	}
	return tpid, nil
}

// Update has no signal to write: it reads the setup back from time to time, and restores it.
func (d *Driver) Update(ctx context.Context, updates []vendors.PortUpdate, lease time.Duration) (res vendors.UpdateResult, err error) {
	for i := range updates {
		for j := range updates[i].Intents {
			if updates[i].Intents[j].Action == vlanrules.Update {
				return res, &vendors.PermanentError{Port: updates[i].Port, Err: errors.New(d.platform.Offline().Update.Reason)}
			}
		}
	}
	switch {
	case d.want == nil:
		if err := vendors.TakeOver(ctx, d, func() bool { return d.want != nil }); err != nil {
			return res, err
		}
	case time.Since(d.read) >= recheck:
		have, err := d.Observe(ctx)
		if err != nil {
			return res, err
		}
		want := *d.want
		for i := range have.Ports {
			res.Restarted = res.Restarted || d.lost[have.Ports[i].Port]
		}
		left, err := d.Diff(have, want)
		if err != nil {
			return res, err
		}
		if len(left) == 0 {
			d.left = nil
		} else if err := d.Apply(ctx, want); d.want == nil {
			d.want = &want // it is tried again
			return res, err
		}
		bad := map[string]bool{}
		vendors.EachPort(d.left, func(port string, _ error) { bad[port] = true })
		left = slices.DeleteFunc(left, func(c vendors.Change) bool { return bad[c.Port] })
		if len(left) > 0 {
			res.Ports, res.Ops = len(left), 1
			res.NoteRepairs(left)
		}
		d.read = time.Now()
	}
	res.Leased, res.ReadBack = true, vendors.ReadBackAfter // nothing is advertised that could be too old
	return res, d.left
}

// Release has nothing to withdraw.
func (d *Driver) Release(context.Context) error { return nil }

// Remove gives every port what it had before csig, and deletes the record. Of a port that is
// not there, or that the switch refuses, it stays, and the error names it.
func (d *Driver) Remove(ctx context.Context) error {
	d.want, d.left = nil, nil
	c, err := d.look(ctx)
	if err != nil {
		return err
	}
	r, broken := c.record()
	r.Setup = nil
	var e Edit
	var left []error
	for _, name := range slices.Sorted(maps.Keys(r.Before)) {
		if !r.back(&e, c.port(name), name) {
			left = append(left, &vendors.PermanentError{Port: name, Err: errors.New("the switch does not have it now: when it is back, csig off gives it what it had before csig")})
		}
	}
	bad, err := d.write(ctx, c, &e, r)
	if err != nil {
		return err
	}
	if broken != nil {
		left = append(left, &vendors.PermanentError{Err: fmt.Errorf("the record of what the ports had before csig could not be read (%w), and is deleted: look at their TPID and MTU", broken)})
	}
	return errors.Join(append(left, bad...)...)
}
