package plans

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Observation is what was found out about one device, or what its platform is known to do
// where nothing was.
type Observation struct {
	Facts         vendors.Facts
	Setup         vendors.Setup
	Differ        Differ
	MTUs          map[string]int // of ports, in bytes; nil: not known
	Via           string         // how it was reached
	Err           error          // why it was not, or why nothing is known of its platform
	PendingRevert error          // a *vendors.PendingRevertError where an auto-revert is pending

	// Counters is what is wrong with the counters that its signal will come of, by ports; nil: nothing is, or they were not asked.
	Counters []findings.Finding

	// NoAgent is the sentence that it was read without an agent, and what to start; "": one drives it.
	NoAgent string

	// NoDriver says that nothing can drive it: Facts are its platform's, and it
	// has nothing of ours.
	NoDriver string

	// Experimental is why its driver is: it never ran on hardware. "": it did.
	Experimental string

	measured bool // facts of its model are laid over it
}

// Options are what a plan is asked for.
type Options struct {
	Goal          Goal     // "": RollOut
	Target        []string // selectors of the devices that it may change (inventory.Fleet.Select); nil: all
	Waves         []string // in order: tags of devices, or percentages such as "10%" of the devices that a stage changes and no tag has; nil: "canary" (without such a tag: one device), "10%" and the rest
	Offline       bool
	Version       string
	InventoryHash string
	Now           time.Time
}

// The stages of a plan.
const (
	StageFence  = "fence"
	StageReady  = "ready"
	StageOpen   = "open"
	StageChange = "change"
)

// Build makes a plan for a fleet. It changes nothing, and reads nothing: seen
// says what was found out about each device. What stops the plan is in its
// findings; the error is for options that make no sense.
//
// The order is safe by construction. Receivers must never take a path for
// capable that is not (draft-00 §6.3.3.1), so ports that face hosts strip the
// tag from the first stage of a change of paths to the last, and no port
// forwards a tag to a device that discards such frames.
func Build(f *inventory.Fleet, seen func(*inventory.Device) Observation, o Options) (*Plan, error) {
	b, err := build(f, seen, o)
	if err != nil {
		return nil, err
	}
	type described struct {
		setup   int // changes of it
		changes []Change
		totals  Totals
		err     error
	}
	all := make([]described, len(b.nodes))
	b.parallel(func(i int) {
		n, d := &b.nodes[i], &all[i]
		if n.outside || n.seen.Err != nil || n.seen.NoDriver != "" {
			return
		}
		changes, err := Diff(n.seen.Differ, n.seen.Setup, n.want)
		d.setup, d.err = len(changes), err
		d.changes, d.totals = group(append(n.mtuChanges(), changes...))
	})
	for i := range b.nodes {
		n, d := &b.nodes[i], &all[i]
		if n.outside {
			continue
		}
		if d.err != nil {
			b.find(findings.SetupRefused, findings.Error, n, nil, "%v", d.err)
		}
		if d.setup > 0 {
			b.canUndo(n)
		}
		b.describe(n, d.changes)
		t := &b.plan.Totals
		t.Add, t.Change, t.Remove, t.Disruptive = t.Add+d.totals.Add, t.Change+d.totals.Change, t.Remove+d.totals.Remove, t.Disruptive+d.totals.Disruptive
	}
	if len(b.plan.Errors()) > 0 {
		b.plan.Stages = []Stage{} // what must not be done is not written down
	}
	return b.plan, nil
}

// build finds what is wrong and lays out the stages, in spite of it.
func build(f *inventory.Fleet, seen func(*inventory.Device) Observation, o Options) (*builder, error) {
	b := newBuilder(f, o)
	b.nodes = make([]node, len(f.Devices))
	found := make([]Observation, len(f.Devices))
	b.parallel(func(i int) {
		defer untrusted.Recover(&found[i].Err) // a device of which nothing is known
		found[i] = seen(&f.Devices[i])
	})
	for i := range f.Devices {
		b.look(&b.nodes[i], &f.Devices[i], found[i])
	}
	if err := b.choose(); err != nil {
		return nil, err
	}
	b.wants()
	for i := range b.nodes {
		b.judge(&b.nodes[i])
	}
	b.migration()
	b.mtu()
	b.leaveOutside()
	if err := b.parseWaves(); err != nil {
		return nil, err
	}
	b.mtuStage()
	b.order()
	return b, nil
}

