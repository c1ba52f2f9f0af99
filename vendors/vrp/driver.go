package vrp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/qos"
)

// Config is what a driver needs.
type Config struct {
	Platform string // SSeries or CloudEngine

	// Dial opens a session with the switch's command line.
	Dial func(ctx context.Context) (qos.Session, error)

	Updates bool // the operator takes lines of configuration for an update (updates: cli)

	Settle time.Duration // how long the switch may report the state of before a change; 0: 300 ms
}

// Driver drives one switch. Its methods are not safe for concurrent use.
type Driver struct {
	*qos.Driver
	cfg      Config
	profile  *profile
	identity vendors.Identity
	trial    *trial // nil: commits are kept
}

var _ vendors.Driver = (*Driver)(nil)

// Open returns a driver that connects when it is first used.
func Open(cfg Config) *Driver {
	if cfg.Settle == 0 {
		cfg.Settle = 300 * time.Millisecond
	}
	d := &Driver{cfg: cfg, profile: profiles[cfg.Platform]}
	p := d.profile.platform()
	p.Dial, p.Updates, p.Settle = cfg.Dial, cfg.Updates, cfg.Settle
	p.Connected, p.Hardware = d.connected, d.states
	if d.profile.commits {
		p.Commit, p.Committed, p.OnTrial = d.commit, d.committed, d.onTrial
	}
	d.Driver = qos.New(p)
	return d
}

// platform is what a platform has of its own, but for what needs a driver.
func (p *profile) platform() qos.Platform {
	out := qos.Platform{
		Dialect: p.dialect, Rules: Rules, At: at,
		NoStrip: noStrip, TPIDChange: tpidChange, Account: "level 3",
		PortName: p.portName, Section: section,
		TakesTPID: func(want *vendors.Setup) error {
			if want.TPID == 0 || p.tpids.Takes(want.TPID) {
				return nil
			}
			return fmt.Errorf("qinq protocol takes the TPIDs %s beside 0x8100, and the domain's is 0x%04x", p.tpidNames(), want.TPID)
		},
		AllAtOnce: true, TakesBack: true,
		Overhead: 14 + 4, // the L2 header and the FCS: a CSIG tag here is the outer one
	}
	if p.commits {
		out.Commit = func() (string, error) { return "commit", nil }
	}
	return out
}

// connected refuses a switch that is not of the platform.
func (d *Driver) connected(ctx context.Context) error {
	lines, err := d.Session.Run(ctx, "display version")
	if err != nil {
		return err
	}
	if d.identity = d.profile.identity(lines); d.identity.Version != "" {
		return nil
	}
	other := profiles[d.profile.other]
	if id := other.identity(lines); id.Version != "" {
		return &vendors.PermanentError{Err: fmt.Errorf("it runs %s %s, and platform %s is %s: its platform is %s", other.runs, id.Version, d.profile.name, d.profile.runs, other.name)}
	}
	return &vendors.PermanentError{Err: fmt.Errorf("display version shows no %s: is it such a switch, and does it answer at this address (platform, address, management)?", d.profile.runs)}
}

// howOften is how many times csig asks, each time after Settle, whether a policy that the
// switch works on is in hardware.
const howOften = 20

// states notes which policies are in hardware.
func (d *Driver) states(ctx context.Context, v *qos.View, _ []string) error {
	for n := range howOften {
		lines, err := d.Session.Run(ctx, "display traffic-policy applied-record")
		if err != nil {
			return err
		}
		states := d.profile.status(lines)
		noteStates(v, states)
		if !underWay(states) || n == howOften-1 {
			break
		}
		if err := vendors.Wait(ctx, d.Settle); err != nil {
			return err
		}
	}
	return nil
}

// noteStates notes of ports with a policy of csig's why it is configured and not in force.
func noteStates(v *qos.View, states map[string][]string) {
	for _, name := range v.Ours() {
		v.Hardware[name] = nil
		if len(states[name]) == 0 {
			v.Hardware[name] = errors.New("its policy is configured, and the switch does not report it at the port")
		}
		for _, state := range states[name] {
			if state != "success" {
				v.Hardware[name] = fmt.Errorf("its policy is %w: %s", vendors.ErrNotInHardware, state)
				break
			}
		}
	}
}

// underWay reports whether the switch still works on a policy.
func underWay(all map[string][]string) bool {
	for _, states := range all {
		for _, state := range states {
			if state == "waiting" || state == "processing" {
				return true
			}
		}
	}
	return false
}

func (p *profile) tpidNames() string {
	var list []string
	for _, t := range p.tpids.List {
		list = append(list, fmt.Sprintf("0x%04x", t))
	}
	return strings.Join(list, " and ")
}

func (p *profile) portName(name string) string {
	if strings.Contains(name, ".") {
		return "a sub-interface has no traffic policy for what it sends"
	}
	return qos.PortName(name, p.example)
}

// Diff is Driver.Diff, without a driver.
func Diff(platform string, have, want vendors.Setup) ([]vendors.Change, error) {
	p := profiles[platform].platform()
	return p.Diff(have, want)
}

// Commands is what Apply(want) gives to a switch for which Observe returns have, as qos.Commands has it.
func Commands(platform string, have, want vendors.Setup) ([]byte, error) {
	return qos.Commands(profiles[platform].platform(), have, want)
}

// Dial opens a session with the command line of a platform's switch, without log messages
// among its answers. Its owner is nil where no other controller drives the switch.
func Dial(ctx context.Context, platform string, cfg ssh.Config, owner *vendors.Owner) (*cli.Session, error) {
	return cli.Dial(ctx, profiles[platform].session(cli.Config{SSH: cfg, Logins: owner.KeptLogins()}))
}
