package all

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow"
	"github.com/csig-agent/csig/vendors/ovs"
	"github.com/csig-agent/csig/vlanrules"
)

// registerOpenFlow adds the platforms that speak OpenFlow 1.3.
func registerOpenFlow(r *Registry) {
	for _, name := range openflow.Names {
		p := Platform{
			Title: openflow.Titles[name], Experimental: "it ran with Open vSwitch restricted to OpenFlow 1.3, and never on a hardware switch",
			Open: openOpenFlow, Rules: openflow.Rules(), Diff: openflow.Diff, Commands: openFlowCommands, Refuse: openFlowRefuses,
			Offline: func() vendors.Facts { return openflow.Offline(name) }, Fence: openFlowFence,
			FenceSource: vendors.Source{Mark: vendors.Ran, From: "TestGuard, with Open vSwitch (OpenFlow 1.3.5 §6.3.5)"},
		}
		if name == openflow.OFDPA {
			p.Rules, p.Offline, p.Diff = openflow.FlatRules(), openflow.OFDPAOffline, openflow.FlatDiff
		}
		r.Register(name, p)
	}
}

// openOpenFlow opens a switch of OpenFlow 1.3. It connects at the first use.
func openOpenFlow(cfg vendors.Config) (vendors.Driver, error) {
	c, k, err := openFlowOf(&cfg.Device)
	if err != nil {
		return nil, err
	}
	if c.Connect, c.Done, err = OpenFlowSession(&cfg.Device, cfg.Note); err != nil {
		return nil, err
	}
	if connect := c.Connect; cfg.Claim != nil {
		c.Connect = func(ctx context.Context) (*ofp.Conn, error) {
			conn, err := connect(ctx)
			if err != nil {
				return nil, err
			}
			// The address may be spelled in several ways, and be a proxy's.
			return conn, cfg.Claim(fmt.Sprintf("OpenFlow datapath %#x", conn.Datapath.ID))
		}
	}
	if connect := c.Connect; cfg.Owner != nil {
		guard := &ofp.Guard{May: cfg.Owner.MayWrite, Generation: cfg.Owner.Token, Bound: vendors.BoundUnsent}
		c.Connect = func(ctx context.Context) (*ofp.Conn, error) {
			conn, err := connect(ctx)
			if err == nil {
				conn.Guard(guard)
			}
			return conn, err
		}
	}
	with := func(ctx context.Context, do func(*ofp.Conn) error) error {
		of, err := c.Connect(ctx)
		if err != nil {
			return err
		}
		return do(of)
	}
	formers := func(ctx context.Context, _ *vendors.Config) ([]vendors.Former, error) { return ovsFlows(ctx, with) }
	if one, ok := flatOf(&cfg.Device, c, k); ok {
		d, err := openflow.OpenFlat(one)
		if err != nil {
			return nil, err // not a nil *openflow.Flat in a Driver that is not nil
		}
		return sole(cfg, d, formers, kernelPlanes(with)), nil
	}
	d, err := openflow.Open(c)
	if err != nil {
		return nil, err // not a nil *openflow.Driver in a Driver that is not nil
	}
	return sole(cfg, d, formers, kernelPlanes(with)), nil
}

// openFlowFence: the newest master makes a slave of the one before.
func openFlowFence(d *inventory.Device) vlanrules.Verdict {
	const how = "a switch refuses a master of an older generation, until it restarts and forgets it"
	if d == nil {
		return vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "with role: master alone: " + how}
	}
	of, ok := inventory.OwnKeys[*openflow.Keys](d)
	bridge, isBridge := inventory.OwnKeys[*ovs.Keys](d)
	if ok && of.IsMaster() || isBridge && bridge.IsMaster() {
		return vlanrules.Verdict{Level: vlanrules.Full, Reason: how}
	}
	return vlanrules.Verdict{Level: vlanrules.Refused, Reason: "with role: equal all controllers may write: declare role: master where csig is the only one"}
}

func openFlowCommands(cfg vendors.Config, have, want vendors.Setup) ([]byte, error) {
	c, k, err := openFlowOf(&cfg.Device)
	if err != nil {
		return nil, err
	}
	if one, ok := flatOf(&cfg.Device, c, k); ok {
		return openflow.FlatCommands(one, have, want)
	}
	return openflow.Commands(c, have, want)
}

func openFlowRefuses(cfg vendors.Config, want vendors.Setup) error {
	c, k, err := openFlowOf(&cfg.Device)
	if err != nil {
		return err
	}
	_, one := flatOf(&cfg.Device, c, k)
	return c.Undeclared(&want, one)
}

