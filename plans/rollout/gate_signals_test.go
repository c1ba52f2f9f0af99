package rollout

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/vlanrules"
)

// silent is a device whose agent says which ports have no live signal.
type silent struct {
	Target
	until time.Time // from then on none
	ports map[string]string
}

func (s silent) NoSignal(context.Context) (map[string]string, error) {
	if !time.Now().Before(s.until) {
		return nil, nil
	}
	return s.ports, nil
}

// A gate waits for the live signal of the ports that update, and stays closed without it: hosts would read a fallback.
func TestGateWaitsForSignals(t *testing.T) {
	dead := map[string]string{"a": "stale: its counters cannot be read: no answer", "elsewhere": "stale: no concern of this plan"}
	for name, tc := range map[string]struct {
		after  time.Duration // all are live
		ports  map[string]string
		action vlanrules.Action
		allow  bool
		want   string // in the error; "": the gate opens
		silent int
		waits  time.Duration
	}{
		"live at once":          {after: 0, ports: dead, action: vlanrules.Update},
		"live after a while":    {after: 12 * time.Second, ports: dead, action: vlanrules.Update, waits: 12 * time.Second},
		"dead":                  {after: time.Hour, ports: dead, action: vlanrules.Update, waits: liveWithin, want: "device s1, port a: no live signal after 30s (stale: its counters cannot be read: no answer)"},
		"dead, and allowed":     {after: time.Hour, ports: dead, action: vlanrules.Update, allow: true, silent: 1},
		"a port that strips":    {after: time.Hour, ports: dead, action: vlanrules.Strip},
		"no port of this setup": {after: time.Hour, ports: map[string]string{"elsewhere": "stale"}, action: vlanrules.Update},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, f := threeStages(t)
				for wave, w := range p.EachWave() {
					if wave == "fence/all" {
						w.Steps[0].Want = setup(tc.action, "a")
					}
				}
				began := time.Now()
				g := &Health{Plan: p, AllowStale: tc.allow, Open: func(ctx context.Context, device string) (Target, error) {
					d, err := f.open(ctx, device)
					return silent{d, began.Add(tc.after), tc.ports}, err
				}}
				if err := g.Before(t.Context(), []string{"s1"}); err != nil {
					t.Fatal(err)
				}
				f.devices["s1"] = setup(tc.action, "a")
				j, err := g.After(t.Context(), "fence/all", []string{"s1"})
				if j.Silent != tc.silent {
					t.Errorf("%d ports without a signal, want %d", j.Silent, tc.silent)
				}
				if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
				if took := time.Since(began); took < tc.waits || took > tc.waits+2*time.Second {
					t.Errorf("it took %v, want %v", took, tc.waits)
				}
			})
		})
	}
}
