package sonic

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

var vendorsNone vendors.Setup

// TestRowsRoundTrip: every table that the compiler makes reads back as itself.
func TestRowsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
		c := vlanrules.NewCompiler(Rules(), layout)
		for s := range uint8(32) {
			var res vlanrules.Result
			c.Compile(&res, nil, intents(5, s, s, s, s))
			if why := lowers(res.Table); why != "" {
				t.Fatal(why)
			}
			for _, e := range res.Table {
				port, got, err := parseEntry(entryKey("Ethernet0", &e), entryRow(&e))
				if e.ID = 0; err != nil || port != "Ethernet0" || !reflect.DeepEqual(got, e) {
					t.Fatalf("%+v reads back as %+v, %v", e, got, err)
				}
			}
		}
	}
}

func TestStrangeRows(t *testing.T) {
	t.Parallel()
	row := func(vid string) map[string]string { return map[string]string{"action": setAction, paramVID: vid} }
	good := aclTable + `:{"match/out_port":"Ethernet0","match/vlan_id":"0x800&0x800","match/vlan_pri":"0x1&0x7","priority":11}`
	if _, _, err := parseEntry(good, row("0x385")); err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]string{
		"another table":    strings.Replace(good, "CSIG", "OTHER", 1),
		"no JSON":          aclTable + ":x",
		"more behind":      good + "x",
		"no port":          strings.Replace(good, `"match/out_port":"Ethernet0",`, "", 1),
		"no priority":      strings.Replace(good, `,"priority":11`, "", 1),
		"another priority": strings.Replace(good, "11}", "12}", 1),
		"upper case":       strings.Replace(good, "0x800&0x800", "0xF00&0xF00", 1),
		"too short":        strings.Replace(good, "0x800&0x800", "0x80&0x80", 1),
		"without a mask":   strings.Replace(good, "0x800&0x800", "0x800", 1),
		"mask of nothing":  strings.Replace(good, "0x800&0x800", "0x000&0x000", 1),
		"beyond the mask":  strings.Replace(good, "0x800&0x800", "0xf00&0x800", 1),
		"another field":    strings.Replace(good, "match/vlan_pri", "match/vlan_cfi", 1),
		"spaces":           strings.Replace(good, ",", ", ", 1),
	} {
		if _, e, err := parseEntry(key, row("0x385")); err == nil {
			t.Errorf("%s: %+v", name, e)
		}
	}
	for _, r := range []map[string]string{nil, {}, row(""), row("0x1000"), row("385"), {"action": "x", paramVID: "0x385"}, {"action": setAction, paramVID: "0x385", "more": "x"}} {
		if _, _, err := parseEntry(good, r); err == nil {
			t.Errorf("%v is taken", r)
		}
	}
}

