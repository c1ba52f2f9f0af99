package snmp

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/csig-agent/csig/counters"
)

// clock is a clock that only the test moves.
type clock struct{ t time.Time }

func (c *clock) now() time.Time          { return c.t }
func (c *clock) advance(d time.Duration) { c.t = c.t.Add(d) }
func newClock() *clock                   { return &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

// What happens to one port's counters between readings a second apart, and what the
// estimator makes of it.
func TestCounterFaults(t *testing.T) {
	const g = 125_000_000 // octets a second at 1 Gbit/s
	base := fakePort{name: "swp1", octets: 1 << 40, ucast: 1 << 35, mbps: 1000}
	type step func(p *fakePort)
	plus := func(octets, packets uint64) step {
		return func(p *fakePort) { p.octets += octets; p.ucast += packets }
	}
	tests := []struct {
		name   string
		start  func(p *fakePort)
		uptime []uint32 // sysUpTime at each reading; nil: as it should be
		steps  []step
		want   []counters.State // of the readings after the first
		bits   uint64           // of the last
	}{
		{name: "nothing special", steps: []step{plus(1000, 10)}, want: []counters.State{counters.OK}, bits: 8 * 1200},
		{name: "64-bit wrap", start: func(p *fakePort) { p.octets, p.ucast = math.MaxUint64-99, math.MaxUint64-3 },
			steps: []step{plus(1000, 10)}, want: []counters.State{counters.OK}, bits: 8 * 1200},
		{name: "32-bit wrap of octets and packets", start: func(p *fakePort) { p.narrow, p.octets, p.ucast = true, math.MaxUint32-99, math.MaxUint32-3 },
			steps: []step{plus(1000, 10)}, want: []counters.State{counters.OK}, bits: 8 * 1200},
		{name: "32-bit wrap of packets beside 64-bit octets", start: func(p *fakePort) { p.narrowPkts, p.ucast = true, math.MaxUint32-3 },
			steps: []step{plus(1000, 10)}, want: []counters.State{counters.OK}, bits: 8 * 1200},
		{name: "32-bit packet counters wrap one after another",
			start: func(p *fakePort) {
				p.narrow, p.ucast, p.mcast, p.bcast = true, math.MaxUint32, math.MaxUint32-1, math.MaxUint32-2
			},
			steps: []step{
				func(p *fakePort) { p.octets += 300; p.ucast, p.mcast, p.bcast = p.ucast+1, p.mcast+1, p.bcast+1 },
				func(p *fakePort) { p.octets += 300; p.ucast, p.mcast, p.bcast = p.ucast+1, p.mcast+1, p.bcast+1 },
				func(p *fakePort) { p.octets += 300; p.ucast, p.mcast, p.bcast = p.ucast+1, p.mcast+1, p.bcast+1 },
			},
			want: []counters.State{counters.OK, counters.OK, counters.OK}, bits: 8 * 360},
		{name: "reset to zero", steps: []step{func(p *fakePort) { p.octets, p.ucast = 0, 0 }, plus(1000, 10)},
			want: []counters.State{counters.Discontinuity, counters.OK}, bits: 8 * 1200},
		{name: "reset of 32-bit packets alone", start: func(p *fakePort) { p.narrowPkts, p.ucast = true, math.MaxUint32-(1<<30) },
			steps: []step{func(p *fakePort) { p.octets += 1000; p.ucast = 5 }, plus(1000, 10)},
			want:  []counters.State{counters.Discontinuity, counters.OK}, bits: 8 * 1200},
		{name: "discontinuity that goes up", steps: []step{
			func(p *fakePort) { p.octets += g / 2; p.discontinuity = 99_000 }, plus(1000, 10)},
			want: []counters.State{counters.Discontinuity, counters.OK}, bits: 8 * 1200},
		{name: "link down and up", steps: []step{
			func(p *fakePort) { p.oper = 2 }, func(p *fakePort) { p.oper = 1 }, plus(1000, 10)},
			want: []counters.State{counters.Down, counters.First, counters.OK}, bits: 8 * 1200},
		{name: "speed change across ifSpeed's end", steps: []step{
			func(p *fakePort) { p.mbps = 100_000 }, plus(1000, 10), func(p *fakePort) { p.mbps = 1000 }, plus(1000, 10)},
			want: []counters.State{counters.Discontinuity, counters.OK, counters.Discontinuity, counters.OK}, bits: 8 * 1200},
		{name: "agent restart", uptime: []uint32{100_000, 50, 150}, steps: []step{plus(1000, 10), plus(1000, 10)},
			want: []counters.State{counters.Discontinuity, counters.OK}, bits: 8 * 1200},
		{name: "reboot", uptime: []uint32{100_000, 2000, 2100}, steps: []step{func(p *fakePort) { p.octets, p.ucast = 20, 1 }, plus(1000, 10)},
			want: []counters.State{counters.Discontinuity, counters.OK}, bits: 8 * 1200},
		{name: "sysUpTime wraps after 497 days", uptime: []uint32{math.MaxUint32 - 40, 59}, steps: []step{plus(1000, 10)},
			want: []counters.State{counters.OK}, bits: 8 * 1200},
		{name: "sysUpTime cached for five seconds", uptime: []uint32{1000, 1000, 1000, 1500, 1500},
			steps: []step{plus(1, 0), plus(1, 0), plus(1, 0), plus(1000, 10)},
			want:  []counters.State{counters.OK, counters.OK, counters.OK, counters.OK}, bits: 8 * 1200},
		{name: "their clock steps forward", uptime: []uint32{1000, 361_100}, steps: []step{plus(1000, 10)},
			want: []counters.State{counters.OK}, bits: 8 * 1200},
		{name: "their clock steps back", uptime: []uint32{400_000, 40_100, 40_200}, steps: []step{plus(1000, 10), plus(1000, 10)},
			want: []counters.State{counters.Discontinuity, counters.OK}, bits: 8 * 1200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, c := newAgent(t), newClock()
			p := base
			if tt.start != nil {
				tt.start(&p)
			}
			tick := func(n int) {
				a.set(3, p)
				up := uint32(100_000 + 100*n)
				if tt.uptime != nil {
					up = tt.uptime[n]
				}
				a.scalar(sysUpTime, up)
			}
			tick(0)
			cfg := a.config("swp1")
			cfg.Now = c.now
			s := open(t, cfg)
			e := counters.NewEstimator(counters.EstimatorConfig{})
			e.Update(mustRead(t, s)[0])
			var est counters.Estimate
			for i, step := range tt.steps {
				c.advance(time.Second)
				step(&p)
				tick(i + 1)
				smp := mustRead(t, s)[0]
				if smp.Speed != uint64(p.mbps)*1e6 {
					t.Fatalf("reading %d: speed %d, want %d Mbit/s", i+2, smp.Speed, p.mbps)
				}
				est = e.Update(smp)
				if est.State != tt.want[i] {
					t.Fatalf("reading %d: %v (%s), want %v", i+2, est.State, est.Reason, tt.want[i])
				}
			}
			if est.Bits != tt.bits {
				t.Errorf("%d bits, want %d", est.Bits, tt.bits)
			}
		})
	}
}

