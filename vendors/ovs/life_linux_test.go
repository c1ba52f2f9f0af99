package ovs

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// at7 is the update of the tests that need one: abw at bucket 7, locator 5.
var at7 = vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 7, 5)}}

var (
	best  = tag{tpidCSIG, 31<<7 | 126} // as a sender sends it
	at7s  = tag{tpidCSIG, 7<<7 | 5}
	stale = tag{tpidCSIG, 0<<7 | 125}
)

// next is another process that drives the bridge, after the one before has ended.
func (s *sandwich) next(t testing.TB) *Driver {
	t.Helper()
	if s.driver != nil {
		if err := s.driver.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s.driver = s.open(t, "csig")
	return s.driver
}

// pass sends a frame and returns it as it arrives, nil where it does not.
func (s *sandwich) pass(tags ...tag) []byte { return s.passWithin(soon, tags...) }

// passWithin is pass where a frame may well be lost. Each frame has a number of its
// own, so that a late one is not taken for the next; what is returned has 1, as
// frame(1) has.
func (s *sandwich) passWithin(patience time.Duration, tags ...tag) []byte {
	number := 1<<31 | rand.Uint32()
	s.in.Send(frame(number, tags...))
	for {
		b := s.out.Receive(patience)
		if b == nil {
			return nil
		}
		if seqOf(b) == number {
			return numbered(1, b)
		}
	}
}

// numbered is a frame with another number.
func numbered(seq uint32, b []byte) []byte {
	b = bytes.Clone(b)
	binary.BigEndian.PutUint32(b[len(b)-18:], seq)
	return b
}

// becomes waits until frames with these tags leave with those.
func (s *sandwich) becomes(t testing.TB, limit time.Duration, sent []tag, want ...tag) time.Duration {
	t.Helper()
	start := time.Now()
	var got []byte
	for time.Since(start) < limit {
		if got = s.passWithin(300*time.Millisecond, sent...); bytes.Equal(got, frame(1, want...)) {
			return time.Since(start)
		}
		<-time.After(5 * time.Millisecond) // to look again
	}
	t.Fatalf("after %v frames leave as %x, want %x\n%s", limit, got, frame(1, want...), s.Ofctl("dump-flows", "csig"))
	return 0
}

// keep sends updates as an agent does, until done.
func keep(t testing.TB, d *Driver, done <-chan struct{}, lease time.Duration, updates ...vendors.PortUpdate) (repaired []string) {
	t.Helper()
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for {
		res, _ := d.Update(context.Background(), updates, lease) // some of them fail, in some tests
		if res.Repaired != nil {
			repaired = append(repaired, res.Repaired.String())
		}
		select {
		case <-done:
			return repaired
		case <-every.C:
		}
	}
}

// TestLease lets the lease run out, under each policy.
func TestLease(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy inventory.OnStale
		want   []tag
	}{
		{inventory.Conservative, []tag{stale}},
		{inventory.StalePassthrough, []tag{best}},
		{inventory.StaleStrip, nil},
	} {
		t.Run(string(tc.policy), func(t *testing.T) {
			t.Parallel()
			s := newSandwich(t)
			setup := setupFor(quantize.Draft00, swp1)
			setup.OnStale = tc.policy
			apply(t, s.driver, setup)
			s.becomes(t, soon, []tag{best}, tc.want...) // no agent yet
			var start time.Time
			for try := 0; ; try++ { // a busy machine may see nothing of so short a lease
				start = time.Now()
				res, err := s.driver.Update(t.Context(), []vendors.PortUpdate{at7}, 300*time.Millisecond)
				if err == nil && (res.Lease != time.Second || s.driver.leased.HardTimeout != 1) {
					t.Errorf("300 ms are a lease of %v, and a flow's of %d s", res.Lease, s.driver.leased.HardTimeout)
				}
				if err == nil && bytes.Equal(s.pass(best), frame(1, at7s)) {
					break
				}
				if try == 100 {
					t.Fatalf("a lease of a second changes nothing: %v\n%s", err, s.Ofctl("dump-flows", "csig"))
				}
			}
			s.becomes(t, soon, []tag{best}, tc.want...)
			// A second, rounded up from 300 ms, less what the switch takes a second for.
			if took := time.Since(start); took < 700*time.Millisecond {
				t.Errorf("a lease of 1 s ended after %v", took)
			}
			update(t, s.driver, time.Minute, at7)
			s.becomes(t, soon, []tag{best}, at7s)
			if err := s.driver.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.becomes(t, soon, []tag{best}, tc.want...)
		})
	}
}

