package openflow

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

var update = flag.Bool("update", false, "write the table of docs/openflow.md")

const costPage = "../../docs/openflow.md"

// TestLongCost counts what a change of one bucket costs on a switch of 64 ports with two
// signals, for every bucket, and compares it with the table of docs/openflow.md.
func TestLongCost(t *testing.T) {
	const n = 64
	l := newLab(t, n, oftest.Faults{})
	var names []string
	for i := 1; i <= n; i++ {
		names = append(names, fmt.Sprintf("p%d", i))
	}
	setup := setupFor(ports(vlanrules.Update, names...)...)
	setup.Signals = []quantize.Signal{quantize.MinABW, quantize.MinABWC}
	l.apply(t, setup)
	to := func(s uint8, lm uint16) (res vendors.UpdateResult, c oftest.Counts, took time.Duration) {
		var all []vendors.PortUpdate
		for _, name := range names {
			all = append(all, given(name, intent(quantize.MinABW, s, lm), intent(quantize.MinABWC, s, lm)))
		}
		l.proxy.Reset()
		begin := time.Now()
		res = l.update(t, time.Minute, all...)
		return res, l.proxy.Counts(), time.Since(begin)
	}
	var b, whole strings.Builder
	b.WriteString("| change of all values | entry writes of one signal of one port | messages in all | barrier waits |\n|---|---|---|---|\n")
	whole.WriteString("s: writes, messages, barriers from s to s+1, and from s+1 to s\n")
	writes := func(c oftest.Counts) string { // of one signal of one port, without the lease's one
		per := float64(c.FlowMods-1) / (2 * n)
		return strings.TrimSuffix(fmt.Sprintf("%.1f", per), ".0")
	}
	to(0, 5)
	for round := range 2 { // the second walk finds what the first left
		to(0, 5)
		var up, down [31]oftest.Counts
		var longest time.Duration
		for s := range up {
			_, c, took := to(uint8(s)+1, 5)
			up[s], longest = c, max(longest, took)
		}
		for s := len(down) - 1; s >= 0; s-- {
			_, c, took := to(uint8(s), 5)
			down[s], longest = c, max(longest, took)
		}
		if t.Logf("round %d: the longest update took %v", round, longest); round == 0 {
			continue
		}
		least, most := up[0], up[0]
		for s := range up {
			fmt.Fprintf(&whole, "%d: %s, %d, %d; %s, %d, %d\n", s, writes(up[s]), up[s].Messages, up[s].Barriers, writes(down[s]), down[s].Messages, down[s].Barriers)
			for _, c := range []oftest.Counts{up[s], down[s]} {
				if c.Messages < least.Messages {
					least = c
				}
				if c.Messages > most.Messages {
					most = c
				}
			}
		}
		fmt.Fprintf(&b, "| one bucket, fewest writes | %s | %d | %d |\n", writes(least), least.Messages, least.Barriers)
		fmt.Fprintf(&b, "| one bucket, most writes | %s | %d | %d |\n", writes(most), most.Messages, most.Barriers)
	}
	to(7, 5)
	_, c, _ := to(7, 6)
	fmt.Fprintf(&b, "| another locator | %s | %d | %d |\n", writes(c), c.Messages, c.Barriers)
	_, c, _ = to(7, 6)
	fmt.Fprintf(&b, "| nothing: the lease | %s | %d | %d |\n", writes(c), c.Messages, c.Barriers)
	t.Log("\n" + whole.String() + b.String())

	const begins, ends = "<!-- table: cost -->\n", "<!-- end -->"
	page, err := os.ReadFile(costPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begins)
	was, after, ok2 := strings.Cut(rest, ends)
	if !ok || !ok2 {
		t.Fatal("docs/openflow.md has no place for the table")
	}
	if want := "\n" + b.String() + "\n"; was != want {
		if *update {
			if err := os.WriteFile(costPage, []byte(before+begins+want+ends+after), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Errorf("docs/openflow.md has another table: go test ./vendors/openflow -run TestLongCost -update")
	}
}
