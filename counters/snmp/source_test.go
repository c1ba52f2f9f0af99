package snmp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/memnet"
)

func TestRead(t *testing.T) {
	t.Parallel()
	const tera = 1 << 40
	tests := []struct {
		name string
		port fakePort
		want counters.Sample
	}{
		{"64 bits", fakePort{octets: 5 * tera, ucast: 1 << 33, mcast: 20, bcast: 3, mbps: 100_000},
			counters.Sample{Octets: 5 * tera, Packets: 1<<33 + 23, Speed: 100e9, Bits: 64}},
		{"64-bit octets, 32-bit packets", fakePort{octets: 5 * tera, ucast: 10, mcast: 20, bcast: 3, mbps: 100, narrowPkts: true},
			counters.Sample{Octets: 5 * tera, Packets: 33, Speed: 100e6, Bits: 64}},
		{"32 bits", fakePort{octets: 7777, ucast: 10, mcast: 20, bcast: 3, mbps: 10, narrow: true},
			counters.Sample{Octets: 7777, Packets: 33, Speed: 10e6, Bits: 32}},
		{"1.6 Tbit/s", fakePort{octets: 1, ucast: 1, mbps: 1_600_000},
			counters.Sample{Octets: 1, Packets: 1, Speed: 1.6e12, Bits: 64}},
		{"link down", fakePort{octets: 9, ucast: 1, mbps: 1000, oper: 2},
			counters.Sample{Octets: 9, Packets: 1, Speed: 1e9, Bits: 64}},
		{"lower layer down", fakePort{octets: 9, ucast: 1, mbps: 1000, oper: 7},
			counters.Sample{Octets: 9, Packets: 1, Speed: 1e9, Bits: 64}},
		{"speed unknown", fakePort{octets: 9, ucast: 1},
			counters.Sample{Octets: 9, Packets: 1, Bits: 64}},
		{"status unknown", fakePort{octets: 9, ucast: 1, mbps: 1000, oper: 4},
			counters.Sample{Octets: 9, Packets: 1, Speed: 1e9, Bits: 64, Up: true, Degraded: "status"}},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			a := newAgent(t)
			tt.port.name = "swp1"
			a.set(17, tt.port)
			s := open(t, a.config("swp1"))
			before := time.Now()
			got := mustRead(t, s)[0]
			if got.At.Before(before) || got.At.After(time.Now()) {
				t.Errorf("timestamp %v is not within the reading", got.At)
			}
			tt.want.Up = tt.want.Up || tt.port.oper == 0
			tt.want.Port, tt.want.At, tt.want.Overhead, tt.want.Epoch = "swp1", got.At, 20, got.Epoch
			if !strings.Contains(got.Degraded, tt.want.Degraded) || (got.Degraded == "") != (tt.want.Degraded == "") {
				t.Errorf("degraded %q, want %q", got.Degraded, tt.want.Degraded)
			}
			got.Degraded, tt.want.Within = tt.want.Degraded, got.Within
			if got != tt.want {
				t.Errorf("\ngot  %+v\nwant %+v", got, tt.want)
			}
			p := &s.ports[0]
			if p.index != 17 || s.uptime.ticks != 100_000 || p.sent.After(got.At) || p.received.Before(got.At) || got.Within != p.received.Sub(p.sent)/2 || got.Within <= 0 {
				t.Errorf("reading %+v", p)
			}
		})
	}
}

func TestAgentWithoutIfXTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		a.set(2, fakePort{name: "Ethernet0/1", octets: 4242, ucast: 5, mcast: 6, bcast: 7, mbps: 100, v1: true})
		got := mustRead(t, open(t, a.config("Ethernet0/1")))[0]
		if got.Octets != 4242 || got.Packets != 18 || got.Bits != 32 || got.Speed != 100e6 || !got.Up || got.Degraded != "" {
			t.Errorf("%+v", got)
		}
	})
}

// An ifSpeed that cannot hold the speed says nothing of it where there is no ifHighSpeed: the port can be
// read, and its speed configured. It is read again when it is less.
func TestSaturatedSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		port := fakePort{name: "swp1", octets: 9, ucast: 1, mbps: 10_000, narrow: true}
		set := func(mbps uint32) {
			port.mbps = mbps
			a.set(17, port)
			a.mu.Lock()
			a.drop(ifHighSpeed.oid().at(17))
			a.mu.Unlock()
		}
		set(10_000)
		s := open(t, a.config("swp1"))
		for _, step := range []struct {
			mbps uint32
			want uint64
		}{{10_000, 0}, {100, 100e6}, {10_000, 0}} {
			set(step.mbps)
			if got := mustRead(t, s)[0]; got.Err != nil || got.Speed != step.want {
				t.Errorf("%d Mbit/s: speed %d, %v; want %d", step.mbps, got.Speed, got.Err, step.want)
			}
		}
	})
}

func TestStuckWideCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		a.set(1, fakePort{name: "vlan7", octets: 5000, ucast: 1, mbps: 100})
		a.with(func() { a.put(ifHCOutOctets.oid().at(1), gosnmp.Counter64, uint64(0)) })
		if got := mustRead(t, open(t, a.config("vlan7")))[0]; got.Octets != 5000 || got.Bits != 32 {
			t.Errorf("%+v: the 64-bit counter does not count, the 32-bit one does", got)
		}
	})
}

// A 64-bit column that has never moved proves nothing: the 32-bit one is read beside it
// until it does.
func TestWideCounterThatNeverCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, first := range []uint64{0, 7} { // what both say at first
			a := newAgent(t)
			frames := func(n uint64, wide bool) {
				a.set(1, fakePort{name: "swp1", octets: first + 1000*n, ucast: n, mbps: 1000})
				a.set(2, fakePort{name: "swp2", octets: 1000 * n, ucast: n, mbps: 1000})
				if !wide {
					a.with(func() {
						a.put(ifHCOutOctets.oid().at(1), gosnmp.Counter64, first)
						a.put(ifHCOutUcastPkts.oid().at(1), gosnmp.Counter64, uint64(0))
					})
				}
			}
			frames(0, false)
			s := open(t, a.config("swp1", "swp2"))
			if got := mustRead(t, s); got[0].Bits != 64 || got[0].Octets != first {
				t.Fatalf("%+v", got[0])
			}
			refresh := counters.NewRefresh(counters.RefreshConfig{})
			est := counters.NewEstimator(counters.EstimatorConfig{})
			errs := 0
			var last counters.Sample
			for n := uint64(100); n <= 800; n += 100 {
				frames(n, false)
				list := read(t, s)
				if list[1].Err != nil || list[1].Octets != 1000*n || list[1].Bits != 64 {
					t.Fatalf("%+v", list[1])
				}
				refresh.Observe(list)
				last = list[0]
				if e := est.Update(last); e.State == counters.OK && e.Bits < 8*100_000 {
					t.Errorf("after %d frames: %d bits from %+v", n, e.Bits, last)
				}
				if errors.Is(last.Err, ErrStill) {
					errs++
				}
			}
			if errs != stillRounds {
				t.Errorf("%d readings showed it", errs)
			}
			if last.Err != nil || last.Bits != 32 || last.Octets != first+800_000 || last.Packets != 800 {
				t.Errorf("%+v", last)
			}
		}
	})
}

// Where no 64-bit counter of the device counts, that takes longer to be sure of: the
// tables may be refreshed at different times.
func TestNoWideCounterCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		frames := func(n, wide uint64) {
			a.set(1, fakePort{name: "swp1", octets: 1000 * n, ucast: n, mbps: 1000})
			a.with(func() { a.put(ifHCOutOctets.oid().at(1), gosnmp.Counter64, wide) })
		}
		for _, cached := range []bool{true, false} {
			frames(1, 7)
			cfg := a.config("swp1")
			s := open(t, cfg)
			mustRead(t, s)
			var last counters.Sample
			for n := uint64(1); n < 14; n++ {
				time.Sleep(10 * time.Second)
				if frames(n, 7); cached && n > 4 {
					frames(n, 1000*n) // as the refresh of its table shows
				}
				if last = read(t, s)[0]; (n < 8 || cached) && (last.Err != nil || last.Bits != 64) {
					t.Errorf("cached %v, after %d readings: %+v", cached, n, last)
				}
			}
			if !cached && (last.Err != nil || last.Bits != 32 || last.Octets != 13_000) {
				t.Errorf("%+v", last)
			}
		}
	})
}

// An idle port keeps its witness, and a busy one loses it: the column costs something.
func TestWitnessIsDismissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		ports := a.many(3)
		s := open(t, a.config(ports...))
		mustRead(t, s)
		for i := range uint32(3) {
			if !s.ports[i].need.has(ifOutOctets) {
				t.Fatalf("no witness, but swp%d has not moved", i+1)
			}
			p := numbered(i + 1)
			p.octets, p.ucast = p.octets+500, p.ucast+1
			a.set(i+1, p)
			for _, smp := range mustRead(t, s) {
				if smp.Bits != 64 {
					t.Fatalf("%+v", smp)
				}
			}
		}
		for range 3 {
			mustRead(t, s)
		}
		for _, p := range s.ports {
			if p.need.has(ifOutOctets) {
				t.Errorf("%s counts, and its 32-bit octets are still read", p.name)
			}
		}
	})
}

