package qualifytest

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
	TPID   uint16  // that its ports take for a tag's before csig sets one; 0: none
	MTU    int     // payload of a frame behind its tags, in bytes; 0: 1500
	VLANs  uint16  // 1 to this are configured, on all ports, with 1 for untagged frames; 0: to 999
	Octets uint64  // that its counters begin at
	Denies [6]byte // destination that an ACL at every port drops; zero: none does
	Faults Faults
}

// Entries is how many entries the data sheet promises, of all ports.
const Entries = 256

// boot is how long the switch forwards nothing after a restart.
const boot = time.Second

// Switch is a switch. It is safe for concurrent use.
type Switch struct {
	cfg Config

	mu       sync.Mutex
	ports    []*port
	stations map[station]*port
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

// port is one port. Rows are its rules as they are read back, hw what forwards.
type port struct {
	name    string
	send    func(frame []byte)
	flaps   func() uint64 // how often its link was lost
	flapped uint64

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

func newSwitch(cfg Config) *Switch {
	if cfg.MTU == 0 {
		cfg.MTU = 1500
	}
	if cfg.VLANs == 0 {
		cfg.VLANs = 999
	}
	return &Switch{cfg: cfg, stations: map[station]*port{}}
}

func (s *Switch) add(name string, send func([]byte), flaps func() uint64) *port {
	p := &port{name: name, send: send, flaps: flaps, hw: hardware{tpid: s.cfg.TPID}}
	p.count = counts{octets: s.cfg.Octets}
	s.ports = append(s.ports, p)
	return p
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
		if n := p.flaps(); n != p.flapped && s.faultsOf(p).ForgetsOnLinkDown {
			p.flapped, p.hw = n, hardware{}
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
func (s *Switch) program(p *port, ops []vlanrules.Op) (err error) {
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
	return vlanrules.NewCompiler(Rules(), l, vlanrules.WithBudget(smallest))
}

// smallest is a budget that asks for the smallest tables.
const smallest = 3
