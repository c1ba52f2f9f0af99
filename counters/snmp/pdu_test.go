package snmp

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gosnmp/gosnmp"
)

// What an agent may say about one port must not touch the others, whatever
// way of reading is in use.
func TestFaultOfOnePort(t *testing.T) {
	t.Parallel()
	const n, bad = 30, 23
	tests := []struct {
		name  string
		fault func(a *fakeAgent)
		want  error // nil: a StatusError
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
		}, nil, "GenErr"},
		{"genErr without index", func(a *fakeAgent) {
			a.status = func(req *gosnmp.SnmpPacket) (gosnmp.SNMPError, uint8) {
				for _, v := range req.Variables {
					if v.Name == ifHCOutOctets.oid().at(bad).dotted() {
						return gosnmp.GenErr, 0
					}
				}
				return 0, 0
			}
		}, nil, "GenErr"},
		{"authorizationError", func(a *fakeAgent) {
			a.status = func(req *gosnmp.SnmpPacket) (gosnmp.SNMPError, uint8) {
				for i, v := range req.Variables {
					if v.Name == ifHCOutOctets.oid().at(bad).dotted() {
						return gosnmp.AuthorizationError, uint8(i + 1)
					}
				}
				return 0, 0
			}
		}, nil, "allow this"},
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
		bubble(t, tt.name, func(t *testing.T) {
			for _, when := range []string{"from the start", "first reading", "third reading"} {
				a := newAgent(t)
				ports := a.many(n)
				a.set(bad, fakePort{name: "swp23", octets: 1 << 50, ucast: 7, mbps: 1000})
				s := open(t, a.config(ports...))
				switch when {
				case "first reading":
					mustRead(t, s)
				case "third reading":
					mustRead(t, s)
					mustRead(t, s)
				}
				a.with(func() { tt.fault(a) })
				if when == "from the start" && strings.HasPrefix(tt.name, "(") {
					continue // ifOutOctets is read instead, which is right
				}
				for round := range 6 { // more than it takes to ask the port alone
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
						if wantStatus := tt.want == nil; wantStatus && !errors.As(smp.Err, &status) || !wantStatus && !errors.Is(smp.Err, tt.want) {
							t.Errorf("%s, reading %d: %v, want %v", when, round, smp.Err, tt.want)
						}
						if !strings.Contains(smp.Err.Error(), tt.text) || smp.Port != "swp23" {
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
	t.Parallel()
	for _, most := range []int{200, 64, 12} {
		bubble(t, fmt.Sprint(most), func(t *testing.T) {
			a := newAgent(t)
			tooBig := 0
			a.status = func(req *gosnmp.SnmpPacket) (gosnmp.SNMPError, uint8) {
				if len(req.Variables) > most || req.PDUType == gosnmp.GetBulkRequest && len(req.Variables)*int(req.MaxRepetitions) > most {
					tooBig++
					return gosnmp.TooBig, 0
				}
				return 0, 0
			}
			s := open(t, a.config(a.many(12)...))
			const first = 32 // in place of growAtFirst, which takes long to reach
			s.growAfter = first
			for range 20 {
				for i, smp := range mustRead(t, s) {
					if smp.Octets != 1000*uint64(i+1) {
						t.Fatalf("%+v", smp)
					}
				}
			}
			before := 0
			a.with(func() { before = tooBig })
			for range first + 5 {
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
	synctest.Test(t, func(t *testing.T) {
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
		// One binding only is enough; none at all is no port that can be read, and no 0.
		a.with(func() {
			a.edit = func(_, answer *gosnmp.SnmpPacket) { answer.Variables = answer.Variables[:1] }
		})
		for i, smp := range mustRead(t, s) {
			if smp.Octets != 1000*uint64(i+1) {
				t.Fatalf("%+v", smp)
			}
		}
		a.with(func() {
			a.edit = func(_, answer *gosnmp.SnmpPacket) { answer.Variables = nil }
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
	})
}

// An agent that answers large requests with sysUpTime alone is asked in smaller ones, and
// a port that it never answers for is not asked for without end.
func TestAnswersCutToTheFirstBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		s := open(t, a.config(a.many(40)...))
		mustRead(t, s)
		a.with(func() {
			a.edit = func(req, answer *gosnmp.SnmpPacket) {
				if len(req.Variables) > 30 {
					answer.Variables = answer.Variables[:1]
				}
			}
		})
		for i, smp := range mustRead(t, s) {
			if smp.Octets != 1000*uint64(i+1) {
				t.Fatalf("%+v", smp)
			}
		}
		before := 0
		a.with(func() {
			before = a.requests
			a.edit = func(_, answer *gosnmp.SnmpPacket) { answer.Variables = nil }
		})
		for _, smp := range read(t, s) {
			if !errors.Is(smp.Err, ErrMissing) {
				t.Errorf("%+v", smp)
			}
		}
		a.with(func() {
			if n := a.requests - before; n > 4*40 {
				t.Errorf("%d requests for 40 ports without an answer", n)
			}
		})
	})
}
