package eos

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/eos/eostest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestRefused: what a switch cannot have is refused, and leaves it as it was.
func TestRefused(t *testing.T) {
	t.Parallel()
	with := func(change func(*vendors.Setup)) vendors.Setup {
		s := setupFor(ports[1])
		change(&s)
		return s
	}
	plain := setupFor(ports[1])
	for want, tc := range map[string]struct {
		setup  vendors.Setup
		typed  []string
		change func(*Config)
		fault  func(*eostest.Switch)
	}{
		"has priority 30003":                              {plain, []string{"directflow", "flow theirs", "priority 30003"}, nil, nil},
		"its name is csig's: rename":                      {plain, []string{"directflow", "flow csig-theirs", "priority 3"}, nil, nil},
		"has entries, and its name is":                    {plain, []string{"mac access-list csig-update-Ethernet2", "permit any any"}, nil, nil},
		"DirectFlow is shut down":                         {plain, []string{"directflow", "shutdown"}, nil, nil},
		"configure vlan 2-4,4000-4094":                    {plain, []string{"vlan 5-3999"}, nil, nil},
		"port Ethernet2: it is not a trunk":               {plain, []string{"interface Ethernet2", "no switchport mode"}, nil, nil},
		"frames come in by, Ethernet1: it is not a trunk": {plain, []string{"interface Ethernet1", "no switchport mode"}, nil, nil},
		"allows the VLANs 1-10":                           {plain, []string{"interface Ethernet2", "switchport trunk allowed vlan 1-10"}, nil, nil},
		"native VLAN is 200":                              {plain, []string{"interface Ethernet1", "switchport trunk native vlan 200"}, nil, nil},
		"its TPID is 0x88a8, which csig has not set":      {plain, []string{"interface Ethernet2", "switchport dot1q ethertype 0x88a8"}, nil, nil},
		"a member of Port-Channel7":                       {plain, []string{"interface Ethernet2", "channel-group 7 mode active"}, nil, nil},
		"the switch has no such interface":                {setupFor("Ethernet9"), nil, func(c *Config) { c.Forwarding = []Forwarding{{InPort: ports[0], Port: "Ethernet9"}} }, nil},
		"no forwarding flow to it is declared":            {setupFor(ports[0]), nil, nil, nil},
		"declare the forwarding flows":                    {plain, nil, func(c *Config) { c.Forwarding = nil }, nil},
		"match the same frames, and a frame leaves by one port": {plain, nil, func(c *Config) {
			c.Forwarding = append([]Forwarding{{InPort: ports[0], Port: ports[1]}}, forwarding...)
		}, nil},
		"no command takes a tag away":             {with(func(s *vendors.Setup) { s.Ports[0].Action = vlanrules.Strip }), nil, nil, nil},
		"on_stale: strip is not possible here":    {with(func(s *vendors.Setup) { s.OnStale = inventory.StaleStrip }), nil, nil, nil},
		"as EOS writes it":                        {setupFor("et 1; reload"), nil, nil, nil},
		"match vlan takes no mask here":           {plain, nil, nil, func(c *eostest.Switch) { c.NoMask = true }},
		"not supported on this hardware platform": {plain, nil, nil, func(c *eostest.Switch) { c.NoTPID = true }},
	} {
		clitest.Run(t, want, func(t *testing.T) {
			b := newBench(t, tc.change)
			b.Type(tc.typed...)
			if tc.fault != nil {
				tc.fault(b.Switch)
			}
			before := b.Running()
			err := b.driver.Apply(t.Context(), tc.setup)
			permanent := (*vendors.PermanentError)(nil)
			if !strings.Contains(fmt.Sprint(err), want) || !errors.As(err, &permanent) {
				t.Errorf("%v, want %s", err, want)
			}
			if b.Running() != before || len(b.Sessions()) > 0 {
				t.Errorf("something was written, or stays: %v", b.Sessions())
			}
		})
	}
}

