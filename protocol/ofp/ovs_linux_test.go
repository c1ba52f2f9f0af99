package ofp

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vendors/vendorstest/freeport"
)

// openVSwitch is a bridge that speaks OpenFlow 1.3 alone, with two ports.
func openVSwitch(t *testing.T) *ovstest.Switch {
	t.Helper()
	s := ovstest.Start(t, ovstest.Options{Dummy: true, Here: true})
	s.AddBridge("br0")
	s.Vsctl("set", "bridge", "br0", "protocols=OpenFlow13", "other_config:datapath-id=00000000000000b0")
	s.Vsctl("add-port", "br0", "p1", "--", "set", "interface", "p1", "type=dummy", "ofport_request=1", "--",
		"add-port", "br0", "p2", "--", "set", "interface", "p2", "type=dummy", "ofport_request=2")
	return s
}

// flows are those that ovs-ofctl shows.
func flows(s *ovstest.Switch) string {
	var out strings.Builder
	for line := range strings.Lines(s.Ofctl("-O", "OpenFlow13", "--no-stats", "dump-flows", "br0")) {
		if strings.Contains(line, "actions=") {
			out.WriteString(strings.TrimSpace(line) + "\n")
		}
	}
	return out.String()
}

// TestOpenVSwitch has a real switch of OpenFlow 1.3 dialed: changes, read back by csig and
// by ovs-ofctl, what it says of itself, and its end.
func TestOpenVSwitch(t *testing.T) {
	s := openVSwitch(t)
	at := freeport.Addr(t)
	_, port, _ := net.SplitHostPort(at)
	s.Vsctl("set-controller", "br0", "ptcp:"+port+":127.0.0.1")
	session := open(t, Config{Connect: at, Plain: true, Datapath: 0xb0, Role: RoleMaster})
	c := await(t, session)
	ctx := t.Context()
	if c.Version != Version13 || c.Datapath.ID != 0xb0 || c.Datapath.Tables == 0 || c.AsyncRefused != nil {
		t.Errorf("%s, %+v, %v", c.Version, c.Datapath, c.AsyncRefused)
	}
	if d, err := c.Desc(ctx); err != nil || d.Maker != "Nicira, Inc." || d.Hardware != "Open vSwitch" || d.Software == "" {
		t.Errorf("%+v, %v", d, err)
	}
	ports, err := c.Ports(ctx)
	if err != nil || len(ports) != 2 || ports[0].Name != "p1" && ports[1].Name != "p1" {
		t.Errorf("%+v, %v", ports, err)
	}
	if stats, err := c.PortStats(ctx, nil); err != nil || len(stats) != 3 { // br0 itself, too
		t.Errorf("%+v, %v", stats, err)
	}
	features, err := c.TableFeatures(ctx)
	if err != nil || len(features) != int(c.Datapath.Tables) {
		t.Fatalf("%d tables, %v", len(features), err)
	}
	f := &features[3]
	all, masked := f.Matches(FieldVLANVID)
	if f.ID != 3 || !all || !masked || !f.Sets(FieldVLANVID) || !f.Instructions.Has(InstructionGoto) || !f.Instructions.Has(instMetadata) || !f.Next.Has(4) || f.Next.Has(3) || f.MetadataMatch == 0 || f.MaxEntries == 0 {
		t.Errorf("%+v", f)
	}
	rewrite := Actions(nil).SetVID(0x105).Output(2)

	const ours, mask = 0x6373696700000000, 0xffffffff00000000
	hook := Flow{Table: 0, Priority: 5, Cookie: ours | 1, Match: Match{InPort: 1}, Metadata: Masked64{2, 0xfff}, Goto: 3, Goes: true}
	rule := Flow{Table: 3, Priority: 100, Cookie: ours | 2, HardTimeout: 60, Match: Match{Metadata: Masked64{2, 0xfff}, VID: VLANPresent | 0x400, VIDMask: VLANPresent | 0xc00, PCP: 1, MatchPCP: true}, Actions: Actions(nil).Group(7)}
	rest := Flow{Table: 3, Cookie: ours | 2, Match: Match{Metadata: Masked64{2, 0xfff}}, Write: Actions(nil).Output(2)}
	foreign := Flow{Table: 3, Priority: 9, Cookie: 5, Actions: Actions(nil).Output(1)}
	group := Group{ID: 7, Type: GroupIndirect, Buckets: []Actions{rewrite}}
	steps := [][]Mod{{{Kind: Add, Group: &group, Name: "group"}}, {{Kind: Add, Flow: &rule, Name: "rule"}, {Kind: Add, Flow: &rest}, {Kind: Add, Flow: &foreign}}, {{Kind: Add, Flow: &hook}}}
	if done, err := c.Apply(ctx, steps...); err != nil || done != len(steps) {
		t.Fatalf("%d steps, %v", done, err)
	}
	const want = "cookie=0x5, table=3, priority=9 actions=output:1\n" +
		"cookie=0x6373696700000001, priority=5,in_port=1 actions=write_metadata:0x2/0xfff,goto_table:3\n" +
		"cookie=0x6373696700000002, table=3, hard_timeout=60, priority=100,metadata=0x2/0xfff,vlan_tci=0x3400/0xfc00 actions=group:7\n" +
		"cookie=0x6373696700000002, table=3, priority=0,metadata=0x2/0xfff actions=write_actions(output:2)\n"
	if got := flows(s); got != want {
		t.Errorf("ovs-ofctl shows\n%swant\n%s", got, want)
	}
	mine, err := c.Flows(ctx, Filter{Table: AllTables, Cookie: ours, CookieMask: mask})
	if err != nil || len(mine) != 3 {
		t.Errorf("%+v, %v", mine, err)
	}
	for i := range mine {
		for _, f := range []*Flow{&hook, &rule, &rest} {
			if mine[i].Key() == f.Key() && (!mine[i].SameInstructions(f) || mine[i].Cookie != f.Cookie || mine[i].HardTimeout != f.HardTimeout) {
				t.Errorf("%+v, want %+v", mine[i], *f)
			}
		}
	}
	group.Buckets = []Actions{Actions(nil).SetVID(0x285).Output(2)}
	if _, err := c.Apply(ctx, []Mod{{Kind: Modify, Group: &group}}); err != nil {
		t.Error(err)
	}
	if groups, err := c.Groups(ctx); err != nil || len(groups) != 1 || !groups[0].Same(&group) {
		t.Errorf("%+v, %v", groups, err)
	}

	// Refusals have the name of what they refuse: a group that exists, and one that does not.
	nowhere := Flow{Table: 3, Priority: 1, Actions: Actions(nil).Group(99)}
	var refused *Error
	if _, err := c.Apply(ctx, []Mod{{Kind: Add, Flow: &nowhere, Name: "nowhere"}, {Kind: Add, Group: &group, Name: "twice"}}); !errors.As(err, &refused) || refused.Name != "nowhere" || len(refused.Also) != 1 || refused.Also[0].Name != "twice" {
		t.Errorf("%v, %+v", err, refused)
	}
	// What is deleted by cookie leaves foreign flows alone, even of the same key.
	another := foreign
	another.Cookie = ours
	if _, err := c.Apply(ctx, []Mod{{Kind: Delete, Flow: &another, CookieMask: mask}, {Kind: DeleteAll, Flow: &Flow{Table: AllTables, Cookie: ours}, CookieMask: mask}, {Kind: Delete, Group: &group}}); err != nil {
		t.Error(err)
	}
	if got := flows(s); got != "cookie=0x5, table=3, priority=9 actions=output:1\n" {
		t.Errorf("what is left:\n%s", got)
	}

	// Another controller becomes master: csig is a slave, and is told so.
	second, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	rival, err := NewConn(ctx, second, Version13)
	if err != nil {
		t.Fatal(err)
	}
	defer rival.Close()
	if err := rival.SetRole(ctx, RoleMaster); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Apply(ctx, steps...); !errors.As(err, &refused) || !refused.IsSlave() {
		t.Errorf("%v", err)
	}
	// It does not get the role back with a generation of before.
	is, newest, err := c.role(ctx, roleAsk, 0)
	if err != nil || is != RoleSlave || newest < 1 {
		t.Errorf("%s, generation %d, %v", is, newest, err)
	}
	if _, _, err := c.role(ctx, RoleMaster, newest-1); !errors.As(err, &refused) || refused.Type != errRoleRequest || refused.Code != roleStale {
		t.Errorf("an old generation: %v", err)
	}
	if _, err := rival.Apply(ctx, adds(1)); err != nil {
		t.Errorf("the master: %v", err)
	}

	s.StopSwitch()
	<-c.Done()
	s.StartSwitch()
	if again := await(t, session); again.Epoch != 2 || again.Datapath.ID != 0xb0 {
		t.Errorf("epoch %d", again.Epoch)
	} else if groups, err := again.Groups(ctx); err != nil || len(groups) != 0 {
		t.Errorf("a switch that was killed has %+v, %v", groups, err)
	}
}

