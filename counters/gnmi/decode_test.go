package gnmi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/openconfig/ygot/ygot"
	"pgregory.net/rapid"

	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/gnmi/oc"
)

// record is a sink that keeps what it gets.
type record struct {
	leaves  map[string]map[leafID]string // by port
	removed []string
	damage  []error
}

func (h *record) update(port string, l leafID, v *gnmi.Value) {
	if h.leaves == nil {
		h.leaves = make(map[string]map[leafID]string)
	}
	if h.leaves[port] == nil {
		h.leaves[port] = make(map[leafID]string)
	}
	switch {
	case l == aggregateID:
		h.leaves[port][l] = v.Text
	case l == member:
		h.leaves[port][l] = strings.Join(v.List, " ")
	default:
		n, err := l.number(v)
		if err != nil {
			h.damage = append(h.damage, err)
			return
		}
		h.leaves[port][l] = fmt.Sprint(n)
	}
}

func (h *record) remove(port string, n *node)       { h.removed = append(h.removed, port+"/"+n.name) }
func (h *record) damaged(port string, err error)    { h.damage = append(h.damage, err) }
func (h *record) all(n ...*pb.Notification) *record { return h.from("", n...) }
func (h *record) from(target string, n ...*pb.Notification) *record {
	d := decoder{target: target, sink: h}
	for _, n := range n {
		d.notification(n)
	}
	return h
}

// drawInterface makes up an interface, and says what a decoder should report of it.
func drawInterface(t *rapid.T, name string) (*oc.Interface, map[leafID]string) {
	i := &oc.Interface{Name: &name, Counters: &oc.Interface_Counters{}, Ethernet: &oc.Interface_Ethernet{}, Aggregation: &oc.Interface_Aggregation{}}
	want := make(map[leafID]string)
	maybe := rapid.Bool()
	for l, p := range map[leafID]**uint64{
		outOctets: &i.Counters.OutOctets, outPkts: &i.Counters.OutPkts, outUnicast: &i.Counters.OutUnicastPkts,
		outMulticast: &i.Counters.OutMulticastPkts, outBroadcast: &i.Counters.OutBroadcastPkts,
		outDiscards: &i.Counters.OutDiscards, lastClear: &i.Counters.LastClear, noLeaf: &i.Counters.InOctets,
	} {
		if maybe.Draw(t, l.String()+"?") {
			n := rapid.Uint64().Draw(t, l.String())
			*p = &n
			if l != noLeaf {
				want[l] = fmt.Sprint(n)
			}
		}
	}
	if maybe.Draw(t, "status?") {
		i.OperStatus = rapid.SampledFrom(enumValues[oc.E_Interface_OperStatus]("E_Interface_OperStatus")).Draw(t, "status")
		want[operStatus] = fmt.Sprint(int64(i.OperStatus))
	}
	speed := rapid.SampledFrom(enumValues[oc.E_IfEthernet_ETHERNET_SPEED]("E_IfEthernet_ETHERNET_SPEED"))
	if maybe.Draw(t, "port speed?") {
		i.Ethernet.PortSpeed = speed.Draw(t, "port speed")
		want[portSpeed] = fmt.Sprint(portSpeeds[i.Ethernet.PortSpeed])
	}
	if maybe.Draw(t, "negotiated?") {
		i.Ethernet.NegotiatedPortSpeed = speed.Draw(t, "negotiated")
		want[negotiatedSpeed] = fmt.Sprint(portSpeeds[i.Ethernet.NegotiatedPortSpeed])
	}
	if maybe.Draw(t, "lag speed?") {
		n := rapid.Uint32().Draw(t, "lag speed")
		i.Aggregation.LagSpeed = &n
		want[lagSpeed] = fmt.Sprint(uint64(n) * 1_000_000)
	}
	if maybe.Draw(t, "aggregate?") {
		i.Ethernet.AggregateId = ygot.String("Port-Channel1")
		want[aggregateID] = "Port-Channel1"
	}
	if maybe.Draw(t, "members?") {
		i.Aggregation.Member = []string{"Ethernet1", "Ethernet2"}
		want[member] = "Ethernet1 Ethernet2"
	}
	if maybe.Draw(t, "others?") {
		i.Mtu, i.Description, i.Enabled = ygot.Uint16(9214), ygot.String(`to "spine" \ 1`), ygot.Bool(true)
		i.Ethernet.MacAddress = ygot.String("02:00:00:00:00:01")
	}
	return i, want
}

func enumValues[E ~int64](name string) []E {
	return slices.Sorted(func(yield func(E) bool) {
		for k := range maps.Keys(oc.ΛEnum[name]) {
			if !yield(E(k)) {
				return
			}
		}
	})
}

