package sai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// LiveConfig is what a Live needs.
type LiveConfig struct {
	Device *inventory.Device
	Redis  *sonicdb.Client
	Host   Host
}

// Live drives a SONiC switch whose orchagent serves SAI to other processes. Its methods are not safe for concurrent use.
type Live struct {
	cfg  LiveConfig
	srv  *server
	proc Process // that srv speaks with

	rec  liveRecord
	ids  idMap
	want *vendors.Setup // of Apply; nil: not known with its profile
	seen *view          // when it was last observed; nil: never

	no   error     // the switch's to want, which is permanent; nil: none
	noAt time.Time // when it was
}

var _ vendors.Driver = (*Live)(nil)

// OpenLive returns a driver that has not connected yet.
func OpenLive(cfg LiveConfig) *Live { return &Live{cfg: cfg, ids: idMap{}} }

// Close ends the connections. The objects stay.
func (l *Live) Close() error {
	l.hangUp()
	err := l.cfg.Redis.Close()
	if c, ok := l.cfg.Host.(io.Closer); ok {
		err = errors.Join(err, c.Close())
	}
	return err
}

func (l *Live) hangUp() {
	if l.srv != nil {
		l.srv.Close()
		l.srv = nil
	}
}

// ready reports whether orchagent may be sent anything: all ports are made, and it is not in a warm restart, in which
// syncd removes what the new view does not ask for.
func (l *Live) ready(ctx context.Context) error {
	answers, err := l.cfg.Redis.All(ctx, []string{sonicdb.Appl, "EXISTS", "PORT_TABLE:PortInitDone"}, []string{sonicdb.State, "HGET", "WARM_RESTART_TABLE|orchagent", "state"})
	if err != nil {
		return err
	}
	if made, _ := redis.Int(answers[0], nil); made == 0 {
		return errors.New("orchagent has not made all ports yet (APPL_DB PORT_TABLE:PortInitDone): nothing is sent to it")
	}
	if state, _ := redis.String(answers[1], nil); state == "initialized" || state == "restored" || state == "replayed" {
		return fmt.Errorf("orchagent is in a warm restart (STATE_DB WARM_RESTART_TABLE|orchagent: %s): nothing is sent to it", state)
	}
	return nil
}

// session speaks with ServerSai of the orchagent that runs now. It looks at the processes each time: syncd may be another one than before.
func (l *Live) session(ctx context.Context, v *view) error {
	if err := l.ready(ctx); err != nil {
		return err
	}
	p, err := l.cfg.Host.Orchagent(ctx)
	if err != nil {
		return err
	}
	if p.Unfit != "" {
		return &vendors.PermanentError{Err: errors.New(p.Unfit)}
	}
	if err := mayAsk(p.ID); err != nil { // another process is none that was asked for anything
		return err
	}
	if l.srv != nil && p.ID == l.proc.ID && l.srv.switchID == v.switchID && l.srv.healthy() == nil {
		return nil
	}
	l.hangUp()
	if missing := p.missing(); missing != "" {
		return &vendors.PermanentError{Err: errors.New(missing)}
	}
	if p.ASIC != "" {
		answers, err := l.cfg.Redis.All(ctx, []string{sonicdb.Config, "HGET", "DEVICE_METADATA|localhost", "asic_name"})
		if err != nil {
			return err
		}
		if of, _ := redis.String(answers[0], nil); !strings.EqualFold(of, p.ASIC) {
			return &vendors.PermanentError{Err: fmt.Errorf("the orchagent of this network namespace drives %s, and the databases are those of %q: give the file of its own (management: redis: databases; %s)", p.ASIC, untrusted.Text(of, 20), docs.SAI)}
		}
	}
	conn, err := l.cfg.Host.Dial(ctx, p)
	if err != nil {
		return err
	}
	if l.srv, err = openServer(ctx, conn, p.ID, p.Names, v.switchID); err != nil {
		return err
	}
	l.proc = p
	return nil
}

