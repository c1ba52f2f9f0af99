package snmp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosnmp/gosnmp"
)

// limits are the ways in which an agent does not take more than most bindings a PDU.
var limits = map[string]func(a *fakeAgent, most int){
	"tooBig": func(a *fakeAgent, most int) { refuse(a, most, gosnmp.TooBig) },
	"genErr": func(a *fakeAgent, most int) { refuse(a, most, gosnmp.GenErr) },
	"silent": func(a *fakeAgent, most int) {
		a.send = func(_ int, req *gosnmp.SnmpPacket, msg []byte) [][]byte {
			if asked(req) > most {
				return nil
			}
			return [][]byte{msg}
		}
	},
	"truncated": func(a *fakeAgent, most int) {
		a.edit = func(_, answer *gosnmp.SnmpPacket) {
			answer.Variables = answer.Variables[:min(len(answer.Variables), most)]
		}
	},
}

func refuse(a *fakeAgent, most int, status gosnmp.SNMPError) {
	a.status = func(req *gosnmp.SnmpPacket) (gosnmp.SNMPError, uint8) {
		if asked(req) > most {
			return status, 0
		}
		return 0, 0
	}
}

// asked is how many bindings an answer in full would have.
func asked(req *gosnmp.SnmpPacket) int {
	if req.PDUType == gosnmp.GetBulkRequest {
		return len(req.Variables) * int(req.MaxRepetitions)
	}
	return len(req.Variables)
}

// An agent that takes few bindings a PDU, down to a single one, is read, however it refuses
// more, and is soon no longer asked for more.
func TestLongFewBindings(t *testing.T) {
	t.Parallel()
	const ports = 10
	for name, limit := range limits {
		for _, most := range []int{1, 2, 3, 4, 8, 11, 40} {
			for _, when := range []string{"from the start", "later"} {
				bubble(t, fmt.Sprint(name, " ", most, " ", when), func(t *testing.T) {
					a := newAgent(t)
					s := open(t, a.config(a.many(ports)...))
					if when == "later" {
						mustRead(t, s)
					}
					a.with(func() { limit(a, most) })
					patience, retries := s.cfg.Timeout, s.cfg.Retries
					if name == "silent" { // which takes several timeouts
						s.cfg.Timeout, s.cfg.Retries = 60*time.Millisecond, 0
					}
					for n := 0; ; n++ { // some readings are spent on what the agent takes
						good := 0
						list, err := s.Read(t.Context(), nil)
						for i, smp := range list {
							switch {
							case smp.Err != nil:
							case smp.Octets != 1000*uint64(i+1) || smp.Packets != uint64(i+6) || !smp.Up || smp.Speed != 25e9:
								t.Fatalf("%+v", smp)
							default:
								good++
							}
						}
						if err == nil && good == ports {
							break
						}
						if n == 12 {
							t.Fatalf("reading %d: %d of %d ports, %v, %v", n, good, ports, err, list)
						}
					}
					s.cfg.Timeout, s.cfg.Retries = patience, retries
					for range 3 {
						mustRead(t, s)
					}
					refused := 0
					a.with(func() {
						a.before = func(_ int, req *gosnmp.SnmpPacket) {
							if asked(req) > most {
								refused++
							}
						}
					})
					mustRead(t, s)
					a.with(func() {
						if refused > 0 {
							t.Errorf("%d requests of more than %d bindings", refused, most)
						}
					})
				})
			}
		}
	}
}

// What is read of a port in several PDUs is of one instant, or of instants within Within: of
// an agent that counts in steps of its cache, and of one that counts all the time.
func TestLongPartsAreOfOneInstant(t *testing.T) {
	t.Parallel()
	const step = 10 * time.Millisecond // a request
	for _, most := range []int{1, 2, 3, 4, 8, 11} {
		for _, cache := range []int{1, 7, 31, 97} { // in requests
			bubble(t, fmt.Sprint(most, " bindings, refreshed each ", cache), func(t *testing.T) {
				a, begin := newAgent(t), time.Now()
				a.net.Path = nil
				s := open(t, a.config(a.many(3)...))
				a.with(func() {
					refuse(a, most, gosnmp.TooBig)
					a.before = func(n int, _ *gosnmp.SnmpPacket) {
						time.Sleep(step)
						if n == 1 || n%cache == 0 {
							now := uint64(time.Since(begin) / step)
							for i := range uint32(3) {
								a.setLocked(i+1, fakePort{name: fmt.Sprintf("swp%d", i+1), octets: 1000 * now, ucast: 2 * now, mcast: 3 * now, bcast: 5 * now, mbps: 25_000})
							}
						}
					}
				})
				read(t, s)
				for range 25 {
					for _, smp := range mustRead(t, s) {
						octets, packets := time.Duration(smp.Octets/1000)*step, time.Duration(smp.Packets/10)*step
						if cache == 1 {
							at := smp.At.Sub(begin)
							if (octets-at).Abs() > smp.Within+step || (packets-at).Abs() > smp.Within+step {
								t.Fatalf("octets of %v, packets of %v, at %v ±%v", octets, packets, at, smp.Within)
							}
						} else if cache > 10 && (octets != packets || smp.Packets%10 != 0) {
							t.Fatalf("octets of %v, packets of %v (%d): a refresh in the midst", octets, packets, smp.Packets)
						}
						if most >= 4 && smp.Within > step {
							t.Errorf("±%v where all counters are in one PDU", smp.Within)
						}
					}
				}
			})
		}
	}
}

