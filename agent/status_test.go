package agent

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestStatusIsOfNow asks an agent whose cycles fail, or do not run at all: what
// it says follows the clock, not the last cycle.
func TestStatusIsOfNow(t *testing.T) {
	foreign := &vendors.PermanentError{Err: &vendors.ForeignError{What: "a foreign table"}}
	for _, tc := range []struct {
		name   string
		edit   func(*Config)
		happen func(*testing.T, *Agent, *script, *recorder)
		plane  string
		state  string
		says   string // the port's reason
		rates  bool
		stale  []bool // of each signal shown
	}{
		{"all is well", nil, func(*testing.T, *Agent, *script, *recorder) {}, api.DataPlaneLeased, api.StateLive, "", true, []bool{false, false}},
		{"stopped within the lease", nil, func(*testing.T, *Agent, *script, *recorder) { time.Sleep(2 * interval) },
			api.DataPlaneLeased, api.StateLive, "", true, []bool{false, false}},
		{"stopped for longer than the lease", nil, func(*testing.T, *Agent, *script, *recorder) { time.Sleep(4 * interval) },
			api.DataPlaneUnknown, api.StateUnknown, "it was last looked at 400ms ago, before its lease ended", false, nil},
		{"the fallback passes tags through", func(c *Config) { c.Policy.OnStale = inventory.StalePassthrough },
			func(t *testing.T, a *Agent, src *script, _ *recorder) {
				src.device = errors.New("no answer")
				cycles(t, a, 4)
			}, api.DataPlaneFallback, api.StateStale, "the lease ended", false, nil},
		{"transactions fail", nil, func(t *testing.T, a *Agent, _ *script, drv *recorder) {
			drv.update = errors.New("table full")
			cycles(t, a, 4)
		}, api.DataPlaneFallback, api.StateStale, "the lease ended 100ms ago: device s1: programming: table full", true, []bool{true, true}},
		{"readings fail", nil, func(t *testing.T, a *Agent, src *script, _ *recorder) {
			src.device = errors.New("no answer")
			cycles(t, a, 4)
		}, api.DataPlaneFallback, api.StateStale, "no answer", false, []bool{true, true}},
		{"a foreign table, at once", nil, func(t *testing.T, a *Agent, _ *script, drv *recorder) {
			drv.update = foreign
			cycles(t, a, 1)
		}, api.DataPlaneForeign, api.StateLost, "a foreign table", true, nil},
		{"csig off, and cycles fail", nil, func(t *testing.T, a *Agent, src *script, drv *recorder) {
			drv.clear()
			src.device = errors.New("no answer")
			cycles(t, a, 1)
		}, api.DataPlaneAbsent, api.StateLost, "nothing of csig is on this device: tags pass untouched", true, nil},
		{"a strip port, csig off, and cycles fail", func(c *Config) { c.Device.Ports[0].Action = vlanrules.Strip },
			func(t *testing.T, a *Agent, src *script, drv *recorder) {
				drv.clear()
				src.device = errors.New("no answer")
				cycles(t, a, 1)
			}, api.DataPlaneAbsent, api.StateLost, "nothing of csig is on this device", true, nil},
		{"csig off while cycles fail already", nil, func(t *testing.T, a *Agent, src *script, drv *recorder) {
			src.device = errors.New("no answer")
			cycles(t, a, 2)
			drv.clear()
			cycles(t, a, 10) // a second
		}, api.DataPlaneAbsent, api.StateLost, "nothing of csig is on this device", false, nil},
		{"the rules of one port are gone, and cycles fail", nil, func(t *testing.T, a *Agent, src *script, drv *recorder) {
			s := *drv.now
			s.Ports = nil
			drv.now, src.device = &s, errors.New("no answer")
			cycles(t, a, 1)
		}, api.DataPlaneLeased, api.StateLost, "nothing of csig is on this port", true, nil},
		{"rules of a strip port are changed, and cycles fail", func(c *Config) { c.Device.Ports[0].Action = vlanrules.Strip },
			func(t *testing.T, a *Agent, src *script, drv *recorder) {
				s := *drv.now
				s.Ports = []vendors.PortSetup{{Port: "swp1", Action: vlanrules.Strip, Damaged: "program is missing"}}
				drv.now, src.device = &s, errors.New("no answer")
				cycles(t, a, 1)
			}, api.DataPlaneLeased, api.StateLost, "program is missing", true, nil},
		{"the lease was taken away, and cycles fail", nil, func(t *testing.T, a *Agent, src *script, drv *recorder) {
			drv.written, src.device = false, errors.New("no answer")
			cycles(t, a, 1)
		}, api.DataPlaneFallback, api.StateStale, "the lease ended 0s ago", true, []bool{true, true}},
		{"the lease was shortened, and cycles fail", nil, func(t *testing.T, a *Agent, src *script, drv *recorder) {
			drv.until, src.device = time.Now().Add(interval+interval/2), errors.New("no answer")
			cycles(t, a, 2)
		}, api.DataPlaneFallback, api.StateStale, "the lease ended 50ms ago", true, []bool{true, true}},
		{"a port has another action, and cycles fail", nil, func(t *testing.T, a *Agent, src *script, drv *recorder) {
			s := *drv.now
			s.Ports = []vendors.PortSetup{{Port: "swp1", Action: vlanrules.Strip}}
			drv.now, src.device = &s, errors.New("no answer")
			cycles(t, a, 1)
		}, api.DataPlaneLeased, api.StateLost, "it is set up to strip, and is to update", true, nil},
		{"the device cannot be looked at", nil, func(t *testing.T, a *Agent, src *script, drv *recorder) {
			drv.blind, drv.update = errors.New("no way there"), errors.New("no connection")
			cycles(t, a, 4)
		}, api.DataPlaneUnknown, api.StateUnknown, "it cannot be looked at: no way there", true, nil},
		{"everything works again", nil, func(t *testing.T, a *Agent, src *script, drv *recorder) {
			drv.clear()
			src.device = errors.New("no answer")
			cycles(t, a, 2)
			src.device = nil
			cycles(t, a, 2)
		}, api.DataPlaneLeased, api.StateLive, "", true, []bool{false, false}},
		{"a foreign table is gone again", nil, func(t *testing.T, a *Agent, _ *script, drv *recorder) {
			drv.update = foreign
			cycles(t, a, 1)
			drv.update = nil
			cycles(t, a, 1)
		}, api.DataPlaneLeased, api.StateLive, "", true, []bool{false, false}},
		{"a device that is gone", nil, func(t *testing.T, a *Agent, src *script, drv *recorder) {
			src.port, drv.portErr = errors.New("no such interface"), &vendors.PortError{Port: "swp1", Err: errors.New("there is no such device")}
			cycles(t, a, 4)
		}, api.DataPlaneLeased, api.StateRefused, "there is no such device", false, nil},
		{"a strip port whose device is gone", func(c *Config) { c.Device.Ports[0].Action = vlanrules.Strip },
			func(t *testing.T, a *Agent, src *script, drv *recorder) {
				src.port, drv.portErr = errors.New("no such interface"), &vendors.PortError{Port: "swp1", Err: errors.New("there is no such device")}
				cycles(t, a, 4)
			}, api.DataPlaneLeased, api.StateRefused, "there is no such device", false, nil},
		{"shadow", func(c *Config) { c.Shadow = true }, func(*testing.T, *Agent, *script, *recorder) {}, api.DataPlaneShadow, api.StateLive, "", true, []bool{false, false}},
		{"shadow that stands still", func(c *Config) { c.Shadow = true }, func(*testing.T, *Agent, *script, *recorder) { time.Sleep(4 * interval) },
			api.DataPlaneShadow, api.StateStale, "there is no current reading", false, []bool{false, false}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, drv := &script{rate: 300e6}, &recorder{}
				a, _, err := begin(t.Context(), t, drv, func(c *Config) {
					c.Source = src
					if tc.edit != nil {
						tc.edit(c)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				cycles(t, a, 3)
				tc.happen(t, a, src, drv)
				st := a.Status()
				p := st.Ports[0]
				if st.DataPlane != tc.plane || p.State != tc.state || !strings.Contains(p.Reason, tc.says) {
					t.Errorf("data plane %q, port %q: %q; want %q, %q: %q", st.DataPlane, p.State, p.Reason, tc.plane, tc.state, tc.says)
				}
				code := map[string]findings.Code{api.StateLost: findings.RulesLost, api.StateRefused: findings.NotTaken, api.StateUnknown: findings.PlaneUnknown}[p.State]
				if (p.Code == "") != (p.Reason == "") || code != "" && p.Code != code {
					t.Errorf("code %q of a port that is %s: %s", p.Code, p.State, p.Reason)
				}
				if rates := p.ABWBPS != 0 || p.CapacityBPS != 0; rates != tc.rates || (p.WindowEnd != nil) != tc.rates {
					t.Errorf("figures %+v, want any: %v", p, tc.rates)
				}
				if p.AgeNS <= 0 && tc.name != "all is well" && !tc.rates {
					t.Errorf("age %d: it tells for how long nothing has been measured", p.AgeNS)
				}
				var stales []bool
				for _, sig := range p.Signals {
					stales = append(stales, sig.Stale)
					if sig.ProgrammedAt.IsZero() != (sig.Stale || st.Shadow) {
						t.Errorf("%s programmed at %v", sig.Signal, sig.ProgrammedAt)
					}
				}
				if !reflect.DeepEqual(stales, tc.stale) {
					t.Errorf("signals %+v, want stale %v", p.Signals, tc.stale)
				}
			})
		})
	}
}

