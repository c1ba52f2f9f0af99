package snmp

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/snmp/snmptest"
)

// rationed reads with a deadline that passes after so many answers.
func rationed(t *testing.T, a *fakeAgent, s *Source, answers int) (good int, err error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	a.with(func() {
		first := a.requests
		a.send = func(n int, _ *gosnmp.SnmpPacket, msg []byte) [][]byte {
			if n-first > answers {
				cancel(context.DeadlineExceeded)
				return nil
			}
			return [][]byte{msg}
		}
	})
	list, err := s.Read(ctx, nil)
	for i, smp := range list {
		switch {
		case smp.Err == nil && smp.Octets != 1000*uint64(i+1):
			t.Fatalf("%+v", smp)
		case smp.Err == nil:
			good++
		case !errors.Is(smp.Err, ErrNoAnswer) && !errors.Is(smp.Err, ErrMissing) && !errors.Is(smp.Err, ErrNoPort):
			t.Fatal(smp.Err)
		}
	}
	return good, err
}

// An agent that is too slow for a survey within one reading is surveyed in several,
// and where it is too slow for a reading of all ports each is read in turn.
func TestSurveyLongerThanAReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, answers := range []int{1, 2, 5} {
			a := newAgent(t)
			ports := a.many(100)
			s := open(t, a.config(ports...))
			readings := 0
			for {
				good, err := rationed(t, a, s, answers)
				if err == nil && good > 0 {
					break
				}
				if err != nil && (!errors.Is(err, ErrNoAnswer) || !errors.Is(err, context.DeadlineExceeded)) {
					t.Fatal(err)
				}
				if err != nil && !strings.Contains(err.Error(), "questions about its interfaces") && s.unknown {
					t.Errorf("%v", err)
				}
				if err != nil && s.unknown && !errors.Is(err, counters.ErrUnfinished) {
					t.Errorf("%v", err)
				}
				if readings++; readings > 60 {
					t.Fatalf("%d answers a reading: %d readings were not enough", answers, readings)
				}
			}
			// 7 to 9 requests read all ports.
			at := make([]int, len(ports))
			for n := 1; n <= 30; n++ {
				if _, err := rationed(t, a, s, answers); err != nil {
					t.Fatal(err)
				}
				for i := range s.ports {
					if s.ports[i].problem == fine {
						at[i]++
					}
				}
			}
			for i, n := range at {
				if n < 30*answers/10 {
					t.Errorf("%d answers a reading: %s was read %d times of 30", answers, ports[i], n)
				}
			}
		}
	})
}

// A port that moves while the agent is slow is looked up in as many readings as it takes.
func TestLookingUpTakesSeveralReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		cfg := a.config(a.many(20)...)
		cfg.Timeout = 10 * time.Second // a question that is asked again counts, too
		s := open(t, cfg)
		mustRead(t, s)
		a.remove(5)
		for i := uint32(1000); i < 1300; i++ { // a long table
			a.set(i, fakePort{name: "vlan", octets: 1, ucast: 1})
		}
		a.set(2000, numbered(5))
		for n := 1; ; n++ {
			if err := s.build(); err != nil { // as the reading does
				t.Fatal(err)
			}
			good, err := rationed(t, a, s, len(s.plan.full)+1)
			if err != nil {
				t.Fatal(err)
			}
			if good == 20 {
				break
			}
			if good < 19 || n > 20 {
				t.Fatalf("reading %d: %d good ports", n, good)
			}
		}
	})
}

// What was found long ago, or before a restart, is not continued.
func TestSurveyThatIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, change := range map[string]func(s *Source){
			"an hour passes":     func(*Source) { time.Sleep(time.Hour) },
			"the agent restarts": func(s *Source) { s.boot++ },
		} {
			a := newAgent(t)
			cfg := a.config(a.many(200)...)
			s := open(t, cfg)
			if _, err := rationed(t, a, s, 3); err == nil || s.inquiry == nil || len(s.inquiry.names.rows) == 0 {
				t.Fatalf("%v", err)
			}
			was := s.inquiry
			change(s)
			if _, err := rationed(t, a, s, 1); err == nil || s.inquiry == was || len(s.inquiry.names.rows) != 0 {
				t.Errorf("%s: %v, %d rows", name, err, len(s.inquiry.names.rows))
			}
		}
	})
}

// Walks that never end, or stand still, end without a deadline too; and of rows of one
// name only some are looked at.
func TestWalksThatDoNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, want := range map[string]string{"walk without end": "more than 65536 instances", "walk that stands": "instance 0 of"} {
			_, cfg := inMemory(t, 3, snmptest.Hostile()[name])
			if _, err := open(t, cfg).Read(t.Context(), nil); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		a, cfg := inMemory(t, 200, snmptest.Hostile()["all of one name"])
		cfg.Ports = a.Ports[:1]
		if err := read(t, open(t, cfg))[0].Err; err == nil || !strings.Contains(err.Error(), "200 interfaces have this name") || a.Requests() > 20 {
			t.Errorf("%v, %d requests", err, a.Requests())
		}
	})
}