// begin speaks with orchagent, and reads what there is behind all that was asked for before.
func (l *Live) begin(ctx context.Context, want *vendors.Setup) (*view, error) {
	v, _, err := l.read(ctx, want, false)
	if err != nil {
		return nil, err
	}
	if err := l.session(ctx, v); err != nil {
		return nil, err
	}
	if err := l.srv.catchUp(ctx); err != nil {
		return nil, err
	}
	v, _, err = l.read(ctx, want, true)
	return v, err
}

// missing is why a SAI has no CSIG, "" where it has.
func (p *Process) missing() string {
	for _, name := range []string{string(compactType), attrSignal, portStrip, portLocator, switchTAM} {
		if !p.Names[name] {
			return "its SAI has no " + name + " (" + metadataLibrary + " of orchagent): CSIG is in SAI 1.18, which SONiC has since 202605"
		}
	}
	return ""
}

// Probe finds out what the switch can do, by capability queries.
func (l *Live) Probe(ctx context.Context) (vendors.Facts, error) {
	f := Offline()
	v, err := l.look(ctx, nil, false)
	if err != nil {
		return f, err
	}
	f.Ports = slices.Sorted(maps.Keys(v.ports))
	err = l.session(ctx, v)
	if permanent := vendors.Permanent(err); permanent != nil {
		no := vendors.Refusal(permanent.Error())
		f.Update, f.Wide, f.Strip = no, no, no
		return f, nil
	}
	if err != nil {
		return f, err
	}
	c, err := l.capabilities(ctx, v)
	if err != nil {
		return f, err
	}
	has := durations(c.Intervals)
	if c.AnyInterval {
		has = "it does not tell, and refuses what it has not"
	}
	f.Notes = append(f.Notes, "the intervals that the switch has: "+has)
	return c.restrict(f, "its answer to the capability query does not have it"), nil
}

// capabilities asks the switch.
func (l *Live) capabilities(ctx context.Context, v *view) (*Capabilities, error) {
	c := &Capabilities{DBit: DBitNone, Refuses: map[string]bool{}}
	can := map[string]capable{}
	for i := range Attributes {
		a := &Attributes[i]
		if c.Refuses[a.Name] = !l.srv.names[a.Name]; c.Refuses[a.Name] {
			continue
		}
		is, err := l.srv.can(ctx, a.Object, a.Name)
		if e := unsupported(err); e != nil {
			return nil, e
		}
		can[a.Name] = is
		c.Refuses[a.Name] = err == nil && !is.set && !is.create
	}
	var err error
	// A switch that does not answer which values it has may have all: what it has not it refuses.
	has := func(name string) func(Enum) bool {
		values, known, e := l.srv.values(ctx, TAMIntObject, name)
		err = errors.Join(err, e)
		return func(v Enum) bool { return l.srv.names[string(v)] && (!known || slices.Contains(values, Numbers[v])) }
	}
	if can[tamInt+"TYPE"].create {
		is := has(tamInt + "TYPE")
		c.Compact, c.Wide = is(compactType), is(wideType)
	}
	c.Strip, c.Locator = can[portStrip].set, can[portLocator].set
	if can[attrDBit].create {
		c.DBit = DBitSets
	} else {
		// orchagent has asked the switch (sonic-swss orchagent/switch/trimming/capabilities.cpp).
		answers, err := l.cfg.Redis.All(ctx, []string{sonicdb.State, "HGET", "SWITCH_CAPABILITY|switch", "SWITCH_TRIMMING_CAPABLE"})
		if err != nil {
			return nil, err
		}
		if trims, err := redis.String(answers[0], nil); err == nil && trims == "false" {
			c.DBit = DBitNoTrim
		}
	}
	if can[attrSignal].create {
		is := has(attrSignal)
		for sig, name := range signalTypes {
			if is(name) {
				c.Signals = append(c.Signals, quantize.Signal(sig))
			}
		}
	}
	if err != nil {
		return nil, err
	}
	// Nor need it tell what it can read, as the virtual switch does not: then it refuses an interval that it has not.
	const timers, intervals = "SAI_SWITCH_ATTR_MAX_CSIG_TIMERS", "SAI_SWITCH_ATTR_CSIG_BW_TIME_INTERVAL_IN_USEC"
	number, err := l.srv.get(ctx, SwitchObject, v.switchID, timers)
	if e := unsupported(err); e != nil {
		return nil, e
	}
	if c.Timers, _ = strconv.Atoi(number); err != nil && can[timers].get {
		c.Timers = 1
	}
	text, err := l.srv.get(ctx, SwitchObject, v.switchID, intervals)
	if err != nil {
		c.AnyInterval = can[intervals].get
		return c, unsupported(err)
	}
	list, err := elements(text)
	if err != nil {
		return nil, err
	}
	for _, one := range list {
		us, err := strconv.ParseUint(one, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%w: an interval of %q", errAnswer, one)
		}
		c.Intervals = append(c.Intervals, time.Duration(us)*time.Microsecond)
	}
	return c, nil
}