func TestRecognisedAgents(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, descr, object string
		set                 uint8
		want                uint8
		cache               time.Duration
	}{
		{"a switch", "Some NOS 1.2", ".1.3.6.1.4.1.30065.1.3011", 0, 20, 0},
		{"net-snmp on Linux", "Linux r1 6.1.0 x86_64", ".1.3.6.1.4.1.8072.3.2.10", 0, 24, 3 * time.Second},
		{"hardware counters behind net-snmp", "SONiC Software Version: SONiC.202405", ".1.3.6.1.4.1.8072.3.2.10", 0, 20, 5 * time.Second},
		{"another agent on Linux", "Linux", ".1.3.6.1.4.1.9999.1", 0, 20, 0},
		{"configured", "Linux r1", ".1.3.6.1.4.1.8072.3.2.10", 22, 22, 3 * time.Second},
		{"net-snmp elsewhere", "FreeBSD r1 14.1", ".1.3.6.1.4.1.8072.3.2.8", 0, 20, 3 * time.Second},
		{"NX-OS", "Cisco NX-OS(tm) n9000, Software (n9000-dk9), Version 10.2(3)", ".1.3.6.1.4.1.9.12.3.1.3.1812", 0, 20, 10 * time.Second},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			a := newAgent(t)
			a.with(func() {
				a.put(sysDescr.at(0), gosnmp.OctetString, []byte(tt.descr))
				a.put(sysObjectID.at(0), gosnmp.ObjectIdentifier, tt.object)
			})
			cfg := a.config(a.many(1)...)
			cfg.Overhead = tt.set
			s := open(t, cfg)
			got := mustRead(t, s)[0]
			if got.Overhead != tt.want || got.Cache != tt.cache || (got.Lag == time.Second) != (tt.cache == 5*time.Second) {
				t.Errorf("overhead %d, want %d; cache %v, want %v", got.Overhead, tt.want, got.Cache, tt.cache)
			}
		})
	}
}

// However many ports there are, each is read.
func TestNumbersOfPorts(t *testing.T) {
	for _, n := range []int{1, 2, 17, 18, 19, 200} {
		bubble(t, fmt.Sprint(n, " ports"), func(t *testing.T) {
			a := newAgent(t)
			s := open(t, a.config(a.many(n)...))
			for range 3 {
				for i, smp := range mustRead(t, s) {
					if smp.Octets != 1000*uint64(i+1) || smp.Packets != uint64(i+6) {
						t.Fatalf("port %d: %+v", i, smp)
					}
				}
			}
			if details, _ := s.Details(); details[1] != "Get, up to 128 bindings a PDU" {
				t.Errorf("%q", details)
			}
			a.with(func() {
				if a.most > firstOIDs {
					t.Errorf("a request of %d bindings", a.most)
				}
			})
		})
	}
}

// silentAgent is one that answers nothing, and a Source's configuration for it.
func silentAgent(t *testing.T, version Version) (net.PacketConn, Config) {
	var network memnet.Packets
	silent, err := network.Listen("192.0.2.1:161")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Address: "192.0.2.1", Dial: network.Dial, Version: version, Community: "public", Timeout: time.Minute, Ports: []string{"swp1"}}
	if version == V3 {
		cfg.Community, cfg.User = "", "u"
	}
	return silent, cfg
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for _, version := range []Version{V2c, V3} {
		bubble(t, string(version), func(t *testing.T) {
			silent, cfg := silentAgent(t, version)
			s := open(t, cfg)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				_, _, _ = silent.ReadFrom(make([]byte, 2000)) // the request is on its way
				cancel()
			}()
			start := time.Now()
			list, err := s.Read(ctx, nil)
			if !errors.Is(err, context.Canceled) || len(list) != 0 || time.Since(start) != 0 {
				t.Errorf("%v after %v, %d samples", err, time.Since(start), len(list))
			}
		})
	}
}

// A cancellation that comes just before the wait begins is not lost.
func TestCancelBeforeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, version := range []Version{V2c, V3} {
			_, cfg := silentAgent(t, version)
			s := open(t, cfg)
			ctx, cancel := context.WithCancel(t.Context())
			done, err := s.arm(ctx)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			done() // the interruption has happened
			start := time.Now()
			p := identity()
			if err := s.sess.prepare(p); err != nil {
				t.Fatal(err)
			}
			if err := s.sess.exchange(ctx, p, &s.answer); !errors.Is(err, context.Canceled) || time.Since(start) != 0 {
				t.Errorf("%v: %v after %v", version, err, time.Since(start))
			}
		}
	})
}

func TestDeadlineOfContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		a.with(func() { a.send = func(int, *gosnmp.SnmpPacket, []byte) [][]byte { return nil } })
		cfg := a.config("swp1")
		cfg.Timeout = time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if _, err := open(t, cfg).Read(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// A reading that was cancelled leaves nothing behind that spoils the next one.
func TestReadAfterCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		s := open(t, a.config(a.many(30)...))
		mustRead(t, s)
		for k := range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			a.with(func() {
				a.before = func(int, *gosnmp.SnmpPacket) {
					if k%2 == 0 {
						cancel()
					}
				}
			})
			list, err := s.Read(ctx, nil)
			if err == nil && len(list) != 30 || err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%d samples, %v", len(list), err)
			}
			cancel()
			a.with(func() { a.before = nil })
			for i, smp := range mustRead(t, s) {
				if smp.Octets != 1000*uint64(i+1) {
					t.Fatalf("%+v", smp)
				}
			}
		}
	})
}

func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		s := open(t, a.config(a.many(1)...))
		mustRead(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.Read(t.Context(), nil); err == nil {
			t.Error("Read after Close succeeds")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		for i, name := range []string{"eth1", "eth2", "eth3", "eth4", "bond0", "bond1"} {
			a.set(uint32(i+1), fakePort{name: name, mbps: 1000})
		}
		a.with(func() {
			for port, group := range map[uint32]int{1: 5, 2: 5, 3: 0, 4: 6, 6: 6} {
				a.put(dot3adAggPortAttachedAggID.at(port), gosnmp.Integer, group)
			}
		})
		s := open(t, a.config("bond0"))
		got, err := s.Members(t.Context())
		if want := "map[bond0:[eth1 eth2] bond1:[eth4]]"; err != nil || fmt.Sprint(got) != want {
			t.Errorf("%v, %v, want %s", got, err, want)
		}
		mustRead(t, s)

		none := newAgent(t)
		none.many(2)
		if got, err := open(t, none.config("swp1")).Members(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("agent without the table: %v, %v", got, err)
		}
	})
}

// In the steady state a reading costs a few allocations for the cancellation,
// and none a port.
func TestReadAllocations(t *testing.T) {
	for _, n := range []int{16, 256} {
		a := newAgent(t)
		s := open(t, a.config(a.many(n)...))
		var dst []counters.Sample
		dst = mustRead(t, s)
		// The agent runs in this process too: it must not count. Its
		// answers are replayed by a session without a socket.
		play := record(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		allocs := testing.AllocsPerRun(20, func() {
			var err error
			if dst, err = s.Read(ctx, dst); err != nil || dst[n-1].Err != nil {
				t.Fatal(err, dst[n-1].Err)
			}
		})
		if allocs > 8 {
			t.Errorf("%d ports: %v allocations a reading", n, allocs)
		}
		if play.asked == 0 {
			t.Error("nothing was read")
		}
	}
}

// player is a session that gives recorded answers.
type player struct {
	session
	live    bool
	answers map[*pdu][]byte
	asked   int
}

// record makes s replay the answers of its next reading for ever.
func record(t testing.TB, s *Source) *player {
	pl := &player{session: s.sess, live: true, answers: map[*pdu][]byte{}}
	s.sess = pl
	mustRead(t, s)
	pl.live = false
	return pl
}

func (p *player) exchange(ctx context.Context, q *pdu, a *answer) error {
	v := p.session.(*v2c)
	if p.live {
		if err := v.exchange(ctx, q, a); err != nil {
			return err
		}
		// The datagram is still in the buffer; the outer length says how long.
		b := ber(v.buf)
		b.next()
		p.answers[q] = append([]byte(nil), v.buf[:len(v.buf)-len(b)]...)
		return nil
	}
	p.asked++
	a.sent, a.received = time.Unix(5, 0), time.Unix(5, 1)
	msg := p.answers[q]
	at, ok := answerID(msg)
	if !ok {
		return ErrNoAnswer
	}
	_, err := a.parse(msg, at, "public")
	return err
}

func answerID(msg []byte) (int32, bool) {
	b := ber(msg)
	body, _ := b.expect(0x30)
	b = body
	b.integer()
	b.next()
	_, body, _ = b.next()
	b = body
	return b.integer()
}
