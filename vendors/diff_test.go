package vendors

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// TestDiff lists the changes of what all ports share, of the profile and of ports.
func TestDiff(t *testing.T) {
	up, pass := vlanrules.Update, vlanrules.Passthrough
	base := Setup{TPID: 0x9900, Profile: "a", Ports: []PortSetup{{Port: "1", Action: up}, {Port: "2", Action: pass}}}
	with := func(change func(*Setup)) Setup { s := *base.Wanted(); change(&s); return s }
	for _, tc := range []struct {
		name       string
		have, want Setup
		changes    string
	}{
		{"the same", base, base, ""},
		{"nothing", Setup{}, base, "+ table: 9900; + profile: none recorded -> a…; + 1 update: gets update; + 2 passthrough: gets passthrough"},
		{"other TPID and profile", base, with(func(s *Setup) { s.TPID, s.Profile = 0x9901, "b" }), "~ table: 9900 -> 9901; ~ profile: a… -> b…"},
		{"damaged", with(func(s *Setup) { s.Damaged, s.Ports[1].Damaged = "gone", "bent" }), base, "~ table: repair: gone; ~ 2 passthrough: repair: bent"},
		{"other action", base, with(func(s *Setup) { s.Ports[1].Action = up }), "~ 2 update: passthrough -> update: gets update"},
		{"beside the action", base, with(func(s *Setup) { s.Ports[1].StripOthers = true }), "~ 2 passthrough: strips others"},
		{"ports come and go", base, with(func(s *Setup) { s.Ports[0].Port = "3" }), "+ 3 update: gets update; - 1 update: CSIG tags leave as they are"},
	} {
		list := append(DiffShared(&tc.have, &tc.want, "table", func(s *Setup) string { return fmt.Sprintf("%04x", s.TPID) }), DiffProfile(&tc.have, &tc.want)...)
		list = append(list, DiffPorts(&tc.have, &tc.want, func(p *PortSetup) string { return "gets " + p.Action.String() }, func(have, want *PortSetup) string {
			if want.StripOthers && !have.StripOthers {
				return "strips others"
			}
			return ""
		})...)
		var got []string
		for _, c := range list {
			got = append(got, strings.Join(strings.Fields(fmt.Sprint(c.Kind, " ", c.Port, " ", c.What)), " ")+": "+c.Detail)
		}
		if text := strings.Join(got, "; "); text != tc.changes {
			t.Errorf("%s: %s\nwant %s", tc.name, text, tc.changes)
		}
	}
}

// TestCheck refuses what no platform can have, and what this one cannot.
func TestCheck(t *testing.T) {
	base := Setup{TPID: 0x9900, Signals: []quantize.Signal{quantize.MinABW}, OnStale: "conservative", Ports: []PortSetup{{Port: "1"}, {Port: "2"}}}
	for want, change := range map[string]func(*Setup){
		"":                                  func(*Setup) {},
		"carries no signal":                 func(s *Setup) { s.Signals = nil },
		"unknown or named twice":            func(s *Setup) { s.Signals = append(s.Signals, s.Signals[0]) },
		"0x0000":                            func(s *Setup) { s.TPID = 0 },
		"not possible here: no way; use":    func(s *Setup) { s.OnStale = "strip" },
		`on_stale is "": want conservative`: func(s *Setup) { s.OnStale = "" },
		"port 2: the setup names it twice":  func(s *Setup) { s.Ports = append(s.Ports, s.Ports[1]) },
		"port bad: no such name":            func(s *Setup) { s.Ports[0].Port = "bad" },
	} {
		s := base.Wanted()
		change(s)
		err := s.Check("no way", func(p *PortSetup) error {
			if p.Port == "bad" {
				return errors.New("no such name")
			}
			return nil
		})
		var permanent *PermanentError
		if want == "" && err != nil || want != "" && (!errors.As(err, &permanent) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s := base.Wanted()
	s.OnStale = "strip"
	if err := s.Check("", func(*PortSetup) error { return nil }); err != nil {
		t.Errorf("a platform that can strip: %v", err)
	}
}