// What ygot writes of the generated types, leaf by leaf or as JSON at any depth, is what
// the decoder hears.
func TestDecoderAgainstYgot(t *testing.T) {
	t.Parallel()
	names := []string{"Ethernet1", "xe-0/0/1", "Port-Channel1", "eth0:1", "et[3]"}
	rapid.Check(t, func(t *rapid.T) {
		dev := &oc.Device{Interface: make(map[string]*oc.Interface)}
		want := make(map[string]map[leafID]string)
		for _, name := range names[:rapid.IntRange(1, len(names)).Draw(t, "ports")] {
			i, leaves := drawInterface(t, name)
			dev.Interface[name] = i
			if len(leaves) > 0 {
				want[name] = leaves
			}
		}
		h := &record{}
		switch way := rapid.SampledFrom([]string{"leaves", "prefix", "root", "list", "entry"}).Draw(t, "way"); way {
		case "leaves":
			n, err := ygot.TogNMINotifications(dev, 1, ygot.GNMINotificationsConfig{UsePathElem: true})
			if err != nil {
				t.Fatal(err)
			}
			h.all(asState(n)...)
		case "prefix":
			for name, i := range dev.Interface {
				n, err := ygot.TogNMINotifications(i, 1, ygot.GNMINotificationsConfig{
					UsePathElem: true, PathElemPrefix: interfacePath("", name, "state").Elem[:2],
				})
				if err != nil {
					t.Fatal(err)
				}
				h.all(asState(n)...)
			}
		default:
			full := rapid.Bool().Draw(t, "module names")
			h.all(asJSON(t, dev, way, full)...)
		}
		if len(h.damage) > 0 {
			t.Fatalf("damage: %v", errors.Join(h.damage...))
		}
		if h.leaves == nil {
			h.leaves = make(map[string]map[leafID]string)
		}
		if !reflect.DeepEqual(h.leaves, want) {
			t.Fatalf("got %v\nwant  %v", h.leaves, want)
		}
	})
}

// asState gives leaves that are configuration, too, their paths in the state.
func asState(notes []*pb.Notification) []*pb.Notification {
	for _, n := range notes {
		for _, u := range n.GetUpdate() {
			for _, e := range u.GetPath().GetElem() {
				if e.GetName() == "config" {
					e.Name = "state"
				}
			}
		}
	}
	return notes
}

func asJSON(t *rapid.T, dev *oc.Device, way string, full bool) []*pb.Notification {
	root, err := ygot.ConstructIETFJSON(dev, &ygot.RFC7951JSONConfig{AppendModuleName: full, PreferShadowPath: true})
	if err != nil {
		t.Fatal(err)
	}
	under := func(m map[string]any, key string) any {
		if full {
			key = "openconfig-interfaces:" + key
		}
		return m[key]
	}
	list := under(root, "interfaces").(map[string]any)
	switch way {
	case "root":
		return []*pb.Notification{jsonNote(t, &pb.Path{}, root)}
	case "list":
		return []*pb.Notification{jsonNote(t, &pb.Path{Elem: []*pb.PathElem{{Name: "interfaces"}}}, list)}
	}
	var notes []*pb.Notification
	entries := list["interface"]
	for _, e := range entries.([]any) {
		e := e.(map[string]any)
		notes = append(notes, jsonNote(t, &pb.Path{Elem: interfacePath("", e["name"].(string), "state").Elem[:2]}, e))
	}
	return notes
}

func jsonNote(t interface{ Fatal(...any) }, path *pb.Path, tree any) *pb.Notification {
	js, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return &pb.Notification{Timestamp: 1, Update: []*pb.Update{{Path: path, Val: &pb.TypedValue{Value: &pb.TypedValue_JsonIetfVal{JsonIetfVal: js}}}}}
}

func TestEverySpeedHasBitsPerSecond(t *testing.T) {
	t.Parallel()
	for e, def := range oc.ΛEnum["E_IfEthernet_ETHERNET_SPEED"] {
		bps, ok := portSpeeds[oc.E_IfEthernet_ETHERNET_SPEED(e)]
		if !ok {
			t.Errorf("%s has no entry in portSpeeds", def.Name)
		}
		var n uint64
		var unit string
		if _, err := fmt.Sscanf(def.Name, "SPEED_%d%s", &n, &unit); err != nil {
			if def.Name != "SPEED_UNKNOWN" {
				t.Errorf("a speed with another form of name: %s", def.Name)
			}
			continue
		}
		if want := n * map[string]uint64{"MB": 1e6, "GB": 1e9}[unit]; bps != want {
			t.Errorf("%s is %d bit/s, want %d", def.Name, bps, want)
		}
	}
}

