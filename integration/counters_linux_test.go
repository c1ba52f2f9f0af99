package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/snmp"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/quantize"
)

// TestLongOnTime are tests that see what is late, so that they run beside each other alone.
func TestLongOnTime(t *testing.T) {
	for name, test := range map[string]func(*testing.T){"snmpd": snmpdAgainstTheKernel, "snmpd that restarts": snmpdRestartAgainstTheKernel, "alerts": alerts, "alerts of ports": alertsOfPorts, "alerts of rules": alertsOfRules} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// snmpdAgainstTheKernel reads a loaded switch each second through net-snmp, as
// v2c and v3, in spite of its cache of 3 s; through one that refreshes on a
// timer of its own; and with the agent itself in shadow mode. All at once, since it
// takes a minute.
func snmpdAgainstTheKernel(t *testing.T) {
	const (
		learning = 25 * time.Second // the first refreshes: there may be one in 5 s
		judged   = 36 * time.Second
	)
	s := newPolledSwitch(t)
	cached := startSnmpd(t, s.s1, snmpdPort, nil, "")
	timer, log := startTimerSnmpd(t, s.s1)
	for _, cfg := range []snmp.Config{cached.v2c(polledPorts...), cached.v3(polledPorts...), timer.v2c(polledPorts...)} {
		awaitSnmpd(t, s.s1, cfg)
	}
	shadow := startShadow(t, s.s1)
	pollers := []*poller{
		newPoller(t, "v2c", cached.v2c(polledPorts...)),
		newPoller(t, "v3", cached.v3(polledPorts...)),
		newPoller(t, "timer", timer.v2c(polledPorts...)),
	}
	// One more reads at the instants at which the timer's agent refreshes, where a
	// reading is partly old and partly new.
	inStep := newPoller(t, "timer, in step", timer.v2c(polledPorts...))
	inStep.begin = readTimerLog(t, log)[0].At.Add(-2 * time.Millisecond)
	for inStep.begin.Before(time.Now()) {
		inStep.begin = inStep.begin.Add(time.Second)
	}
	pollers[2].begin = inStep.begin.Add(500 * time.Millisecond) // and this one is not
	pollers = append(pollers, inStep)
	// And one so rarely that the cache is refreshed between its readings.
	rarely := newPoller(t, "each 5 s", cached.v2c(polledPorts...))
	rarely.every = 5 * time.Second
	pollers = append(pollers, rarely)
	// Half a second more, so that the last reading is not cut off.
	ctx, stop := context.WithTimeout(t.Context(), learning+judged+4500*time.Millisecond)
	defer stop()
	began := time.Now()
	var wg sync.WaitGroup
	for _, p := range pollers {
		wg.Go(func() { p.poll(ctx, s.s1) })
	}
	wg.Go(func() { t.Run("the commands", func(t *testing.T) { checkCommands(t, s.s1) }) })
	if err := s.watch(ctx); err != nil {
		t.Error(err)
	}
	wg.Wait()

	for i, period := range []time.Duration{snmpdCache, snmpdCache, timerPeriod} {
		p := pollers[i]
		t.Run(p.name, func(t *testing.T) {
			p.check(t, s.truths, began.Add(learning), int(judged/period)-2, period)
		})
	}
	t.Run(inStep.name, func(t *testing.T) { inStep.checkInStep(t, s.truths, began.Add(learning)) })
	t.Run(rarely.name, func(t *testing.T) { rarely.checkRarely(t, s.truths) })
	t.Run("instants of the timer", func(t *testing.T) { pollers[2].checkInstants(t, readTimerLog(t, log), began.Add(learning)) })
	t.Run("the agent", func(t *testing.T) { checkShadow(t, shadow) })
}

// snmpdRestartAgainstTheKernel stops snmpd for a while, more than once, under a
// steady load: no window before or after may be off, and none reaches over the outage.
func snmpdRestartAgainstTheKernel(t *testing.T) {
	const settle = 13 * time.Second // enough refreshes for windows
	s := newPolledSwitch(t)
	agent := startSnmpd(t, s.s1, snmpdPort, nil, "")
	cfg := agent.v2c(steadyPort)
	awaitSnmpd(t, s.s1, cfg)
	cfg.Within = time.Second
	p := newPoller(t, "restarted", cfg)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { p.poll(ctx, s.s1) })
	watched := make(chan error, 1)
	go func() { watched <- s.watch(ctx) }()
	pause := func(d time.Duration) {
		select {
		case err := <-watched:
			t.Fatal("the truth: ", err)
		case <-time.After(d):
		}
	}
	type outage struct{ from, to time.Time }
	var outages []outage
	pause(settle)
	for _, long := range []time.Duration{200 * time.Millisecond, 5 * time.Second} {
		o := outage{from: time.Now()}
		agent.stop()
		pause(long)
		agent.start(t)
		awaitSnmpd(t, s.s1, agent.v2c(steadyPort))
		o.to = time.Now()
		outages = append(outages, o)
		pause(settle)
	}
	stop()
	wg.Wait()
	if err := <-watched; err != nil {
		t.Fatal(err)
	}
	p.judge(t, steadyPort, s.truths[steadyPort], time.Time{})
	after := make([]int, len(outages))
	for i := range p.got {
		g := &p.got[i]
		if g.est.State == counters.Stale {
			t.Errorf("read at %s: %s", g.read.Format("05.000"), g.est.Reason)
		}
		if g.est.State != counters.OK {
			continue
		}
		if lo, hi := g.est.LoadRange(); float64(hi) < 0.98*steadyLoad || float64(lo) > 1.02*steadyLoad {
			t.Errorf("read at %s: load %d (%d…%d), window %v ±%v; want %d", g.read.Format("05.000"), g.est.Load(), lo, hi, g.est.End.Sub(g.est.Start), g.est.Error, steadyLoad)
		}
		for j, o := range outages {
			if g.est.Start.Before(o.from) && g.est.End.After(o.to) {
				t.Errorf("a window from %v before the outage to %v after it", o.from.Sub(g.est.Start), g.est.End.Sub(o.to))
			}
			if g.est.Start.After(o.from) && (j+1 == len(outages) || g.est.End.Before(outages[j+1].from)) {
				after[j]++
			}
		}
	}
	t.Logf("windows after each restart: %v", after)
	for j, n := range after {
		if n == 0 {
			t.Errorf("restart %d: no window afterwards", j+1)
		}
	}
}

