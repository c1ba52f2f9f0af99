package openflow

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors/openflow/ofp"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// tooMany adds more flows to a table than csig reads, in few moments.
func tooMany(t *testing.T, sw *oftest.Switch, table, cookie uint64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "flows")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for i := range ofp.MaxFlows + 100 {
		fmt.Fprintf(w, "table=%d,cookie=%#x,priority=7,dl_src=06:00:%02x:%02x:%02x:00,actions=drop\n", table, cookie, i>>16, i>>8&0xff, i&0xff)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	sw.Flow("add-flows", path)
}

// TestLongRemoveUnread: of a switch with more flows than csig reads its own are removed all the
// same, and no other.
func TestLongRemoveUnread(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		table, cookie uint64
		seen          string
		stay          int // of all flows
	}{
		{"csig's, where its values are", DefaultTable + tableLive, cookie, "the switch has more than 131072 flows of csig's", 3 + 3},
		{"csig's, elsewhere", 20, cookie, "the switch has more than 131072 flows of csig's", 3 + 3},
		{"the operator's", 0, 0, "of flows csig takes 131072: csig off deletes csig's flows by their cookie, without reading them; ", 3 + 3 + ofp.MaxFlows + 100},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t, 3, oftest.Faults{})
			l.apply(t, setupFor(ports(vlanrules.Update, "p2")...))
			l.update(t, time.Minute, seven("p2"))
			tooMany(t, l.Switch, tc.table, tc.cookie)
			if s, err := l.driver.Observe(t.Context()); err != nil || !strings.Contains(s.Damaged, tc.seen) || s.Nothing() {
				t.Errorf("%+v, %v", s, err)
			}
			if _, err := l.driver.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), byCookie) {
				t.Errorf("csig says no next step: %v", err)
			}
			for range 2 {
				if err := l.driver.Remove(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if n := strings.Count(l.Flow("dump-flows", "--no-stats"), "actions="); n != tc.stay {
				t.Errorf("%d flows stay, want %d", n, tc.stay)
			}
			if n := strings.Count(l.flows(), "table=10, priority=290,metadata="); n != 3 {
				t.Errorf("flows that send on what is handed over:\n%s", l.flows())
			}
			l.is(t, "without csig", 2, best)
		})
	}
}

// TestFlatRemoveUnread is TestLongRemoveUnread of a switch with one table.
func TestFlatRemoveUnread(t *testing.T) {
	t.Parallel()
	l := newFlatLab(t, false, nil)
	tooMany(t, l.Switch, 0, cookie)
	if s, err := l.driver.Observe(t.Context()); err != nil || !strings.Contains(s.Damaged, "more than 131072 flows of csig's") {
		t.Errorf("%+v, %v", s, err)
	}
	if err := l.driver.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(l.Flow("dump-flows", "--no-stats"), "actions="); n != 2 {
		t.Errorf("%d flows stay, want the operator's two", n)
	}
}