// unsupported is nil for what the switch answers that it does not have.
func unsupported(err error) error {
	if errors.As(err, new(*StatusError)) {
		return nil
	}
	return err
}

// Observe reads back the setup.
func (l *Live) Observe(ctx context.Context) (vendors.Setup, error) {
	var s vendors.Setup
	var err error
	l.seen, s, err = l.read(ctx, nil, false)
	return s, err
}

// read reads the record, and what the switch has of that and of the ports of want; all: and every TAM object that it has.
func (l *Live) read(ctx context.Context, want *vendors.Setup, all bool) (*view, vendors.Setup, error) {
	rec, err := l.readRecord(ctx)
	if err != nil {
		return nil, vendors.Setup{}, err
	}
	var ports []string
	if l.rec = (liveRecord{Format: recordFormat, IDs: map[string]OID{}}); rec != nil {
		l.rec = *rec
	}
	for _, p := range l.rec.Setup.Ports {
		ports = append(ports, p.Port)
	}
	for i := range l.cfg.Device.Ports {
		ports = append(ports, l.cfg.Device.Ports[i].Name)
	}
	if want != nil {
		for i := range want.Ports {
			ports = append(ports, want.Ports[i].Port)
		}
	}
	slices.Sort(ports)
	v, err := l.look(ctx, slices.Compact(ports), all)
	if err != nil {
		return nil, vendors.Setup{}, err
	}
	if rec == nil {
		l.ids = idMap{}
		return v, vendors.Setup{}, nil
	}
	return v, l.setupWith(v), nil
}

// Diff lists what Apply(want) would change. Locators and the interval are no part of a setup: where they alone are others
// than those that were recorded, that is one change.
func (l *Live) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	changes, err := Diff(have, want)
	if err != nil || len(changes) > 0 || want.Measure == nil || want.Nothing() || l.seen == nil || !sameSetup(&l.rec.Setup, &have) {
		return changes, err
	}
	to, err := l.compile(l.seen, nil, &want)
	if err != nil || to == nil {
		return nil, err
	}
	recorded := map[OID]Object{}
	for i := range l.rec.Objects {
		recorded[l.rec.Objects[i].ID] = l.rec.Objects[i].object()
	}
	var others []string
	for _, o := range append(append([]Object(nil), to.Own...), to.Ports...) {
		was := recorded[o.OID]
		for _, a := range o.Attrs {
			if v := was.get(a.Name); a.Name != attrDBit && (v == nil || v.String() != a.Value.String()) { // which follows from what it can
				others = append(others, fmt.Sprintf("%s of %s: %v -> %v", a.Name, o.OID, v, a.Value))
			}
		}
	}
	if n := len(others); n > 0 {
		changes = append(changes, vendors.Change{Kind: vendors.Alter, What: tamObjects, Detail: fmt.Sprintf("locators or the interval, %d attributes: %s", n, strings.Join(others[:min(n, 3)], ", "))})
	}
	return changes, nil
}