// snmpdCache is how long net-snmp keeps its interface table.
const snmpdCache = 3 * time.Second

// check judges every port from a time on, with at least so many windows that are
// expected.
func (p *poller) check(t *testing.T, truths map[string]*truth, from time.Time, windows int, period time.Duration) {
	for _, err := range p.fails {
		t.Error(err)
	}
	st := p.pipe.Refresh()
	t.Logf("learned: %v, a refresh every %v ±%v; %d seen", st.Kind, st.Period, st.PeriodError, st.Refreshes)
	known := p.gap() + period/100
	if st.Kind == counters.RefreshUnknown {
		known += p.gap() // two refreshes, each between two readings
	}
	if off := (st.Period - period).Abs(); off > st.PeriodError+period/100 || st.PeriodError > known || st.Stuck {
		t.Errorf("learned %+v, want a period of %v", st, period)
	}
	if note := st.IntervalNote(time.Second); st.Period-st.PeriodError > time.Second && !strings.Contains(note, "has news only every") {
		t.Errorf("about a Δt of 1 s: %q", note)
	}
	for _, port := range polledPorts {
		v := p.judge(t, port, truths[port], from)
		t.Logf("%s: %d windows; load %+.3f %% of the kernel's over all, one window %.3f %% off at worst; %d buckets doubtful, %d of them wrong",
			port, v.windows, 100*v.overall, 100*v.worst, v.doubtful, v.wrong)
		if v.windows < windows || !p.exact(v) {
			t.Errorf("%s: %d windows, load %+.3f %% off; want %d or more", port, v.windows, 100*v.overall, windows)
		}
		switch port {
		case steadyPort, idlePort:
			// Wrong ones are those in doubt: judge wants that.
			if v.wrong > v.doubtful {
				t.Errorf("%s: %d wrong buckets in the steady state, %d in doubt", port, v.wrong, v.doubtful)
			}
		case steppedPort:
			if v.doubtful == 0 {
				t.Errorf("%s: loads at a bucket's edge, and no doubt", port)
			}
		}
	}
	repeats := 0
	for i := range p.got {
		switch g := &p.got[i]; {
		case g.est.State == counters.NotRefreshed:
			repeats++
		case g.est.State == counters.Stale || g.est.State == counters.Discontinuity || g.est.State == counters.Error:
			t.Errorf("%s: %v (%s)", g.port, g.est.State, g.est.Reason)
		case g.est.State == counters.OK && g.est.Load() == 0 && g.port != idlePort:
			t.Errorf("%s: a repeated reading passed for no traffic", g.port)
		}
	}
	if repeats < len(p.got)/3 {
		t.Errorf("%d of %d readings repeat the one before: is there no cache?", repeats, len(p.got))
	}
}