// TestProbe: what a switch says of itself, and why ports cannot update.
func TestProbe(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		before := b.Running()
		f, err := b.driver.Probe(t.Context())
		if err != nil || f.Update.Level != vlanrules.Degraded || f.Identity != (vendors.Identity{Maker: "Arista", Model: "DCS-7050X3-FAKE", Version: "4.31.2F", Serial: "FAKE0001"}) {
			t.Errorf("%+v %+v, %v", f.Update, f.Identity, err)
		}
		if len(f.Ports) != 3 || len(f.PortIssues) != 1 || f.PortIssues[0].Port != ports[0] || f.Rules.Positions != 1 || f.ConfigUpdates.Lines != changeLines {
			t.Errorf("%v %+v %+v", f.Ports, f.PortIssues, f.Rules)
		}
		if b.Running() != before || len(b.Sessions()) > 0 {
			t.Error("Probe left something")
		}
		b = newBench(t, nil)
		b.NoMask = true
		if f, err = b.driver.Probe(t.Context()); err != nil || f.Update != vendors.Refusal(noMask) {
			t.Errorf("%+v, %v", f.Update, err)
		}
		b = newBench(t, nil)
		b.server.Set(clitest.Faults{Answer: func(line string) (string, bool) {
			return "% Unavailable command (not supported on this hardware platform)\r\n", strings.HasPrefix(line, "show directflow")
		}})
		if f, err = b.driver.Probe(t.Context()); err != nil || f.Update.Level != vlanrules.Refused || !strings.Contains(f.Update.Reason, "no DirectFlow") {
			t.Errorf("%+v, %v", f.Update, err)
		}
	})
}

// TestOptIn: without the operator's word an update writes nothing.
func TestOptIn(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, func(c *Config) { c.Updates = false })
		b.apply(t, setupFor(ports[1]))
		before := b.Running()
		if res, err := b.driver.Update(t.Context(), to(ports[1], 7), time.Minute); err == nil || res.Leased || !strings.Contains(err.Error(), "updates: cli") || b.Running() != before {
			t.Errorf("%+v, %v", res, err)
		}
		if err := b.driver.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestLines: no change of one bucket writes more than the facts say, and one of nothing
// writes nothing.
func TestLines(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		setup := setupFor(ports[1])
		setup.Signals = setup.Signals[:1]
		b.apply(t, setup)
		give := func(s uint8) int {
			t.Helper()
			u := to(ports[1], s)
			u[0].Intents = u[0].Intents[:1]
			b.server.Forget()
			if _, err := b.driver.Update(t.Context(), u, time.Minute); err != nil {
				t.Fatal(err)
			}
			return len(b.server.Lines())
		}
		give(16)
		if n := give(16); n != 0 {
			t.Errorf("%d lines for nothing: %q", n, b.server.Lines())
		}
		most := 0
		for _, s := range []uint8{0, 1, 0, 21} { // 0 to 1: five flows go and four come
			most = max(most, give(s))
		}
		if most > changeLines || most < changeLines-20 {
			t.Errorf("%d lines at most, and the facts say %d", most, changeLines)
		}
		if b.Saves() > 0 {
			t.Error("the configuration was saved")
		}
	})
}