// compile makes the objects of a setup for what the switch has.
func (l *Live) compile(v *view, c *Capabilities, want *vendors.Setup) (*Program, error) {
	if !slices.ContainsFunc(want.Ports, func(p vendors.PortSetup) bool { return p.Action != vlanrules.Passthrough }) {
		return nil, nil
	}
	if want.Measure == nil {
		return nil, &vendors.PermanentError{Err: errUnknownProfile}
	}
	ports := portsOf(cmp.Or(want.Device, l.cfg.Device), want)
	for i := range ports {
		ports[i].OID = v.ports[ports[i].Name]
	}
	ports = slices.DeleteFunc(ports, func(p Port) bool { return p.OID == 0 }) // see missing
	in := Input{Profile: want.Measure, Interval: want.Measure.Interval, Switch: v.switchID, Foreign: l.foreign(v), Ports: ports, Caps: c}
	p, _, err := Compile(&in)
	if err != nil {
		return nil, &vendors.PermanentError{Err: err}
	}
	for i := range p.Own { // what this SAI does not have, and would be as it is by default
		p.Own[i].Attrs = slices.DeleteFunc(p.Own[i].Attrs, func(a Attr) bool {
			is := attribute(a.Name)
			without := l.srv != nil && !l.srv.names[a.Name] || c != nil && (c.Refuses[a.Name] || a.Name == attrDBit && c.DBit != DBitSets)
			return without && is.Default != nil && is.Default.String() == a.Value.String()
		})
	}
	if c == nil {
		return p, nil
	}
	var missing []string
	var errs []error
	for _, o := range append(slices.Clone(p.Own), p.Switch) {
		for _, a := range o.Attrs {
			if c.Refuses[a.Name] && !slices.Contains(missing, a.Name) {
				missing = append(missing, a.Name)
				errs = append(errs, lacks(capabilityOf(a.Name), "the switch does not have %s", a.Name))
			}
		}
	}
	if len(errs) > 0 {
		return nil, &vendors.PermanentError{Err: errors.Join(errs...)}
	}
	return p, nil
}

// missing are errors of a setup's ports that the switch does not have, as after a change of their breakout: the others are set up.
func (v *view) missing(want *vendors.Setup) error {
	var errs []error
	for _, p := range want.Ports {
		if v.ports[p.Port] == 0 {
			errs = append(errs, &vendors.PortError{Port: p.Port, Err: errors.New(noSuchPort)})
		}
	}
	return errors.Join(errs...)
}

// Apply makes the switch's objects those of the setup, in an order in which each one refers to what is there.
func (l *Live) Apply(ctx context.Context, want vendors.Setup) error {
	if want.Nothing() {
		return l.Remove(ctx)
	}
	if _, err := diff(tamObjects, &vendors.Setup{}, &want); err != nil {
		return err
	}
	v, err := l.begin(ctx, &want)
	if err != nil {
		return err
	}
	l.no = nil
	if err := l.make(ctx, v, want); err != nil {
		if vendors.IsPermanent(err) {
			l.no, l.noAt = err, time.Now()
		}
		return err
	}
	return v.missing(&want)
}

// make asks what the switch has, and leads from what there is to the setup.
func (l *Live) make(ctx context.Context, v *view, want vendors.Setup) error {
	c, err := l.capabilities(ctx, v)
	if err != nil {
		return err
	}
	from := l.program(v)
	to, err := l.compile(v, c, &want)
	if err != nil {
		return err
	}
	l.want = &want
	return l.change(ctx, v, from, to, want)
}

// change leads from what there is to a program, and records each step before it is done.
func (l *Live) change(ctx context.Context, v *view, from, to *Program, want vendors.Setup) error {
	l.rec.Setup = *want.Wanted()
	l.rec.Setup.Measure, l.rec.Setup.Device = nil, nil
	l.rec.Objects = l.rec.Objects[:0:0]
	objects := []Object{}
	if to != nil {
		objects = append(append(append(objects, to.Own...), to.Ports...), to.Switch)
	}
	seen := byOID(objects)
	for i := range objects {
		l.rec.Objects = append(l.rec.Objects, recordOf(&objects[i]))
	}
	gone := append(slices.Clone(from.Own), from.Ports...)
	for i := range gone { // it is csig's until it is gone
		if seen[gone[i].OID] == nil {
			l.rec.Objects = append(l.rec.Objects, recordOf(&gone[i]))
		}
	}
	l.rec.IDs = map[string]OID{}
	for own, real := range l.ids {
		l.rec.IDs[own.String()] = real
	}
	l.rec.Pending, l.rec.Partly = nil, true
	if err := l.save(ctx); err != nil {
		return err
	}
	before := slices.Collect(maps.Keys(v.objects))
	for _, op := range Changes(from, to) {
		if err := l.carryOut(ctx, &op, &before); err != nil {
			return err
		}
	}
	if err := l.srv.catchUp(ctx); err != nil {
		return err
	}
	if to == nil {
		return l.forget(ctx)
	}
	if err := l.confirm(ctx, to); err != nil {
		return err
	}
	l.rec.Objects, l.rec.Partly = l.rec.Objects[:len(objects)], false
	return l.save(ctx)
}

