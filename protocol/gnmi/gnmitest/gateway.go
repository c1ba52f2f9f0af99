package gnmitest

import (
	"testing"
	"time"

	"github.com/openconfig/gnmi/cache"
	pb "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/openconfig/gnmi/subscribe"
	"google.golang.org/protobuf/proto"
)

// Behind is the name (target) of the device behind a Gateway.
const Behind = "leaf1"

// Gateway is OpenConfig's own Subscribe server with a device behind it. It does
// Subscribe and nothing else, sends each leaf in a notification of its own, and none that did
// not change.
type Gateway struct {
	t      testing.TB
	Cache  *cache.Cache // what it knows
	origin string       // under which it keeps the device's paths
}

// NewGateway returns one without any leaf, and its server.
func NewGateway(t testing.TB, origin string) (*Gateway, *subscribe.Server) {
	t.Helper()
	g := &Gateway{t, cache.New([]string{Behind}), origin}
	srv, err := subscribe.NewServer(g.Cache)
	if err != nil {
		t.Fatal(err)
	}
	g.Cache.SetClient(srv.Update)
	g.Cache.Connect(Behind)
	g.Cache.Sync(Behind)
	return g, srv
}

// Update takes in leaves of the device.
func (g *Gateway) Update(n *pb.Notification) {
	n.Prefix = &pb.Path{Target: Behind, Origin: g.origin}
	for _, u := range n.Update {
		// It keeps what it is given.
		one := proto.Clone(&pb.Notification{Timestamp: n.Timestamp, Prefix: n.Prefix, Update: []*pb.Update{u}}).(*pb.Notification)
		if err := g.Cache.GnmiUpdate(one); err != nil {
			g.t.Errorf("gateway: %v", err)
		}
	}
}

// Port takes in what a port that is up has sent: octets with their FCS, and frames.
func (g *Gateway) Port(at time.Time, name string, octets, frames uint64) {
	n := &pb.Notification{Timestamp: at.UnixNano()}
	leaf := func(v *pb.TypedValue, path ...string) {
		p := &pb.Path{Elem: []*pb.PathElem{{Name: "interfaces"}, {Name: "interface", Key: map[string]string{"name": name}}, {Name: "state"}}}
		for _, elem := range path {
			p.Elem = append(p.Elem, &pb.PathElem{Name: elem})
		}
		n.Update = append(n.Update, &pb.Update{Path: p, Val: v})
	}
	number := func(x uint64) *pb.TypedValue { return &pb.TypedValue{Value: &pb.TypedValue_UintVal{UintVal: x}} }
	leaf(&pb.TypedValue{Value: &pb.TypedValue_StringVal{StringVal: "UP"}}, "oper-status")
	leaf(number(octets), "counters", "out-octets")
	leaf(number(frames), "counters", "out-unicast-pkts")
	leaf(number(0), "counters", "out-multicast-pkts")
	leaf(number(0), "counters", "out-broadcast-pkts")
	g.Update(n)
}
