package linux

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

func follower(t *testing.T, n *netns) *Driver {
	t.Helper()
	d := openDriver(t, n)
	if err := d.Follow(setupFor()); err != nil {
		t.Fatal(err)
	}
	return d
}

// crossed sends one tagged frame through the port: what is behind the addresses
// when it arrives.
func (w *wire) crossed(data uint16) []byte {
	w.t.Helper()
	w.port.send(frame(0, tag{testTPID, data}))
	return w.far.receive()[12:]
}

// TestFollow has another driver change the setup while an agent's driver
// follows: the agent's rules are there whenever the port is to update, and no
// frame ever passes an update port untouched.
func TestFollow(t *testing.T) {
	if !realRoot(t) {
		t.Fatal("this test strips, which needs BPF: run it as root of the machine")
	}
	w := newWire(t)
	agent, planner := follower(t, w.netns), openDriver(t, w.netns)
	cycle := func() (vendors.UpdateResult, error) {
		return agent.Update(context.Background(), []vendors.PortUpdate{one(9, 4)}, time.Minute)
	}
	value := func(when string, want uint16) {
		t.Helper()
		if got := w.value(initial); got != want {
			t.Errorf("%s: 0x%04x, want 0x%04x", when, got, want)
		}
	}
	nothing := func(when string) {
		t.Helper()
		res, err := cycle()
		if !errors.Is(err, vendors.ErrNoSetup) || res != (vendors.UpdateResult{}) || agent.Followed() != nil {
			t.Errorf("%s: %+v, %v, followed %+v", when, res, err, agent.Followed())
		}
		if got := w.run("nft", "list", "ruleset"); strings.Contains(got, "csig") {
			t.Errorf("%s: it made something:\n%s", when, got)
		}
		value(when, initial)
	}
	strips := func(when string) {
		t.Helper()
		if got := w.crossed(initial); binary.BigEndian.Uint16(got) == testTPID {
			t.Errorf("%s: a tag arrives: %x", when, got[:4])
		}
	}
	nothing("before there is a set-up")

	for range 2 { // from nothing, and once more from nothing
		apply(t, planner, setupFor(updatePort))
		value("set up, and no agent's cycle yet", stale)
		res, err := cycle()
		if err != nil || !res.Leased || res.Ports != 1 || res.Repaired != "" {
			t.Errorf("the first cycle: %+v, %v", res, err)
		}
		value("after a cycle", 9<<7|4)
		before := agent.Followed()
		if res, err := cycle(); err != nil || res != (vendors.UpdateResult{Leased: true}) || agent.Followed() != before {
			t.Errorf("the second cycle: %+v, %v", res, err)
		}

		apply(t, planner, setupFor(vendors.PortSetup{Port: "swp1", Action: vlanrules.Strip}))
		strips("at once")
		if res, err := cycle(); err != nil || !res.Leased || res.Ops != 0 {
			t.Errorf("a cycle while the port strips: %+v, %v", res, err)
		}
		strips("after a cycle")
		if s := agent.Followed(); s == nil || s == before || s.Ports[0].Action != vlanrules.Strip {
			t.Errorf("followed %+v", s)
		}

		apply(t, planner, setupFor(updatePort))
		value("back to update, before the agent's cycle: the fallback, not the tag as it came", stale)
		if res, err := cycle(); err != nil || res.Ports != 1 {
			t.Errorf("a cycle after that: %+v, %v", res, err)
		}
		value("after that cycle", 9<<7|4)

		if err := planner.Remove(context.Background()); err != nil {
			t.Fatal(err)
		}
		nothing("after the removal")
	}
}

