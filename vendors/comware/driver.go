package comware

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/reconcile"
)

// Config is what a driver needs.
type Config struct {
	// Dial opens a session with the switch's command line.
	Dial func(ctx context.Context) (qos.Session, error)

	Outer   bool // the CSIG tag is the outer one, not the one behind it
	Updates bool // the operator takes lines of configuration for an update (updates: cli)

	// Listen opens the socket that the probes of the dead-man come to; nil is net.ListenPacket.
	Listen func(network, address string) (net.PacketConn, error)
}

// Driver drives one switch. Its methods are not safe for concurrent use.
type Driver struct {
	*qos.Driver
	cfg  Config
	dead *deadMan // nil until it is armed
}

var _ vendors.Driver = (*Driver)(nil)

// Open returns a driver that connects when it is first used.
func Open(cfg Config) *Driver {
	if cfg.Listen == nil {
		cfg.Listen = net.ListenPacket
	}
	d := &Driver{cfg: cfg}
	p := platform(cfg)
	p.Hardware, p.Withdraw, p.Disarm = d.hardware, d.withdraw, d.remove
	d.Driver = qos.New(p)
	return d
}

// platform is what Comware has of its own, but for what needs a driver.
func platform(cfg Config) qos.Platform {
	p := qos.Platform{
		Dialect: dialect, Dial: cfg.Dial, Updates: cfg.Updates, At: qos.Inner,
		NoStrip: noStrip, TPIDChange: tpidChange, Account: "network-admin",
		PortName: portName, Section: section,
		TakesTPID: func(want *vendors.Setup) error {
			if slices.Contains(reserved, want.TPID) && len(reconcile.Updating(want).Ports) > 0 {
				return fmt.Errorf("tpid 0x%04x: Comware takes that type for no TPID (qinq ethernet-type)", want.TPID)
			}
			return nil
		},
		Rules: Rules,
		Jumbo: qos.Jumbo{Denies: true},
		// The longest frame has the L2 header, the VLAN tag in front of an inner CSIG tag, and the FCS (jumboText).
		Overhead: 14 + 4 + 4,
	}
	if cfg.Outer {
		p.At, p.Overhead = qos.Outer, 14+4
	}
	return p
}

// Close ends the session. What is configured stays: there is no lease, so Release comes
// first where the signal ends.
func (d *Driver) Close() error {
	err := d.Driver.Close()
	if d.dead != nil {
		err = errors.Join(err, d.dead.conn.Close())
	}
	return err
}

// Diff is Driver.Diff, without a driver.
func Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	p := platform(Config{})
	return p.Diff(have, want)
}

// Commands is what Apply(want) gives to a switch for which Observe returns have, as qos.Commands has it.
func Commands(cfg Config, have, want vendors.Setup) ([]byte, error) {
	return qos.Commands(platform(cfg), have, want)
}

// Dial opens a session with a switch's command line, without log messages among its
// answers. Its owner is nil where no other controller drives the switch.
func Dial(ctx context.Context, cfg ssh.Config, owner *vendors.Owner) (*cli.Session, error) {
	return cli.Dial(ctx, cli.Config{
		Platform: cli.Comware, SSH: cfg, Start: []string{"undo terminal monitor"}, Logins: owner.KeptLogins(),
		Users: &cli.Users{List: "display users", End: []string{"free line %s", "free user-interface %s"}}, // Comware 7, Comware 5
	})
}
