package snmp

import (
	"math"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters"
)

// What happens to one port's counters between readings a second apart, and what the
// estimator makes of it.
func TestCounterFaults(t *testing.T) {
	t.Parallel()
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
		bubble(t, tt.name, func(t *testing.T) {
			a := newAgent(t)
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
			s := open(t, a.config("swp1"))
			e := counters.NewEstimator(counters.EstimatorConfig{})
			e.Update(mustRead(t, s)[0])
			var est counters.Estimate
			for i, step := range tt.steps {
				time.Sleep(time.Second)
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
	t.Parallel()
	const s, day = time.Second, 24 * time.Hour
	tests := []struct {
		name   string
		ticks  []uint32
		passed []time.Duration
		want   bool // at the last reading
	}{
		{"steady", []uint32{100, 200}, []time.Duration{0, s}, false},
		{"restarted", []uint32{1_000_000, 200}, []time.Duration{0, s}, true},
		{"restarted between two readings, and is older now", []uint32{6000, 60_000}, []time.Duration{0, 30 * time.Minute}, true},
		{"wrap", []uint32{math.MaxUint32 - 50, 49}, []time.Duration{0, s}, false},
		{"restarted just before the wrap", []uint32{math.MaxUint32 - 500_000, 49}, []time.Duration{0, s}, true},
		{"wrap between two readings", []uint32{math.MaxUint32 - 100*3600, 100 * 3600}, []time.Duration{0, 2 * time.Hour}, false},
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