func TestNothingIsLiveBeforeItIsProgrammed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{}, &recorder{update: errors.New("table full")}
		a := newTest(t, src, drv)
		cycles(t, a, 3)
		st := a.Status()
		if p := st.Ports[0]; st.DataPlane != api.DataPlaneFallback || p.State != api.StateStale || !strings.Contains(p.Reason, "table full") || len(p.Signals) != 2 || !p.Signals[0].Stale {
			t.Errorf("data plane %s, port %+v", st.DataPlane, p)
		}
	})
}

// TestUnreadableFromTheStart: a port that was never read is not stale, as
// nothing says that it advertises the fallback.
func TestUnreadableFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, drv := &script{port: errors.New("no such port")}, &recorder{}
		a := newTest(t, src, drv)
		cycles(t, a, 5)
		st := a.Status()
		if p := st.Ports[0]; st.DataPlane != api.DataPlaneNone || len(drv.leases) != 0 || p.State != api.StateWaiting || len(p.Signals) != 0 || !strings.Contains(p.Reason, "nothing has been programmed yet: no such port") {
			t.Errorf("%s, %+v", st.DataPlane, p)
		}
	})
}

func TestReleaseEndsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTest(t, &script{}, &recorder{})
		stop := run(t, a)
		time.Sleep(5*interval + interval/2)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if p := a.Status().DataPlane; p != api.DataPlaneFallback {
			t.Errorf("after the release the data plane is %s", p)
		}
	})
}

