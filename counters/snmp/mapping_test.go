package snmp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosnmp/gosnmp"
)

// A port that got another ifIndex is found in the same reading, and no reading is
// ever of the port that has its old one.
//
// TestLongRenumbering has thrice as many rounds.
func TestRenumbering(t *testing.T) {
	t.Parallel()
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
	rounds := 10
	if strings.HasPrefix(t.Name(), "TestLong") {
		rounds = 30
	}
	for _, lean := range []time.Duration{0, time.Hour} {
		bubble(t, fmt.Sprint("recheck ", lean), func(t *testing.T) {
			const n = 40
			a := newAgent(t)
			cfg := a.config(a.many(n)...)
			cfg.Recheck = lean
			s := open(t, cfg)
			rng := rand.New(rand.NewPCG(1, 2))
			epochs := make([]uint64, n)
			for round := range rounds {
				// Sometimes between readings, sometimes in the middle of one.
				at := 0
				a.with(func() { // the agent's goroutine draws, too
					if round%3 != 0 {
						at = 1 + rng.IntN(4)
					}
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
// names show.
func TestSwappedPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// The agent goes silent while a port is being looked for: what is half known of
// it is no reading.
func TestLookingUpInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		s := open(t, a.config(a.many(40)...))
		mustRead(t, s)
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
	})
}

func TestLongRenumbering(t *testing.T) { TestRenumbering(t) }

// The agent goes silent while ports are read again because the interfaces changed: no
// port has what was read at its old index.
func TestRenumberingInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 60
		a := newAgent(t)
		cfg := a.config(a.many(n)...)
		cfg.Recheck = time.Hour
		s := open(t, cfg)
		for range 3 {
			mustRead(t, s)
		}
		a.with(func() {
			a.setLocked(n, numbered(n-1))
			a.setLocked(n-1, numbered(n))
			a.put(ifTableLastChange.at(0), gosnmp.TimeTicks, uint32(1000))
			again := 0
			a.send = func(_ int, req *gosnmp.SnmpPacket, msg []byte) [][]byte {
				for i := range req.Variables {
					if strings.HasPrefix(req.Variables[i].Name, ifName.oid().dotted()+".") {
						again++
						break
					}
				}
				if again > 1 {
					return nil
				}
				return [][]byte{msg}
			}
		})
		good := 0
		for i, smp := range read(t, s) {
			if smp.Err != nil {
				continue
			}
			if good++; smp.Octets != 1000*uint64(i+1) {
				t.Errorf("%s has the counters of another port: %+v", smp.Port, smp)
			}
		}
		if good == 0 || good == n {
			t.Errorf("%d ports were read", good)
		}
	})
}

func TestEpochOfMovedPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// net-snmp keeps the row of an interface that was removed for minutes, and a new
// one of the same name gets another row.
func TestRowThatOutlivesItsInterface(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		ports := a.many(2)
		cfg := a.config(ports...)
		s := open(t, cfg)
		mustRead(t, s)
		gone := numbered(1)
		gone.oper = 2
		a.set(1, gone)
		fresh := numbered(1)
		fresh.octets = 77
		a.set(9, fresh)
		a.scalar(ifTableLastChange, 99)
		time.Sleep(2 * time.Second)
		if got := mustRead(t, s)[0]; got.Octets != 77 || !got.Up {
			t.Errorf("%+v: want the row that is up", got)
		}
		// And where it is up twice it cannot be known.
		both := numbered(1)
		a.set(1, both)
		b := open(t, cfg)
		if got := read(t, b); got[0].Err == nil || !strings.Contains(got[0].Err.Error(), "ifIndex 1 and 9") || got[1].Err != nil {
			t.Errorf("%v; %v", got[0].Err, got[1].Err)
		}
	})
}

func TestRemovedPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		s := open(t, a.config(a.many(30)...))
		mustRead(t, s)
		a.remove(7)
		for range 3 {
			time.Sleep(time.Second)
			for i, smp := range read(t, s) {
				if i != 6 && smp.Err != nil {
					t.Errorf("port %s suffers: %v", smp.Port, smp.Err)
				}
				if i == 6 && (!errors.Is(smp.Err, ErrNoPort) || smp.Port != "swp7" || smp.Octets != 0) {
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
		time.Sleep(lookAgain)
		mustRead(t, s)
	})
}

func TestPortRemovedMidWalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// An agent whose GetBulk runs in a circle is found out.
func TestWalkInACircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

func TestRecheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		cfg := a.config(a.many(50)...)
		cfg.Recheck = 10 * time.Second
		s := open(t, cfg)
		mustRead(t, s)
		count := func() int {
			n := 0
			a.with(func() {
				a.before = func(_ int, req *gosnmp.SnmpPacket) { n += len(req.Variables) }
			})
			mustRead(t, s)
			a.with(func() { a.before = nil })
			return n
		}
		time.Sleep(11 * time.Second)
		full := count()
		time.Sleep(time.Second)
		lean := count()
		if 2*lean > full+20 {
			t.Errorf("%d bindings without names, %d with", lean, full)
		}
		// A link that goes down is seen once it is time ...
		down := numbered(4)
		down.oper = 2
		a.set(4, down)
		if time.Sleep(time.Second); !mustRead(t, s)[3].Up {
			t.Error("link down is seen early: the test does not test what it should")
		}
		if time.Sleep(10 * time.Second); mustRead(t, s)[3].Up {
			t.Error("link down is not seen after Recheck")
		}
		// ... and at once with a change of the table.
		a.set(4, numbered(4))
		a.scalar(ifTableLastChange, 77)
		if time.Sleep(time.Second); !mustRead(t, s)[3].Up {
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
	})
}
