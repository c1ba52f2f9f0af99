package comware

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Config is what a driver needs.
type Config struct {
	// Dial opens a session with the switch's command line.
	Dial func(ctx context.Context) (Session, error)

	Outer   bool // the CSIG tag is the outer one, not the one behind it
	Updates bool // the operator takes lines of configuration for an update (updates: cli)

	// Listen opens the socket that the probes of the dead-man come to; nil is net.ListenPacket.
	Listen func(network, address string) (net.PacketConn, error)
}

// Session is a login at a command line: a *cli.Session.
type Session interface {
	Run(ctx context.Context, command string) ([]string, error)
	Configure(ctx context.Context, commands []string) error
	LocalAddr() net.Addr // of this machine, as the device sees it
	Err() error          // why it is of no use any more
	Close() error
}

// recheck is how often Update reads the configuration back.
const recheck = time.Minute

// Driver drives one switch. Its methods are not safe for concurrent use.
type Driver struct {
	cfg     Config
	session Session // nil until it is needed, and after it was lost

	view     *view // nil: unread
	compared time.Time
	setup    *vendors.Setup // what the switch is to have; nil until Apply or the first Update
	signals  map[string]*vendors.PortSignal
	tables   vlanrules.Table // scratch
	freed    []string        // classes and behaviors, in the order in which they went out of use

	refusal  error            // why it cannot have the setup, as it was read last
	refused  map[string]error // the same of ports
	unproved map[string]bool  // ports of which the switch has not reported that what is configured is in hardware

	dead *deadMan // nil until it is armed

	compiler *vlanrules.Compiler
	offline  *[]string // commands go there, and no switch is asked
}

var _ vendors.Driver = (*Driver)(nil)

// Open returns a driver that connects when it is first used.
func Open(cfg Config) *Driver {
	if cfg.Listen == nil {
		cfg.Listen = net.ListenPacket
	}
	return &Driver{cfg: cfg, signals: map[string]*vendors.PortSignal{}, refused: map[string]error{}, unproved: map[string]bool{}}
}

func (d *Driver) at() position {
	if d.cfg.Outer {
		return outer
	}
	return inner
}

// connect opens a session, where there is none.
func (d *Driver) connect(ctx context.Context) error {
	if d.session != nil && d.session.Err() == nil {
		return nil
	}
	d.hangUp()
	s, err := d.cfg.Dial(ctx)
	if err == nil {
		d.session = s
	}
	return err
}

// hangUp ends the session. What a change that it carried has done is unknown.
func (d *Driver) hangUp() {
	if d.session != nil {
		_ = d.session.Close() // what it was for is done, or lost
	}
	d.session, d.view = nil, nil
}

// lost reports whether there is no session of use.
func (d *Driver) lost() bool {
	return d.offline == nil && (d.session == nil || d.session.Err() != nil)
}

// Close ends the session. What is configured stays: there is no lease, so Release comes
// first where the signal ends.
func (d *Driver) Close() error {
	d.hangUp()
	if d.dead != nil {
		return d.dead.conn.Close()
	}
	return nil
}

// look reads the configuration.
func (d *Driver) look(ctx context.Context) (*view, error) {
	if err := d.connect(ctx); err != nil {
		return nil, err
	}
	d.view = nil
	lines, err := d.session.Run(ctx, "display current-configuration")
	if err != nil {
		return nil, err
	}
	v, err := parse(lines)
	if err != nil {
		return nil, err
	}
	if len(v.Ports) == 0 {
		return nil, errors.New("the configuration that it displays has no interfaces: may the account read it (network-admin)?")
	}
	d.view = v
	return v, nil
}

// Dial opens a session with a switch's command line, without log messages among its
// answers. Its owner is nil where no other controller drives the switch.
func Dial(ctx context.Context, cfg ssh.Config, owner *vendors.Owner) (*cli.Session, error) {
	return cli.Dial(ctx, cli.Config{
		Platform: cli.Comware, SSH: cfg, Start: []string{"undo terminal monitor"}, Logins: owner.KeptLogins(),
		Users: &cli.Users{List: "display users", End: []string{"free line %s", "free user-interface %s"}}, // Comware 7, Comware 5
	})
}
