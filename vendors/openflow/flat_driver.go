package openflow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/ofp"
	"github.com/csig-agent/csig/vlanrules"
)

// FlatConfig says what Config does, of a switch whose one table csig shares: Table is
// that table.
type FlatConfig struct {
	Config
	Priority   uint16 // csig's flows have this one and the three above; 0 is DefaultPriority
	Entries    int    // capacity of the table in flows, the operator's among them; 0: not known
	OFDPA      bool   // the table is Policy ACL of OF-DPA
	Forwarding []Forwarding
}

// DefaultPriority is the lowest priority of csig's flows where FlatConfig names none.
const DefaultPriority = 30000

// Flat drives a switch with one table for everything. Its methods are not safe for
// concurrent use.
type Flat struct {
	cfg FlatConfig
	sw  *Driver // connection and steps

	f       *flat // nil until Apply or the first Update
	ports   []*flatState
	byName  map[string]*flatState
	known   vendors.Knowledge
	checked time.Time
	belated []error // refusals that came late, for the next Update
}

var _ vendors.Driver = (*Flat)(nil)

// flatState is what the driver knows of one port.
type flatState struct {
	name   string
	action vlanrules.Action
	number uint32

	vendors.PortSignal
	have    flatPort
	settled bool      // its band has what its intents want
	until   time.Time // when the band ends
	failed  error     // why it has no fallback
}

// OpenFlat returns a driver. It connects at the first use.
func OpenFlat(cfg FlatConfig) (*Flat, error) {
	if cfg.Priority == 0 {
		cfg.Priority = DefaultPriority
	}
	if cfg.OFDPA {
		cfg.Table = TableACL
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if len(cfg.Forwarding) == 0 {
		return nil, &vendors.PermanentError{Err: errors.New(undeclaredForwarding)}
	}
	return &Flat{cfg: cfg, sw: &Driver{cfg: cfg.Config}}, nil
}

// TableACL is OF-DPA's Policy ACL (ofdpa-2.02 TTP, table_map).
const TableACL = 60

const undeclaredForwarding = "the switch has one table that masks VIDs, and no match there sees the port by which a frame leaves: declare the forwarding flows, management: {openflow: {forwarding: [{in_port: IN, port: OUT}, …]}}"

// Close ends the driver. What is programmed stays, until its lease ends.
func (d *Flat) Close() error { return d.sw.Close() }

func (d *Flat) connect(ctx context.Context) error {
	of, err := d.cfg.Connect(ctx)
	if err != nil || of != d.sw.of {
		d.known.Doubt()
		d.sw.of = nil
	}
	if err == nil {
		d.sw.of = of
	}
	return err
}

// flatSeen is what the switch has.
type flatSeen struct {
	numbers map[string]uint32 // of ports
	names   map[uint32]string
	own     []ofp.Flow
	foreign []ofp.Flow // in the table
	groups  map[uint32]ofp.Group

	setup  vendors.Setup // that was recorded, with its ports
	found  bool
	damage string
}

func (d *Flat) read(ctx context.Context) (*flatSeen, error) {
	s := &flatSeen{numbers: map[string]uint32{}, names: map[uint32]string{}, groups: map[uint32]ofp.Group{}}
	ports, err := d.sw.of.Ports(ctx)
	if err != nil {
		return nil, d.broken(err)
	}
	for i := range ports {
		name := portName(&ports[i])
		s.numbers[name], s.names[ports[i].Number] = ports[i].Number, name
	}
	flows, err := d.sw.of.Flows(ctx, ofp.Filter{Table: d.cfg.Table})
	if err != nil {
		return nil, d.broken(err)
	}
	for i := range flows {
		f := &flows[i]
		if f.Match = canonical(f.Match); isOwn(f) {
			s.own = append(s.own, *f)
		} else {
			s.foreign = append(s.foreign, *f)
		}
	}
	if d.cfg.OFDPA {
		groups, err := d.sw.of.Groups(ctx)
		if err != nil {
			return nil, d.broken(err)
		}
		for _, g := range groups {
			s.groups[g.ID] = g
		}
	}
	s.readSetup()
	return s, nil
}

func (d *Flat) broken(err error) error {
	d.known.Doubt()
	return fmt.Errorf("reading the switch: %w", err)
}

// readSetup reads the record.
func (s *flatSeen) readSetup() {
	var list []*ofp.Flow
	actions := map[uint32]vlanrules.Action{}
	for i := range s.own {
		f := s.own[i]
		n, nowhere := isNowhere(&f.Match)
		switch {
		case !nowhere:
		case n == portRecord && uint32(f.Cookie) <= uint32(vlanrules.Strip):
			actions[f.Match.InPort] = vlanrules.Action(f.Cookie)
		case n != portRecord:
			f.Priority = priorityRecord + uint16(n) // as readRecord has it
			list = append(list, &f)
		}
	}
	var err error
	if s.setup, s.found, err = readRecord(list); err != nil {
		s.damage = "the record of the setup cannot be read: " + err.Error()
		return
	}
	if !s.found {
		if len(s.own) > 0 {
			s.damage = "there are flows of csig's without the record of a setup"
		}
		return
	}
	for _, number := range slices.Sorted(maps.Keys(actions)) {
		if name := s.names[number]; name != "" {
			s.setup.Ports = append(s.setup.Ports, vendors.PortSetup{Port: name, Action: actions[number]})
		}
	}
}

// layout is what makes a setup's flows, and their forwarding flows with what the
// switch calls its ports.
func (d *Flat) layout(s *vendors.Setup, seen *flatSeen) (*flat, error) {
	forwards, err := resolve(d.cfg.Forwarding, seen.numbers)
	if err != nil {
		return nil, &vendors.PermanentError{Err: err}
	}
	return newFlat(d.cfg.Table, d.cfg.Priority, d.cfg.OFDPA, s, forwards), nil
}

// Observe reads back the setup.
func (d *Flat) Observe(ctx context.Context) (vendors.Setup, error) {
	if err := d.connect(ctx); err != nil {
		return vendors.Setup{}, err
	}
	seen, err := d.read(ctx)
	if err != nil {
		return vendors.Setup{}, err
	}
	if !seen.found {
		return vendors.Setup{Damaged: seen.damage}, nil
	}
	out := seen.setup
	f, err := d.layout(&out, seen)
	if err != nil {
		out.Damaged = err.Error()
		return out, nil
	}
	stale, err := f.stale()
	if err != nil {
		out.Damaged = err.Error()
		return out, nil
	}
	ports, loose := f.sort(seen.own, seen.groupList())
	for i := range out.Ports {
		p := &out.Ports[i]
		number := seen.numbers[p.Port]
		have := ports[number]
		if have == nil {
			have = &flatPort{groups: map[uint32]ofp.Group{}}
		}
		if p.Action != vlanrules.Update {
			continue
		}
		if steps, _ := f.open(number, have, stale); len(steps) > 0 {
			p.Damaged = "its fallback is not as csig writes it"
		}
	}
	if n := len(loose) - len(f.record(seen.number)); n > 0 {
		out.Damaged = fmt.Sprintf("%d flows of csig's are of forwarding flows that are not declared any more", n)
	} else if n < 0 {
		out.Damaged = "a flow of the record is gone"
	}
	return out, nil
}

func (s *flatSeen) number(port string) uint32 { return s.numbers[port] }

func (s *flatSeen) groupList() (out []ofp.Group) {
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		out = append(out, s.groups[id])
	}
	return out
}