// TestTableFull: a port whose flows are not in hardware keeps what it had, and is named;
// the other gets its flows.
func TestTableFull(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.apply(t, setupFor(ports[1], ports[2]))
		if _, err := b.driver.Update(t.Context(), append(to(ports[1], 9), to(ports[2], 9)...), time.Minute); err != nil {
			t.Fatal(err)
		}
		flowsOf := func(port string) string {
			v, err := parse(strings.Split(b.Running(), "\n"))
			if err != nil {
				t.Fatal(err)
			}
			held, damaged, _ := b.driver.held(v, port)
			return fmt.Sprint(sorted(held), damaged)
		}
		before := [2]string{flowsOf(ports[1]), flowsOf(ports[2])}
		bad := b.driver.cfg.Forwarding[1].id()
		b.Changed = func(flows []eostest.Flow) int { // nothing new of the second port's
			for i, f := range flows {
				if strings.Contains(f.Name, bad) && strings.Contains(f.Name, fmt.Sprint("-", 11<<7|5, "-")) {
					return i
				}
			}
			return len(flows)
		}
		res, err := b.driver.Update(t.Context(), append(to(ports[1], 11), to(ports[2], 11)...), time.Minute)
		named := map[string]string{}
		vendors.EachPort(err, func(port string, err error) { named[port] = err.Error() })
		if !res.Leased || !strings.Contains(named[ports[2]], "insufficient resources") {
			t.Errorf("%+v, %v", res, err)
		}
		if flowsOf(ports[2]) != before[1] {
			t.Errorf("port %s: %s\nwant %s", ports[2], flowsOf(ports[2]), before[1])
		}
		b.Changed = nil
		if _, err := b.driver.Update(t.Context(), append(to(ports[1], 11), to(ports[2], 11)...), time.Minute); err != nil {
			t.Fatal(err)
		}
		if flowsOf(ports[1]) == before[0] || flowsOf(ports[2]) == before[1] {
			t.Error("nothing has changed")
		}
	})
}

// TestSetupWithoutRoom: a setup whose flows are not in hardware is an error of the port.
func TestSetupWithoutRoom(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.Changed = func([]eostest.Flow) int { return 3 }
		err := b.driver.Apply(t.Context(), setupFor(ports[1]))
		if p := (*vendors.PortError)(nil); !errors.As(err, &p) || p.Port != ports[1] || !strings.Contains(err.Error(), "not in hardware") {
			t.Error(err)
		}
		// With other signals, nothing old goes before the new is there.
		b.Changed = nil
		b.apply(t, setupFor(ports[1]))
		if _, err := b.driver.Update(t.Context(), to(ports[1], 9), time.Minute); err != nil {
			t.Fatal(err)
		}
		old := b.driver.forwardedFlow(t)
		b.Changed = func([]eostest.Flow) int { return 3 }
		one := setupFor(ports[1])
		one.Signals = one.Signals[:1]
		if err := b.driver.Apply(t.Context(), one); err == nil || !strings.Contains(b.Running(), "flow "+old+"\n") {
			t.Errorf("%v\n%s", err, b.Running())
		}
	})
}

// TestTakeOver: another process finds the setup and goes on, without a line that is not
// needed.
func TestTakeOver(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.apply(t, setupFor(ports[1], ports[2]))
		if _, err := b.driver.Update(t.Context(), to(ports[1], 7), time.Minute); err != nil {
			t.Fatal(err)
		}
		next := Open(b.driver.cfg)
		defer next.Close()
		changes := b.Changes()
		res, err := next.Update(t.Context(), to(ports[1], 7), time.Minute)
		if err != nil || !res.Leased || res.Ops != 0 || b.Changes() != changes {
			t.Errorf("%+v, %v", res, err)
		}
		empty := newBench(t, nil)
		if _, err := empty.driver.Update(t.Context(), to(ports[1], 7), time.Minute); err == nil || !strings.Contains(err.Error(), "call Apply first") {
			t.Error(err)
		}
	})
}

// TestReleaseAfterFailedApply: ports fall back also where the last Apply broke off.
func TestReleaseAfterFailedApply(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.apply(t, setupFor(ports[1]))
		if _, err := b.driver.Update(t.Context(), to(ports[1], 7), time.Minute); err != nil {
			t.Fatal(err)
		}
		b.server.Set(clitest.Faults{Drop: func(line string) bool { return line == "show session-config diffs" }})
		if err := b.driver.Apply(t.Context(), setupFor(ports[1], ports[2])); err == nil {
			t.Fatal("the session did not end")
		}
		b.server.Set(clitest.Faults{})
		if err := b.driver.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		v, err := parse(strings.Split(b.Running(), "\n"))
		if err != nil {
			t.Fatal(err)
		}
		held, _, _ := b.driver.held(v, ports[1])
		table, err := b.driver.covers((&vendors.Setup{Signals: setupFor().Signals, OnStale: inventory.Conservative}).Fallback())
		if err != nil || !b.driver.same(ports[1], table, held) {
			t.Errorf("the port does not fall back: %v, %v", sorted(held), err)
		}
	})
}