// carryOut carries out one call.
func (l *Live) carryOut(ctx context.Context, op *Op, before *[]OID) error {
	own := op.Object.OID
	real, err := l.ids.real(*op)
	if err != nil {
		return err
	}
	if op.Kind == SetOp && op.Object.Attrs[0].Name == switchTAM {
		return l.bind(ctx, &real)
	}
	if op.Kind == CreateOp {
		l.rec.Pending = &pending{own, *before}
		if err := l.save(ctx); err != nil {
			return err
		}
	}
	id, err := l.srv.do(ctx, &real)
	if err := refused(op, err); err != nil {
		return err
	}
	switch op.Kind {
	case CreateOp:
		l.ids[own], l.rec.IDs[own.String()], l.rec.Pending = id, id, nil
		*before = append(*before, id)
		return l.save(ctx)
	case RemoveOp:
		delete(l.ids, own)
		delete(l.rec.IDs, own.String())
		return l.save(ctx)
	}
	return nil
}

// confirm reads back what the switch itself has of a program: ASIC_DB has what it was asked for. What it does not tell is as that says.
func (l *Live) confirm(ctx context.Context, p *Program) error {
	for _, o := range append(slices.Clone(p.Own), p.Ports...) {
		real, err := l.ids.real(Op{SetOp, o})
		if err != nil {
			return err
		}
		for _, a := range real.Object.Attrs {
			is, err := l.srv.get(ctx, o.Type, real.Object.OID, a.Name)
			if e := unsupported(err); e != nil {
				return e
			}
			if err == nil && !sameValue(a.Value, is) {
				return &vendors.PermanentError{Err: lacks(capabilityOf(a.Name), "%s=%s was accepted, and the switch has %s", a.Name, a.Value, untrusted.Text(is, 100))}
			}
		}
	}
	return nil
}

// sameValue reports whether a switch has a value, by its text. Lists of objects and of bind points are sets, and come back in any order; of others it counts.
func sameValue(want Value, text string) bool {
	if text == want.String() {
		return true
	}
	switch want.(type) {
	case OIDs, Enums:
		has, err := elements(text)
		wanted, err2 := elements(want.String())
		slices.Sort(has)
		slices.Sort(wanted)
		return err == nil && err2 == nil && slices.Equal(has, wanted)
	}
	return false
}

// refused is the error of a call, with what the switch has refused by its name. What is not there any more was removed.
func refused(op *Op, err error) error {
	status := (*StatusError)(nil)
	switch {
	case op.Kind == RemoveOp && errors.As(err, &status) && status.Status == statusNone:
		return nil
	case errors.As(err, &status):
		return &vendors.PermanentError{Err: status.of(op)}
	}
	return err
}

// bindTries is how many times the list of the switch is set where another program sets it, too.
const bindTries = 3