func octetsNote(v *pb.TypedValue) *pb.Notification {
	return &pb.Notification{Update: []*pb.Update{{Path: interfacePath("", "e1", leafPaths[outOctets]), Val: v}}}
}

func TestValues(t *testing.T) {
	t.Parallel()
	js := func(s string) *pb.TypedValue {
		return &pb.TypedValue{Value: &pb.TypedValue_JsonIetfVal{JsonIetfVal: []byte(s)}}
	}
	for _, tt := range []struct {
		name string
		val  *pb.TypedValue
		want string // "" is an error
		err  string
	}{
		{"uint", &pb.TypedValue{Value: &pb.TypedValue_UintVal{UintVal: math.MaxUint64}}, "18446744073709551615", ""},
		{"int", &pb.TypedValue{Value: &pb.TypedValue_IntVal{IntVal: 5}}, "5", ""},
		{"negative", &pb.TypedValue{Value: &pb.TypedValue_IntVal{IntVal: -5}}, "", "-5"},
		{"string of digits", &pb.TypedValue{Value: &pb.TypedValue_StringVal{StringVal: "18446744073709551615"}}, "18446744073709551615", ""},
		{"string", &pb.TypedValue{Value: &pb.TypedValue_StringVal{StringVal: "many"}}, "", `"many"`},
		{"ascii", &pb.TypedValue{Value: &pb.TypedValue_AsciiVal{AsciiVal: "7"}}, "7", ""},
		{"boolean", &pb.TypedValue{Value: &pb.TypedValue_BoolVal{BoolVal: true}}, "", "boolean"},
		{"double", &pb.TypedValue{Value: &pb.TypedValue_DoubleVal{DoubleVal: 5}}, "", "floating point"},
		{"bytes", &pb.TypedValue{Value: &pb.TypedValue_BytesVal{BytesVal: []byte{1}}}, "", "bytes"},
		{"list", &pb.TypedValue{Value: &pb.TypedValue_LeaflistVal{LeaflistVal: &pb.ScalarArray{}}}, "", "list"},
		{"nothing", &pb.TypedValue{}, "", "no value"},
		{"nil", nil, "", "no value"},
		{"JSON string", js(`"18446744073709551615"`), "18446744073709551615", ""},
		{"JSON number", js(` 18446744073709551615 `), "18446744073709551615", ""},
		{"JSON escapes", js(`"\u0031\u0032"`), "12", ""},
		{"JSON exponent", js(`1e3`), "", "whole number"},
		{"JSON fraction", js(`1.0`), "", "whole number"},
		{"JSON too large", js(`18446744073709551616`), "", "whole number"},
		{"JSON negative", js(`-1`), "", "whole number"},
		{"JSON null", js(`null`), "", "whole number"},
		{"JSON object", js(`{"a":[1,{"b":2}]}`), "", "object"},
		{"JSON list", js(`["1"]`), "", "list"},
		{"JSON cut off", js(`"12`), "", "damaged"},
		{"JSON object cut off", js(`{"a":`), "", "EOF"},
		{"JSON empty", js(``), "", "empty"},
		{"old JSON", &pb.TypedValue{Value: &pb.TypedValue_JsonVal{JsonVal: []byte(`12`)}}, "12", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := new(record).all(octetsNote(tt.val))
			if got := h.leaves["e1"][outOctets]; got != tt.want {
				t.Errorf("value %q, want %q", got, tt.want)
			}
			if err := errors.Join(h.damage...); tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v, want one with %q", err, tt.err)
			}
		})
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	elems := func(names ...string) *pb.Path {
		p := &pb.Path{}
		for _, n := range names {
			name, key, keyed := strings.Cut(n, "=")
			e := &pb.PathElem{Name: name}
			if keyed {
				e.Key = map[string]string{"name": key}
			}
			p.Elem = append(p.Elem, e)
		}
		return p
	}
	origin := func(o string, p *pb.Path) *pb.Path { p.Origin = o; return p }
	toward := func(tgt string, p *pb.Path) *pb.Path { p.Target = tgt; return p }
	all := elems("interfaces", "interface=e1", "state", "counters", "out-octets")
	for _, tt := range []struct {
		name         string
		prefix, path *pb.Path
		want         bool
		damage       string
	}{
		{"all in the path", nil, all, true, ""},
		{"all in the prefix", all, nil, true, ""},
		{"split", elems("interfaces", "interface=e1"), elems("state", "counters", "out-octets"), true, ""},
		{"module names", nil, elems("openconfig-interfaces:interfaces", "interface=e1", "state", "oc-if:counters", "out-octets"), true, ""},
		{"origin openconfig", origin("openconfig", elems()), all, true, ""},
		{"another origin", nil, origin("eos_native", elems("interfaces", "interface=e1", "state", "counters", "out-octets")), false, ""},
		{"our target", toward("leaf1", elems()), all, true, ""},
		{"another target", toward("leaf2", elems()), all, false, ""},
		{"another leaf", nil, elems("interfaces", "interface=e1", "state", "counters", "in-octets"), false, ""},
		{"a subinterface's", nil, elems("interfaces", "interface=e1", "subinterfaces", "subinterface=0", "state", "counters", "out-octets"), false, ""},
		{"configuration", nil, elems("interfaces", "interface=e1", "config", "name"), false, ""},
		{"without a key", nil, elems("interfaces", "interface", "state", "counters", "out-octets"), false, "no particular interface"},
		{"with a wildcard", nil, elems("interfaces", "interface=*", "state", "counters", "out-octets"), false, "no particular interface"},
		{"with an empty key", nil, elems("interfaces", "interface=", "state", "counters", "out-octets"), false, "without a name"},
		{"a number for a tree", nil, elems("interfaces", "interface=e1", "state"), false, "tree"},
		{"of version 0.3", nil, &pb.Path{Element: []string{"interfaces"}}, false, "0.4"}, //nolint:staticcheck // that is the point
		{"longer than the tree", nil, elems("interfaces", "interface=e1", "state", "counters", "out-octets", "more"), false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := octetsNote(&pb.TypedValue{Value: &pb.TypedValue_UintVal{UintVal: 3}})
			n.Prefix, n.Update[0].Path = tt.prefix, tt.path
			h := new(record).from("leaf1", n)
			if got := h.leaves["e1"][outOctets] == "3"; got != tt.want {
				t.Errorf("got %v, want it %v", h.leaves, tt.want)
			}
			if err := errors.Join(h.damage...); (err != nil) != (tt.damage != "") || err != nil && !strings.Contains(err.Error(), tt.damage) {
				t.Errorf("damage %v, want %q", err, tt.damage)
			}
		})
	}
}

