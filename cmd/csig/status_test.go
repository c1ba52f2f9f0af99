package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/csig-agent/csig/agent/api"
)

// sampleStatus is a status with every part that can be shown.
func sampleStatus() *api.Status {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	end := now.Add(-40 * time.Millisecond)
	return &api.Status{
		Device: "tor1", Platform: "linux", Profile: "lab", ProfileHash: strings.Repeat("0123456789abcdef", 4), TPID: 0x9900, Layout: "draft-00",
		Time: now, IntervalNS: 1e8, Schedule: "@every 100ms", LeaseNS: 3e8, OnStale: "conservative",
		DataPlane: api.DataPlaneLeased,
		SelfTest:  api.Verdict{Level: "degraded", Reason: "could not run the self-test: " + strings.Repeat("a reason of many words ", 6)},
		Cycle: api.Cycle{Count: 12345678, Skipped: 12, Failed: 345, ReadNS: 1234567, ComputeNS: 12345, ProgramNS: 13800000,
			LeaseEnds: now.Add(123 * time.Millisecond), LastError: strings.Repeat("something went wrong ", 9), Lapses: 2, LastLapseNS: 17e8, Repairs: 3},
		Verdicts: []api.Verdict{{What: "wide tags", Level: "refused", Reason: strings.Repeat("not here ", 20)}},
		Ports: []api.Port{
			{Port: "swp1", State: api.StateLive, CapacityBPS: 100e9, LoadBPS: 12.3e9, ABWBPS: 87.7e9, ABWCPPM: 877000, WindowStart: &end, WindowEnd: &end, AgeNS: 40e6,
				Signals: []api.Signal{{Signal: "abw", Bucket: 29, Locator: "17"}, {Signal: "abwc", Bucket: 28, Locator: "17"}}},
			{Port: "swp2", State: api.StateStale, AgeNS: 4e9, Reason: strings.Repeat("no reading ", 12)},
			{Port: "swp3", State: api.StateStale, AgeNS: 4e9, Reason: strings.Repeat("no reading ", 12)},
		},
	}
}

func TestStatusFitsATerminal(t *testing.T) {
	for _, columns := range []int{80, 132} {
		s := sampleStatus()
		s.Drift = &api.Drift{Checked: s.Time, Error: strings.Repeat("no answer ", 20), Differences: slices.Repeat([]api.Difference{{Port: "swp1", What: strings.Repeat("another MTU ", 20)}}, mostDrift+2)}
		text := statusText(s, columns, 0)
		for _, l := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(l); n > columns {
				t.Errorf("%d columns in %d: %q", n, columns, l)
			}
		}
		for _, want := range []string{"swp1  live   100G      12.3G  87.7G  87.7%  abw=29(17) abwc=28(17)  40ms", "\nswp2, swp3: no reading", "expired leases: 2 ", "the last for 1.7s", "repairs: 3 ", "self-test: degraded: could not run", "last error: something", "drift not checked: no answer", "DRIFT port swp1: another MTU", "DRIFT and 2 differences more"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
	}
}

// What a device that measures by itself writes is compared with what its counters say.
func TestStatusComparesSignals(t *testing.T) {
	s := sampleStatus()
	same, other := s.Ports[0].Signals[0].Bucket, uint8(27)
	s.Ports[0].Signals[0].Computed, s.Ports[0].Signals[1].Computed = &same, &other
	if text := statusText(s, 132, 0); !strings.Contains(text, "abw=29(17) abwc=28(17, counters=27)") {
		t.Error(text)
	}
}

func TestStatusSaysWhatTheDataPlaneDoes(t *testing.T) {
	for plane, want := range map[string]string{
		api.DataPlaneLeased:   "lease: 300ms, ends in 123ms unless renewed; then conservative",
		api.DataPlaneNone:     "lease: none yet",
		api.DataPlaneFallback: "lease: ENDED 1.5s ago; the data plane has fallen back: conservative",
		api.DataPlaneForeign:  "lease: NONE: our rules are gone",
		api.DataPlaneAbsent:   "lease: NONE: tags pass untouched (seen 123ms ago)",
		api.DataPlaneUnknown:  "lease: ENDED 1.5s ago, and what the data plane does since is not known: tags pass",
		api.DataPlaneShadow:   "SHADOW: nothing is programmed; 7 operations would have been sent",
	} {
		s := sampleStatus()
		s.DataPlane, s.Cycle.WouldOperate = plane, 7
		s.DataPlaneReason, s.DataPlaneSeen = "tags pass untouched", s.Time.Add(-123*time.Millisecond)
		switch plane {
		case api.DataPlaneNone:
			s.Cycle.LeaseEnds = time.Time{}
		case api.DataPlaneFallback, api.DataPlaneUnknown:
			s.Cycle.LeaseEnds = s.Time.Add(-1500 * time.Millisecond)
		}
		if got := planeText(s); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", plane, got, want)
		}
	}
	s := sampleStatus()
	s.DataPlane, s.Cycle.LeaseEnds = api.DataPlaneFallback, time.Time{}
	if got := planeText(s); got != "lease: none yet; ports are at their fallback: conservative" {
		t.Errorf("before the first signal: %q", got)
	}
	s = sampleStatus()
	s.DataPlane, s.DataPlaneReason = api.DataPlaneNone, "what was written was not read back yet"
	if got := planeText(s); got != "lease: confirmed, and not known to be there: what was written was not read back yet" {
		t.Errorf("before the first reading: %q", got)
	}
}