func TestUptime(t *testing.T) {
	const s, day = time.Second, 24 * time.Hour
	tests := []struct {
		name   string
		ticks  []uint32
		passed []time.Duration
		want   bool // at the last reading
	}{
		{"steady", []uint32{100, 200}, []time.Duration{0, s}, false},
		{"restarted", []uint32{1_000_000, 200}, []time.Duration{0, s}, true},
		{"restarted while nobody looked, and is older now", []uint32{6000, 60_000}, []time.Duration{0, 30 * time.Minute}, true},
		{"wrap", []uint32{math.MaxUint32 - 50, 49}, []time.Duration{0, s}, false},
		{"restarted just before the wrap", []uint32{math.MaxUint32 - 500_000, 49}, []time.Duration{0, s}, true},
		{"wrap while nobody looked", []uint32{math.MaxUint32 - 100*3600, 100 * 3600}, []time.Duration{0, 2 * time.Hour}, false},
		{"slow clock", []uint32{1_000_000, 1_000_000 + 99*864_00}, []time.Duration{0, day}, false},
		{"steps back a little", []uint32{100_000, 99_950}, []time.Duration{0, s}, false},
		{"cached", []uint32{100, 100, 100, 600}, []time.Duration{0, s, 4 * s, 9 * s}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var u uptime
			start := time.Unix(1e9, 0)
			got := false
			for i, ticks := range tt.ticks {
				got = u.advance(ticks, start.Add(tt.passed[i]))
				if got && i < len(tt.ticks)-1 {
					t.Errorf("restart at reading %d", i)
				}
			}
			if got != tt.want {
				t.Errorf("restarted %v, want %v", got, tt.want)
			}
		})
	}
}

// Our own clock, where it is not monotonic, may step: the readings go on.
func TestOurClockSteps(t *testing.T) {
	a, c := newAgent(t), newClock()
	cfg := a.config(a.many(3)...)
	cfg.Now = c.now
	s := open(t, cfg)
	e := counters.NewEstimator(counters.EstimatorConfig{})
	e.Update(mustRead(t, s)[1])
	for i, step := range []time.Duration{time.Second, -time.Hour, time.Second, time.Second} {
		c.advance(step)
		a.scalar(sysUpTime, uint32(100_000+100*i))
		est := e.Update(mustRead(t, s)[1])
		if want := step > 0; (est.State == counters.OK) != want {
			t.Errorf("step %v: %v (%s)", step, est.State, est.Reason)
		}
	}
}

