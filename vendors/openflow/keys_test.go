package openflow

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

// TestKeysAgreeWithTheDriver: what a fleet file may say is what the driver takes.
func TestKeysAgreeWithTheDriver(t *testing.T) {
	tag := func(name string) reflect.StructTag {
		f, _ := reflect.TypeFor[Keys]().FieldByName(name)
		return f.Tag
	}
	if got, want := tag("Table").Get("range"), fmt.Sprintf("1 %d", maxTable); got != want {
		t.Errorf("tables %s, want %s", got, want)
	}
	if got := tag("Table").Get("default"); got != fmt.Sprint(DefaultTable) {
		t.Errorf("begins at %s, want %d", got, DefaultTable)
	}
	if got := tag("Port").Get("default"); got != fmt.Sprint(defaultPort) {
		t.Errorf("port %s, want %d", got, defaultPort)
	}
	if got := tag("OrdinaryVLANs").Get("words"); got != string(NotHandedOver+" "+NotParsed) {
		t.Errorf("ordinary_vlans %s", got)
	}
	for _, name := range Names {
		if Titles[name] == "" || Offline(name).Platform != name {
			t.Errorf("%s has no title, or no facts", name)
		}
	}
}

// TestSession is how keys become a connection.
func TestSession(t *testing.T) {
	tls := inventory.TLS{CA: "/ca", Cert: "/cert", Key: "/key", ServerName: "hw1"}
	unnamed := inventory.TLS{CA: "/ca", Cert: "/cert", Key: "/key"}
	for _, tc := range []struct {
		keys    Keys
		want    ofp.Config
		reaches string
	}{
		{Keys{Plaintext: true, Role: "equal"}, ofp.Config{Connect: "192.0.2.1:6653", Plain: true, Role: ofp.RoleEqual}, "OpenFlow to 192.0.2.1:6653"},
		{Keys{TLS: unnamed}, ofp.Config{Connect: "192.0.2.1:6653", TLS: ofp.TLS{CA: "/ca", Cert: "/cert", Key: "/key", Peer: "192.0.2.1"}, Role: ofp.RoleEqual}, "OpenFlow to 192.0.2.1:6653"},
		{Keys{TLS: tls, Port: 7000, Role: "master"}, ofp.Config{Connect: "192.0.2.1:7000", TLS: ofp.TLS{CA: "/ca", Cert: "/cert", Key: "/key", Peer: "hw1"}, Role: ofp.RoleMaster}, "OpenFlow to 192.0.2.1:7000"},
		{Keys{Plaintext: true, Listen: "::1", Datapath: "0x00000000000000a1"}, ofp.Config{Listen: "[::1]:6653", Datapath: 0xa1, Plain: true, From: "192.0.2.1", Role: ofp.RoleEqual}, "OpenFlow, datapath 0x00000000000000a1 at [::1]:6653"},
	} {
		got, err := tc.keys.Session("192.0.2.1")
		if err != nil || got != tc.want {
			t.Errorf("%+v: %+v, %v; want %+v", tc.keys, got, err, tc.want)
		}
		if got := tc.keys.Reaches("192.0.2.1"); got != tc.reaches {
			t.Errorf("%+v: %s, want %s", tc.keys, got, tc.reaches)
		}
	}
}

// TestRecord writes setups into cookies and reads them back, and refuses what is no
// record.
func TestRecord(t *testing.T) {
	for _, s := range []vendors.Setup{
		{TPID: 0x88a8, Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative},
		{TPID: 0x9900, WideTPID: 0x9901, Layout: quantize.UEC, Signals: []quantize.Signal{quantize.MinABW, quantize.MaxPD}, OnStale: inventory.StaleStrip, Profile: strings.Repeat("0123456789abcdef", 4)},
		{TPID: 1 << 15, Signals: quantize.Signals[:], OnStale: inventory.StalePassthrough, Others: []vendors.OtherTPID{{TPID: 0x9902}, {TPID: 0x9903, Wide: true}}},
	} {
		pipe := pipeline{base: DefaultTable, setup: &s}
		var flows []*ofp.Flow
		for _, f := range pipe.record() {
			if !isOwn(&f) || !isRecord(&f) || portOf(&f) != 0 {
				t.Errorf("%+v is no flow of a record", f)
			}
			flows = append([]*ofp.Flow{&f}, flows...) // in any order
		}
		got, found, err := readRecord(flows)
		if err != nil || !found || !reflect.DeepEqual(got, s) {
			t.Errorf("%+v, %v, %v; want %+v", got, found, err, s)
		}
		if _, found, err := readRecord(flows[1:]); err == nil || found {
			t.Errorf("%+v without its last flow is read", s)
		}
		if _, found, err := readRecord(append(flows[1:], flows[1])); err == nil || found {
			t.Errorf("%+v with a flow twice is read", s)
		}
		flows[len(flows)-2].Cookie |= 7 << 28
		if _, found, err := readRecord(flows); err == nil || found {
			t.Errorf("%+v of another version is read", s)
		}
	}
	if _, found, err := readRecord(nil); err != nil || found {
		t.Errorf("nothing: %v, %v", found, err)
	}
}

// TestCommands has what a person reads in place of Apply.
func TestCommands(t *testing.T) {
	want := vendors.Setup{TPID: 0x88a8, Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative,
		Ports: []vendors.PortSetup{{Port: "te-1/1/1", Action: 1}, {Port: "te-1/1/2", Action: 2}, {Port: "te-1/1/3"}}}
	text, err := Commands(Config{}, vendors.Setup{}, want)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"table=12,priority=26,metadata={te-1/1/1}/0xfff,vlan_vid=0x1000/0x1000,vlan_pcp=0,actions=set_field:4221->vlan_vid,output:{te-1/1/1}",
		"table=10,priority=310,metadata={te-1/1/2}/0xfff,vlan_vid=0x1000/0x1000,actions=pop_vlan,output:{te-1/1/2}",
		"table=10,priority=300,metadata={te-1/1/3}/0xfff,actions=output:{te-1/1/3}",
		"table=10,priority=0,actions=goto_table:12",
		"cookie=0x63736f6688a80000,table=10,priority=1000,metadata=0xfff/0xfff,actions=drop",
	} {
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("%s is not in\n%s", line, text)
		}
	}
	if text, err := Commands(Config{}, want, want); err != nil || len(text) != 0 {
		t.Errorf("nothing to do: %s, %v", text, err)
	}
}
