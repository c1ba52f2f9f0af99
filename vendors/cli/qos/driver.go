package qos

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/reconcile"
	"github.com/csig-agent/csig/vlanrules"
)

// Session is a login at a command line: a *cli.Session.
type Session interface {
	Run(ctx context.Context, command string) ([]string, error)
	Configure(ctx context.Context, commands []string) error
	LocalAddr() net.Addr // of this machine, as the device sees it
	Err() error          // why it is of no use any more
	Close() error
}

// Platform is what one vendor's switches have of their own.
type Platform struct {
	Dialect *Dialect
	Dial    func(ctx context.Context) (Session, error)
	Updates bool // the operator takes lines of configuration for an update (updates: cli)

	Rules      func() vlanrules.Caps // the table of a port
	At         Position              // which tag of a frame CSIG's is
	NoStrip    string                // why it removes no tag
	TPIDChange string                // what ordinary traffic notices of another TPID
	Account    string                // what an account needs to read the configuration

	// PortName is why no port can have a name, "" where one can. TakesTPID is why no switch can have a TPID.
	PortName  func(name string) string
	TakesTPID func(want *vendors.Setup) error

	// Section reads what of a configuration is no QoS object, as Parse has it.
	Section func(v *View, words []string) Take

	// Hardware notes in View.Hardware of ports whether what their policies have is in hardware, by
	// the switch's own report.
	Hardware func(ctx context.Context, v *View, ports []string) error

	// AllAtOnce is where one report is of all ports: it is read with the configuration, and the
	// ports of an update are changed together. Otherwise each is changed by itself.
	AllAtOnce bool

	Settle    time.Duration // how long the switch may report the state of before a change
	TakesBack bool          // what is new and not in hardware is taken out again; otherwise it stays beside the old

	Connected func(ctx context.Context) error // looks at the switch of a new session; nil: at any
	Commit    func() (string, error)          // the line by which others take effect; nil: each does at once
	Committed func()                          // it did
	OnTrial   func(ctx context.Context, change func() error) error

	// A dead-man on the switch, where there is one: Withdraw removes it, with values that it would
	// withdraw; Disarm removes what it has left of itself.
	Withdraw func(ctx context.Context, want *vendors.Setup) error
	Disarm   func(ctx context.Context) error

	Jumbo    Jumbo
	Overhead int // what the longest frame has beside csig's MTU, in bytes
}

// Driver drives one switch by QoS policies. Its methods are not safe for concurrent use.
type Driver struct {
	Platform
	*reconcile.Loop
	Session Session // nil until it is needed, and after it was lost
	View    *View   // what the switch has; nil: unread

	Freed   []string // of Script
	offline bool     // the session takes lines down, and no switch is asked
}

// New returns a driver that connects when it is first used.
func New(p Platform) *Driver {
	d := &Driver{Platform: p}
	d.Loop = reconcile.New(device{d}, p.Rules())
	return d
}

// Connect opens a session, where there is none.
func (d *Driver) Connect(ctx context.Context) error {
	if !d.Lost() {
		return nil
	}
	d.HangUp()
	s, err := d.Dial(ctx)
	if err != nil {
		return err
	}
	d.Session = s
	if d.Connected == nil {
		return nil
	}
	if err = d.Connected(ctx); vendors.IsPermanent(err) {
		d.HangUp()
	}
	return err
}

// HangUp ends the session. What a change that it carried has done is unknown.
func (d *Driver) HangUp() {
	if d.Session != nil {
		_ = d.Session.Close() // what it was for is done, or lost
	}
	d.Session, d.View = nil, nil
}

// Lost reports whether there is no session of use.
func (d *Driver) Lost() bool { return d.Session == nil || d.Session.Err() != nil }

// Close ends the session. What is configured stays: there is no lease, so Release comes
// first where the signal ends.
func (d *Driver) Close() error {
	d.HangUp()
	return nil
}

// Look reads the configuration, and where one report is of all ports, what of it is in hardware.
func (d *Driver) Look(ctx context.Context) (*View, error) {
	if err := d.Connect(ctx); err != nil {
		return nil, err
	}
	d.View = nil
	lines, err := d.Session.Run(ctx, "display current-configuration")
	if err != nil {
		return nil, err
	}
	v, err := Parse(d.Dialect, lines, d.Section)
	if err != nil {
		return nil, err
	}
	if len(v.Ports) == 0 {
		return nil, errors.New("the configuration that it displays has no interfaces: may the account read it (" + d.Account + ")?")
	}
	if d.AllAtOnce {
		if err := d.Hardware(ctx, v, nil); err != nil {
			return nil, err
		}
	}
	d.View = v
	return v, nil
}

// see is Look where the view is not known.
func (d *Driver) see(ctx context.Context) error {
	if d.View != nil {
		return nil
	}
	_, err := d.Look(ctx)
	return err
}

// Script begins commands, which are in the view as they are added.
func (d *Driver) Script() *Script { return &Script{View: d.View, At: d.At, Freed: &d.Freed} }

// Write gives the commands of a script. Where one fails, how far it came is read back. A line that is refused
// is its port's error, where it has one.
func (d *Driver) Write(ctx context.Context, s *Script) error {
	if len(s.Lines) == 0 {
		return nil
	}
	lines := s.Lines
	if d.Commit != nil {
		commit, err := d.Commit()
		if err != nil {
			d.View = nil
			return err
		}
		lines = append(slices.Clone(lines), commit)
	}
	err := d.Session.Configure(ctx, lines)
	if err == nil {
		if d.Committed != nil {
			d.Committed()
		}
		return nil
	}
	d.View = nil
	if refused := (*cli.RefusedError)(nil); errors.As(err, &refused) && !d.Lost() {
		if port := s.PortOf(refused.Line); port != "" {
			return &vendors.PortError{Port: port, Err: err}
		}
	}
	return err
}

// Give gives the commands that f adds to a script, where the view may have to be read first.
func (d *Driver) Give(ctx context.Context, f func(*Script)) error {
	if err := d.see(ctx); err != nil {
		return err
	}
	return d.write(ctx, "", f)
}

// write gives the commands that f adds to a script, for a port, "" for all.
func (d *Driver) write(ctx context.Context, port string, f func(*Script)) error {
	s := d.Script()
	s.For(port)
	f(s)
	return d.Write(ctx, s)
}
