package nxos

import (
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/nxos/nxostest"
)

// TestReassertionCutOff ends sessions in the middle of a reassertion, where the port has no TPID: it
// gets back what it had.
func TestReassertionCutOff(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t)
		b.Type("interface "+eth2, "switchport dot1q ethertype 0x88a8", "exit")
		before := b.Running()
		for _, half := range []bool{false, true} {
			if err := b.driver.Apply(t.Context(), want(0x9100, eth2)); err != nil {
				t.Fatal(err)
			}
			b.Flap(eth2)
			time.Sleep(time.Minute)
			b.server.Set(clitest.Faults{Half: half, Drop: func(line string) bool {
				return line == "switchport dot1q ethertype 0x9100" || half && line == "no switchport dot1q ethertype"
			}})
			if b.driver.Apply(t.Context(), want(0x9100, eth2)) == nil || strings.Contains(b.Running(), "0x9100\n") {
				t.Errorf("it was not cut off\n%s", b.Running())
			}
			b.server.Set(clitest.Faults{})
			if err := b.driver.Remove(t.Context()); err != nil || b.Running() != before {
				t.Fatalf("%v\n%s", err, b.Running())
			}
		}
	})
}

// TestReasserts: hardware that has lost the TPID gets it again, also where nothing shows
// that it has, and a healthy switch is left alone.
func TestReasserts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		hides, keeps bool
		says         string
	}{
		{name: "reported", says: "0x9100 is configured, and 0x8100 in force"},
		{name: "hidden", hides: true, says: "CSCvw27705"},
	} {
		clitest.Run(t, tc.name, func(t *testing.T) {
			b := newBench(t)
			b.Hides = tc.hides
			hw := map[string]uint16{}
			b.Changed = func(list []nxostest.Port) {
				for _, p := range list {
					hw[p.Name] = p.TPID
				}
			}
			s := want(0x9100, eth1, eth2)
			b.apply(t, s)
			update := func() vendors.UpdateResult {
				t.Helper()
				time.Sleep(time.Minute)
				res, err := b.driver.Update(t.Context(), nil, time.Minute)
				if err != nil || !res.Leased {
					t.Fatalf("%+v, %v", res, err)
				}
				return res
			}
			if res := update(); res.Repaired != nil {
				t.Errorf("nothing happened, and %+v", res)
			}
			b.Flap(eth2)
			time.Sleep(time.Minute)
			if hw[eth2] != 0x8100 || strings.Count(b.Running(), "ethertype 0x9100") != 2 {
				t.Fatalf("%v\n%s", hw, b.Running())
			}
			have, err := b.driver.Observe(t.Context())
			if err != nil || have.Ports[0].Damaged != "" || !strings.Contains(have.Ports[1].Damaged, tc.says) {
				t.Errorf("%+v, %v", have.Ports, err)
			}
			res := update()
			if hw[eth2] != 0x9100 || !res.Restarted || !strings.Contains(res.Repaired.String(), eth2) || strings.Contains(res.Repaired.String(), eth1) || !strings.Contains(res.Repaired.String(), tc.says) {
				t.Errorf("%04x, %+v", hw, res)
			}
			b.holds(t, s)
			for range 3 {
				if res := update(); res.Repaired != nil {
					t.Errorf("again: %+v", res)
				}
			}
			// Another process's change is restored, and called that.
			b.Type("interface "+eth1, "no switchport dot1q ethertype", "exit")
			if res := update(); hw[eth1] != 0x9100 || res.Restarted || !strings.Contains(res.Repaired.String(), eth1) {
				t.Errorf("%+v", res)
			}
		})
	}
}

// TestNotLost: a link that flapped before csig set the TPID says nothing of its loss, however the
// switch rounds the time. csig's own clock has no part in that.
func TestNotLost(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t)
		b.Keeps, b.Hides = true, true
		b.Restart()
		time.Sleep(20 * time.Hour)
		b.Flap(eth2)
		time.Sleep(time.Minute)
		s := want(0x9100, eth1, eth2)
		b.apply(t, s)
		healthy := func(when string) {
			t.Helper()
			have, err := b.driver.Observe(t.Context())
			if left, err2 := b.driver.Diff(have, s); err != nil || err2 != nil || len(left) > 0 {
				t.Errorf("%s: %+v, %v, %v", when, left, err, err2)
			}
		}
		time.Sleep(time.Hour)
		healthy("an hour later")
		time.Sleep(40 * time.Hour) // "0week(s) 1day(s)" is an hour less than what is so
		healthy("rounded")
	})
}

// TestRestart: a switch that restarts with its configuration has lost the TPID.
func TestRestart(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t)
		b.Hides = true
		s := want(0x9100, eth1)
		b.apply(t, s)
		time.Sleep(time.Minute)
		b.Restart()
		time.Sleep(time.Minute)
		if res, err := b.driver.Update(t.Context(), nil, time.Minute); err != nil || !res.Restarted || !strings.Contains(res.Repaired.String(), "has restarted after") {
			t.Errorf("%+v, %v", res, err)
		}
		b.holds(t, s)
	})
}

func TestElapsed(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		for text, want := range map[string]time.Duration{
			"never": 0, "": 0, "00:07:28": 7*time.Minute + 29*time.Second, "15week(s) 5day(s)": 111 * day, "1day(s) 02:00:00": 26*time.Hour + time.Second, "3d04h": 77 * time.Hour, "00:00:00": time.Second, "odd": 0,
		} {
			if got := elapsed(strings.Fields(text)); got != want {
				t.Errorf("%s: %v, want %v", text, got, want)
			}
		}
	})
}