// TestRestartOfTheSwitch kills ovs-vswitchd, and with it every flow: until the
// agent has restored them no frame leaves.
func TestRestartOfTheSwitch(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	s.StopSwitch()
	if _, err := s.driver.Update(t.Context(), []vendors.PortUpdate{at7}, time.Minute); err == nil {
		t.Error("an update of a bridge that is gone succeeds")
	}
	s.StartSwitch()
	s.Ofctl("add-flow", "br0", "actions=NORMAL")
	for range 3 {
		if got := s.passWithin(300*time.Millisecond, best); got != nil && !bytes.Equal(got, frame(1, at7s)) {
			t.Errorf("a frame leaves as %x before csig is back", got)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.becomes(t, soon, []tag{best}, at7s)
	}()
	keep(t, s.driver, done, time.Minute, at7)
	if got, err := s.driver.Observe(t.Context()); err != nil || got.Damaged != "" || got.Ports[0] != swp1 {
		t.Errorf("observed %+v, %v", got, err)
	}
}

// TestRestartOfTheDatabase kills ovsdb-server. ovs-vswitchd without it does not
// answer, and the userspace datapath forwards nothing; afterwards all continues.
func TestRestartOfTheDatabase(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	s.StopDatabase()
	nine := vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 9, 5)}}
	for start := time.Now(); ; { // until ovs-vswitchd has noticed
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		res, err := s.driver.Update(ctx, []vendors.PortUpdate{nine}, time.Minute)
		cancel()
		if err != nil && !res.Leased {
			break
		}
		if err != nil || time.Since(start) > soon {
			t.Fatalf("an update without an answer: %+v, %v", res, err)
		}
		<-time.After(5 * time.Millisecond) // as an agent's next cycle
	}
	if got := s.passWithin(300*time.Millisecond, best); got != nil && !bytes.Equal(got, frame(1, at7s)) && !bytes.Equal(got, frame(1, tag{tpidCSIG, 9<<7 | 5})) {
		t.Errorf("a frame leaves as %x", got)
	}
	s.StartDatabase()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.becomes(t, soon, []tag{best}, tag{tpidCSIG, 9<<7 | 5})
	}()
	keep(t, s.driver, done, time.Minute, nine)
}

// TestDatabaseThatHangs stops ovsdb-server without ending it: cycles go on, and
// take its answer in when it comes.
func TestDatabaseThatHangs(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	s.driver.glanceWait = glanceFor
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	s.PauseDatabase(true)
	fastest := time.Hour
	for i := range 20 {
		s.driver.checked = time.Time{} // it is time to look
		start := time.Now()
		in := bucket(quantize.MinABW, uint8(i), 5)
		update(t, s.driver, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{in}})
		fastest = min(fastest, time.Since(start))
	}
	if fastest >= patience {
		t.Errorf("each cycle waits for the database: the fastest took %v", fastest)
	}
	s.becomes(t, soon, []tag{best}, tag{tpidCSIG, 19<<7 | 5})
	if s.driver.late == nil {
		t.Error("there is an answer")
	}
	limited, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.driver.Observe(limited); err == nil || !strings.Contains(err.Error(), "ovsdb-server") {
		t.Errorf("observed without the database: %v", err)
	}
	s.PauseDatabase(false)
	s.Vsctl("set", "Open_vSwitch", ".", "other_config:vlan-limit=2")
	for start := time.Now(); ; {
		s.driver.checked = time.Time{}
		_, err := s.driver.Update(t.Context(), []vendors.PortUpdate{at7}, time.Minute)
		if err != nil && strings.Contains(err.Error(), "vlan-limit is 2") {
			break
		}
		if time.Since(start) > soon {
			t.Fatalf("what the database says is not taken in: %v", err)
		}
	}
	s.PauseDatabase(true)
	_ = s.driver.glance(t.Context()) // a request that will not be answered
	start := time.Now()
	if err := s.driver.Close(); err != nil || time.Since(start) > soon {
		t.Errorf("closed after %v: %v", time.Since(start), err)
	}
	s.PauseDatabase(false)
}