func TestJSONTrees(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		path   string // below /interfaces, "" is itself
		js     string
		want   string // octets of e1
		damage string
	}{
		{"name last", "", `{"interface":[{"state":{"counters":{"out-octets":"7"}},"name":"e1"}]}`, "7", ""},
		{"name only in state", "", `{"interface":[{"state":{"name":"e1","counters":{"out-octets":"7"}}}]}`, "", "without a name"},
		{"entry as a list of one", "e1", `[{"state":{"counters":{"out-octets":7}}}]`, "7", ""},
		{"list in an object", "", `{"interface":{"state":{}}}`, "", "want a list"},
		{"counters are a number", "e1", `{"state":{"counters":5}}`, "", "want an object"},
		{"one bad leaf among good ones", "e1", `{"state":{"counters":{"out-pkts":true,"out-octets":"7"}}}`, "7", "boolean"},
		{"unknown things", "e1", `{"x":[[{"y":null}]],"state":{"z":{"out-octets":"9"},"counters":{"out-octets":"7"}}}`, "7", ""},
		{"trailing rubbish", "e1", `{"state":{"counters":{"out-octets":"7"}}} x`, "7", "invalid"},
		{"two values", "e1", `{"state":{"counters":{"out-octets":"7"}}} {}`, "7", "more than one"},
		{"cut off", "e1", `{"state":{"counters":{"out-octets":"7"`, "", "EOF"},
		{"nested", "e1", strings.Repeat(`{"x":`, 64) + `1` + strings.Repeat(`}`, 64), "", ""},
		{"deep", "e1", strings.Repeat(`{"x":`, 20000) + `1` + strings.Repeat(`}`, 20000), "", "depth"},
		{"too deep for an entry", "", `{"interface":[` + strings.Repeat(`[`, 20000) + strings.Repeat(`]`, 20000) + `]}`, "", "depth"},
		{"an entry that is null", "", `{"interface":[null]}`, "", "without a name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := &pb.Path{Elem: []*pb.PathElem{{Name: "interfaces"}}}
			if tt.path != "" {
				path.Elem = append(path.Elem, &pb.PathElem{Name: "interface", Key: map[string]string{"name": tt.path}})
			}
			h := new(record).all(&pb.Notification{Update: []*pb.Update{{Path: path, Val: &pb.TypedValue{Value: &pb.TypedValue_JsonIetfVal{JsonIetfVal: []byte(tt.js)}}}}})
			if got := h.leaves["e1"][outOctets]; got != tt.want {
				t.Errorf("octets %q, want %q", got, tt.want)
			}
			if err := errors.Join(h.damage...); (err != nil) != (tt.damage != "") || err != nil && !strings.Contains(err.Error(), tt.damage) {
				t.Errorf("damage %v, want %q", err, tt.damage)
			}
		})
	}
}
