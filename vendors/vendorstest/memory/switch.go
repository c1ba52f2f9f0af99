package memory

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Config is a switch as its operator bought and configured it.
type Config struct {
	TPID   uint16        // that its ports take for a tag's before csig sets one; 0: none
	MTU    int           // payload of a frame behind its tags, in bytes; 0: 1500
	VLANs  uint16        // 1 to this are configured, on all ports, with 1 for untagged frames; 0: to 999
	Octets uint64        // that its counters begin at
	Denies [6]byte       // destination that an ACL at every port drops; zero: none does
	Takes  time.Duration // that a request of the driver takes
	Faults Faults

	// Pipeline decides in the place of the bridge what becomes of a packet: it outputs it any
	// number of times. Switch.Change changes what it looks at. Nil: the bridge.
	Pipeline func(*Packet)
}

// Entries is how many entries the data sheet promises, of all ports.
const Entries = 256

// boot is how long the switch forwards nothing after a restart.
const boot = time.Second

// Switch is a switch. It is safe for concurrent use.
type Switch struct {
	cfg Config

	mu       sync.Mutex
	ports    []*Port
	stations map[station]*Port
	setup    *vendors.Setup // as it is read back; nil: nothing of ours
	lease    time.Time      // of the hardware: until then ports write what they were given
	pending  []pending
	down     time.Time // until then a restart takes
	boots    uint64
	fillers  int // entries that match nothing
	tagged   int // frames with tags that came in
	received int // frames that came in
}

// station is an address in a VLAN.
type station struct {
	vlan uint16
	mac  [6]byte
}

// Port is one port. Rows are its rules as they are read back, hw what forwards.
type Port struct {
	s    *Switch
	name string
	send func(frame []byte)

	down    bool          // its link is
	losses  func() uint64 // how often its link was lost
	lost    uint64        // so often by SetLink
	handled uint64        // of losses, those that the hardware has acted on

	rows vlanrules.Table
	hw   hardware

	count counts // as they are
	shown counts // as they are read
}

// hardware is what one port's hardware has.
type hardware struct {
	tpid        uint16
	others      []vendors.OtherTPID // to strip
	action      vlanrules.Action
	live, stale vlanrules.Table
	fallsBack   bool // it writes stale whatever the lease
}

// pending is a change that the hardware has later than it is acknowledged.
type pending struct {
	at time.Time
	do func()
}

// New makes a switch without ports.
func New(cfg Config) *Switch {
	if cfg.MTU == 0 {
		cfg.MTU = 1500
	}
	if cfg.VLANs == 0 {
		cfg.VLANs = 999
	}
	return &Switch{cfg: cfg, stations: map[station]*Port{}}
}

// AddPort adds a port. Send gets the frames that leave there, while the switch is locked: it
// neither blocks nor calls the switch.
func (s *Switch) AddPort(name string, send func(frame []byte)) *Port {
	p := &Port{s: s, name: name, send: send, hw: hardware{tpid: s.cfg.TPID}}
	p.losses = func() uint64 { return p.lost }
	p.count = counts{octets: s.cfg.Octets}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ports = append(s.ports, p)
	return p
}

// Name is the port's name.
func (p *Port) Name() string { return p.name }

// SetLosses has the port ask how often its link was lost, where it is another's: a real card's.
func (p *Port) SetLosses(losses func() uint64) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.losses, p.handled = losses, losses()
}

// SetLink takes the port's link down or up, and reports whether it was not so before. While
// it is down, frames are lost there.
func (p *Port) SetLink(up bool) (changed bool) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if changed = p.down == up; changed && !up {
		p.lost++
	}
	p.down = !up
	return changed
}

// Up reports whether the port has a link.
func (p *Port) Up() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return !p.down
}

// Change runs f while no frame is on its way: what a Pipeline looks at changes at once.
func (s *Switch) Change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// SetFaults changes what is wrong with the switch.
func (s *Switch) SetFaults(f Faults) { s.Change(func() { s.cfg.Faults = f }) }

// Received is how many frames have come in.
func (s *Switch) Received() (n int) {
	s.Change(func() { n = s.received })
	return n
}