// TestOpenVSwitchDials has two real bridges dial csig, over TLS, and one killed and
// started again.
func TestOpenVSwitchDials(t *testing.T) {
	s := openVSwitch(t)
	s.AddBridge("br1")
	s.Vsctl("set", "bridge", "br1", "protocols=OpenFlow13", "other_config:datapath-id=00000000000000b1")
	authority := tlstest.New(t)
	cert, key := authority.Certify("csig")
	files := TLS{CA: authority.CA, Cert: cert, Key: key, Peer: "switch"}
	at := freeport.Addr(t)
	var sessions []*Session
	for _, id := range []uint64{0xb0, 0xb1} {
		sessions = append(sessions, open(t, Config{Listen: at, TLS: files, Datapath: id}))
	}
	cert, key = authority.Certify("switch")
	s.Vsctl("set-ssl", key, cert, authority.CA)
	for _, br := range []string{"br0", "br1"} {
		s.Vsctl("set-controller", br, "ssl:"+at, "--", "set", "controller", br, "max_backoff=1000")
	}
	for i, session := range sessions {
		c := await(t, session)
		if want := uint64(0xb0 + i); c.Datapath.ID != want {
			t.Errorf("datapath %#x, want %#x", c.Datapath.ID, want)
		}
		ports, err := c.Ports(t.Context())
		if err != nil || len(ports) != 2-2*i {
			t.Errorf("%+v, %v", ports, err)
		}
	}
	old := await(t, sessions[0])
	s.StopSwitch()
	select {
	case <-old.Done():
	case <-time.After(soon):
		t.Fatal("the end of the switch is not noticed")
	}
	s.StartSwitch()
	if c := await(t, sessions[0]); c.Epoch < 2 {
		t.Errorf("epoch %d", c.Epoch)
	} else if _, err := c.Apply(t.Context(), adds(1, 2)); err != nil {
		t.Error(err)
	}
	if got := flows(s); strings.Count(got, "actions=output:1") != 2 {
		t.Errorf("flows: %s", got)
	}
}