// A port that got another ifIndex is found in the same reading, and no reading is
// ever of the port that has its old one.
func TestRenumbering(t *testing.T) {
	shuffle := func(a *fakeAgent, n int, rng *rand.Rand) {
		for i := range n {
			a.removeLocked(uint32(i + 1))
			a.removeLocked(uint32(i + 1000))
		}
		for i, j := range rng.Perm(n) {
			p := numbered(uint32(i + 1))
			a.setLocked(uint32(j+1+999*rng.IntN(2)), p)
		}
	}
	for _, lean := range []time.Duration{0, time.Hour} {
		t.Run(fmt.Sprint("recheck ", lean), func(t *testing.T) {
			const n = 60
			a := newAgent(t)
			cfg := a.config(a.many(n)...)
			cfg.Recheck = lean
			s := open(t, cfg)
			rng := rand.New(rand.NewPCG(1, 2))
			epochs := make([]uint64, n)
			for round := range 60 {
				// Sometimes between readings, sometimes in the middle of one.
				at := 0
				if round%3 != 0 {
					at = 1 + rng.IntN(4)
				}
				a.with(func() {
					from := a.requests
					a.before = func(k int, _ *gosnmp.SnmpPacket) {
						if round > 0 && k-from == at {
							shuffle(a, n, rng)
							a.put(ifTableLastChange.at(0), gosnmp.TimeTicks, uint32(1000+round))
						}
					}
					if round > 0 && at == 0 {
						shuffle(a, n, rng)
						a.put(ifTableLastChange.at(0), gosnmp.TimeTicks, uint32(1000+round))
					}
				})
				good := 0
				for i, smp := range read(t, s) {
					switch {
					case smp.Err != nil:
					case smp.Octets != 1000*uint64(i+1) || smp.Packets != uint64(i+6):
						t.Fatalf("round %d: %s has the counters of another port: %+v", round, smp.Port, smp)
					default:
						good++
					}
					if smp.Err == nil {
						if smp.Epoch == epochs[i] && round%3 == 0 && round > 0 && s.ports[i].hist.index != s.ports[i].index {
							t.Errorf("%s moved and kept its epoch", smp.Port)
						}
						epochs[i] = smp.Epoch
					}
				}
				// A change before the reading is no reason to lose any of it.
				if at == 0 && good != n {
					for _, smp := range read(t, s) {
						if smp.Err != nil {
							t.Fatalf("round %d: %d of %d ports: %v", round, good, n, smp.Err)
						}
					}
				}
			}
		})
	}
}

// Two ports that swap their rows, with nothing else to show for it: only the
// names tell.
func TestSwappedPorts(t *testing.T) {
	a := newAgent(t)
	ports := a.many(30)
	s := open(t, a.config(ports...))
	for round := range 12 {
		x, y := numbered(3), numbered(4)
		if round%2 == 0 {
			a.with(func() { a.setLocked(4, x); a.setLocked(3, y) })
		} else {
			a.with(func() { a.setLocked(3, x); a.setLocked(4, y) })
		}
		s.surveyed = s.surveyed.Add(-lookAgain) // let time pass
		for i, smp := range mustRead(t, s) {
			if smp.Octets != 1000*uint64(i+1) {
				t.Fatalf("round %d: %+v", round, smp)
			}
		}
	}
}

// The agent goes silent while a port is being looked for: what is half known of
// it is no reading.
func TestLookingUpInterrupted(t *testing.T) {
	a := newAgent(t)
	s := open(t, a.config(a.many(40)...))
	for !s.settled {
		mustRead(t, s)
	}
	a.remove(5)
	a.set(77, numbered(5))
	a.with(func() {
		walked := false
		a.send = func(_ int, req *gosnmp.SnmpPacket, msg []byte) [][]byte {
			walk := req.PDUType == gosnmp.GetBulkRequest && len(req.Variables) == 1
			if walked && !walk {
				return nil
			}
			walked = walked || walk
			return [][]byte{msg}
		}
	})
	for i, smp := range read(t, s) {
		if (smp.Err == nil) != (i != 4) || smp.Err == nil && smp.Octets != 1000*uint64(i+1) {
			t.Errorf("%+v", smp)
		}
	}
	a.with(func() { a.send = nil })
	s.surveyed = s.surveyed.Add(-lookAgain)
	mustRead(t, s)
}

func TestEpochOfMovedPort(t *testing.T) {
	a := newAgent(t)
	ports := a.many(2)
	s := open(t, a.config(ports...))
	first := mustRead(t, s)
	a.remove(1)
	a.set(40, numbered(1))
	second := mustRead(t, s)
	if second[0].Epoch == first[0].Epoch || second[1].Epoch != first[1].Epoch {
		t.Errorf("epochs %d %d, before %d %d: only the port that moved has a new one",
			second[0].Epoch, second[1].Epoch, first[0].Epoch, first[1].Epoch)
	}
}

// net-snmp keeps the row of an interface that was removed for minutes, and a new
// one of the same name gets another row.
func TestRowThatOutlivesItsInterface(t *testing.T) {
	a, c := newAgent(t), newClock()
	ports := a.many(2)
	cfg := a.config(ports...)
	cfg.Now = c.now
	s := open(t, cfg)
	mustRead(t, s)
	gone := numbered(1)
	gone.oper = 2
	a.set(1, gone)
	fresh := numbered(1)
	fresh.octets = 77
	a.set(9, fresh)
	a.scalar(ifTableLastChange, 99)
	c.advance(2 * time.Second)
	if got := mustRead(t, s)[0]; got.Octets != 77 || !got.Up {
		t.Errorf("%+v: want the row that is up", got)
	}
	// And where it is up twice nobody can know.
	both := numbered(1)
	a.set(1, both)
	b := open(t, cfg)
	if got := read(t, b); got[0].Err == nil || !strings.Contains(got[0].Err.Error(), "ifIndex 1 and 9") || got[1].Err != nil {
		t.Errorf("%v; %v", got[0].Err, got[1].Err)
	}
}

