package snmp

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosnmp/gosnmp"
)

// Damaged datagrams cost a retry and never a wrong value.
func TestDamagedDatagrams(t *testing.T) {
	t.Parallel()
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
		bubble(t, name, func(t *testing.T) {
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
	t.Parallel()
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
		bubble(t, tt.name, func(t *testing.T) {
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
						if p := &s.ports[0]; p.received.Sub(p.sent) != 2*oneWay {
							t.Errorf("the time of an exchange is %v", p.received.Sub(p.sent))
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
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		a.send = func(_ int, _ *gosnmp.SnmpPacket, msg []byte) [][]byte {
			if len(msg) > 1472 {
				return nil
			}
			return [][]byte{msg}
		}
		cfg := a.config(a.many(100)...)
		cfg.Timeout = 200 * time.Millisecond
		s := open(t, cfg)
		for range 12 {
			for _, smp := range read(t, s) {
				if smp.Err != nil {
					t.Fatal(smp.Err)
				}
			}
		}
	})
}

func TestSilentAgent(t *testing.T) {
	bubble(t, "wrong community", func(t *testing.T) {
		cfg := newAgent(t).config("swp1")
		cfg.Community, cfg.Timeout, cfg.Retries = "pr1vate!", 10*time.Millisecond, 1
		_, err := open(t, cfg).Read(t.Context(), nil)
		if !errors.Is(err, ErrNoAnswer) {
			t.Fatal(err)
		}
		for _, want := range []string{"device leaf1", "192.0.2.1:161", "2 tries of 10ms", "community"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q lacks %q", err, want)
			}
		}
		if strings.Contains(err.Error(), "pr1vate!") {
			t.Errorf("%q shows the community", err)
		}
	})
	bubble(t, "in the middle, altogether, and back", func(t *testing.T) {
		a := newAgent(t)
		s := open(t, a.config(a.many(60)...))
		mustRead(t, s)
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
		a.with(func() { a.send = func(int, *gosnmp.SnmpPacket, []byte) [][]byte { return nil } })
		if list, err := s.Read(t.Context(), nil); !errors.Is(err, ErrNoAnswer) || len(list) != 0 {
			t.Errorf("%d samples, %v", len(list), err)
		}
		a.with(func() { a.send = nil })
		mustRead(t, s)
	})
}
