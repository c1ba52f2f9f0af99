package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/probe"
)

// TestLongChaos does to agents what goes wrong in years, in an order that CSIG_SEED gives, once each, or for
// CSIG_CHAOS: make chaos FOR=30m SEED=7. All the time frames pass and are captured behind each
// switch: none has a better S than the truth for longer than the lease allows, none leaves
// with a tag where none may be, and none stops. At the end the agents hold no more than at the
// beginning, and nothing of theirs is left on the switches. With -update it draws docs/chaos.svg.
// The summary goes to the file CSIG_CHAOS_SUMMARY, too.
func TestLongChaos(t *testing.T) {
	t.Parallel()
	if !mayLoad(t, "--mixed") {
		return
	}
	began := time.Now()
	seed, length := uint64(1), time.Duration(0) // each fault once
	var err error
	if v := os.Getenv("CSIG_CHAOS"); v != "" {
		if length, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	if v := os.Getenv("CSIG_SEED"); v != "" {
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	c := newChaos(t, seed, length)
	var watching sync.WaitGroup
	defer watching.Wait()
	watch, stopWatching := context.WithCancel(t.Context())
	defer stopWatching()
	watching.Go(func() { c.watchTruth(watch) })
	watching.Go(func() { c.watchAgents(watch) })
	for i, s := range c.senders {
		every := []time.Duration{4, 10, 10, 10}[i] * time.Millisecond
		watching.Go(func() {
			if err := s.Run(watch, every, 0); err != nil {
				t.Error(err)
			}
		})
	}
	before := c.atRest()
	rules := make([]string, len(c.hops))
	for i, h := range c.hops {
		rules[i] = structure(h.ruleset("table", "netdev", "csig"))
	}

	c.began = time.Now()
	chaos, calm := context.WithCancel(t.Context())
	defer calm()
	if length > 0 {
		defer time.AfterFunc(length, calm).Stop()
	}
	var faults, raging, judging sync.WaitGroup
	var broken atomic.Bool
	for _, h := range c.hops {
		faults.Go(func() {
			broken := &broken
			defer func() { // also of one that does not return
				if broken != nil {
					broken.Store(true)
					calm()
				}
			}()
			h.rage(chaos)
			broken = nil
		})
	}
	raging.Go(func() { c.changeLoads(chaos) })
	judge, verdict := context.WithCancel(t.Context())
	defer verdict()
	judging.Go(func() {
		for judge.Err() == nil {
			c.judgeFrames(time.Now().Add(-judgeAfter))
			select {
			case <-judge.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	faults.Wait()
	calm()
	raging.Wait()
	if length == 0 {
		c.length = time.Since(c.began).Round(time.Second)
	}
	if broken.Load() { // what was not undone would be wrong below
		verdict()
		judging.Wait()
		return
	}
	after := c.atRest()
	for i, h := range c.hops {
		if now := structure(h.ruleset("table", "netdev", "csig")); now != rules[i] {
			t.Errorf("seed %d: the rules of %s are\n%s\nand were\n%s", seed, h.name, now, rules[i])
		}
	}
	verdict()
	judging.Wait()
	c.leaks(before, after)
	if n := c.counts; n.measured < (n.measured+n.upstream+n.fallback+n.none)/4 || n.stripped == 0 || n.untagged == 0 {
		t.Errorf("too few frames have what was measured: %+v", n)
	}
	if n := c.counts; n.unknown > (n.measured+n.upstream+n.fallback+n.none)/unknownPart {
		t.Errorf("the truth of too many frames is not known, as the machine is too busy: %+v", n)
	}
	summary := c.summary(before, after)
	report := fmt.Sprintf("%s\nthe test took %v\n", summary, time.Since(began).Round(time.Second))
	fmt.Print(report)
	if file := os.Getenv("CSIG_CHAOS_SUMMARY"); file != "" { // go test shows nothing of a test that passes
		if err := os.WriteFile(file, []byte(report), 0o644); err != nil {
			t.Error(err)
		}
	}
	if *update {
		if err := c.draw(summary); err != nil {
			t.Error(err)
		}
	}
	c.everyone(syscall.SIGINT)
	for _, h := range c.hops {
		// Killed in writes, and with a full disk.
		if out, err := exec.Command(csig, "why", "swp3", "--file", filepath.Join(h.disk, "records")).CombinedOutput(); err != nil {
			t.Errorf("seed %d: what %s has kept cannot be read: %v\n%s", seed, h.name, err, out)
		}
		if left := h.ruleset("ruleset"); left != "" {
			t.Errorf("%s has left\n%s", h.name, left)
		}
	}
	c.unstripped()
}

// structure is a table without the elements of its sets, which change all the time.
func structure(table string) string {
	var b strings.Builder
	in := false
	for line := range strings.Lines(table) {
		if start := strings.Contains(line, "elements = {"); start || in {
			in = !strings.Contains(line, "}")
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

// changeLoads steps the load of each link now and then, between values in the middle of buckets.
func (c *chaos) changeLoads(ctx context.Context) {
	random := rand.New(rand.NewPCG(c.seed, 99))
	mid := midLoads(c.t, &bed{fleet: c.fleet}, 8)
	for {
		l := c.loads[random.IntN(len(c.loads))]
		if err := l.SetRate(mid[random.IntN(len(mid))]); err != nil {
			c.t.Error(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(200*time.Millisecond + time.Duration(random.Int64N(int64(800*time.Millisecond)))):
		}
	}
}

// unstripped wants tagged frames from the ports that removed tags: nothing of the agents is left.
func (c *chaos) unstripped() {
	c.t.Helper()
	for _, p := range c.taps {
		if !p.stripped {
			continue
		}
		tagged := func(frames []probe.Received) bool {
			for i := range frames {
				if frames[i].Tagged {
					return true
				}
			}
			return false
		}
		if !within(patience, func() bool { return tagged(p.take(time.Now())) }) {
			c.t.Fatalf("%s still removes tags", p.hop.name)
		}
	}
}