func TestRemovedPort(t *testing.T) {
	a, c := newAgent(t), newClock()
	cfg := a.config(a.many(30)...)
	cfg.Now = c.now
	s := open(t, cfg)
	for !s.settled {
		mustRead(t, s)
	}
	a.remove(7)
	for range 3 {
		c.advance(time.Second)
		for i, smp := range read(t, s) {
			if i != 6 && smp.Err != nil {
				t.Errorf("port %s suffers: %v", smp.Port, smp.Err)
			}
			if i == 6 && (!errors.Is(smp.Err, ErrNoPort) || !strings.Contains(smp.Err.Error(), "device leaf1: port swp7") || smp.Octets != 0) {
				t.Errorf("removed: %+v", smp)
			}
		}
	}
	requests := 0
	a.with(func() { requests = a.requests })
	read(t, s)
	a.with(func() {
		if a.requests-requests > len(s.plan.full) {
			t.Errorf("%d requests: a port that is missing must not cost a survey each time", a.requests-requests)
		}
	})
	// It comes back.
	a.set(7, numbered(7))
	c.advance(lookAgain)
	mustRead(t, s)
}

func TestPortRemovedMidWalk(t *testing.T) {
	a := newAgent(t)
	ports := a.many(200)
	a.with(func() {
		a.before = func(n int, req *gosnmp.SnmpPacket) {
			if n == 4 { // within the walk over the names
				for i := uint32(50); i < 60; i++ {
					a.removeLocked(i + 80)
				}
			}
		}
	})
	for i, smp := range read(t, open(t, a.config(ports...))) {
		index := uint32(i + 1)
		if gone := index >= 130 && index < 140; gone != (smp.Err != nil) {
			t.Errorf("%s: %v", smp.Port, smp.Err)
		}
	}
}

// An agent whose GetBulk runs in a circle is found out.
func TestWalkInACircle(t *testing.T) {
	a := newAgent(t)
	a.edit = func(req, answer *gosnmp.SnmpPacket) {
		if req.PDUType == gosnmp.GetBulkRequest {
			for i := range answer.Variables {
				answer.Variables[i] = a.get(ifName.oid().at(uint32(i%3 + 1)).dotted())
			}
		}
	}
	if _, err := open(t, a.config(a.many(5)...)).Read(t.Context(), nil); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "instance 1 of") {
		t.Errorf("%v", err)
	}
}