// Rows that are swapped, counters that restart and an agent that restarts while a port is read
// in parts are noticed before its counters are used.
func TestLongChangeBetweenParts(t *testing.T) {
	t.Parallel()
	events := map[string]func(a *fakeAgent){
		"rows are swapped": func(a *fakeAgent) {
			one, two := numbered(1), numbered(2)
			a.setLocked(1, two)
			a.setLocked(2, one)
			a.put(ifTableLastChange.at(0), gosnmp.TimeTicks, uint32(77))
		},
		"counters restart": func(a *fakeAgent) {
			for i := range uint32(2) {
				p := numbered(i + 1)
				p.octets, p.discontinuity = 100+p.octets/1000, 500
				a.setLocked(i+1, p)
			}
		},
		"agent restarts": func(a *fakeAgent) {
			for i := range uint32(2) {
				p := numbered(i + 1)
				p.octets = 100 + p.octets/1000
				a.setLocked(i+1, p)
			}
			a.put(sysUpTime.at(0), gosnmp.TimeTicks, uint32(20))
		},
	}
	for name, event := range events {
		for _, most := range []int{1, 2, 4, 8, 11} {
			bubble(t, fmt.Sprint(name, ", ", most, " bindings"), func(t *testing.T) {
				for after := 1; ; after++ { // requests of the reading before the event
					a := newAgent(t)
					s := open(t, a.config(a.many(2)...))
					a.with(func() { refuse(a, most, gosnmp.TooBig) })
					mustRead(t, s)
					was := mustRead(t, s)
					a.scalar(sysUpTime, 100_100)
					mustRead(t, s)
					reading, happened := true, false
					a.with(func() {
						first := a.requests
						a.before = func(n int, _ *gosnmp.SnmpPacket) {
							if reading && n-first == after {
								event(a)
								happened = true
							}
						}
					})
					list := read(t, s)
					over := false
					a.with(func() { reading, over = false, !happened })
					for n := range 3 {
						for i, smp := range list {
							old, restarted := 1000*uint64(i+1), 100+uint64(i+1)
							switch {
							case smp.Err != nil:
							case name == "rows are swapped" && smp.Octets != old,
								smp.Octets == restarted && smp.Epoch == was[i].Epoch,
								smp.Octets == old && smp.Epoch != was[i].Epoch && name != "rows are swapped",
								smp.Octets != old && smp.Octets != restarted:
								t.Fatalf("after %d requests, reading %d: %+v", after, n, smp)
							}
						}
						list = mustRead(t, s)
					}
					if over {
						break
					}
				}
			})
		}
	}
}

// A port that is at fault does not make others be read in single bindings.
func TestFaultIsNotSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, fault := range map[string]func(a *fakeAgent, has func(req *gosnmp.SnmpPacket) bool){
			"genErr": func(a *fakeAgent, has func(req *gosnmp.SnmpPacket) bool) {
				a.status = func(req *gosnmp.SnmpPacket) (gosnmp.SNMPError, uint8) {
					if has(req) {
						return gosnmp.GenErr, 0
					}
					return 0, 0
				}
			},
			"nothing": func(a *fakeAgent, has func(req *gosnmp.SnmpPacket) bool) {
				a.edit = func(req, answer *gosnmp.SnmpPacket) {
					if has(req) {
						answer.Variables = nil
					}
				}
			},
		} {
			a := newAgent(t)
			s := open(t, a.config(a.many(40)...))
			mustRead(t, s)
			a.with(func() {
				fault(a, func(req *gosnmp.SnmpPacket) bool {
					for _, v := range req.Variables {
						if v.Name == ifHCOutOctets.oid().at(7).dotted() {
							return true
						}
					}
					return false
				})
			})
			for range 5 {
				for i, smp := range read(t, s) {
					if (smp.Err != nil) != (i == 6) {
						t.Fatalf("%s: %+v", name, smp)
					}
				}
			}
			if s.limit < rowOIDs {
				t.Errorf("%s: limit %d", name, s.limit)
			}
		}
	})
}