// TestLeaseEndsIsAPromise has an update that takes its time: the device may
// have counted the lease from its beginning.
func TestLeaseEndsIsAPromise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &recorder{takes: 30 * time.Millisecond}
		a := newTest(t, &script{}, drv)
		cycles(t, a, 3)
		began := time.Now().Add(-drv.takes)
		if got, want := a.Status().Cycle.LeaseEnds, began.Add(vendors.MinLease); !got.Equal(want) {
			t.Errorf("the lease ends %v after the update began, want %v", got.Sub(began), want.Sub(began))
		}
	})
}

// TestLeaseThatTheDeviceRounds has a device with coarser leases than were asked
// for: what is said is the device's, and a cycle that comes in time for that one
// is no lapse.
func TestLeaseThatTheDeviceRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &recorder{rounded: 2 * time.Second}
		a := newTest(t, &script{}, drv)
		cycles(t, a, 3)
		began := time.Now()
		s := a.Status()
		if left := s.Cycle.LeaseEnds.Sub(began); left != drv.rounded || s.LeaseNS != drv.rounded.Nanoseconds() {
			t.Errorf("a lease of %v ends in %v, want %v", time.Duration(s.LeaseNS), left, drv.rounded)
		}
		time.Sleep(time.Second) // on the test's clock
		cycles(t, a, 1)
		if s := a.Status(); s.Cycle.Lapses != 0 || drv.leases[len(drv.leases)-1] >= drv.rounded {
			t.Errorf("%d lapses of a lease that was asked for as %v", s.Cycle.Lapses, drv.leases)
		}
	})
}

// fixed is a schedule of instants; behind the last one it is every interval.
type fixed []time.Time

func (f fixed) Next(t time.Time) time.Time {
	for _, at := range f {
		if at.After(t) {
			return at
		}
	}
	return t.Add(interval)
}

// TestLeaseReachesTheNextTick has schedules with a gap: the lease forgives two
// lost cycles, whichever way the gap lies.
func TestLeaseReachesTheNextTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			name string
			next []time.Duration
			want time.Duration
		}{
			{"short steps", []time.Duration{20 * time.Millisecond, 40 * time.Millisecond}, vendors.MinLease},
			{"the next tick is far", []time.Duration{time.Second, time.Second + interval}, 3 * time.Second},
			{"the one after it is far", []time.Duration{interval, interval + 2*time.Second}, 6 * time.Second},
		} {
			var at fixed
			for _, d := range tc.next {
				at = append(at, time.Now().Add(d))
			}
			a, _, err := begin(t.Context(), t, &recorder{}, func(*Config) {})
			if err != nil {
				t.Fatal(err)
			}
			a.schedule, a.cfg.Device.Interval = at, 2*time.Second
			if got := a.leaseDuration(); got != tc.want {
				t.Errorf("%s: a lease of %v, want %v", tc.name, got, tc.want)
			}
		}
	})
}

func TestLapsesAreCountedAndLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		cfg := testConfig(t, &script{}, &recorder{})
		logger := logrus.New()
		logger.SetOutput(&out)
		cfg.Log = logrus.NewEntry(logger)
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		cycles(t, a, 5)
		if n := a.Status().Cycle.Lapses; n != 0 {
			t.Errorf("%d lapses on schedule", n)
		}
		time.Sleep(2 * time.Second) // stopped and continued
		cycles(t, a, 5)
		c := a.Status().Cycle
		if want := 2*time.Second + interval - vendors.MinLease; c.Lapses != 1 || time.Duration(c.LastLapseNS) != want {
			t.Errorf("%d lapses, the last for %v; want one of %v", c.Lapses, time.Duration(c.LastLapseNS), want)
		}
		if n := strings.Count(out.String(), "lease expired before its renewal"); n != 1 || !strings.Contains(out.String(), "lapsed=1.8s") {
			t.Errorf("%d lines about it:\n%s", n, out.String())
		}
	})
}