// What an agent may say about one port must not touch the others, whatever
// way of reading is in use.
func TestFaultOfOnePort(t *testing.T) {
	const n, bad = 50, 23
	tests := []struct {
		name  string
		fault func(a *fakeAgent)
		want  error
		text  string
	}{
		{"no such instance", func(a *fakeAgent) { a.drop(ifHCOutUcastPkts.oid().at(bad)); a.drop(ifOutUcastPkts.oid().at(bad)) }, ErrMissing, "UcastPkts.23"},
		{"octets gone", func(a *fakeAgent) { a.drop(ifHCOutOctets.oid().at(bad)); a.drop(ifOutOctets.oid().at(bad)) }, ErrMissing, "OutOctets.23"},
		{"(64-bit only) wrong type", func(a *fakeAgent) { a.put(ifHCOutOctets.oid().at(bad), gosnmp.Gauge32, uint(5)) }, ErrType, "ifHCOutOctets.23"},
		{"status out of range", func(a *fakeAgent) { a.put(ifOperStatus.oid().at(bad), gosnmp.Integer, 99) }, ErrType, "ifOperStatus.23"},
		{"genErr with index", func(a *fakeAgent) {
			a.status = func(req *gosnmp.SnmpPacket) (gosnmp.SNMPError, uint8) {
				for i, v := range req.Variables {
					if req.PDUType == gosnmp.GetRequest && v.Name == ifHCOutOctets.oid().at(bad).dotted() {
						return gosnmp.GenErr, uint8(i + 1)
					}
				}
				if req.PDUType == gosnmp.GetBulkRequest && !strings.HasPrefix(req.Variables[0].Name, ifName.oid().dotted()) {
					return gosnmp.GenErr, 0
				}
				return 0, 0
			}
		}, &StatusError{}, "GenErr"},
		{"genErr without index", func(a *fakeAgent) {
			a.status = func(req *gosnmp.SnmpPacket) (gosnmp.SNMPError, uint8) {
				for _, v := range req.Variables {
					if v.Name == ifHCOutOctets.oid().at(bad).dotted() {
						return gosnmp.GenErr, 0
					}
				}
				return 0, 0
			}
		}, &StatusError{}, "GenErr"},
		{"authorizationError", func(a *fakeAgent) {
			a.status = func(req *gosnmp.SnmpPacket) (gosnmp.SNMPError, uint8) {
				for i, v := range req.Variables {
					if v.Name == ifHCOutOctets.oid().at(bad).dotted() {
						return gosnmp.AuthorizationError, uint8(i + 1)
					}
				}
				return 0, 0
			}
		}, &StatusError{}, "allow this"},
		{"(64-bit only) another object in its place", func(a *fakeAgent) {
			a.edit = func(_, answer *gosnmp.SnmpPacket) {
				for i := range answer.Variables {
					if answer.Variables[i].Name == ifHCOutOctets.oid().at(bad).dotted() {
						answer.Variables[i] = a.get(ifHCOutOctets.oid().at(bad + 1).dotted())
					}
				}
			}
		}, ErrMissing, "another object"},
		{"(64-bit only) null", func(a *fakeAgent) {
			a.edit = func(_, answer *gosnmp.SnmpPacket) {
				for i := range answer.Variables {
					if answer.Variables[i].Name == ifHCOutOctets.oid().at(bad).dotted() {
						answer.Variables[i].Type, answer.Variables[i].Value = gosnmp.Null, nil
					}
				}
			}
		}, ErrType, "ifHCOutOctets.23"},
		{"(64-bit only) a value that cannot be decoded", func(a *fakeAgent) {
			a.send = func(_ int, req *gosnmp.SnmpPacket, msg []byte) [][]byte {
				// Turn the Counter64 into a Counter32 of eight bytes.
				name := ifHCOutOctets.oid().at(bad).encode(nil)
				if at := strings.Index(string(msg), string(name)); at >= 0 && msg[at+len(name)] == byte(gosnmp.Counter64) {
					msg[at+len(name)] = byte(gosnmp.TimeTicks)
				}
				return [][]byte{msg}
			}
		}, ErrType, "decoded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, when := range []string{"from the start", "first reading", "settled"} {
				a := newAgent(t)
				ports := a.many(n)
				a.set(bad, fakePort{name: "swp23", octets: 1 << 50, ucast: 7, mbps: 1000})
				s := open(t, a.config(ports...))
				switch when {
				case "first reading":
					mustRead(t, s)
				case "settled":
					for !s.settled {
						mustRead(t, s)
					}
				}
				a.with(func() { tt.fault(a) })
				if when == "from the start" && strings.HasPrefix(tt.name, "(") {
					continue // ifOutOctets is read instead, which is right
				}
				for round := range 12 {
					for i, smp := range read(t, s) {
						if i != bad-1 {
							if smp.Err != nil || smp.Octets != 1000*uint64(i+1) {
								t.Fatalf("%s, reading %d: port %s suffers: %+v", when, round, smp.Port, smp)
							}
							continue
						}
						if smp.Err == nil || smp.Octets != 0 {
							t.Fatalf("%s, reading %d: %+v", when, round, smp)
						}
						var status *StatusError
						if _, ok := tt.want.(*StatusError); ok && !errors.As(smp.Err, &status) || !ok && !errors.Is(smp.Err, tt.want) {
							t.Errorf("%s, reading %d: %v, want %v", when, round, smp.Err, tt.want)
						}
						if !strings.Contains(smp.Err.Error(), tt.text) || !strings.Contains(smp.Err.Error(), "device leaf1: port swp23") {
							t.Errorf("%s, reading %d: %v, want %q in it", when, round, smp.Err, tt.text)
						}
					}
				}
				// It costs the others nothing more.
				before := 0
				a.with(func() { before = a.requests })
				read(t, s)
				a.with(func() {
					if got := a.requests - before; got > len(s.plan.full)+1 {
						t.Errorf("%s: %d requests for a plan of %d: the port should be asked alone", when, got, len(s.plan.full))
					}
				})
				// The fault goes away.
				a.with(func() { a.status, a.edit, a.send = nil, nil, nil })
				a.set(bad, fakePort{name: "swp23", octets: 1 << 50, ucast: 7, mbps: 1000})
				s.surveyed = s.surveyed.Add(-lookAgain)
				mustRead(t, s)
			}
		})
	}
}

func TestTooBig(t *testing.T) {
	for _, most := range []int{200, 100, 64, 30, 12} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			a := newAgent(t)
			tooBig := 0
			a.status = func(req *gosnmp.SnmpPacket) (gosnmp.SNMPError, uint8) {
				if len(req.Variables) > most || req.PDUType == gosnmp.GetBulkRequest && len(req.Variables)*int(req.MaxRepetitions) > most {
					tooBig++
					return gosnmp.TooBig, 0
				}
				return 0, 0
			}
			s := open(t, a.config(a.many(80)...))
			for range 20 {
				for i, smp := range mustRead(t, s) {
					if smp.Octets != 1000*uint64(i+1) {
						t.Fatalf("%+v", smp)
					}
				}
			}
			before := 0
			a.with(func() { before = tooBig })
			for range growAtFirst + 5 {
				mustRead(t, s)
			}
			a.with(func() {
				if tooBig != before {
					t.Errorf("the agent still has to say tooBig: %d times", tooBig-before)
				}
			})
		})
	}
}