// Diff lists what Apply(want) would change. It reads nothing.
func (d *Flat) Diff(have, want vendors.Setup) ([]vendors.Change, error) { return FlatDiff(have, want) }

// FlatDiff is Diff, of a switch with one table.
func FlatDiff(have, want vendors.Setup) ([]vendors.Change, error) {
	if err := validateFlat(&want); err != nil {
		return nil, err
	}
	return Diff(have, want)
}

const flatStrip = "a match does not see the TPID, and csig's flows are beside those of all traffic: the VLAN tags of ordinary frames would be removed, too"

// validateFlat refuses a setup that a switch with one table cannot have.
func validateFlat(s *vendors.Setup) error {
	if err := s.Check(flatStrip, func(p *vendors.PortSetup) error {
		if p.Strips() {
			return errors.New(flatStrip)
		}
		return nil
	}); err != nil {
		return err
	}
	return validate(s)
}

// refuse refuses what this switch cannot have, before anything is written.
func (d *Flat) refuse(seen *flatSeen, want *vendors.Setup, f *flat) error {
	for i := range seen.foreign {
		if p := int(seen.foreign[i].Priority) - int(d.cfg.Priority); p >= 0 && p < flatRows {
			return &vendors.PermanentError{Err: &vendors.ForeignError{What: fmt.Sprintf("table %d has a flow of priority %d with cookie %#x that is not csig's, which uses priorities %d to %d: set management: {openflow: {priority: N}} to the lowest of four that no other flow has",
				d.cfg.Table, seen.foreign[i].Priority, seen.foreign[i].Cookie, d.cfg.Priority, d.cfg.Priority+flatRows-1)}}
		}
	}
	updates := false
	for i := range want.Ports {
		p := &want.Ports[i]
		if p.Action != vlanrules.Update {
			continue
		}
		updates = true
		if err := f.refusePort(p.Port, seen); err != nil {
			return &vendors.PermanentError{Port: p.Port, Err: err}
		}
	}
	if updates && d.cfg.OrdinaryVLANs == "" {
		return &vendors.PermanentError{Err: errors.New(undeclared)}
	}
	return d.refuseSize(seen, f)
}

