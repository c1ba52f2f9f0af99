package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// followed is a recorder whose set-up somebody else makes.
type followed struct {
	recorder
	domain *vendors.Setup
	found  *vendors.Setup
}

func (f *followed) Follow(domain vendors.Setup) error { f.domain = &domain; return nil }
func (f *followed) Followed() *vendors.Setup          { return f.found }
func (f *followed) Look(ctx context.Context) (vendors.Seen, error) {
	f.now = f.found
	return f.recorder.Look(ctx)
}
func (f *followed) Update(ctx context.Context, u []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	if f.found == nil {
		return vendors.UpdateResult{}, vendors.ErrNoSetup
	}
	return f.recorder.Update(ctx, u, lease)
}

// A set-up for another profile is not written under, and status says what to
// do; as soon as somebody applies the agent's own, it goes on.
func TestFollowRefusesAnotherProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &profiled{}
		cfg := testConfig(t, &script{rate: 300e6}, &drv.recorder)
		cfg.Driver, cfg.Follow = drv, true
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ports := []vendors.PortSetup{{Port: "swp1", Action: vlanrules.Update}}
		drv.found = &vendors.Setup{TPID: 0x9900, Profile: strings.Repeat("ab", 32), Ports: ports}
		for range 3 {
			time.Sleep(100 * time.Millisecond)
			_ = a.Cycle(t.Context())
		}
		s := a.Status()
		own := vendors.ShortProfile(s.ProfileHash)
		if s.DataPlane != api.DataPlaneFallback || !strings.Contains(s.Cycle.LastError, "made for profile abababababab…, and this agent's file has "+own+": bring the device to the agent's profile with csig plan and csig apply first") {
			t.Errorf("%s, last error %q", s.DataPlane, s.Cycle.LastError)
		}
		drv.found = &vendors.Setup{TPID: 0x9900, Profile: s.ProfileHash, Ports: ports}
		cycles(t, a, 2)
		if s := a.Status(); s.DataPlane != api.DataPlaneLeased || s.Cycle.LastError != "" {
			t.Errorf("its own profile: %s, last error %q", s.DataPlane, s.Cycle.LastError)
		}
	})
}

// profiled is a follower that keeps to the contract about profiles.
type profiled struct{ followed }

func (f *profiled) Update(ctx context.Context, u []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	if err := vendors.CheckProfile(f.found.Profile, f.domain.Profile); err != nil {
		return vendors.UpdateResult{}, err
	}
	return f.followed.Update(ctx, u, lease)
}

func TestFollowShowsWhatItFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := &followed{}
		cfg := testConfig(t, &script{rate: 300e6}, &drv.recorder)
		cfg.Driver, cfg.Follow = drv, true
		a, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if drv.domain == nil || drv.domain.TPID != 0x9900 {
			t.Fatalf("it follows the domain %+v", drv.domain)
		}
		for _, tc := range []struct {
			name, plane, state, found string
			setup                     *vendors.Setup
			signals                   int
		}{
			{"nothing", api.DataPlaneAbsent, api.StateWaiting, "", nil, 0},
			{"update", api.DataPlaneLeased, api.StateLive, "update", &vendors.Setup{TPID: 0x9900, Ports: []vendors.PortSetup{{Port: "swp1", Action: vlanrules.Update}}}, 2},
			{"strip", api.DataPlaneLeased, api.StateStrip, "strip", &vendors.Setup{TPID: 0x9900, Ports: []vendors.PortSetup{{Port: "swp1", Action: vlanrules.Strip}}}, 0},
			{"another port", api.DataPlaneLeased, api.StatePassthrough, "", &vendors.Setup{TPID: 0x9900, Ports: []vendors.PortSetup{{Port: "swp2", Action: vlanrules.Update}}}, 0},
			{"update again", api.DataPlaneLeased, api.StateLive, "update", &vendors.Setup{TPID: 0x9900, Ports: []vendors.PortSetup{{Port: "swp1", Action: vlanrules.Update}}}, 2},
			{"nothing again", api.DataPlaneAbsent, api.StateWaiting, "", nil, 0},
		} {
			drv.found = tc.setup
			cycles(t, a, 3)
			s := a.Status()
			p := s.Ports[0]
			if !s.Follows || s.DataPlane != tc.plane || p.State != tc.state || p.Found != tc.found || p.Action != "update" || len(p.Signals) != tc.signals {
				t.Errorf("%s: %s, %+v", tc.name, s.DataPlane, p)
			}
			if s.Cycle.Failed != 0 || s.Cycle.LastError != "" {
				t.Errorf("%s: %+v", tc.name, s.Cycle)
			}
		}
		if len(drv.applied) != 0 || drv.removed != 0 {
			t.Errorf("it applied %d set-ups and removed %d", len(drv.applied), drv.removed)
		}
	})
}

func TestFollowNeedsADriverThatCan(t *testing.T) {
	cfg := testConfig(t, &script{}, &recorder{})
	cfg.Follow = true
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "cannot follow a set-up") {
		t.Errorf("%v", err)
	}
	drv := &followed{found: &vendors.Setup{TPID: 0x9900}}
	cfg.Driver = drv
	drv.update = errors.New("broken")
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		cycles(t, a, 3)
		if s := a.Status(); s.Cycle.Failed == 0 || s.DataPlane != api.DataPlaneFallback {
			t.Errorf("%+v, %s", s.Cycle, s.DataPlane)
		}
	})
}