// checkInStep wants no more than that nothing is claimed that is not so: how much can
// be learned depends on which side of a refresh the readings fall.
func (p *poller) checkInStep(t *testing.T, truths map[string]*truth, from time.Time) {
	for _, err := range p.fails {
		t.Error(err)
	}
	st := p.pipe.Refresh()
	t.Logf("learned: %v, a refresh every %v ±%v; %d seen", st.Kind, st.Period, st.PeriodError, st.Refreshes)
	for _, port := range polledPorts {
		v := p.judge(t, port, truths[port], from)
		t.Logf("%s: %d windows; load %+.3f %% of the kernel's over all, one window %.3f %% off at worst; %d buckets doubtful, %d of them wrong",
			port, v.windows, 100*v.overall, 100*v.worst, v.doubtful, v.wrong)
		if v.windows < 4 || !p.exact(v) {
			t.Errorf("%s: %d windows, load %+.3f %% off", port, v.windows, 100*v.overall)
		}
	}
	for i := range p.got {
		if g := &p.got[i]; g.est.State == counters.OK && g.est.Load() == 0 && g.port != idlePort {
			t.Errorf("%s: half a refresh passed for no traffic", g.port)
		}
	}
}

// checkRarely checks that from the first reading on no load is further off than reported,
// of a source whose refreshes cannot be seen.
func (p *poller) checkRarely(t *testing.T, truths map[string]*truth) {
	for _, err := range p.fails {
		t.Error(err)
	}
	st := p.pipe.Refresh()
	t.Logf("learned: %v, a refresh every %v; %d seen", st.Kind, st.Period, st.Refreshes)
	if st.Kind != counters.RefreshHidden || st.Period != snmpdCache || st.IntervalNote(p.every) == "" {
		t.Errorf("%+v", st)
	}
	for _, port := range polledPorts {
		v := p.judge(t, port, truths[port], time.Time{})
		t.Logf("%s: %d windows, one %.1f %% off at worst; %d buckets doubtful, %d of them wrong", port, v.windows, 100*v.worst, v.doubtful, v.wrong)
		if v.windows < 9 {
			t.Errorf("%s: %d windows", port, v.windows)
		}
	}
}

// checkInstants compares Δt with the instants at which the agent's counters were
// really taken.
func (p *poller) checkInstants(t *testing.T, all []refreshed, from time.Time) {
	nearest := func(at time.Time) refreshed {
		best := all[0]
		for _, r := range all {
			if at.Sub(r.At).Abs() < at.Sub(best.At).Abs() {
				best = r
			}
		}
		return best
	}
	var worst, most time.Duration
	n := 0
	for i := range p.got {
		e := &p.got[i].est
		if p.got[i].port != steadyPort || e.State != counters.OK || e.Start.Before(from) {
			continue
		}
		n++
		from, to := nearest(e.Start), nearest(e.End)
		off := (e.End.Sub(e.Start) - to.At.Sub(from.At)).Abs()
		worst, most = max(worst, off), max(most, e.Error)
		if late := max(from.Seen.Sub(from.At), to.Seen.Sub(to.At)); off > e.Error+late+2*time.Millisecond {
			t.Errorf("Δt %v ±%v is off by %v", e.End.Sub(e.Start), e.Error, off)
		}
	}
	t.Logf("%d windows: Δt is off by %v at most, with a reported error of up to %v; unfiltered it is up to 1s", n, worst, most)
	if n < 4 || most > p.gap()+100*time.Millisecond { // the rule takes longer to be proven
		t.Errorf("%d windows, Δt uncertain by up to %v", n, most)
	}
}

// polledFleet is the switch as a fleet file describes it.
const polledFleet = `
format: csig.fleet/v1
profile:
  name: polled
  tpid: 0x9900
  interval: 1s
  signals:
    abw: {buckets: log-100M}
    abwc: {buckets: log}
devices:
  - name: s1
    platform: linux
    local: true
    address: 127.0.0.1
    counters:
      source: snmp
      snmp: {version: 2c, port: 1161, community: {env: CSIG_TEST_COMMUNITY}}
    ports:
      - {name: swp3, speed: 100M, lm: 5}
      - {name: swp5, speed: 100M, lm: 6}
`

// communityEnv is the variable that polledFleet refers to.
const communityEnv = "CSIG_TEST_COMMUNITY=public"

func writePolledFleet(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	writeFile(t, file, []byte(polledFleet))
	return file
}