// refusePort is why a port cannot update, nil where it can.
func (f *flat) refusePort(port string, seen *flatSeen) error {
	number := seen.numbers[port]
	if !slices.ContainsFunc(f.forwards, func(w forward) bool { return w.Port == port }) {
		return fmt.Errorf("no forwarding flow to it is declared, and a match does not see the port by which a frame leaves: add the flows that forward to it to management: {openflow: {forwarding: […]}}")
	}
	if !f.ofdpa {
		return nil
	}
	if number > maxOFDPAPort {
		return fmt.Errorf("its number is %d, and group IDs have 16 bits for it", number)
	}
	if _, ok := seen.groups[unfiltered(number)]; !ok {
		return fmt.Errorf("it has no L2 Unfiltered Interface group (%#08x), which csig's groups refer to: make one, as a port's VLANs are the operator's", unfiltered(number))
	}
	return nil
}

// refuseSize refuses a table that is too small, with the numbers.
func (d *Flat) refuseSize(seen *flatSeen, f *flat) error {
	if need, taken := f.entries().need, len(seen.foreign); d.cfg.Entries > 0 && need+taken > d.cfg.Entries {
		return &vendors.PermanentError{Err: fmt.Errorf("table %d is too small: csig needs %s, %d flows in it are the operator's, and it has room for %d", d.cfg.Table, f.entries(), taken, d.cfg.Entries)}
	}
	return nil
}

// Apply makes the switch's flows those of the setup. Of a port frames see what was
// there or the stale value. What the switch cannot have is refused before anything
// is written.
func (d *Flat) Apply(ctx context.Context, want vendors.Setup) error {
	if err := validateFlat(&want); err != nil {
		return err
	}
	if err := d.connect(ctx); err != nil {
		return err
	}
	seen, err := d.read(ctx)
	if err != nil {
		return err
	}
	s := want.Wanted()
	f, err := d.layout(s, seen)
	if err != nil {
		return err
	}
	if err := d.refuse(seen, s, f); err != nil {
		return err
	}
	d.f, d.ports, d.byName, d.known = f, nil, map[string]*flatState{}, vendors.Unread
	for _, p := range s.Ports {
		q := &flatState{name: p.Port, action: p.Action, number: seen.numbers[p.Port]}
		d.ports, d.byName[p.Port] = append(d.ports, q), q
	}
	_, err = d.sync(ctx, seen)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range d.ports {
		if p.failed != nil {
			errs = append(errs, &vendors.PortError{Port: p.name, Err: p.failed})
		}
	}
	return errors.Join(errs...)
}

// sync brings the switch to the setup, and our knowledge to the switch. It returns
// what it repaired, of ports by their names.
func (d *Flat) sync(ctx context.Context, seen *flatSeen) (repaired []string, err error) {
	stale, err := d.f.stale()
	if err != nil {
		return nil, &vendors.PermanentError{Err: err}
	}
	wasKnown := d.known != vendors.Unread
	ports, loose := d.f.sort(seen.own, seen.groupList())
	first, jobs := d.shared(seen, loose), []*job(nil)
	next := map[*job]*flatPort{}
	for _, p := range d.ports {
		have := ports[p.number]
		delete(ports, p.number)
		if have == nil {
			have = &flatPort{groups: map[uint32]ofp.Group{}}
		}
		j := &job{name: p.name}
		if p.failed = nil; p.number == 0 {
			p.failed = errors.New("the switch has no such port; it is programmed as soon as the setup is applied again")
			continue
		}
		if p.action != vlanrules.Update {
			j.steps = d.f.shut(have)
			jobs = append(jobs, j)
			continue
		}
		steps, then := d.f.open(p.number, have, stale)
		if j.steps = steps; wasKnown && len(steps) > 0 {
			repaired = append(repaired, "port "+p.name+": its fallback was not as csig writes it")
		}
		if wasKnown && p.settled && !sameBands(&p.have, &then) {
			if p.settled = false; d.cfg.Now().Before(p.until) {
				repaired = append(repaired, "port "+p.name+": its flows were changed")
			}
		}
		p.have, next[j] = *have, &then
		jobs = append(jobs, j)
	}
	for _, number := range slices.Sorted(maps.Keys(ports)) { // of no port of the setup
		jobs = append(jobs, &job{name: seen.names[number], steps: d.f.shut(ports[number])})
	}
	for _, run := range [][]*job{{first}, jobs} {
		if _, err := d.sw.run(ctx, run...); err != nil {
			d.known.Doubt()
			return nil, err
		}
	}
	if err := first.err(); err != nil {
		return nil, refusal(err)
	}
	d.known, d.checked = vendors.Current, d.cfg.Now()
	for _, j := range jobs {
		p := d.byName[j.name]
		switch {
		case p == nil && j.err() != nil:
			return nil, refusal(j.err())
		case p == nil:
		case j.err() != nil:
			p.failed, p.settled = refusal(j.err()), false
			d.known.Doubt()
		case next[j] != nil:
			p.have = *next[j]
		}
	}
	return repaired, nil
}