// TestStatusWithoutALease: no lease is shown where the device has none, and
// no fallback where nothing falls back.
func TestStatusWithoutALease(t *testing.T) {
	for _, tc := range []struct {
		level, plane, want, never string
	}{
		{"refused", api.DataPlaneNone, "no lease: nothing has been written yet", "fallback"},
		{"refused", api.DataPlaneLeased, "no lease: after 300ms without a cycle the agent itself makes ports fall back", "renewed"},
		{"refused", api.DataPlaneFrozen, "lease: NONE: this device cannot expire rules, and what was written 1.8s ago stays advertised", "fallen"},
		{"refused", api.DataPlaneFallback, "no lease: nothing was written for 1.8s, and ports were made to fall back: conservative", "ENDED"},
		{"degraded", api.DataPlaneFallback, "lease: ENDED 1.5s ago; the data plane falls back, as the note on the lease below describes: conservative", "has fallen"},
	} {
		s := sampleStatus()
		s.DataPlane, s.Verdicts = tc.plane, []api.Verdict{{What: "strip", Level: "full"}, {What: "lease", Level: tc.level, Reason: "no timer"}}
		switch tc.plane {
		case api.DataPlaneNone:
			s.Cycle.LeaseEnds = time.Time{}
		case api.DataPlaneFrozen, api.DataPlaneFallback:
			s.Cycle.LeaseEnds = s.Time.Add(-1500 * time.Millisecond)
		}
		if got := planeText(s); !strings.HasPrefix(got, tc.want) || strings.Contains(got, tc.never) {
			t.Errorf("%s, %s: %q, want %q", tc.level, tc.plane, got, tc.want)
		}
	}
}

func TestStatusOfADaemonThatWaits(t *testing.T) {
	s := &api.Status{Version: "v1", Waiting: "for a configuration: csig apply gives it one", Started: sampleStatus().Time}
	if got, want := statusText(s, 80, 0), "WAITING for a configuration: csig apply gives it one\nversion v1, since 2026-01-02 03:04:05\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestScreen draws texts on a terminal of 5 rows, and where there is none.
func TestScreen(t *testing.T) {
	lines := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "line %d\n", i+1)
		}
		return b.String()
	}
	for _, tc := range []struct {
		name     string
		terminal bool
		more     bool
		texts    []string
		want     string
	}{
		{"once", true, false, []string{"a\n"}, "a\n"},
		{"in place", true, true, []string{"aa\nb\n", "c\n"}, "aa\nb\n" + "\r\x1b[2A\x1b[Jc\n"},
		{"too tall", true, true, []string{lines(9)}, "line 1\nline 2\nline 3\n… 6 more lines: make the win…\n"},
		{"just fits", true, true, []string{lines(4)}, lines(4)},
		{"no terminal", false, true, []string{"a\n", "b\n"}, "a\n\nb\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			s := newScreen(&out)
			if tc.terminal {
				s.size = func() (int, int, bool) { return 30, 5, true }
			}
			for _, text := range tc.texts {
				if err := s.draw(text, tc.more); err != nil {
					t.Fatal(err)
				}
			}
			if got := out.String(); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestWrap(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", "\n"},
		{"short", "short\n"},
		{"two  spaces stay", "two  spaces\n  stay\n"},
		{"exactly 12ch", "exactly 12ch\n"},
		{"averyveryverylongword here", "averyveryverylongword\n  here\n"},
		{"Δt Δt Δt Δt Δt", "Δt Δt Δt Δt\n  Δt\n"},
	} {
		if got := wrap(tc.text, 12, 2); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.text, got, tc.want)
		}
	}
}