// later has the hardware do something after a while, and what is later still after it.
func (s *Switch) later(after time.Duration, do func()) {
	at := time.Now().Add(after)
	if n := len(s.pending); n > 0 && s.pending[n-1].at.After(at) {
		at = s.pending[n-1].at
	}
	s.pending = append(s.pending, pending{at, do})
}

// settle does what is due.
func (s *Switch) settle(now time.Time) {
	n := 0
	for n < len(s.pending) && !s.pending[n].at.After(now) {
		s.pending[n].do()
		n++
	}
	s.pending = slices.Delete(s.pending, 0, n)
	if !s.cfg.Faults.ForgetsOnLinkDown {
		return
	}
	for _, p := range s.ports {
		if n := p.losses(); n != p.handled && s.faultsOf(p).ForgetsOnLinkDown {
			p.handled, p.hw = n, hardware{}
		}
	}
}

// Restart is a power cycle: frames are lost for a while, and what csig made is gone.
func (s *Switch) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boots++
	s.down = time.Now().Add(boot)
	s.clear()
	clear(s.stations)
	for _, p := range s.ports {
		p.count, p.shown = counts{}, counts{}
	}
}

// clear is the switch without anything of csig.
func (s *Switch) clear() {
	s.setup, s.lease, s.pending, s.fillers = nil, time.Time{}, nil, 0
	for _, p := range s.ports {
		p.rows, p.hw = nil, hardware{tpid: s.cfg.TPID}
	}
}

var errFull = errors.New("the device refuses the entry: its table is full")

func (s *Switch) capacity() int {
	if n := s.cfg.Faults.Table; n > 0 {
		return n
	}
	return Entries
}

func (s *Switch) entries() int {
	n := s.fillers
	for _, p := range s.ports {
		n += len(p.rows)
	}
	return n
}

// program carries out operations one by one, as far as the table takes them.
func (s *Switch) program(p *Port, ops []vlanrules.Op) (err error) {
	f := s.faultsOf(p)
	done := 0
	for i := range ops {
		op := ops[i]
		if op.Kind == vlanrules.Add && s.entries() >= s.capacity() {
			err = errFull
			break
		}
		p.rows = applied(p.rows, &op)
		if done++; f.Gap == 0 {
			s.later(f.AckEarly, func() { p.hw.live = applied(p.hw.live, &op) })
		}
	}
	if f.Gap > 0 && done > 0 {
		old, now := ops[:done:done], slices.Clone(p.rows)
		gone := slices.DeleteFunc(slices.Clone(p.rows), func(e vlanrules.Entry) bool {
			return slices.ContainsFunc(old, func(op vlanrules.Op) bool { return op.Entry.ID == e.ID })
		})
		s.later(f.AckEarly, func() { p.hw.live = gone })
		s.later(f.AckEarly+f.Gap, func() { p.hw.live = now })
	}
	s.settle(time.Now())
	return err
}

// applied is a table after an operation, in match order.
func applied(t vlanrules.Table, op *vlanrules.Op) vlanrules.Table {
	t = slices.Clone(t)
	at := slices.IndexFunc(t, func(e vlanrules.Entry) bool { return e.ID == op.Entry.ID })
	switch {
	case op.Kind == vlanrules.Delete && at >= 0:
		return slices.Delete(t, at, at+1)
	case op.Kind == vlanrules.Modify && at >= 0:
		t[at] = op.Entry
		return t
	case op.Kind == vlanrules.Add && at < 0:
		t = append(t, op.Entry)
		slices.SortStableFunc(t, func(a, b vlanrules.Entry) int { return int(b.Priority) - int(a.Priority) })
	}
	return t
}

// compileStale is the table of a port that falls back.
func compileStale(setup *vendors.Setup) vlanrules.Table {
	var r vlanrules.Result
	newCompiler(setup.Layout).Compile(&r, nil, setup.Fallback())
	return r.Table
}

func newCompiler(l quantize.Layout) *vlanrules.Compiler {
	return vlanrules.NewCompiler(Caps(), l, vlanrules.WithBudget(smallest))
}

// smallest is a budget that asks for the smallest tables.
const smallest = 3