// Truncated answers: fewer bindings than asked for, as GetBulk allows and some
// agents do to Get.
func TestPartialAnswers(t *testing.T) {
	a := newAgent(t)
	a.edit = func(_, answer *gosnmp.SnmpPacket) {
		answer.Variables = answer.Variables[:min(len(answer.Variables), 40)]
	}
	s := open(t, a.config(a.many(60)...))
	for range 10 {
		for i, smp := range mustRead(t, s) {
			if smp.Octets != 1000*uint64(i+1) {
				t.Fatalf("%+v", smp)
			}
		}
	}
	if s.limit > 64 {
		t.Errorf("limit %d: it should have become smaller", s.limit)
	}
	// One binding only, and it is sysUpTime: no port can be read, and none is 0.
	a.with(func() {
		a.edit = func(_, answer *gosnmp.SnmpPacket) { answer.Variables = answer.Variables[:1] }
	})
	for _, smp := range read(t, s) {
		if !errors.Is(smp.Err, ErrMissing) {
			t.Errorf("%+v", smp)
		}
	}
	// More than was asked for is no answer to the question.
	a.with(func() {
		a.edit = func(_, answer *gosnmp.SnmpPacket) {
			answer.Variables = append(answer.Variables, answer.Variables[0])
		}
	})
	for _, smp := range read(t, s) {
		if !errors.Is(smp.Err, ErrMalformed) {
			t.Errorf("%+v", smp)
		}
	}
}

// Damaged datagrams cost a retry and never a wrong value.
func TestDamagedDatagrams(t *testing.T) {
	damage := map[string]func(rng *rand.Rand, msg []byte) []byte{
		"truncated": func(rng *rand.Rand, msg []byte) []byte { return msg[:rng.IntN(len(msg))] },
		"longer":    func(rng *rand.Rand, msg []byte) []byte { return append(msg, 0) },
		"not SNMP":  func(rng *rand.Rand, msg []byte) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") },
		"wrong version": func(rng *rand.Rand, msg []byte) []byte {
			msg[strings.Index(string(msg), "\x02\x01\x01")+2] = 0
			return msg
		},
		"empty":        func(rng *rand.Rand, msg []byte) []byte { return nil },
		"inner length": func(rng *rand.Rand, msg []byte) []byte { msg[len(msg)/2] ^= 0x40; return msg },
		"zero request-id": func(rng *rand.Rand, msg []byte) []byte {
			at, _ := requestIDLoose(msg)
			clear(msg[at : at+4])
			return msg
		},
	}
	for name, f := range damage {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t)
			rng := rand.New(rand.NewPCG(3, 4))
			cfg := a.config(a.many(40)...)
			cfg.Timeout = 20 * time.Millisecond
			s := open(t, cfg)
			mustRead(t, s)
			a.with(func() {
				a.send = func(n int, _ *gosnmp.SnmpPacket, msg []byte) [][]byte {
					if n%2 == 0 {
						msg = f(rng, msg)
					}
					return [][]byte{msg}
				}
			})
			good := 0
			for range 6 {
				list, err := s.Read(t.Context(), nil)
				if err != nil && !errors.Is(err, ErrNoAnswer) && !errors.Is(err, ErrMalformed) {
					t.Fatal(err)
				}
				for i, smp := range list {
					if smp.Err == nil {
						good++
						if name != "inner length" && smp.Octets != 1000*uint64(i+1) {
							t.Fatalf("%+v", smp)
						}
					}
				}
			}
			if good < 100 {
				t.Errorf("only %d of 240 readings in spite of retries", good)
			}
		})
	}
}

func requestIDLoose(msg []byte) (int, bool) {
	b := ber(msg)
	body, _ := b.expect(0x30)
	b = body
	b.integer()
	b.next()
	_, inner, ok := b.next()
	return len(msg) - len(inner) + 2, ok
}

