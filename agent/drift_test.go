package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// logged keeps the messages of a log.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) Levels() []logrus.Level { return logrus.AllLevels }

func (l *logged) Fire(e *logrus.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.Contains(e.Message, "drift") {
		text := e.Message
		for _, key := range []string{"differences", "error"} {
			if v, ok := e.Data[key]; ok {
				text += ": " + v.(string)
			}
		}
		l.lines = append(l.lines, text)
	}
	return nil
}

func (l *logged) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := strings.Join(l.lines, "\n")
	l.lines = nil
	return out
}

// TestDrift: on its schedule a daemon compares the device with its configuration, tells what is
// there at two looks, and writes nothing.
func TestDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv, log := &recorder{}, &logged{}
		k := newKeeper(t, drv, func(cfg *Config) { cfg.Log.Logger.AddHook(log) })
		k.begin(t)
		defer k.close(t)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- k.Run(ctx) }()
		k.configure(t, changed("interval: 100ms", "interval: 2m")) // there are hours of cycles, and three Δt are longer than a look may take
		if s := k.Status(); s.Drift != nil {
			t.Errorf("drift before a check: %+v", s.Drift)
		}
		time.Sleep(driftFirst + 2*driftLook)
		if d := k.Status().Drift; d == nil || d.Checked.IsZero() || d.Error != "" || d.Differences == nil || len(d.Differences) > 0 {
			t.Fatalf("the first check: %+v", d)
		}
		writes := func() (n int) {
			k.with(func(r *recorder) { n = len(r.applied) + r.removed })
			return n
		}
		before := writes()
		next := time.Hour + driftSpread + time.Minute + 3*2*time.Minute // a difference is looked at again three Δt later
		want := func(differences ...string) {
			t.Helper()
			time.Sleep(next)
			var got []string
			for _, f := range k.Status().Drift.Differences {
				got = append(got, f.String())
			}
			if !slices.Equal(got, differences) {
				t.Errorf("drift %q, want %q", got, differences)
			}
		}

		strip := vendors.Change{Kind: vendors.Remove, Port: "swp1", What: "strip", Detail: "gone"}
		k.with(func(r *recorder) {
			r.changes = []vendors.Change{strip, {Kind: vendors.Alter, What: "TPID\x1b[2J"}}
			r.facts.PortIssues = []vendors.PortVerdict{{Port: "swp1", Verdict: vlanrules.Verdict{Reason: "QoS is on"}}, {Port: "swp9", Verdict: vlanrules.Verdict{Reason: "no port of ours"}}}
		})
		want("port swp1: - strip: gone", `~ TPID\x1b[2J`, "port swp1: QoS is on")
		if got := log.take(); got != `drift: the device is not as it was approved, and no cycle restores it; csig plan shows the way back: port swp1: - strip: gone; ~ TPID\x1b[2J; port swp1: QoS is on` {
			t.Errorf("log: %s", got)
		}
		want("port swp1: - strip: gone", `~ TPID\x1b[2J`, "port swp1: QoS is on")
		if got := log.take(); got != "" {
			t.Errorf("it is logged again: %s", got)
		}

		// A device that cannot be read keeps what was known of it.
		k.with(func(r *recorder) { r.observe = errors.New("no answer") })
		want("port swp1: - strip: gone", `~ TPID\x1b[2J`, "port swp1: QoS is on")
		if d := k.Status().Drift; !strings.Contains(d.Error, "no answer") || k.Status().Time.Sub(d.Checked) < next-time.Minute {
			t.Errorf("not read: %+v", d)
		}
		if got := log.take(); !strings.HasPrefix(got, "drift not checked: ") {
			t.Errorf("log: %s", got)
		}
		k.with(func(r *recorder) { r.observe, r.changes, r.facts.PortIssues = nil, nil, nil })
		want()
		if d := k.Status().Drift; d.Error != "" || log.take() != "no drift any more: the device is as it was approved" {
			t.Errorf("restored: %+v", d)
		}
		if n := writes(); n != before {
			t.Errorf("checks wrote %d times", n-before)
		}

		k.show(k.current()) // as with another configuration, which is compared as well
		if d := k.Status().Drift; d != nil {
			t.Errorf("drift of another configuration: %+v", d)
		}
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