// flatOf is openFlowOf of a switch with one table, whose capacity may be measured.
func flatOf(dev *inventory.Device, c openflow.Config, k *openflow.Keys) (openflow.FlatConfig, bool) {
	one, ok := k.Flat(c)
	if f := dev.Facts; one.Entries == 0 && f != nil && f.Entries != nil {
		one.Entries = *f.Entries
	}
	return one, ok
}

// openFlowOf is what a device's fleet file says of its switch.
func openFlowOf(dev *inventory.Device) (openflow.Config, *openflow.Keys, error) {
	k, ok := inventory.OwnKeys[*openflow.Keys](dev)
	if !ok {
		return openflow.Config{}, nil, &vendors.PermanentError{Err: errors.New("the device has no OpenFlow connection: add management: {openflow: {…}} to the fleet file (" + docs.OpenFlow + ")")}
	}
	c := openflow.Config{Platform: dev.Platform, Table: k.Table, OrdinaryVLANs: openflow.OrdinaryVLANs(k.OrdinaryVLANs)}
	if f := dev.Facts; f != nil && f.AckToWire != nil && *f.AckToWire > 0 { // 0 is below what can be measured
		c.AckDelay, c.Measured = *f.AckToWire, f
	}
	return c, k, nil
}

// How long a call waits for a switch that is not connected.
const (
	connectPatience = 5 * time.Second
	// dialPatience is for one that dials, and has not connected yet, where the caller has no
	// limit of its own: Open vSwitch tries every 8 s.
	dialPatience = 12 * time.Second
	// listenLinger is how long a process listens on when no call needs the switch: the next
	// one finds it connected.
	listenLinger = time.Minute
)

// openFlowSession is how to reach a device that speaks OpenFlow 1.3.
func openFlowSession(dev *inventory.Device) (cfg ofp.Config, err error) {
	k, ok := inventory.OwnKeys[*openflow.Keys](dev)
	if !ok {
		return cfg, &vendors.PermanentError{Err: errors.New("the device has no OpenFlow connection: add management: {openflow: {…}} to the fleet file (" + docs.OpenFlow + ")")}
	}
	if dev.Address == "" && (k.Listen == "" || k.Plaintext) {
		return cfg, &vendors.PermanentError{Err: errors.New("the device has no address: add it to the fleet file; csig connects there, or knows by it who connects without TLS")}
	}
	if cfg, err = k.Session(dev.Address); err != nil {
		return cfg, &vendors.PermanentError{Err: err}
	}
	if cfg.Listen != "" {
		cfg.Linger = listenLinger
	}
	return cfg, nil
}

// OpenFlowListen opens the address that a device's switch dials, and leaves it open for the
// calls that follow. at is "" where none does; the error is why it cannot be opened.
func OpenFlowListen(dev *inventory.Device) (at string, err error) {
	if k, ok := inventory.OwnKeys[*openflow.Keys](dev); !ok || k.Listen == "" {
		return "", nil
	}
	cfg, err := openFlowSession(dev)
	if err != nil {
		return "", err
	}
	s, err := ofp.Open(cfg)
	if err != nil {
		return cfg.Listen, err
	}
	return cfg.Listen, s.Close()
}

// OpenFlowSession connects with a device that speaks OpenFlow 1.3. Those of one device
// share a connection, which is made at the first use; done gives it back. note, where it is
// not nil, gets the connections that are refused: see ofp.Session.NoteRefusals.
func OpenFlowSession(dev *inventory.Device, note func(string)) (connect func(context.Context) (*ofp.Conn, error), done func() error, err error) {
	cfg, err := openFlowSession(dev)
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	var session *ofp.Session
	dials := cfg.Listen != "" // and has not connected yet
	connect = func(ctx context.Context) (*ofp.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if session == nil {
			s, err := ofp.Open(cfg)
			if err != nil {
				return nil, err
			}
			if session = s; note != nil {
				s.NoteRefusals(note)
			}
		}
		patience := connectPatience
		if dials {
			patience = dialPatience
			if end, limited := ctx.Deadline(); limited { // --timeout, which may be longer
				patience = time.Until(end)
			}
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		conn, err := session.Conn(ctx)
		dials = false
		return conn, err
	}
	done = func() error {
		mu.Lock()
		defer mu.Unlock()
		if session == nil {
			return nil
		}
		return session.Close()
	}
	return connect, done, nil
}