// Loss, duplication and late answers on the path: readings are right or errors,
// and the time of a reading is that of the exchange it came from.
func TestPath(t *testing.T) {
	tests := []struct {
		name string
		send func(rng *rand.Rand) func(n int, req *gosnmp.SnmpPacket, msg []byte) [][]byte
	}{
		{"a fifth is lost", func(rng *rand.Rand) func(int, *gosnmp.SnmpPacket, []byte) [][]byte {
			return func(_ int, _ *gosnmp.SnmpPacket, msg []byte) [][]byte {
				if rng.IntN(5) == 0 {
					return nil
				}
				return [][]byte{msg}
			}
		}},
		{"all twice", func(*rand.Rand) func(int, *gosnmp.SnmpPacket, []byte) [][]byte {
			return func(_ int, _ *gosnmp.SnmpPacket, msg []byte) [][]byte { return [][]byte{msg, msg} }
		}},
		{"answers come one request late", func(rng *rand.Rand) func(int, *gosnmp.SnmpPacket, []byte) [][]byte {
			var held []byte
			return func(_ int, _ *gosnmp.SnmpPacket, msg []byte) [][]byte {
				out := [][]byte{}
				if held != nil {
					out = append(out, held)
					held = nil
				}
				if rng.IntN(4) == 0 {
					held = msg
				} else {
					out = append(out, msg)
				}
				return out
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAgent(t)
			cfg := a.config(a.many(40)...)
			cfg.Timeout = 20 * time.Millisecond
			cfg.Retries = 4
			s := open(t, cfg)
			stamp := uint64(0) // the agent counts requests in the octets
			a.with(func() {
				a.send = tt.send(rand.New(rand.NewPCG(5, 6)))
				a.before = func(n int, _ *gosnmp.SnmpPacket) {
					stamp = uint64(n)
					a.put(ifHCOutOctets.oid().at(1), gosnmp.Counter64, stamp)
				}
			})
			last := uint64(0)
			good := 0
			for range 30 {
				list, err := s.Read(t.Context(), nil)
				if err != nil {
					if !errors.Is(err, ErrNoAnswer) {
						t.Fatal(err)
					}
					continue
				}
				for i, smp := range list {
					switch {
					case smp.Err != nil:
					case i == 0:
						if smp.Octets <= last {
							t.Errorf("an old answer was taken for a new one: %d after %d", smp.Octets, last)
						}
						last = smp.Octets
						if r := s.Readings(nil)[0]; r.Received.Sub(r.Sent) > 20*time.Millisecond {
							t.Errorf("exchange took %v: that is more than one try", r.Received.Sub(r.Sent))
						}
						fallthrough
					default:
						good++
						if i > 0 && smp.Octets != 1000*uint64(i+1) {
							t.Errorf("%+v", smp)
						}
					}
				}
			}
			if good < 1100 {
				t.Errorf("only %d of 1200 readings in spite of retries", good)
			}
			if s.limit < firstOIDs {
				t.Errorf("limit %d: loss that hits small PDUs alike is no reason for smaller ones", s.limit)
			}
		})
	}
}

// Large answers are lost, as where fragments are dropped; small ones are not.
func TestLostFragments(t *testing.T) {
	a := newAgent(t)
	a.send = func(_ int, _ *gosnmp.SnmpPacket, msg []byte) [][]byte {
		if len(msg) > 1472 {
			return nil
		}
		return [][]byte{msg}
	}
	cfg := a.config(a.many(100)...)
	cfg.Timeout = 20 * time.Millisecond
	s := open(t, cfg)
	for range 12 {
		for _, smp := range read(t, s) {
			if smp.Err != nil {
				t.Fatal(smp.Err)
			}
		}
	}
}

func TestSilentAgent(t *testing.T) {
	a := newAgent(t)
	s := open(t, a.config(a.many(60)...))
	mustRead(t, s)
	t.Run("wrong community", func(t *testing.T) {
		cfg := a.config("swp1")
		cfg.Community, cfg.Timeout, cfg.Retries = "pr1vate!", 10*time.Millisecond, 1
		_, err := open(t, cfg).Read(t.Context(), nil)
		if !errors.Is(err, ErrNoAnswer) {
			t.Fatal(err)
		}
		for _, want := range []string{"device leaf1", "127.0.0.1:", "2 tries of 10ms", "community"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q lacks %q", err, want)
			}
		}
		if strings.Contains(err.Error(), "pr1vate!") {
			t.Errorf("%q tells the community", err)
		}
	})
	t.Run("silent in the middle", func(t *testing.T) {
		first := 0
		a.with(func() {
			first = a.requests + 1
			a.send = func(n int, _ *gosnmp.SnmpPacket, msg []byte) [][]byte {
				if n > first {
					return nil
				}
				return [][]byte{msg}
			}
		})
		good := 0
		for i, smp := range read(t, s) {
			switch {
			case smp.Err == nil:
				good++
				if smp.Octets != 1000*uint64(i+1) {
					t.Errorf("%+v", smp)
				}
			case !errors.Is(smp.Err, ErrNoAnswer):
				t.Errorf("%v", smp.Err)
			}
		}
		if good == 0 || good > 40 {
			t.Errorf("%d ports were read by one PDU", good)
		}
	})
	t.Run("silent altogether, and back", func(t *testing.T) {
		a.with(func() { a.send = func(int, *gosnmp.SnmpPacket, []byte) [][]byte { return nil } })
		if list, err := s.Read(t.Context(), nil); !errors.Is(err, ErrNoAnswer) || len(list) != 0 {
			t.Errorf("%d samples, %v", len(list), err)
		}
		a.with(func() { a.send = nil })
		mustRead(t, s)
	})
	t.Run("nobody listens", func(t *testing.T) {
		conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		cfg := a.config("swp1")
		cfg.Port = uint16(conn.LocalAddr().(*net.UDPAddr).Port)
		cfg.Timeout = time.Minute // the kernel tells at once
		conn.Close()
		if _, err := open(t, cfg).Read(t.Context(), nil); !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%v", err)
		}
	})
}

