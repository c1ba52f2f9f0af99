package all

import (
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/linux"
	"github.com/csig-agent/csig/vlanrules"
)

// A driver that never ran on hardware says so: apply asks for facts or the opt-in.
func TestExperimental(t *testing.T) {
	r := Default()
	for _, name := range r.Drivers() {
		p, _ := r.Platform(name)
		if ran := name == "linux" || name == "linux-ebpf" || name == "ovs"; ran != (p.Experimental == "") {
			t.Errorf("%s: experimental is %q", name, p.Experimental)
		}
	}
	for _, name := range r.Platforms() {
		if p, _ := r.Platform(name); p.Open == nil && p.Experimental != "" {
			t.Errorf("%s has no driver that could be experimental", name)
		}
	}
}

func TestRegistry(t *testing.T) {
	r := Default()
	for _, tc := range []struct{ platform, want string }{
		{"plan9", "csig platforms lists those"},
		{"linuks", `did you mean "linux"?`},
		{"iosxe", "csig has no driver for Cisco IOS XE (csig platforms iosxe)"},
	} {
		_, err := Open(tc.platform, vendors.Config{})
		var p *vendors.PermanentError
		var none *vendors.NoDriverError
		if !errors.As(err, &p) || !errors.As(err, &none) || none.Platform != tc.platform || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.platform, err, tc.want)
		}
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a second registration does not panic")
			}
		}()
		r.Register("linux", Platform{Title: "Linux", Open: openLinux, Offline: linux.Offline})
	}()
	d, err := r.Open("linux", vendors.Config{})
	switch {
	case runtime.GOOS != "linux" && (d != nil || err == nil):
		t.Errorf("on %s: %v, %v", runtime.GOOS, d, err)
	case err == nil:
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	case d != nil:
		t.Errorf("a driver beside the error %v", err)
	}
}

// A Linux switch behind SSH is set up by its agent alone; what is this machine is not
// behind SSH.
func TestLinuxBehindSSH(t *testing.T) {
	cfg := vendors.Config{Device: inventory.Device{Address: "192.0.2.1", Management: inventory.Management{SSH: &inventory.SSH{User: "root"}}}}
	var permanent *vendors.PermanentError
	if _, err := Open("linux", cfg); !errors.As(err, &permanent) || !strings.Contains(err.Error(), "csig agent --wait") {
		t.Errorf("%v", err)
	}
	for _, here := range []vendors.Config{{}, {NetNS: 3, Device: cfg.Device}, {Device: inventory.Device{Local: true, Management: cfg.Device.Management}}} {
		if here.Remote() {
			t.Errorf("%+v is behind SSH", here)
		}
	}
}

// Without a setup there is nothing to compare, or to write down.
func TestLinuxWithoutASetup(t *testing.T) {
	p, err := Default().Platform("linux")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Diff(vendors.Setup{}, vendors.Setup{}); err == nil {
		t.Error("Diff takes a setup of nothing")
	}
	if _, err := p.Commands(vendors.Config{}, vendors.Setup{}, vendors.Setup{}); err == nil {
		t.Error("Commands takes a setup of nothing")
	}
}

// TestFacts holds every platform to what csig platforms prints: statements have
// sources, verdicts that are not full have reasons, and the rule compiler's
// capabilities agree with them.
func TestFacts(t *testing.T) {
	r := Default()
	for _, name := range r.Platforms() {
		t.Run(name, func(t *testing.T) {
			p, err := r.Platform(name)
			if err != nil {
				t.Fatal(err)
			}
			f := p.Offline()
			if f.Platform != name {
				t.Errorf("the facts are of %q", f.Platform)
			}
			for what, v := range map[string]vlanrules.Verdict{"update": f.Update, "wide": f.Wide, "strip": f.Strip, "lease": f.Lease, "passthrough": f.Passthrough} {
				if (v.Level == vlanrules.Full) != (v.Reason == "") {
					t.Errorf("%s: %s, reason %q", what, v.Level, v.Reason)
				}
			}
			if c := f.ConfigUpdates; c != nil && (!c.Interval.Known() || c.Interval.Is < time.Second || c.Lines < 1) {
				t.Errorf("its updates are changes of configuration: %+v", c)
			}
			if p.Open == nil && f.Update.Level != vlanrules.Refused {
				t.Error("no driver, and it updates")
			}
			traits := reflect.ValueOf(f.Traits)
			known := 0
			for i := range traits.NumField() {
				field := traits.Type().Field(i).Name
				source, ok := traits.Field(i).Interface().(vendors.Source)
				if !ok {
					source = traits.Field(i).FieldByName("Source").Interface().(vendors.Source)
				}
				switch {
				case source.Known() != (source.From != ""):
					t.Errorf("%s: mark %q, source %q", field, source.Mark, source.From)
				case source.Known():
					known++
				case !traits.Field(i).IsZero():
					t.Errorf("%s: %+v without a mark", field, traits.Field(i).Interface())
				}
				if p.Open == nil && source.Mark == vendors.Ran {
					t.Errorf("%s: nothing was run on a platform without a driver", field)
				}
			}
			if known < 15 {
				t.Errorf("only %d statements", known)
			}
			if p.Open == nil {
				return
			}
			if !reflect.DeepEqual(f.Rules, p.Rules) {
				t.Errorf("its facts have the table %+v, it %+v", f.Rules, p.Rules)
			}
			match := map[vlanrules.MatchKind]vendors.Match{vlanrules.MatchRange: vendors.MatchRange, vlanrules.MatchTernary: vendors.MatchTernary,
				vlanrules.MatchTernaryUnordered: vendors.MatchTernary, vlanrules.MatchExact: vendors.MatchExact}[p.Rules.Match]
			if got := f.Traits.MatchVID.Is; got != match && (got != vendors.MatchAny || match == vendors.MatchExact) {
				t.Errorf("its traits match the VID by %q, its table by %s", got, p.Rules.Match)
			}
			if p.Rules.MatchPCP == (f.Traits.MatchPCP.Is == vendors.MatchNone) {
				t.Errorf("its traits match the PCP by %q, its table: %v", f.Traits.MatchPCP.Is, p.Rules.MatchPCP)
			}
			if n := len(f.TagDepths) - 1; n >= 0 && f.TagDepths[n].Level != vlanrules.Refused && f.Traits.VLANs.Is != n {
				t.Errorf("its traits have %d VLAN tags in front, its depths %d", f.Traits.VLANs.Is, n)
			}
		})
	}
}