// A reading that is too short for an agent that takes few bindings says so, and what to do.
func TestTooFewBindingsForTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		s := open(t, a.config(a.many(50)...))
		a.with(func() { refuse(a, 2, gosnmp.TooBig) })
		mustRead(t, s)
		seen := map[int]bool{}
		for range 40 {
			ctx, cancel := context.WithCancelCause(t.Context())
			a.with(func() {
				first := a.requests
				a.send = func(n int, _ *gosnmp.SnmpPacket, msg []byte) [][]byte {
					if n-first > 60 {
						cancel(context.DeadlineExceeded)
						return nil
					}
					return [][]byte{msg}
				}
			})
			list, err := s.Read(ctx, nil)
			cancel(nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, smp := range list {
				if smp.Err == nil {
					seen[i] = true
					continue
				}
				if !errors.Is(smp.Err, ErrNoAnswer) || !strings.Contains(smp.Err.Error(), "takes 2 bindings a PDU") || !strings.Contains(smp.Err.Error(), "interval") || strings.Contains(smp.Err.Error(), "community") {
					t.Fatal(smp.Err)
				}
			}
		}
		if len(seen) != 50 {
			t.Errorf("%d of 50 ports were read in turn", len(seen))
		}
	})
}

// An agent that is silent to what is too much for it is read also where a reading is hardly
// longer than the tries of one request: each reading goes on from where the last one ended.
func TestFewBindingsWithinAShortSchedule(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 2, 4, 11} {
		bubble(t, fmt.Sprint(most), func(t *testing.T) {
			a := newAgent(t)
			cfg := a.config(a.many(5)...)
			cfg.Timeout, cfg.Retries = 60*time.Millisecond, 2
			s := open(t, cfg)
			a.with(func() { limits["silent"](a, most) })
			for end := time.Now().Add(30 * time.Second); ; {
				good := 0
				list, err := s.Read(within(t, 200*time.Millisecond), nil)
				for _, smp := range list {
					if smp.Err == nil {
						good++
					}
				}
				if good == 5 {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%d of 5 ports after 30 s: %v, %v", good, err, list)
				}
			}
		})
	}
}

// ifTableLastChange is the last binding of a PDU: an answer that is cut short by it alone does
// not pass for one without a change.
func TestAnswersCutByTheLastBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		cfg := a.config(a.many(50)...)
		cfg.Recheck = time.Hour
		s := open(t, cfg)
		mustRead(t, s)
		down := numbered(4)
		down.oper = 2
		a.set(4, down)
		a.scalar(ifTableLastChange, 77)
		a.with(func() {
			a.edit = func(req, answer *gosnmp.SnmpPacket) {
				if n := len(req.Variables); n > 20 {
					answer.Variables = answer.Variables[:n-1]
				}
			}
		})
		if mustRead(t, s)[3].Up {
			t.Error("the table changed and the status was not read")
		}
	})
}

// A scan, too, needs no more than a binding at a time.
func TestScanWithFewBindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, limit := range limits {
			for _, most := range []int{1, 3} {
				a := newAgent(t)
				cfg := a.config(a.many(20)...)
				if name == "silent" {
					cfg.Timeout, cfg.Retries = 100*time.Millisecond, 1
				}
				a.with(func() { limit(a, most) })
				l, err := Scan(t.Context(), cfg)
				if err != nil || len(l.Interfaces) != 20 {
					t.Errorf("%s, %d bindings: %v, %+v", name, most, err, l)
					continue
				}
				for _, row := range l.Interfaces {
					if len(row.Wide) != 4 || row.Note != "" || row.Speed != 25e9 {
						t.Errorf("%s, %d bindings: %+v", name, most, row)
					}
				}
			}
		}
	})
}

// Answers that are lost now and then, also all of a request, and an agent that now and then
// is too busy, do not make PDUs of one port smaller.
func TestLossIsNotSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, ail := range map[string]func(a *fakeAgent, now func() bool){
			"loss": func(a *fakeAgent, now func() bool) {
				a.send = func(_ int, _ *gosnmp.SnmpPacket, msg []byte) [][]byte {
					if now() {
						return nil
					}
					return [][]byte{msg}
				}
			},
			"genErr": func(a *fakeAgent, now func() bool) {
				a.status = func(*gosnmp.SnmpPacket) (gosnmp.SNMPError, uint8) {
					if now() {
						return gosnmp.GenErr, 0
					}
					return 0, 0
				}
			},
		} {
			a := newAgent(t)
			s := open(t, a.config(a.many(1)...))
			mustRead(t, s)
			s.cfg.Timeout = 20 * time.Millisecond
			a.with(func() {
				n := 0
				ail(a, func() bool { n++; return n%19 < 3 })
			})
			good := 0
			for range 30 {
				if list, err := s.Read(t.Context(), nil); err == nil && list[0].Err == nil {
					good++
				}
			}
			if s.limit < rowOIDs || good < 20 {
				t.Errorf("%s: limit %d, %d of 30 readings", name, s.limit, good)
			}
		}
	})
}