func TestRecheck(t *testing.T) {
	a, c := newAgent(t), newClock()
	cfg := a.config(a.many(50)...)
	cfg.Recheck, cfg.Now = 10*time.Second, c.now
	s := open(t, cfg)
	for !s.settled {
		c.advance(11 * time.Second)
		mustRead(t, s)
	}
	count := func() int {
		n := 0
		a.with(func() {
			a.before = func(_ int, req *gosnmp.SnmpPacket) { n += len(req.Variables) }
		})
		mustRead(t, s)
		a.with(func() { a.before = nil })
		return n
	}
	c.advance(11 * time.Second)
	full := count()
	c.advance(time.Second)
	lean := count()
	if s.plan.shape.bulk {
		full, lean = 1, 0 // the requests do not tell
	}
	if 2*lean > full+20 {
		t.Errorf("%d bindings without names, %d with", lean, full)
	}
	// A link that goes down is seen once it is time ...
	down := numbered(4)
	down.oper = 2
	a.set(4, down)
	if c.advance(time.Second); !mustRead(t, s)[3].Up {
		t.Error("link down is seen early: the test does not test what it should")
	}
	if c.advance(10 * time.Second); mustRead(t, s)[3].Up {
		t.Error("link down is not seen after Recheck")
	}
	// ... and at once with a change of the table.
	a.set(4, numbered(4))
	a.scalar(ifTableLastChange, 77)
	if c.advance(time.Second); !mustRead(t, s)[3].Up {
		t.Error("the table changed and the status was not read")
	}
	// Without ifTableLastChange there is no guard, and so all is read always.
	a.with(func() { a.drop(ifTableLastChange.at(0)) })
	bare := open(t, cfg)
	mustRead(t, bare)
	a.set(4, down)
	if mustRead(t, bare)[3].Up {
		t.Error("Recheck without ifTableLastChange: link down is not seen")
	}
}

func TestDiscards(t *testing.T) {
	type step struct {
		octets, packets  uint64 // sent in this step, as the agent counts
		discards, errors uint32
		want             uint64 // packets of the step, as sampled
		degraded         bool
	}
	tests := []struct {
		name  string
		rule  Discards
		found Discards
		kind  fakePort
		steps []step
	}{
		{"none", DiscardsLearn, DiscardsLearn, fakePort{}, []step{{1000, 10, 0, 0, 10, false}}},
		{"unknown: the safe side, and said so", DiscardsLearn, DiscardsLearn, fakePort{}, []step{
			{100_000, 100, 7, 0, 100, true}, {100_000, 100, 0, 0, 100, false}, {100_000, 100, 0, 3, 100, true}}},
		{"told: included", DiscardsIncluded, DiscardsIncluded, fakePort{}, []step{
			{90_000, 100, 7, 3, 90, false}, {90_000, 100, 0, 0, 100, false}}},
		{"told: included, discards seen before their packets", DiscardsIncluded, DiscardsIncluded, fakePort{}, []step{
			{0, 0, 10, 0, 0, false}, {9000, 100, 0, 0, 90, false}}},
		{"told: excluded", DiscardsExcluded, DiscardsExcluded, fakePort{}, []step{{100_000, 100, 7, 0, 100, false}}},
		{"proof: more discards than packets", DiscardsLearn, DiscardsExcluded, fakePort{}, []step{
			{1000, 10, 500, 0, 10, true}, {1000, 10, 500, 0, 10, true}, {1000, 10, 500, 0, 10, false}}},
		{"proof: fewer octets than packets need", DiscardsLearn, DiscardsIncluded, fakePort{}, []step{
			{6400, 200, 100, 0, 200, true}, {6400, 200, 100, 0, 200, true}, {6400, 200, 100, 0, 200, true}, {6400, 200, 100, 0, 100, false}}},
		{"reset of the discard counter", DiscardsIncluded, DiscardsIncluded, fakePort{discards: 5000}, []step{
			{90_000, 100, 1<<32 - 4000, 0, 100, false}, {90_000, 100, 4, 0, 96, false}}},
		{"wrap of the discard counter", DiscardsIncluded, DiscardsIncluded, fakePort{discards: math.MaxUint32}, []step{
			{90_000, 100, 4, 0, 96, false}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAgent(t)
			p := tt.kind
			p.name, p.octets, p.ucast, p.mbps = "swp1", 1<<40, 1<<40, 10_000
			a.set(1, p)
			cfg := a.config("swp1")
			cfg.Discards = tt.rule
			s := open(t, cfg)
			last := mustRead(t, s)[0].Packets
			for i, st := range tt.steps {
				p.octets += st.octets
				p.ucast += st.packets
				p.discards += st.discards
				p.errors += st.errors
				a.set(1, p)
				got := mustRead(t, s)[0]
				if got.Packets-last != st.want || (got.Degraded != "") != st.degraded {
					t.Errorf("step %d: %d packets (%q), want %d", i, int64(got.Packets-last), got.Degraded, st.want)
				}
				last = got.Packets
			}
			if got := s.Info().Discards; got != tt.found {
				t.Errorf("learnt %v, want %v", got, tt.found)
			}
		})
	}
	t.Run("not shown", func(t *testing.T) {
		a := newAgent(t)
		a.many(1)
		a.with(func() { a.drop(ifOutDiscards.oid().at(1)) })
		if got := mustRead(t, open(t, a.config("swp1")))[0]; got.Degraded != dropsUnshown {
			t.Errorf("%+v", got)
		}
	})
	t.Run("no multicast counters", func(t *testing.T) {
		a := newAgent(t)
		a.many(1)
		a.with(func() {
			for _, c := range []column{ifHCOutMulticastPkts, ifOutMulticastPkts, ifOutNUcastPkts} {
				a.drop(c.oid().at(1))
			}
		})
		if got := mustRead(t, open(t, a.config("swp1")))[0]; !strings.Contains(got.Degraded, "multicast") || got.Packets != 1 {
			t.Errorf("%+v", got)
		}
	})
}