func TestResponses(t *testing.T) {
	t.Parallel()
	r, err := parseResponse([]byte(`["SWSS_RC_FULL","ACL_X:{\"priority\":1}","err_str","[SAI] full","action","a"]`))
	if err != nil || r.status.Status != rcFull || r.key != `ACL_X:{"priority":1}` || r.status.Message != "[SAI] full" || len(r.fields) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []string{"", "x", "{}", "[]", `["a","b"]`, `["a","b","c","d"]`, `["a","b","err_str"]`, `["a","b","err_str","d","e"]`, `["a",1,"err_str","d"]`} {
		if r, err := parseResponse([]byte(bad)); err == nil {
			t.Errorf("%s: %+v", bad, r)
		}
	}
	op := rowOp{key: "k", to: row{"action": "a", "param/x": "0x1"}}
	for _, tc := range []struct {
		fields []string
		want   bool
	}{
		{[]string{"param/x", "0x1", "action", "a"}, true},
		{[]string{"param/x", "0x2", "action", "a"}, false},
		{nil, false},
		{[]string{"a", "action", "0x1", "param/x"}, false},
	} {
		msg, err := json.Marshal(append([]string{rcSuccess, op.key, "err_str", ""}, tc.fields...))
		if err != nil {
			t.Fatal(err)
		}
		r, err := parseResponse(msg)
		c := &chain{ops: []rowOp{op}}
		x := exchange{under: map[string]*chain{op.key: c}}
		x.answered(&r)
		if err != nil || (c.done == 1) != tc.want || len(x.under) == c.done {
			t.Errorf("%v answers %v: %v, %v", tc.fields, op.to, !tc.want, err)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	good := setupOf(quantize.Draft00, "Ethernet0")
	if err := validate(&good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(s *vendors.Setup){
		"0x8100":           func(s *vendors.Setup) { s.TPID = 0x8100 },
		"any other TPID":   func(s *vendors.Setup) { s.TPID = 0x9900 },
		"no TPID":          func(s *vendors.Setup) { s.TPID = 0 },
		"no signals":       func(s *vendors.Setup) { s.Signals = nil },
		"a signal twice":   func(s *vendors.Setup) { s.Signals = []quantize.Signal{0, 0} },
		"stale strip":      func(s *vendors.Setup) { s.OnStale = inventory.StaleStrip },
		"no stale":         func(s *vendors.Setup) { s.OnStale = "" },
		"a port twice":     func(s *vendors.Setup) { s.Ports = append(s.Ports, s.Ports[0]) },
		"a port's name":    func(s *vendors.Setup) { s.Ports[0].Port = "a|b" },
		"an aggregate":     func(s *vendors.Setup) { s.Ports[0].Port = "PortChannel1" },
		"a port strips":    func(s *vendors.Setup) { s.Ports[0].Action = vlanrules.Strip },
		"strips of others": func(s *vendors.Setup) { s.Ports[0].StripOthers = true },
	} {
		s := setupOf(quantize.Draft00, "Ethernet0")
		change(&s)
		if err := validate(&s); err == nil {
			t.Errorf("%s is taken", name)
		}
		if _, err := Diff(vendorsNone, s); err == nil {
			t.Errorf("Diff takes %s", name)
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	s := setupOf(quantize.Draft00, "Ethernet0", "Ethernet4")
	changes, err := Diff(vendorsNone, s)
	if err != nil || len(changes) != 3 || changes[0].Kind != vendors.Create || changes[1].Disruptive == "" {
		t.Errorf("%+v, %v", changes, err)
	}
	other := s
	other.TPID = 0x9100
	if changes, err = Diff(s, other); err != nil || len(changes) != 3 || changes[1].Kind != vendors.Alter || changes[1].Disruptive == "" {
		t.Errorf("another TPID: %+v, %v", changes, err)
	}
	one := setupOf(quantize.Draft00, "Ethernet4")
	if changes, err = Diff(s, one); err != nil || len(changes) != 1 || changes[0].Kind != vendors.Remove || changes[0].Port != "Ethernet0" {
		t.Errorf("a port less: %+v, %v", changes, err)
	}
	none := s
	none.Ports = nil
	if changes, err = Diff(s, none); err != nil || len(changes) != 2 || changes[0].Disruptive != restores || changes[1].Disruptive != restores {
		t.Errorf("no port left: %+v, %v", changes, err) // plans ask so what taking all of it off disturbs
	}
	retired := s
	retired.Others = []vendors.OtherTPID{{TPID: 0x9aaa}}
	if changes, err = Diff(s, retired); err != nil || len(changes) != 1 || !strings.Contains(changes[0].Detail, "other TPIDs: none -> 0x9aaa; "+outerOnly) {
		t.Errorf("a retired TPID: %+v, %v", changes, err)
	}
	var names []string
	for i := range 30 {
		names = append(names, "Ethernet"+string(rune('a'+i%26))+string(rune('0'+i/26)))
	}
	many := setupOf(quantize.Draft00, names...)
	if changes, err = Diff(s, many); err != nil || !strings.Contains(changes[0].Detail, "made again") {
		t.Errorf("a larger table: %+v, %v", changes, err)
	}
	if n := tableSize(&many); n < 30*3*perSignal+30*perSignal {
		t.Errorf("%d entries for 30 ports", n)
	}
}

func FuzzParseResponse(f *testing.F) {
	f.Add([]byte(`["SWSS_RC_SUCCESS","k","err_str","","action","a"]`))
	f.Fuzz(func(t *testing.T, msg []byte) {
		r, err := parseResponse(msg)
		if err == nil && (strings.ContainsRune(r.status.Message, '\x1b') || strings.ContainsRune(r.status.Status, '\x1b')) {
			t.Errorf("%q is not to be printed", r.status.Error())
		}
	})
}

func FuzzParseEntry(f *testing.F) {
	f.Add(aclTable+`:{"match/out_port":"Ethernet0","match/vlan_id":"0x800&0x800","match/vlan_pri":"0x1&0x7","priority":11}`, setAction, "0x385")
	f.Fuzz(func(t *testing.T, key, action, vid string) {
		port, e, err := parseEntry(key, map[string]string{"action": action, paramVID: vid})
		if err == nil && (entryKey(port, &e) != key || entryRow(&e)[paramVID] != vid) {
			t.Errorf("%q, %q read as %s %+v", key, vid, port, e)
		}
	})
}

func FuzzRecord(f *testing.F) {
	f.Add(`{"tpid":34984,"layout":"uec","signals":["abw"],"on_stale":"conservative","ports":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		r := parseRecord(map[string]string{recordSetup: text, recordBefore + "Ethernet0": "0x9100"})
		if r.before["Ethernet0"] != "0x9100" || (r.setup == nil) == (r.err == nil) {
			t.Errorf("%+v", r)
		}
	})
}

func FuzzDatabaseConfig(f *testing.F) {
	f.Add([]byte(`{"INSTANCES":{"redis":{"hostname":"127.0.0.1","port":6379,"unix_socket_path":"/r"}},"DATABASES":{"APPL_DB":{"id":0,"separator":":","instance":"redis"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if l, err := sonicdb.Parse(text); err == nil {
			if id, err := l.ID(sonicdb.Appl); err == nil && id < 0 {
				t.Error("a negative number")
			}
		}
	})
}