// bind sets which TAM objects are bound on the switch: csig's as the call has it, beside those of others that are bound by now. It
// reads the list just before, and behind it: one that another program has set meanwhile may lack csig's.
func (l *Live) bind(ctx context.Context, op *Op) error {
	wanted := op.Object.Attrs[0].Value.(OIDs)
	own := slices.DeleteFunc(slices.Clone(wanted), func(id OID) bool { return l.ids.own(id) == id })
	for range bindTries {
		now, err := l.srv.bound(ctx)
		if err != nil {
			return err
		}
		list := append(slices.DeleteFunc(slices.Clone(now), func(id OID) bool { return l.ids.own(id) != id }), own...)
		if now == nil { // it cannot be read
			list = wanted
		} else if len(list) == len(now) && !slices.ContainsFunc(own, func(id OID) bool { return !slices.Contains(now, id) }) {
			return nil
		}
		op.Object.Attrs[0].Value = list
		if _, err := l.srv.do(ctx, op); err != nil || now == nil {
			return refused(op, err)
		}
	}
	return fmt.Errorf("%s of the switch was set %d times, and is another list: does another program set it?", switchTAM, bindTries)
}

var attrStatus = regexp.MustCompile(`^SAI_STATUS_(INVALID_ATTRIBUTE|INVALID_ATTR_VALUE|ATTR_NOT_IMPLEMENTED|UNKNOWN_ATTRIBUTE|ATTR_NOT_SUPPORTED)_([0-9]{1,5})$`)

// capabilityOf names what a switch lacks that does not take an attribute.
func capabilityOf(name string) string { return strings.ToLower(strings.TrimPrefix(name, tamInt)) }

// of names the attribute that was refused (inc/saistatus.h: a status has its place).
func (e *StatusError) of(op *Op) error {
	if m := attrStatus.FindStringSubmatch(e.Status); m != nil {
		if n, err := strconv.Atoi(m[2]); err == nil && n < len(op.Object.Attrs) {
			a := op.Object.Attrs[n]
			return lacks(capabilityOf(a.Name), "%s=%s is refused: the switch answers %s", a.Name, a.Value, e.Status)
		}
	}
	return e
}

// againAfter is how long a switch that has refused the setup, or does not keep it, is left alone: it would be asked for all of it in each cycle.
const againAfter = time.Minute

// Update supervises: what another process has changed is made again. The switch measures by itself.
func (l *Live) Update(ctx context.Context, _ []vendors.PortUpdate, _ time.Duration) (res vendors.UpdateResult, err error) {
	if l.want == nil {
		return res, &vendors.PermanentError{Err: errors.New("no more than the hash of the profile is known, of which the objects are made: call Apply with the profile first")}
	}
	v, s, err := l.read(ctx, nil, false)
	if err != nil {
		return res, err
	}
	if s.TPID == 0 {
		// A reboot takes the record away, and the objects.
		res.Restarted = true
	}
	missing := v.missing(l.want)
	damaged := s.Damaged != "" || s.TPID == 0 || slices.ContainsFunc(s.Ports, func(p vendors.PortSetup) bool { return p.Damaged != "" && v.ports[p.Port] != 0 })
	if damaged {
		if l.no != nil && time.Since(l.noAt) < againAfter {
			return res, l.no
		}
		before := l.proc.ID
		if err := l.Apply(ctx, *l.want); err != nil && (missing == nil || err.Error() != missing.Error()) {
			return res, err
		}
		res.Restarted = res.Restarted || before != "" && l.proc.ID != before
		if s.Damaged != "" {
			res.NoteRepair("", tamObjects, s.Damaged)
		}
		for _, p := range s.Ports {
			if p.Damaged != "" && v.ports[p.Port] != 0 {
				res.NoteRepair(p.Port, tamObjects, p.Damaged)
			}
		}
	}
	res.Leased, res.ReadBack = true, vendors.ReadBackBefore
	return res, missing
}

// Release does nothing: the chip's signal does not grow old.
func (l *Live) Release(context.Context) error { return nil }

// Remove takes away what csig made, and gives ports back what SAI has by default.
func (l *Live) Remove(ctx context.Context) error {
	_, s, err := l.read(ctx, nil, false)
	if err != nil || s.Nothing() && len(l.rec.IDs) == 0 && l.rec.Pending == nil {
		return err
	}
	v, err := l.begin(ctx, nil)
	if err != nil {
		return err
	}
	l.want = nil
	return l.change(ctx, v, l.program(v), nil, l.rec.Setup)
}