// sameBands tells whether a port's bands are as they are known.
func sameBands(known, have *flatPort) bool {
	for _, row := range []int{rowBand0, rowBand1} {
		if len(known.rows[row]) != len(have.rows[row]) {
			return false
		}
		for _, h := range have.rows[row] {
			if !slices.ContainsFunc(known.rows[row], func(k ofp.Flow) bool { return sameFlat(&h, &k) }) {
				return false
			}
		}
	}
	for id, g := range known.groups {
		if h, ok := have.groups[id]; !ok || !h.Same(&g) {
			return false
		}
	}
	return true
}

// shared is the job of the record, and of flows that are of no declared forwarding.
func (d *Flat) shared(seen *flatSeen, loose []ofp.Flow) *job {
	var bands, others, missing []ofp.Flow
	want := d.f.record(seen.number)
	for _, h := range loose {
		switch {
		case slices.ContainsFunc(want, func(w ofp.Flow) bool { return sameFlat(&h, &w) }):
		case h.HardTimeout > 0:
			bands = append(bands, h)
		default:
			others = append(others, h)
		}
	}
	for _, w := range want {
		if !slices.ContainsFunc(loose, func(h ofp.Flow) bool { return sameFlat(&h, &w) }) {
			missing = append(missing, w)
		}
	}
	j := &job{}
	for _, mods := range [][]ofp.Mod{deletes(bands), deletes(others), adds(missing)} {
		j.add(mods...)
	}
	return j
}

// Update writes the other band of each port whose intents are new or whose band would
// end within a lease, and then deletes the first: see flat. A band lasts twice the
// lease, in whole seconds.
func (d *Flat) Update(ctx context.Context, updates []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	var res vendors.UpdateResult
	if lease <= 0 || lease > maxLease {
		return res, &vendors.PermanentError{Err: fmt.Errorf("a lease of %v: want up to %v", lease, maxLease)}
	}
	if d.f == nil {
		if err := vendors.TakeOver(ctx, d, func() bool { return d.known == vendors.Current }); err != nil {
			return res, err
		}
	}
	if err := d.connect(ctx); err != nil {
		return res, err
	}
	for _, r := range d.sw.of.LateErrors() {
		d.late(r)
	}
	if d.known != vendors.Current || d.cfg.Now().Sub(d.checked) >= checkEvery {
		if err := d.check(ctx, &res); err != nil {
			return res, err
		}
	}
	errs, err := d.change(ctx, updates, lease, &res)
	errs = append(errs, d.belated...)
	d.belated = nil
	if err != nil {
		return vendors.UpdateResult{Repaired: res.Repaired}, errors.Join(append(errs, err)...)
	}
	res.Leased, res.Lease = true, time.Duration(bandSeconds(lease))*time.Second
	return res, errors.Join(errs...)
}

// bandSeconds is how long a band lasts: an update that leaves it alone leaves at least
// a lease of it.
func bandSeconds(lease time.Duration) uint16 { return leaseSeconds(2 * lease) }

// late takes in a refusal of what the switch had acknowledged.
func (d *Flat) late(r *ofp.Error) {
	d.known.Doubt()
	err := fmt.Errorf("the switch refused a change after it had acknowledged it, and the port's flows are written again: %w", r)
	p := d.byName[r.Name]
	if p == nil {
		d.belated = append(d.belated, err)
		return
	}
	p.settled = false
	d.belated = append(d.belated, &vendors.PortError{Port: p.name, Err: err})
}