func TestNames(t *testing.T) {
	for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
		s := setupFor()
		s.Layout = layout
		got, ok := parseRecord(recordName(&s))
		if !ok || fmt.Sprint(got) != fmt.Sprint(s) {
			t.Errorf("%s: %+v %v", recordName(&s), got, ok)
		}
	}
	r := rule{"0123abcd", 7, 0xf80, 0xfff, 4094, 7}
	if got, ok := parseRule(r.name()); !ok || got != r {
		t.Errorf("%s: %+v %v", r.name(), got, ok)
	}
	for _, foreign := range []string{"csig-", "csig-0123abcd-t0-1-2-3", "csig-0123abcd-t0-01-2-3-b1", "csig-0123abcd-t8-1-2-3-b1", "xcsig-0123abcd-t0-1-2-3-b1"} {
		if _, ok := parseRule(foreign); ok || isRecord(foreign) {
			t.Errorf("%s is csig's", foreign)
		}
	}
	for used, want := range map[[bands]bool]int{{}: 0, {true}: 1, {0: true, 3: true}: 4, {7: true}: 6, {5: true, 7: true}: 4} {
		if got, err := freeBand(used); err != nil || got != want {
			t.Errorf("%v: %d, %v", used, got, err)
		}
	}
	if _, err := freeBand([bands]bool{0: true, 7: true}); err == nil {
		t.Error("there is no free band, and one is found")
	}
}

func TestCommands(t *testing.T) {
	cfg := Config{Forwarding: forwarding}
	got, err := Commands(cfg, vendors.Setup{}, setupFor(ports[1]))
	for _, want := range []string{"configure session csig\n   mac access-list csig-setup-9900-draft-00-5-c\n", "   interface Ethernet1\n      switchport dot1q ethertype 0x9900\n", "      flow csig-", "         match vlan 2048 0x800\n", "   show session-config diffs\n   commit\n"} {
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s\n%v, want %s", got, err, want)
		}
	}
	if got, err := Commands(cfg, setupFor(ports[1]), setupFor(ports[1])); err != nil || got != nil {
		t.Errorf("%s, %v", got, err)
	}
	got, err = Commands(cfg, setupFor(ports[1]), setupFor())
	for _, want := range []string{"no flow csig-", "no switchport dot1q ethertype", "no mac access-list csig-update-Ethernet2"} {
		if err != nil || !strings.Contains(string(got), want) || strings.Contains(string(got), "match vlan") {
			t.Errorf("%s\n%v, want %s", got, err, want)
		}
	}
}

// TestDiff: a change of the TPID says that it is disruptive, and one of signals is not.
func TestDiff(t *testing.T) {
	have, want := setupFor(ports[1]), setupFor(ports[1])
	want.Signals = want.Signals[:1]
	for _, tc := range []struct {
		have, want vendors.Setup
		disruptive int
	}{{vendors.Setup{}, have, 1}, {have, want, 0}, {have, setupFor(), 1}} {
		changes, err := Diff(tc.have, tc.want)
		n := 0
		for _, c := range changes {
			if c.Disruptive != "" {
				n++
			}
		}
		if err != nil || n != tc.disruptive || len(changes) == 0 {
			t.Errorf("%+v, %v", changes, err)
		}
	}
}

// FuzzParse reads configurations of any content.
func FuzzParse(f *testing.F) {
	f.Add(eostest.New("sw1", ports...).Running())
	f.Add("directflow\n   flow csig-01234567-t0-128-3968-125-b0\n      priority 30000\n   shutdown\nmac access-list csig-setup-9900-draft-00-5-c\ninterface Ethernet1\n   switchport trunk native vlan tag\nvlan 2,3-\n")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := parse(strings.Split(text, "\n"))
		if err != nil {
			return
		}
		d := Open(Config{Forwarding: forwarding})
		d.setup(v)
		d.held(v, ports[1])
		v.missingVLANs()
		v.foreign(1)
	})
}