// TestFollowLeavesTheSetupAlone damages the set-up: who follows says so and
// mends nothing, and its values stay right where they can.
func TestFollowLeavesTheSetupAlone(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		leased       bool
		says         string
		got          uint16
	}{
		{"a rule added", "insert rule netdev csig p_swp1 accept", true, "port swp1: it is not as csig apply left it (rules of chain p_swp1)", initial},
		{"the port's map flushed", "flush map netdev csig p_swp1", true, "", 8<<7 | 4},
		{"an element of the map replaced", "flush map netdev csig p_swp1; add element netdev csig p_swp1 { 0-65535 : 1 }", true, "", 8<<7 | 4},
		{"the lease flushed", "flush set netdev csig lease", true, "", 8<<7 | 4},
		{"the table flushed", "flush table netdev csig", true, "rules of chain p_swp1", initial},
		{"another domain", "", false, "is for another domain than this agent's file: tpid=0x9901", initial},
		{"another profile", "", false, "was made for profile ffeeddccbbaa…, and this agent's file has 0a1b2c3d4e5f…: bring the device to the agent's profile", stale},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWire(t)
			agent, planner := openDriver(t, w.netns), openDriver(t, w.netns)
			ours := setupFor(updatePort)
			ours.Profile = profileA
			if err := agent.Follow(ours); err != nil {
				t.Fatal(err)
			}
			apply(t, planner, ours)
			update(t, agent, time.Minute, one(9, 4))
			other := setupFor(updatePort)
			switch other.Profile = profileB; {
			case tc.script != "":
				w.nft(tc.script)
			case tc.name == "another domain":
				other.TPID = 0x9901
				fallthrough
			default:
				apply(t, planner, other)
			}
			res, err := agent.Update(context.Background(), []vendors.PortUpdate{one(8, 4)}, time.Minute)
			if res.Leased != tc.leased || (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%+v, %v; want leased %v and %q", res, err, tc.leased, tc.says)
			}
			if got := w.value(initial); got != tc.got {
				t.Errorf("0x%04x, want 0x%04x", got, tc.got)
			}
			permanent(t, agent.Apply(context.Background(), setupFor(updatePort)), "", "follows")
			permanent(t, agent.Remove(context.Background()), "", "follows")
		})
	}
}

// TestFollowGivesUnknownPortsTheFallback has a set-up with a port that the
// agent says nothing about.
func TestFollowGivesUnknownPortsTheFallback(t *testing.T) {
	w := newWire(t)
	agent, planner := follower(t, w.netns), openDriver(t, w.netns)
	apply(t, planner, setupFor(updatePort, vendors.PortSetup{Port: "sw0", Action: vlanrules.Update}))
	other := one(9, 4)
	other.Port = "sw0"
	for range 2 {
		res, err := agent.Update(context.Background(), []vendors.PortUpdate{other}, time.Minute)
		permanent(t, err, "swp1", "no locator")
		if got := w.value(initial); !res.Leased || got != stale {
			t.Errorf("%+v, 0x%04x", res, got)
		}
	}
	update(t, agent, time.Minute, other, one(9, 4))
	if got := w.value(initial); got != 9<<7|4 {
		t.Errorf("0x%04x once it is told", got)
	}
	if err := agent.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := w.value(initial); got != stale {
		t.Errorf("0x%04x after the release", got)
	}
	if have, err := planner.Observe(context.Background()); err != nil || have.TPID != testTPID || len(have.Ports) != 2 {
		t.Errorf("after the release: %+v, %v", have, err)
	}
	if err := agent.Follow(vendors.Setup{TPID: 0x8100, Signals: []quantize.Signal{quantize.MinABW}}); err == nil {
		t.Error("an impossible domain is followed")
	}
}

// TestNewMapHoldsTheFallback adds a port under a lease that runs, with the
// driver that gave it.
func TestNewMapHoldsTheFallback(t *testing.T) {
	w := newWire(t)
	d := openDriver(t, w.netns)
	other := vendors.PortSetup{Port: "sw0", Action: vlanrules.Update}
	apply(t, d, setupFor(other))
	u := one(9, 4)
	u.Port = "sw0"
	update(t, d, time.Minute, u)
	apply(t, d, setupFor(other, updatePort))
	if got := w.value(initial); got != stale {
		t.Errorf("0x%04x before the first update, want 0x%04x", got, stale)
	}
	if res := update(t, d, time.Minute, u, one(9, 4)); res.Ports != 1 || res.Repaired != "" {
		t.Errorf("%+v", res)
	}
	if got := w.value(initial); got != 9<<7|4 {
		t.Errorf("0x%04x", got)
	}
}