func (d *Flat) check(ctx context.Context, res *vendors.UpdateResult) error {
	seen, err := d.read(ctx)
	if err != nil {
		return err
	}
	repaired, err := d.sync(ctx, seen)
	res.Repaired = strings.Join(repaired, "; ")
	return err
}

// change brings ports to their intents. errs are of single ports; err ends the update.
func (d *Flat) change(ctx context.Context, updates []vendors.PortUpdate, lease time.Duration, res *vendors.UpdateResult) (errs []error, err error) {
	now := d.cfg.Now()
	until := now.Add(time.Duration(bandSeconds(lease)) * time.Second)
	listed := map[*flatState]bool{}
	for i := range updates {
		p := d.byName[updates[i].Port]
		if p == nil {
			errs = append(errs, vendors.NotInSetup(updates[i].Port))
			continue
		}
		listed[p] = true
		fresh, err := p.Give(d.f.setup, p.name, p.action, updates[i].Intents)
		if err != nil {
			errs = append(errs, err)
		}
		if p.failed != nil {
			errs = append(errs, &vendors.PortError{Port: p.name, Err: p.failed})
		}
		p.settled = p.settled && !fresh
	}
	var jobs []*job
	next := map[*job]*flatPort{}
	for _, p := range d.ports {
		if p.action != vlanrules.Update || p.failed != nil || !listed[p] && !now.Before(p.until) {
			continue // of one that nobody lists a value of before is not brought back
		}
		if p.settled && p.until.Sub(now) >= lease {
			continue
		}
		var entries []cover
		if !p.Refused() {
			if entries, err = d.f.live(p.Intents()); err != nil {
				errs = append(errs, p.Refuse(p.name, err.Error()))
				entries = nil
			}
		}
		j := &job{name: p.name}
		steps, then := d.f.band(p.number, &p.have, entries, bandSeconds(lease))
		j.steps, next[j] = steps, &then
		jobs = append(jobs, j)
	}
	res.Ops, err = d.sw.run(ctx, jobs...)
	if err != nil {
		d.known.Doubt()
		return errs, err
	}
	if late := vendors.LateLease(d.cfg.Now(), until); late != nil {
		return errs, late
	}
	for _, j := range jobs {
		p := d.byName[j.name]
		if j.err() != nil {
			p.settled = false
			d.known.Doubt()
			errs = append(errs, &vendors.PortError{Port: p.name, Err: refusal(j.err())})
			continue
		}
		p.have, p.settled, p.until = *next[j], true, until
		res.Ports++
	}
	return errs, nil
}

// Release ends the lease: every port falls back at once.
func (d *Flat) Release(ctx context.Context) error {
	return d.clear(ctx, func(f *ofp.Flow) bool { return f.HardTimeout > 0 })
}

// Remove deletes csig's flows and groups.
func (d *Flat) Remove(ctx context.Context) error {
	err := d.clear(ctx, func(*ofp.Flow) bool { return true })
	d.f, d.known = nil, vendors.Unread
	return err
}

// clear deletes csig's flows that some are, those that expire first and of them those
// of band 1 last, as those hide the others. Where all go the groups do, too.
func (d *Flat) clear(ctx context.Context, which func(*ofp.Flow) bool) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	seen, err := d.read(ctx)
	if err != nil {
		return err
	}
	d.known.Doubt()
	rest := false
	steps := map[int][]ofp.Mod{}
	for i := range seen.own {
		f := &seen.own[i]
		_, nowhere := isNowhere(&f.Match)
		step := int(f.Priority) // the lowest first
		switch {
		case !which(f):
			rest = true
			continue
		case nowhere:
			step += 2 << 16
		case f.HardTimeout == 0:
			step += 1 << 16
		}
		steps[step] = append(steps[step], remove(f, ""))
	}
	j := &job{}
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		j.add(steps[step]...)
	}
	var groups []ofp.Mod
	for _, g := range seen.groupList() {
		if g.ID&ownGroupMask == ownGroup && (!rest || g.ID&rowMask != rowStale) {
			groups = append(groups, ofp.Mod{Kind: ofp.Delete, Group: &g})
		}
	}
	j.add(groups...)
	for _, p := range d.ports {
		p.settled, p.until = false, time.Time{}
		p.Reset()
	}
	_, err = d.sw.run(ctx, j)
	return errors.Join(err, j.err())
}