// newBuilder makes a builder that knows the fleet, and nothing of its devices.
func newBuilder(f *inventory.Fleet, o Options) *builder {
	b := &builder{fleet: f, options: o, plan: &Plan{
		Format: Format, Created: o.Now.UTC(), Version: o.Version, Fleet: f.Path, Goal: cmp.Or(o.Goal, RollOut),
		ProfileHash: f.Profile.Hash(), InventoryHash: o.InventoryHash, Offline: o.Offline,
		Devices: make([]Device, 0, len(f.Devices)), Stages: []Stage{}, Findings: []findings.Finding{},
	}}
	b.index, b.hosts = make(map[string]int, len(f.Devices)), make(map[string]*inventory.Host, len(f.Hosts))
	b.compilers, b.verdicts = map[string]*vlanrules.Compiler{}, map[tableKey]vlanrules.Verdict{}
	for i := range f.Devices {
		b.index[f.Devices[i].Name] = i
	}
	for i := range f.Hosts {
		b.hosts[f.Hosts[i].Name] = &f.Hosts[i]
	}
	return b
}

// Level is a level of support with the reason for it (draft-00 §6.2).
type Level struct {
	Support inventory.Support
	Reason  string
	SetUp   bool // csig gives its ports a setup though no rules of its update tags (vendors.Facts.SetupOnly and Native)
}

// Updates reports whether csig has the device's ports compare and replace, by rules or by
// what the device does itself.
func (l *Level) Updates() bool {
	return l.Support == inventory.LevelSoftware || l.Support == inventory.LevelNative && l.SetUp
}

// LevelUnknown is the level of a device of which neither a probe, its platform
// nor the fleet file tells. It is treated like one that discards.
const LevelUnknown inventory.Support = "unknown"

// LevelOf is the level of a device with these capabilities in a domain of this
// TPID: the asserted one, or what the capabilities say. Where tags get through
// only under a condition, it discards them until the fleet file says that the
// condition is met.
func LevelOf(d *inventory.Device, facts *vendors.Facts, tpid uint16) Level {
	through, update := facts.Forwards(tpid), facts.Updates(tpid)
	setUp := facts.SetupOnly && !d.InnerTag()
	switch {
	case d.Level.Support != inventory.LevelAuto:
		return Level{d.Level.Support, cmp.Or(d.Level.Reason, "asserted in the fleet file"), setUp}
	case update.Level != vlanrules.Refused && facts.Native:
		return Level{inventory.LevelNative, cmp.Or(update.Reason, "its data plane does it, set up by csig"), true}
	case update.Level != vlanrules.Refused:
		return Level{Support: inventory.LevelSoftware, Reason: update.Reason}
	case through.Level == vlanrules.Full:
		return Level{inventory.LevelPassthrough, update.Reason, setUp}
	}
	if through.Level == vlanrules.Degraded {
		through.Reason = "not known to forward them: " + through.Reason + "; where it does forward them, give it its level, passthrough or native, with the reason"
	}
	if facts.Update.Level != vlanrules.Refused { // the TPID alone stands in its way
		through.Reason = update.Reason + "; " + through.Reason
	}
	return Level{Support: inventory.LevelDiscard, Reason: through.Reason}
}

type builder struct {
	fleet   *inventory.Fleet
	options Options
	plan    *Plan
	nodes   []node
	index   map[string]int
	hosts   map[string]*inventory.Host
	waves   []wave              // but the last
	steps   int                 // so far
	moving  []vendors.OtherTPID // that tags may have meanwhile

	backward map[inventory.PortRef]inventory.Peer // far ends that only the other end names; nil until needed

	// The rule compiler's answers, which are the same for most ports of a fleet.
	compilers map[string]*vlanrules.Compiler
	verdicts  map[tableKey]vlanrules.Verdict
}

// tableKey is all that the compiler's verdict on a port depends on.
type tableKey struct {
	compiler *vlanrules.Compiler
	lms      [len(quantize.Signals)]uint16
	signals  uint8
}

