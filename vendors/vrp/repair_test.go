package vrp

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/reconcile"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

// TestInterrupted ends the session at lines of a change, before it is carried out and
// after: the next update finds what is there and finishes it.
func TestInterrupted(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1)
		give := func(s uint8) error {
			_, err := b.driver.Update(t.Context(), to(s, b.p1), time.Minute)
			return err
		}
		if err := give(7); err != nil {
			t.Fatal(err)
		}
		b.server.Forget()
		if err := give(8); err != nil {
			t.Fatal(err)
		}
		lines := len(b.server.Lines())
		for n := 0; n < lines; n += vendorstest.Every(t, 7) {
			bucket := 9 + uint8(n)%20
			var given atomic.Int32
			b.server.Set(clitest.Faults{Half: n%2 == 1, Drop: func(string) bool { return int(given.Add(1)) > n }})
			if err := give(bucket); err == nil && int(given.Load()) > n {
				t.Errorf("line %d: the session ended, and nothing was said", n)
			}
			b.server.Set(clitest.Faults{})
			if err := give(bucket); err != nil {
				t.Errorf("line %d: %v", n, err)
			}
			b.has(t, b.p1, bucket)
		}
		if err := b.driver.Remove(t.Context()); err != nil || strings.Contains(b.Running(), qos.Prefix) {
			t.Errorf("%v: %s", err, b.Running())
		}
	})
}

// TestLongInterrupted is TestInterrupted at every line.
func TestLongInterrupted(t *testing.T) { TestInterrupted(t) }

// TestReleaseAfterFailedApply: ports fall back also where the last Apply broke off.
func TestReleaseAfterFailedApply(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1)
		if _, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute); err != nil {
			t.Fatal(err)
		}
		b.server.Set(clitest.Faults{Drop: func(line string) bool { return line == "interface "+b.p2 }})
		if err := b.driver.Apply(t.Context(), plain(b.p1, b.p2)); err == nil {
			t.Fatal("the session did not end")
		}
		b.server.Set(clitest.Faults{})
		if err := b.driver.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := b.table(t, b.p1); !strings.HasPrefix(got, fallback) {
			t.Errorf("the port does not fall back: %s", got)
		}
	})
}

// fallback is how the table of a port begins that falls back.
const fallback = "[0: 128-4094 > 125 2: 1-3967 > 4093]"

// TestForeignNear: a port near which another user has configured what csig's policy cannot be
// beside advertises no bucket any more, neither by an update nor when the signal ends.
func TestForeignNear(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		for name, near := range map[string]struct{ lines, undo []string }{
			"a VLAN's policy": {[]string{"traffic policy theirs", "quit", "vlan 7", "traffic-policy theirs outbound"}, []string{"vlan 7", "undo traffic-policy theirs outbound"}},
			"a mapping":       {[]string{"interface " + "%s", "port vlan-mapping vlan 2 map-vlan 3"}, nil},
		} {
			for _, release := range []bool{false, true} {
				b := newBench(t, platform, nil)
				b.setUp(t, b.p1)
				if _, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute); err != nil {
					t.Fatal(err)
				}
				lines := slices.Clone(near.lines)
				for i := range lines {
					lines[i] = strings.ReplaceAll(lines[i], "%s", b.p1)
				}
				b.Type(lines...)
				time.Sleep(2 * reconcile.Every)
				var err error
				if release {
					err = b.driver.Release(t.Context())
				} else {
					_, err = b.driver.Update(t.Context(), to(9, b.p1), time.Minute)
				}
				if permanent := (*vendors.PermanentError)(nil); !errors.As(err, &permanent) || permanent.Port != b.p1 {
					t.Errorf("%s: %v", name, err)
				}
				if got := b.table(t, b.p1); !strings.HasPrefix(got, fallback) {
					t.Errorf("%s, release %t: %s", name, release, got)
				}
				if near.undo == nil {
					continue
				}
				b.Type(near.undo...)
				time.Sleep(4 * reconcile.Every)
				if _, err := b.driver.Update(t.Context(), to(9, b.p1), time.Minute); err != nil {
					t.Error(err)
				}
				b.has(t, b.p1, 9)
			}
		}
	})
}

