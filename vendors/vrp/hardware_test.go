package vrp

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/reconcile"
	"github.com/csig-agent/csig/vendors/vrp/vrptest"
)

// TestNotInHardware: where the switch does not take what is new, the port keeps what it had
// and it is that port's error; others go on.
func TestNotInHardware(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1, b.p2)
		give := func(s uint8) error {
			res, err := b.driver.Update(t.Context(), to(s, b.p1, b.p2), time.Minute)
			if !res.Leased {
				t.Fatalf("%+v, %v", res, err)
			}
			return err
		}
		if err := give(7); err != nil {
			t.Fatal(err)
		}
		b.capacity(b.p1, 3) // beside two it takes one
		for range 2 {
			err := give(8)
			if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p1 || !strings.Contains(err.Error(), "not in hardware: fail") || strings.Contains(err.Error(), b.p2) {
				t.Error(err)
			}
			b.has(t, b.p1, 7)
			b.has(t, b.p2, 8)
		}
		b.capacity(b.p1, 0)
		if err := give(8); err != nil {
			t.Error(err)
		}
		b.has(t, b.p1, 8)
		// A port of which it takes none keeps nothing.
		b.capacity(b.p2, 1)
		if err := b.driver.Apply(t.Context(), plain(b.p1)); err != nil {
			t.Fatal(err)
		}
		err := b.driver.Apply(t.Context(), plain(b.p1, b.p2))
		if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p2 || strings.Contains(b.Running(), "traffic policy csig-"+b.p2) {
			t.Error(err)
		}
		b.has(t, b.p1, 8)
		b.tpids(t, 0x9100, 0x8100) // nor has it the TPID
	})
}

// tpids compares those of the two ports.
func (b *bench) tpids(t testing.TB, first, second uint16) {
	t.Helper()
	v, err := profiles[b.platform].parse(strings.Split(b.Running(), "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if one, two := v.Port(b.p1).TPID, v.Port(b.p2).TPID; one != first || two != second {
		t.Errorf("TPIDs %04x and %04x, want %04x and %04x", one, two, first, second)
	}
}

// TestTPIDTakenBack: a port whose policy the switch refuses, or does not take into hardware,
// has the TPID of before.
func TestTPIDTakenBack(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1)
		b.server.Set(clitest.Faults{Answer: func(line string) (string, bool) {
			return "Error: The operation failed.\r\n", strings.HasPrefix(line, "traffic-policy csig-"+b.p2)
		}})
		err := b.driver.Apply(t.Context(), plain(b.p1, b.p2))
		if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p2 {
			t.Error(err)
		}
		b.tpids(t, 0x9100, 0x8100)
		// Another TPID for all, and no space beside the policy of one port.
		b.server.Set(clitest.Faults{})
		if _, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute); err != nil {
			t.Fatal(err)
		}
		b.capacity(b.p1, 3)
		other := plain(b.p1, b.p2)
		other.TPID = 0x88a8
		if err := b.driver.Apply(t.Context(), other); err == nil || strings.Contains(err.Error(), "port "+b.p2) {
			t.Error(err)
		}
		b.tpids(t, 0x9100, 0x88a8)
	})
}

// TestLateStatus: what the switch reports at once after a change may be the success of before.
func TestLateStatus(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1)
		b.Late = 100 * time.Millisecond
		b.capacity(b.p1, 3)
		_, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute)
		if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p1 || !strings.HasPrefix(b.table(t, b.p1), fallback) {
			t.Errorf("%v, %s", err, b.table(t, b.p1))
		}
	})
}

// TestLostBySecondHalf: the old entries that go have the whole policy delivered again, and where
// that fails it is the port's error at once.
func TestLostBySecondHalf(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1)
		grown := false
		b.Changed = func(list []vrptest.Port) (held []int) {
			for i := range list {
				n := len(list[i].Outbound)
				if list[i].Name == b.p1 {
					if grown = grown || n == 4; grown && n == 2 {
						n = 0
					}
				}
				held = append(held, n)
			}
			return held
		}
		_, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute)
		if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p1 || !strings.Contains(err.Error(), "not in hardware") {
			t.Error(err)
		}
	})
}