// What a cycle restores between two looks is no drift, and a check that hangs, or that panics,
// ends.
func TestDriftIsNotWhatCyclesRestore(t *testing.T) {
	r := &running{fleet: &inventory.Fleet{}, dev: &inventory.Device{Name: "s1", Interval: time.Second, Ports: []inventory.Port{{Name: "a"}, {Name: "b"}}}, agent: &Agent{}}
	for name, tc := range map[string]struct {
		looks []look
		want  string
		err   string
	}{
		"restored":        {looks: []look{{changes: []string{"x"}}, {}}},
		"one of two":      {looks: []look{{changes: []string{"x", "y"}}, {changes: []string{"y", "z"}}}, want: "~ y"},
		"a smaller MTU":   {looks: []look{{mtus: map[string]int{"a": 1500}}, {mtus: map[string]int{"a": 1500}}}, want: "port a: its MTU is 1500, and was 9000"},
		"a larger MTU":    {looks: []look{{mtus: map[string]int{"a": 9216}}}},
		"an MTU unknown":  {looks: []look{{mtus: map[string]int{"b": 1500}}}},
		"a panic":         {looks: []look{{panics: true}}, err: "panic"},
		"the second look": {looks: []look{{changes: []string{"x"}}, {err: errors.New("no answer")}}, err: "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logger := logrus.New()
				logger.SetOutput(t.Output())
				looks := tc.looks
				d := NewDaemon(Config{Log: logrus.NewEntry(logger), OpenDriver: func(*inventory.Device) (vendors.Driver, error) {
					l := looks[0]
					looks = looks[1:]
					return &l, nil
				}})
				d.show(r)
				was := &approved{mtus: map[string]int{"a": 9000}}
				d.checkDrift(t.Context(), r, &was)
				got := d.drift
				var texts []string
				for _, f := range got.Differences {
					texts = append(texts, f.String())
				}
				if strings.Join(texts, "; ") != tc.want || !strings.Contains(got.Error, tc.err) || (got.Error == "") != (tc.err == "") || len(looks) > 0 {
					t.Errorf("%+v, %d looks left", got, len(looks))
				}
			})
		})
	}
}

// look is a driver that is looked at once.
type look struct {
	vendors.Driver
	changes []string
	mtus    map[string]int
	err     error
	panics  bool
}

func (l *look) Observe(context.Context) (vendors.Setup, error) {
	if l.panics {
		panic("a panic of the driver")
	}
	return vendors.Setup{}, l.err
}

func (l *look) Diff(_, _ vendors.Setup) (out []vendors.Change, err error) {
	for _, what := range l.changes {
		out = append(out, vendors.Change{Kind: vendors.Alter, What: what})
	}
	return out, nil
}
func (l *look) Probe(context.Context) (vendors.Facts, error) { return vendors.Facts{}, nil }
func (l *look) MTUs(context.Context) (map[string]int, error) { return l.mtus, nil }
func (l *look) SetMTU(context.Context, string, int) error    { panic("a check writes nothing") }
func (l *look) Close() error                                 { return nil }

// The schedule of checks is the fleet file's; devices of a fleet are checked at different
// instants.
func TestDriftSchedule(t *testing.T) {
	at := func(text, device string) time.Time {
		r := &running{fleet: &inventory.Fleet{Policy: inventory.Policy{DriftCheck: text}}, dev: &inventory.Device{Name: device}}
		return driftSchedule(r).Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	}
	for text, from := range map[string]time.Time{
		"":             time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"30 2 * * *":   time.Date(2026, 1, 1, 2, 30, 0, 0, time.UTC),
		"@every 15m":   time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"@every 100ms": time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		seen := map[time.Time]bool{}
		for _, name := range []string{"s1", "s2", "s3"} {
			due := at(text, name)
			if due.Before(from) || due.Sub(from) > max(driftSpread, time.Hour) && text != "" || due.Sub(from) > driftSpread && text == "30 2 * * *" {
				t.Errorf("%q: %s at %v", text, name, due)
			}
			seen[due] = true
		}
		if len(seen) != 3 {
			t.Errorf("%q: %v", text, seen)
		}
	}
}
