package gnmi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/openconfig/ygot/ygot"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/gnmi/gnmitest"
	"github.com/csig-agent/csig/protocol/gnmi/oc"
)

// A target with Get is listed alike in each encoding, also where it takes a subscription only.
func TestScan(t *testing.T) {
	t.Parallel()
	for _, enc := range []string{"", "proto", "json_ietf", "json"} {
		for _, once := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%s,once=%t", enc, once), func(t *testing.T) {
				d := newDevice(t, "e1", "lag1")
				d.with("e1", func(i *oc.Interface) { i.Counters.OutPkts = ygot.Uint64(3) })
				d.with("lag1", func(i *oc.Interface) {
					i.Ethernet = nil
					i.Aggregation = &oc.Interface_Aggregation{LagSpeed: ygot.Uint32(20000)}
					i.OperStatus = oc.Interface_OperStatus_DOWN
				})
				if once {
					d.refuseGet = func(*pb.GetRequest) error { return status.Error(codes.Unimplemented, "no Get") }
				}
				l, err := Scan(t.Context(), ScanConfig{Config: gnmi.Config{Address: address, Dial: serve(t, d), Plaintext: true}, Encoding: enc})
				if err != nil {
					t.Fatal(err)
				}
				wide := []string{"out-octets", "out-unicast-pkts", "out-multicast-pkts", "out-broadcast-pkts"}
				want := []counters.Interface{
					{Name: "e1", Speed: 10e9, OperStatus: "UP", Wide: slices.Insert(slices.Clone(wide), 1, "out-pkts"), Uses: []string{"out-octets", "out-pkts"}},
					{Name: "lag1", Speed: 20e9, OperStatus: "DOWN", Wide: wide, Uses: wide},
				}
				if fmt.Sprintf("%+v", l.Interfaces) != fmt.Sprintf("%+v", want) {
					t.Errorf("%+v\nwant %+v", l.Interfaces, want)
				}
				if !strings.HasPrefix(l.Protocol, "gNMI 0.10.0") {
					t.Errorf("%q", l.Protocol)
				}
			})
		}
	}
}

// neighborNote is what LLDP brought to a port, as a target has it.
func neighborNote(port, id string, leaves map[string]string) *pb.Notification {
	n := &pb.Notification{Timestamp: time.Now().UnixNano()}
	for name, v := range leaves {
		p := schemaPath("", "lldp", "interfaces", "interface", "neighbors", "neighbor", "state", name)
		p.Elem[2].Key, p.Elem[4].Key = map[string]string{"name": port}, map[string]string{"id": id}
		n.Update = append(n.Update, &pb.Update{Path: p, Val: &pb.TypedValue{Value: &pb.TypedValue_StringVal{StringVal: v}}})
	}
	return n
}

// OpenConfig's own server, over TLS and under either origin.
func TestScanOpenConfigServer(t *testing.T) {
	t.Parallel()
	for _, origin := range []string{"", "openconfig"} {
		bubble(t, origin, func(t *testing.T) {
			ca := newAuthority(t)
			cert, key := ca.issue("127.0.0.1", time.Now().Add(time.Hour))
			g, srv := gnmitest.NewGateway(t, origin)
			g.Port(time.Now(), "swp1", 1000, 10)
			g.Update(neighborNote("swp1", "7", map[string]string{
				"chassis-id": "02:00:00:00:00:01", "system-name": "spine1", "port-id": "swp\x1b[2J7", "port-id-type": "INTERFACE_NAME", "port-description": "to leaf1",
			}))
			self := schemaPath("", "lldp", "state", "system-name")
			g.Update(&pb.Notification{Timestamp: 1, Update: []*pb.Update{{Path: self, Val: &pb.TypedValue{Value: &pb.TypedValue_StringVal{StringVal: "leaf1.example.net"}}}}})
			cfg := gnmi.Config{
				Device: "leaf1", Address: address, Dial: serve(t, srv, ca.server(cert, key, true)), Target: gnmitest.Behind,
				TLS: gnmi.TLS{CAFile: ca.file, CertFile: cert, KeyFile: key},
			}
			l, err := Scan(t.Context(), ScanConfig{Config: cfg})
			if err != nil {
				t.Fatal(err)
			}
			peers := []counters.Neighbor{{Port: "swp1", Chassis: "02:00:00:00:00:01", System: "spine1", PeerPort: `swp\x1b[2J7`, PeerText: "to leaf1", PeerKind: counters.NamePortID}}
			if len(l.Interfaces) != 1 || l.Interfaces[0].Name != "swp1" || len(l.Interfaces[0].Uses) != 4 || !slices.Equal(l.Neighbors, peers) {
				t.Errorf("%+v", l)
			}
			if self, got, err := open(t, Config{Config: cfg, Ports: []string{"swp1"}}).Neighbors(t.Context()); err != nil || self != "leaf1.example.net" || !slices.Equal(got, peers) {
				t.Errorf("%s, %+v, %v", self, got, err)
			}
			cfg.TLS.CAFile = ""
			if _, err := Scan(t.Context(), ScanConfig{Config: cfg}); !errors.Is(err, gnmi.ErrCertificate) {
				t.Errorf("%v", err)
			}
		})
	}
}

// No target makes a scan take longer than its context, or puts anything on a terminal that does
// not belong there.
func TestScanHostile(t *testing.T) {
	hostile(t, func(t *testing.T, target gnmitest.Target, cfg Config) {
		within, late := 2*time.Second, time.Duration(0)
		if target.Flood {
			within, late = 200*time.Millisecond, patience
		}
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		began := time.Now()
		cfg.Plaintext, cfg.Timeout = true, 500*time.Millisecond
		l, err := Scan(ctx, ScanConfig{Config: cfg.Config})
		if took := time.Since(began); took > within+late {
			t.Errorf("took %v", took)
		}
		if text := fmt.Sprintf("%+v %v", l, err); strings.ContainsAny(text, "\x1b\r\n\u202e") {
			t.Errorf("%q", text)
		}
	})
}