// TestCardGone: a port that goes while others are changed is its own error.
func TestCardGone(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1, b.p2)
		once := true
		b.server.Set(clitest.Faults{Answer: func(line string) (string, bool) {
			if once && line == "traffic policy csig-"+b.p1 { // csig reads the configuration again
				once = false
				b.Pull(b.p2)
				return "Error: The operation failed.\r\n", true
			}
			return "", false
		}})
		_, err := b.driver.Update(t.Context(), to(7, b.p1, b.p2), time.Minute)
		var names []string
		vendors.EachPort(err, func(port string, _ error) { names = append(names, port) })
		if slices.Sort(names); !slices.Contains(names, b.p1) || !slices.Contains(names, b.p2) {
			t.Error(err)
		}
	})
}

// TestLostFromHardware: what falls out of hardware later is an error of the port, as long as
// it lasts.
func TestLostFromHardware(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1, b.p2)
		give := func() (vendors.UpdateResult, error) {
			return b.driver.Update(t.Context(), to(7, b.p1, b.p2), time.Minute)
		}
		if _, err := give(); err != nil {
			t.Fatal(err)
		}
		b.capacity(b.p1, 1)
		b.Type("traffic classifier other") // the switch delivers again
		time.Sleep(2 * reconcile.Every)
		for range 2 {
			res, err := give()
			if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p1 || !res.Leased || res.Repaired != nil || strings.Contains(err.Error(), b.p2) {
				t.Errorf("%+v, %v", res, err)
			}
		}
		have, err := b.driver.Observe(t.Context())
		if err != nil || !strings.Contains(have.Ports[0].Damaged, "not in hardware") || have.Ports[1].Damaged != "" {
			t.Errorf("%+v, %v", have, err)
		}
	})
}

// TestRefusedLine: a line that the switch does not take is an error of its port, and others
// go on; on a CloudEngine nothing of what was not committed stays.
func TestRefusedLine(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1, b.p2)
		if _, err := b.driver.Update(t.Context(), to(7, b.p1, b.p2), time.Minute); err != nil {
			t.Fatal(err)
		}
		b.server.Set(clitest.Faults{Answer: func(line string) (string, bool) {
			return "Error: The operation failed.\r\n", line == "traffic policy csig-"+b.p1
		}})
		res, err := b.driver.Update(t.Context(), to(8, b.p1, b.p2), time.Minute)
		if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p1 || !res.Leased || res.Ports != 1 || strings.Contains(err.Error(), "port "+b.p2) {
			t.Errorf("%+v, %v", res, err)
		}
		b.has(t, b.p1, 7)
		b.has(t, b.p2, 8)
		b.server.Set(clitest.Faults{})
		if _, err := b.driver.Update(t.Context(), to(8, b.p1, b.p2), time.Minute); err != nil {
			t.Error(err)
		}
		b.has(t, b.p1, 8)
	})
}

// TestRefusedCommit: which port a commit fails by is found out.
func TestRefusedCommit(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, CloudEngine, nil)
		b.setUp(t, b.p1, b.p2)
		if _, err := b.driver.Update(t.Context(), to(7, b.p1, b.p2), time.Minute); err != nil {
			t.Fatal(err)
		}
		bad := false
		b.server.Set(clitest.Faults{Answer: func(line string) (string, bool) {
			bad = bad && line != "clear configuration candidate" || line == "traffic policy csig-"+b.p1
			if line == "commit" && bad {
				return "Error: The system is busy.\r\n", true
			}
			return "", false
		}})
		res, err := b.driver.Update(t.Context(), to(8, b.p1, b.p2), time.Minute)
		if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p1 || !res.Leased || strings.Contains(err.Error(), "port "+b.p2) {
			t.Errorf("%+v, %v", res, err)
		}
		b.has(t, b.p1, 7)
		b.has(t, b.p2, 8)
	})
}