// node is one device.
type node struct {
	dev   *inventory.Device
	seen  Observation
	level Level
	want  vendors.Setup // at the end of the plan
	wave  int           // of its tag; noTag: percentages count it
	mtu   []PortMTU     // to raise

	gone          []string // ports of its setup that it does not have any more
	unmanaged     bool     // csig drives it in no way
	refusesUpdate bool     // it answers, and cannot update tags at present: seen.Err is why
	leftReason    Alone

	receiver map[string]bool // ports at which hosts that read the tag receive
	outside  bool            // of the target: it stays as it is
	lacking  string          // of one outside: why tags are not to cross it yet
	part     int             // of the fleet: tags do not leave it
	unready  bool            // paths through it change
	fenced   bool            // its receivers' ports strip meanwhile
	at       vendors.Setup   // while stages are laid out: what it has by then
}

// find notes a finding at ports of a device; none is the device as a whole.
func (b *builder) find(code findings.Code, level findings.Level, n *node, ports []string, format string, args ...any) {
	b.add(findings.Finding{Code: code, Level: level, Device: n.dev.Name, Ports: ports, Reason: fmt.Sprintf(format, args...)})
}

// findAt is find for what is wrong with the other end of a port.
func (b *builder) findAt(code findings.Code, n *node, port, peer, format string, args ...any) {
	b.add(findings.Finding{Code: code, Level: findings.Error, Device: n.dev.Name, Ports: []string{port}, Peers: []string{peer}, Reason: fmt.Sprintf(format, args...)})
}

// findFleet notes a finding that is of no single device.
func (b *builder) findFleet(code findings.Code, level findings.Level, format string, args ...any) {
	b.add(findings.Finding{Code: code, Level: level, Reason: fmt.Sprintf(format, args...)})
}

func (b *builder) add(list ...findings.Finding) { b.plan.Findings = append(b.plan.Findings, list...) }

// look takes in what was found out about a device.
func (b *builder) look(n *node, d *inventory.Device, seen Observation) {
	*n = node{dev: d, seen: seen}
	b.add(n.seen.Measure(b.fleet, d)...)
	n.level = LevelOf(d, &n.seen.Facts, b.fleet.Profile.TPID)
	n.gone = missing(n.seen.Facts.Ports, n.seen.Setup.Ports)
	b.assumeLevel(n)
	if n.seen.Err == nil && !n.unmanaged && d.Level.Support == inventory.LevelAuto && b.plan.Goal == RollOut {
		n.seen.Err = b.updateRefused(n)
		n.refusesUpdate = n.seen.Err != nil
	}
	if n.seen.Err != nil && d.Level.Support == inventory.LevelAuto {
		n.level = Level{Support: LevelUnknown}
	}
	for i := range d.Ports {
		peer := d.Ports[i].Peer
		if _, device := b.index[peer.Device]; peer == (inventory.Peer{}) || device {
			continue
		}
		if h := b.hosts[peer.Device]; h == nil || h.CSIG {
			if n.receiver == nil {
				n.receiver = make(map[string]bool, len(d.Ports)-i)
			}
			n.receiver[d.Ports[i].Name] = true
		}
	}
}

// wants finds what every device is to have at the end of a roll-out.
func (b *builder) wants() {
	if b.plan.Goal != RollOut {
		return
	}
	errs := make([]error, len(b.nodes))
	b.parallel(func(i int) {
		if n := &b.nodes[i]; !n.unmanaged {
			n.want, errs[i] = configured(n, WantOf(b.fleet, b.plan.ProfileHash, n.dev, n.level))
		}
	})
	for i := range b.nodes {
		if n := &b.nodes[i]; !n.unmanaged {
			b.misconfigured(n, errs[i])
			n.noteNothingToDo()
		}
	}
}

// WantOf is the setup of a device at the end of a roll-out: what the fleet file
// asks for, as far as the device's level has a setup at all. Profile is the hash of
// its profile.
func WantOf(f *inventory.Fleet, profile string, d *inventory.Device, level Level) vendors.Setup {
	want := vendors.SetupWith(&f.Profile, profile, f.Policy, d)
	switch {
	case level.Updates():
		return want
	case level.Support == inventory.LevelPassthrough:
		// It cannot compare and replace, but it may still strip, and need a TPID.
		want.Ports = slices.DeleteFunc(want.Ports, func(p vendors.PortSetup) bool { return !p.Strips() && !level.SetUp })
		for i := range want.Ports {
			if p := &want.Ports[i]; p.Action != vlanrules.Strip {
				p.Action = vlanrules.Passthrough
			}
		}
	default:
		want.Ports = nil
	}
	if len(want.Ports) == 0 {
		return vendors.Setup{}
	}
	return want
}