// startShadow runs the agent with the same counters, programming nothing.
func startShadow(t *testing.T, in *fabric.Node) *agent {
	t.Helper()
	file := writePolledFleet(t)
	socket := filepath.Join(filepath.Dir(file), "agent.sock")
	cmd := in.Command(csig, "agent", "-i", file, "--socket", socket, "--dry-run")
	cmd.Env = append(os.Environ(), communityEnv)
	return launchIn(t, cmd, socket)
}

// checkShadow looks at the agent after the minute: what it learned, and what it
// would write.
func checkShadow(t *testing.T, a *agent) {
	st := a.await("a refresh period of 3 s", func(s *api.Status) bool {
		return (time.Duration(s.Refresh.PeriodNS) - snmpdCache).Abs() < 100*time.Millisecond+time.Duration(s.Refresh.PeriodErrorNS)
	})
	t.Logf("refresh: %+v", st.Refresh)
	if st.Cycle.Failed > 0 {
		t.Errorf("refresh %+v, cycles %+v", st.Refresh, st.Cycle)
	}
	for i, load := range []float64{steadyLoad, 0} {
		p := st.Ports[i]
		doubtful, off := len(p.Signals) > 0 && p.Signals[0].Doubtful, 0.2 // what Δt may be off by in one bucket
		if doubtful {
			off = 0.5
		}
		if p.State != api.StateLive || float64(p.LoadBPS) < (1-off)*load || float64(p.LoadBPS) > (1+off)*load || len(p.Signals) != 2 {
			t.Errorf("%+v, want a load of %.0f bit/s", p, load)
		}
		table, err := quantize.Preset(quantize.MinABW, "log-100M")
		if err != nil {
			t.Fatal(err)
		}
		if want := table.Bucket(uint64(pollSpeed - load)); len(p.Signals) > 0 && !doubtful && p.Signals[0].Bucket != want {
			t.Errorf("%s would write %+v, want S = %d", p.Port, p.Signals[0], want)
		}
	}
}

// checkCommands runs csig counters read and watch, as people do, for long enough to
// see a cache refresh twice.
func checkCommands(t *testing.T, in *fabric.Node) {
	run := func(args ...string) []byte {
		cmd := in.Command(csig, append([]string{"counters"}, args...)...)
		cmd.Env = append(os.Environ(), communityEnv)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("csig counters %v: %v\n%s", args, err, stderr.String())
		}
		return out
	}
	file := writePolledFleet(t)
	var read struct {
		Source  string
		Failed  int
		Details []string
		Ports   []struct {
			Port    string
			LoadBPS float64 `json:"load_bps"`
			Signals []struct{ Doubtful bool }
		}
	}
	if err := json.Unmarshal(run("read", "-i", file, "--every", "500ms", "--count", "22", "--json"), &read); err != nil {
		t.Fatal(err)
	}
	if read.Source != "snmp" || read.Failed != 0 || len(read.Details) == 0 || len(read.Ports) != 2 || abs(read.Ports[0].LoadBPS/steadyLoad-1) > 0.4 || read.Ports[1].LoadBPS != 0 || len(read.Ports[0].Signals) != 2 {
		t.Errorf("%+v", read)
	}
	lines := strings.Split(strings.TrimSpace(string(run("watch", "-i", file, "--json", "--duration", "2500ms"))), "\n")
	var device struct {
		Format        string
		Reads, Failed int
		AgeNS         int64 `json:"age_ns"`
		LastLateNS    int64 `json:"last_late_ns"`
		Error         string
	}
	if err := json.Unmarshal([]byte(lines[0]), &device); err != nil {
		t.Fatal(err)
	}
	if len(lines) != 2 || device.Format != "csig.watch-device/v1" || device.Reads < 2 || device.Failed != 0 || device.AgeNS <= 0 || device.LastLateNS <= 0 {
		t.Errorf("%d lines, %+v", len(lines), device)
	}
}

// awaitSnmpd waits until the agent answers for every port.
func awaitSnmpd(t *testing.T, in *fabric.Node, cfg snmp.Config) {
	t.Helper()
	cfg.Timeout = 200 * time.Millisecond
	ask := func() error {
		src, err := snmp.New(cfg)
		if err != nil {
			return err
		}
		defer src.Close()
		return in.Do(func() error {
			samples, err := src.Read(t.Context(), nil)
			for i := range samples {
				err = errors.Join(err, samples[i].Err)
			}
			return err
		})
	}
	err := errors.New("not asked")
	for deadline := time.Now().Add(patience); err != nil; err = ask() {
		if time.Now().After(deadline) {
			t.Fatalf("snmpd at port %d: %v", cfg.Port, err)
		}
	}
}