// TestTakesOver restarts the agent: what is programmed stays without a flap.
func TestTakesOver(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	setup := setupFor(quantize.Draft00, swp1)
	setup.Profile = strings.Repeat("ab", 32)
	apply(t, s.driver, setup)
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	again := s.next(t)
	apply(t, again, setup)
	if len(again.mods) != 0 {
		t.Errorf("the same setup is %d changes", len(again.mods))
	}
	if got := s.pass(best); !bytes.Equal(got, frame(1, at7s)) {
		t.Errorf("a frame leaves as %x", got)
	}
	third := s.next(t)
	if res := update(t, third, time.Minute, at7); res.Ops != 0 || res.Repaired != nil {
		t.Errorf("the same update is %+v", res)
	}
	got, err := third.Observe(t.Context())
	if err != nil || got.Profile != setup.Profile {
		t.Errorf("profile %q, %v", got.Profile, err)
	}
	if changes, err := Diff(got, setup); err != nil || len(changes) != 0 {
		t.Errorf("%+v, %v", changes, err)
	}
}

// TestLeaseOfManyFlows lets the lease run out with hundreds of flows in the
// datapath's cache, as other buckets left them there: none of them goes on.
func TestLeaseOfManyFlows(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	var tags []uint16
	for v := uint16(1); v < 31; v++ {
		for lm := uint16(1); lm <= 10; lm++ {
			tags = append(tags, v<<7|lm)
		}
	}
	one := func(tci uint16) []tag { return []tag{{tpidCSIG, tci}} }
	for _, b := range []uint8{20, 3, 31, 12} {
		update(t, s.driver, 3*time.Second, vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, b, 5)}})
		s.exchange(t, tags, one)
	}
	s.becomes(t, soon, []tag{best}, stale)
	for start := time.Now(); ; {
		wrong := 0
		for i, got := range s.exchange(t, tags, one) {
			if !bytes.Equal(got, frame(uint32(i), stale)) {
				wrong++
			}
		}
		if wrong == 0 {
			break
		}
		if time.Since(start) > soon {
			t.Fatalf("%d of %d tags still have another value than the fallback", wrong, len(tags))
		}
	}
}

// TestChangeOfSetupUnderALease changes what tags mean, or what a port is for,
// while the lease runs: frames have the fallback until the next update.
func TestChangeOfSetupUnderALease(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, vendors.PortSetup{Port: "swp1", Action: vlanrules.Passthrough}))
	update(t, s.driver, time.Minute)
	s.becomes(t, soon, []tag{best}, best)
	apply(t, s.next(t), setupFor(quantize.Draft00, swp1))
	s.settle()
	if got := s.pass(best); !bytes.Equal(got, frame(1, stale)) {
		t.Errorf("a port that begins to update sends %x", got)
	}
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	s.becomes(t, soon, []tag{best}, at7s)
	apply(t, s.next(t), setupFor(quantize.UEC, swp1))
	s.settle()
	if got := s.pass(best); !bytes.Equal(got, frame(1, tag{tpidCSIG, 0<<7 | 61<<1})) {
		t.Errorf("after a change of layout a frame leaves as %x", got)
	}
}