// stage appends a stage that brings every device to what next says, unless no
// device changes.
func (b *builder) stage(name, why string, next func(*node) vendors.Setup) {
	s := Stage{Name: name, Why: why}
	type change struct {
		want vendors.Setup
		to   bool
		err  error
	}
	all := make([]change, len(b.nodes))
	b.parallel(func(i int) {
		n, c := &b.nodes[i], &all[i]
		if n.outside || n.seen.Err != nil {
			return
		}
		want := without(next(n), n.gone)
		if SameSetup(&n.at, &want) {
			return
		}
		want, c.err = configured(n, want)
		if c.to = !SameSetup(&n.at, &want); c.to {
			c.want = want
		}
	})
	var nodes []int
	var steps []Step
	for i, c := range all {
		n := &b.nodes[i]
		b.misconfigured(n, c.err)
		if c.to {
			n.at = c.want
			nodes, steps = append(nodes, i), append(steps, Step{Device: n.dev.Name, Want: c.want})
		}
	}
	b.addStageInWaves(s, nodes, steps)
}

// parallel calls f for every node, on all processors. What f does is the node's
// own: findings have an order. A panic is an error of that node's device.
func (b *builder) parallel(f func(i int)) {
	const batch = 64
	panics := make([]error, len(b.nodes))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 1+len(b.nodes)/batch) {
		wg.Go(func() {
			for {
				to := int(next.Add(batch))
				if to-batch >= len(b.nodes) {
					return
				}
				for i := to - batch; i < min(to, len(b.nodes)); i++ {
					func() {
						defer untrusted.Recover(&panics[i])
						f(i)
					}()
				}
			}
		})
	}
	wg.Wait()
	for i, err := range panics {
		if err != nil {
			b.add(findings.Finding{Code: findings.InternalError, Level: findings.Error, Device: b.fleet.Devices[i].Name, Reason: err.Error()})
		}
	}
}

// describe writes down what was found and what changes.
func (b *builder) describe(n *node, changes []Change) {
	d := Device{
		Device: n.dev.Name, Platform: n.dev.Platform, Via: n.seen.Via, Level: n.level.Support.String(), Reason: n.level.Reason,
		Observed: n.seen.Setup, Changes: changes, Config: n.want.Config, LeftAlone: n.leftReason, Gone: n.gone,
	}
	if d.Changes == nil {
		d.Changes = []Change{}
	}
	d.ObservedHash = SetupHash(&d.Observed)
	if len(d.Changes) > 0 {
		b.plan.Totals.Devices++
	}
	b.plan.Devices = append(b.plan.Devices, d)
}

// canUndo wants a device to take back, in a rollback, what it has now.
func (b *builder) canUndo(n *node) {
	before := n.seen.Setup
	if before.TPID == 0 {
		return // there are no rules of ours
	}
	before = Restored(before, n.gone)
	if _, err := Diff(n.seen.Differ, n.want, before); err != nil {
		b.find(findings.NoRollback, findings.Error, n, nil, "a rollback could not give back what it has now: %v; if that may go, csig off -i %s --device %s clears it first", err, untrusted.ShellWord(b.fleet.Path), untrusted.ShellWord(n.dev.Name))
	}
}

// group puts changes that differ in their port alone together, and counts.
func group(changes []vendors.Change) ([]Change, Totals) {
	out := []Change{}
	ports := map[vendors.Change][]string{}
	var order []vendors.Change
	var t Totals
	for _, c := range changes {
		switch c.Kind {
		case vendors.Create:
			t.Add++
		case vendors.Alter:
			t.Change++
		case vendors.Remove:
			t.Remove++
		}
		if c.Disruptive != "" {
			t.Disruptive++
		}
		key := c
		key.Port = ""
		if _, known := ports[key]; !known || c.Port == "" {
			order = append(order, key)
		}
		if c.Port != "" {
			ports[key] = append(ports[key], c.Port)
		} else {
			ports[key] = nil
		}
	}
	for _, key := range order {
		slices.SortFunc(ports[key], inventory.CompareNames)
		out = append(out, Change{
			Kind: string(key.Kind), Ports: vendors.Names(ports[key]), Count: len(ports[key]),
			What: key.What, Detail: key.Detail, Disruptive: key.Disruptive,
		})
	}
	return out, t
}
