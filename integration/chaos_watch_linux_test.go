package integration

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/counters/chart"
)

// resources are what an agent holds at a time.
type resources struct {
	at          time.Time
	pid         int
	mib         float64
	descriptors int
	goroutines  int // -1: it was not asked, or did not answer
}

// watchAgents notes what the agents hold, each second, and their leases.
func (c *chaos) watchAgents(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	clients := map[*chaosHop]*http.Client{}
	for _, h := range c.hops {
		clients[h] = clientIn(h.Node)
		clients[h].Timeout = 300 * time.Millisecond
		defer clients[h].CloseIdleConnections()
	}
	for {
		for _, h := range c.hops {
			h.watch(ctx, clients[h])
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (h *chaosHop) watch(ctx context.Context, client *http.Client) {
	a := h.running()
	r := resources{at: time.Now(), pid: a.cmd.Process.Pid, goroutines: -1}
	var alive bool
	if r.mib, alive = memory(r.pid, "VmRSS:"); !alive {
		return // killed
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.pid))
	if err != nil {
		return
	}
	r.descriptors = len(fds)
	if text, err := get(ctx, client, "http://"+metricsAt+"/metrics"); err == nil {
		r.goroutines = value(text, "go_goroutines")
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	s, err := a.client.Status(short)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watched = append(h.watched, r); err == nil && s.LeaseNS > 0 {
		h.leases = append(h.leases, leaseAt{r.at, time.Duration(s.LeaseNS)})
	}
}

func get(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var text strings.Builder
	_, err = bufio.NewReader(res.Body).WriteTo(&text)
	return text.String(), err
}

// value is a metric's; -1 where there is none.
func value(text, name string) int {
	for line := range strings.Lines(text) {
		var v float64
		if n, _ := fmt.Sscanf(line, name+" %g", &v); n == 1 {
			return int(v)
		}
	}
	return -1
}

// most is what an agent may have more of at the end than at the beginning.
const (
	mostDescriptors = 3 // connections of those who watch come and go
	mostGoroutines  = 4
	mostGrowth      = 4.0 // MiB
)

// leaks compares what the agents hold at rest with what they held at rest after their start,
// and the memory of the one that lived on with what it had in the second quarter of its life.
func (c *chaos) leaks(before, after []resources) {
	for i, h := range c.hops {
		a, b := before[i], after[i]
		if b.descriptors > a.descriptors+mostDescriptors {
			c.t.Errorf("seed %d: the agent of %s has %d descriptors at the end, %d at the beginning", c.seed, h.name, b.descriptors, a.descriptors)
		}
		if a.goroutines < 0 || b.goroutines < 0 || b.goroutines > a.goroutines+mostGoroutines {
			c.t.Errorf("seed %d: the agent of %s has %d goroutines at the end, %d at the beginning", c.seed, h.name, b.goroutines, a.goroutines)
		}
		if h.index != 1 {
			continue
		}
		if a.pid != b.pid {
			c.t.Errorf("the agent of %s is another process", h.name)
		}
		all := h.held()
		quarter := func(n int) float64 {
			part := all[n*len(all)/4 : (n+1)*len(all)/4]
			if len(part) == 0 {
				return 0
			}
			return slices.MaxFunc(part, func(a, b resources) int { return cmp.Compare(a.mib, b.mib) }).mib
		}
		if early, late := quarter(1), quarter(3); late > early+mostGrowth {
			c.t.Errorf("seed %d: the agent of %s has up to %.1f MiB in the last quarter, and had %.1f in the second", c.seed, h.name, late, early)
		}
	}
}

// atRest is what the agents hold while nothing happens.
func (c *chaos) atRest() (list []resources) {
	c.t.Helper()
	from := make([]int, len(c.hops))
	for i, h := range c.hops {
		h.live(time.Now())
		from[i] = len(h.held())
	}
	for i, h := range c.hops {
		if !within(patience, func() bool { return len(h.held()) >= from[i]+4 }) {
			c.t.Fatalf("the agent of %s is not watched", h.name)
		}
		rest := h.held()[from[i]:]
		r := rest[len(rest)-1]
		for _, o := range rest { // what comes and goes is not there each time
			r.descriptors = min(r.descriptors, o.descriptors)
			if o.goroutines >= 0 && (r.goroutines < 0 || o.goroutines < r.goroutines) {
				r.goroutines = o.goroutines
			}
		}
		list = append(list, r)
	}
	return list
}

// held is what the hop's agent has held up to now.
func (h *chaosHop) held() []resources {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watched
}

// summary is what the run was, as a table of text.
func (c *chaos) summary(before, after []resources) string {
	var b strings.Builder
	type sum struct {
		took  []time.Duration
		stale time.Duration
	}
	kinds := map[string]*sum{}
	total := 0
	for _, h := range c.hops {
		for _, e := range h.episodes {
			s := kinds[e.kind]
			if s == nil {
				s = &sum{}
				kinds[e.kind] = s
			}
			total++
			s.took = append(s.took, e.to.Sub(e.undone))
			s.stale = max(s.stale, e.stale)
		}
	}
	ms := func(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
	fmt.Fprintf(&b, "%v of chaos, seed %d: %d faults at 3 switches\n\n", c.length, c.seed, total)
	fmt.Fprintf(&b, "%-30s %5s  %19s  %10s\n", "fault", "times", "live again, p50 max", "stalest S")
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		s := kinds[kind]
		slices.Sort(s.took)
		fmt.Fprintf(&b, "%-30s %5d  %9s %9s  %10s\n", kind, len(s.took), ms(s.took[len(s.took)/2]), ms(s.took[len(s.took)-1]), ms(s.stale))
	}
	n := c.counts
	fmt.Fprintf(&b, "\nframes judged behind the ports     %d\n", n.measured+n.upstream+n.fallback+n.none)
	fmt.Fprintf(&b, "  with a value of the port         %d\n  of a port in front of it         %d\n  with the fallback                %d\n  as they were sent                %d\n  at a port without its rules      %d of all these\n  at a time without a truth        %d, as the machine was held up\n", n.measured, n.upstream, n.fallback, n.none, n.unruled, n.unknown)
	fmt.Fprintf(&b, "frames without a tag, unchanged    %d\nframes whose tag was removed       %d\nframes lost (links down, queues)   %d\n", n.untagged, n.stripped, c.lost)
	fmt.Fprintf(&b, "invariants violated                %d\n\n", c.violations)
	fmt.Fprintf(&b, "%-6s %14s  %22s  %22s  %22s\n", "agent", "stalest/bound", "MiB begin end max", "descriptors", "goroutines")
	for i, h := range c.hops {
		mib, fds, routines := 0.0, 0, 0
		for _, r := range h.held() {
			mib, fds, routines = max(mib, r.mib), max(fds, r.descriptors), max(routines, r.goroutines)
		}
		x, y := before[i], after[i]
		fmt.Fprintf(&b, "%-6s %5d/%5d ms  %8.1f %6.1f %6.1f  %8d %6d %6d  %8d %6d %6d\n", h.name, h.worst.Milliseconds(), h.bound(time.Now()).Milliseconds(),
			x.mib, y.mib, mib, x.descriptors, y.descriptors, fds, x.goroutines, y.goroutines, routines)
	}
	return b.String()
}

// draw writes the figure of docs/operations.md, and the summary below it.
func (c *chaos) draw(summary string) error {
	minutes := c.length.Minutes()
	memory := chart.Panel{Title: "resident memory of three agents in chaos", X: "minutes", Y: "MiB", MaxX: minutes, MaxY: 40}
	files := chart.Panel{Title: "their open descriptors", X: "minutes", Y: "descriptors", MaxX: minutes}
	for i, h := range c.hops {
		m := chart.Series{Name: h.name + []string{", killed often", ", never killed", ", counters by SNMP"}[i], Color: chart.Colors[i], Size: 1.5}
		f := m
		m.Runs, f.Runs = h.runs(c.began, func(r resources) float64 { return r.mib }), h.runs(c.began, func(r resources) float64 { return float64(r.descriptors) })
		memory.Series, files.Series = append(memory.Series, m), append(files.Series, f)
		for _, r := range h.held() {
			files.MaxY = max(files.MaxY, float64((r.descriptors/10+1)*10))
		}
	}
	f, err := os.Create("../docs/chaos.svg")
	if err != nil {
		return err
	}
	if err := errors.Join(chart.WriteSVG(f, 864, 240, memory, files), f.Close()); err != nil {
		return err
	}
	const page = "../docs/operations.md"
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	block := regexp.MustCompile("(?s)(!\\[[^\n]*\\]\\(chaos\\.svg\\)\n\n```text\n).*?(```\n)")
	if !block.Match(text) {
		return fmt.Errorf("%s has no place for the summary", page)
	}
	return os.WriteFile(page, block.ReplaceAll(text, []byte("${1}"+strings.ReplaceAll(summary, "$", "$$")+"${2}")), 0o644)
}

// runs are a hop's values over minutes: a line for each process, of the most in each 400th part.
func (h *chaosHop) runs(began time.Time, of func(resources) float64) (runs [][]chart.XY) {
	step := h.c.length / 400
	pid, part := 0, time.Duration(-1)
	for _, r := range h.held() {
		at := r.at.Sub(began)
		if at < 0 || at > h.c.length {
			continue
		}
		if r.pid != pid {
			runs, pid, part = append(runs, nil), r.pid, -1
		}
		run := &runs[len(runs)-1]
		if n := at / step; n != part {
			*run, part = append(*run, chart.XY{X: at.Minutes(), Y: of(r)}), n
		} else {
			p := &(*run)[len(*run)-1]
			p.Y = max(p.Y, of(r))
		}
	}
	return runs
}