// TestRepair: what another user changes is seen, and restored by the next update that looks;
// what csig did not make is left alone, and the port's error.
func TestRepair(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		vid, mark := "if-match vlan-id", "remark vlan-id"
		if platform == CloudEngine {
			vid, mark = "if-match vlan", "vlan-mapping vlan"
		}
		for _, tc := range []struct {
			name    string
			lines   []string
			foreign string
		}{
			{name: "not applied", lines: []string{"interface %s", "undo traffic-policy csig-%s outbound"}},
			{name: "an edit", lines: []string{"traffic behavior csig-o901a", mark + " 2"}},
			{name: "an edited one", lines: []string{"traffic classifier csig-o0-1024-4094a", vid + " 5"}},
			{name: "an entry gone", lines: []string{"traffic policy csig-%s", "undo classifier csig-o0-1024-4094a"}},
			{name: "no record", lines: []string{"undo traffic behavior csig-setup-9100-5-c-o"}},
			{"a classifier", []string{"traffic classifier theirs", "quit", "traffic behavior theirs", "quit", "traffic policy csig-%s", "classifier theirs behavior theirs"}, "which csig did not make"},
			{"a policy", []string{"traffic policy theirs", "quit", "interface %s", "undo traffic-policy csig-%s outbound", "traffic-policy theirs outbound"}, "traffic policy theirs is applied"},
		} {
			name := tc.name
			b := newBench(t, platform, nil)
			b.setUp(t, b.p1, b.p2)
			give := func() (vendors.UpdateResult, error) {
				t.Helper()
				res, err := b.driver.Update(t.Context(), to(7, b.p1, b.p2), time.Minute)
				if !res.Leased {
					t.Fatalf("%s: %+v, %v", name, res, err)
				}
				return res, err
			}
			if _, err := give(); err != nil {
				t.Fatal(err)
			}
			lines := slices.Clone(tc.lines)
			for i := range lines {
				lines[i] = strings.ReplaceAll(lines[i], "%s", b.p1)
			}
			b.Type(lines...)
			broken := b.table(t, b.p1)
			time.Sleep(2 * reconcile.Every)
			res, err := give()
			permanent := (*vendors.PermanentError)(nil)
			switch {
			case tc.foreign == "" && (err != nil || res.Repaired == nil && res.Ops == 0):
				t.Errorf("%s: %+v, %v", name, res, err)
			case tc.foreign == "":
				b.has(t, b.p1, 7)
			case !errors.As(err, &permanent) || permanent.Port != b.p1 || !strings.Contains(err.Error(), tc.foreign):
				t.Errorf("%s: %v", name, err)
			case b.table(t, b.p1) != broken: // where csig's policy is in force it has the fallback
				if got := b.table(t, b.p1); tc.name != "a classifier" || !strings.HasPrefix(got, fallback) || !strings.Contains(b.Running(), "classifier theirs behavior theirs") {
					t.Errorf("%s: %s", name, got)
				}
			case tc.name == "a classifier":
				t.Error("the last bucket stays advertised")
			}
			b.has(t, b.p2, 7)
		}
	})
}

// TestTakeOver: another process finds the setup and goes on, without a line that is not
// needed.
func TestTakeOver(t *testing.T) {
	both(t, func(t *testing.T, platform string) {
		b := newBench(t, platform, nil)
		b.setUp(t, b.p1, b.p2)
		if _, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute); err != nil {
			t.Fatal(err)
		}
		next := Open(b.driver.cfg)
		defer next.Close()
		b.server.Forget()
		res, err := next.Update(t.Context(), to(7, b.p1), time.Minute)
		if err != nil || !res.Leased || res.Ops != 0 {
			t.Errorf("%+v, %v", res, err)
		}
		if slices.Contains(b.server.Lines(), "system-view") {
			t.Errorf("%q", b.server.Lines())
		}
		empty := newBench(t, platform, nil)
		if _, err := empty.driver.Update(t.Context(), to(7, b.p1), time.Minute); err == nil || !strings.Contains(err.Error(), "call Apply first") {
			t.Error(err)
		}
	})
}

// TestUncommitted: a commit of another login in the middle of csig's lines fails csig's
// commit, which the next update repeats.
func TestUncommitted(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, CloudEngine, nil)
		b.setUp(t, b.p1)
		first := true
		b.server.Set(clitest.Faults{After: func(line string) {
			if line == "system-view" && first {
				first = false
				b.Type("traffic classifier theirs")
			}
		}})
		_, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute)
		if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != b.p1 || !strings.Contains(err.Error(), "changed by another session") {
			t.Error(err)
		}
		if _, err := b.driver.Update(t.Context(), to(7, b.p1), time.Minute); err != nil {
			t.Error(err)
		}
		if b.has(t, b.p1, 7); !strings.Contains(b.Running(), "traffic classifier theirs") {
			t.Error("the other's change is gone")
		}
	})
}
