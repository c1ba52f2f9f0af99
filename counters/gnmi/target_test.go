package gnmi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/openconfig/ygot/ygot"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/gnmi/oc"
	"github.com/csig-agent/csig/protocol/memnet"
)

// The OpenConfig server logs into files of the temporary folder, unless it is set
// where.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gnmi-test")
	if err == nil {
		err = flag.Set("log_dir", dir)
	}
	if err == nil {
		err = flag.Set("stderrthreshold", "FATAL")
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// address is that of the targets in memory, and of their certificates.
const address = "127.0.0.1:9339"

// dialer connects with a target.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// bubble is a subtest on virtual time.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// serve runs a gNMI server in memory until the test ends.
func serve(t testing.TB, srv pb.GNMIServer, opts ...grpc.ServerOption) dialer {
	t.Helper()
	l := memnet.Listen(address)
	serveOn(t, l, srv, opts...)
	return l.DialContext
}

func serveOn(t testing.TB, l net.Listener, srv pb.GNMIServer, opts ...grpc.ServerOption) *grpc.Server {
	g := grpc.NewServer(opts...)
	pb.RegisterGNMIServer(g, srv)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(l)
	}()
	t.Cleanup(func() {
		g.Stop()
		<-done
	})
	return g
}

// open is New with short times, closed when the test ends.
func open(t testing.TB, cfg Config) *Source {
	t.Helper()
	if cfg.Interval == 0 {
		cfg.Interval = 100 * time.Millisecond
	}
	if cfg.Backoff == 0 {
		cfg.Backoff = 5 * time.Millisecond
	}
	cfg.Address = cmp.Or(cfg.Address, address)
	cfg.Plaintext = cfg.TLS == (gnmi.TLS{})
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// patience is how long a test waits for what must come.
const patience = time.Minute

func read(t testing.TB, s *Source) []counters.Sample {
	t.Helper()
	got, err := tryRead(s)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func tryRead(s *Source) ([]counters.Sample, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.Read(ctx, nil)
}

// until reads until ok holds for what it gets.
func until(t testing.TB, s *Source, what string, ok func([]counters.Sample, error) bool) []counters.Sample {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := tryRead(s)
		if ok(got, err) {
			return got
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waiting until %s: samples %+v, error %v, info %+v", what, got, err, s.Info())
		}
	}
}

// unhurried is the interval of a source whose target sends a sample once: one
// that is late with the next is an error after a while, which a busy machine must
// not make of this.
const unhurried = 20 * time.Second

// octets reports whether the first sample has that many.
func octets(n uint64) func([]counters.Sample, error) bool {
	return func(s []counters.Sample, err error) bool {
		return err == nil && len(s) > 0 && s[0].Err == nil && s[0].Octets == n
	}
}

// script is a target that says what the test has it say.
type script struct {
	pb.UnimplementedGNMIServer
	subscribe func(list *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error
	get       func(*pb.GetRequest) (*pb.GetResponse, error)
	encodings []pb.Encoding // nil: no Capabilities

	mu    sync.Mutex
	calls []metadata.MD
}

func (s *script) note(ctx context.Context) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, md)
}

func (s *script) Capabilities(ctx context.Context, _ *pb.CapabilityRequest) (*pb.CapabilityResponse, error) {
	s.note(ctx)
	if s.encodings == nil {
		return nil, status.Error(codes.Unimplemented, "no Capabilities here")
	}
	return &pb.CapabilityResponse{SupportedEncodings: s.encodings, GNMIVersion: "0.10.0"}, nil
}

func (s *script) Subscribe(stream pb.GNMI_SubscribeServer) error {
	s.note(stream.Context())
	req, err := stream.Recv()
	if err != nil {
		return err
	}
	if s.subscribe == nil {
		return status.Error(codes.Unimplemented, "no Subscribe here")
	}
	return s.subscribe(req.GetSubscribe(), stream)
}

func (s *script) Get(ctx context.Context, req *pb.GetRequest) (*pb.GetResponse, error) {
	s.note(ctx)
	if s.get == nil {
		return nil, status.Error(codes.Unimplemented, "no Get here")
	}
	return s.get(req)
}

func send(stream pb.GNMI_SubscribeServer, notes ...*pb.Notification) error {
	for _, n := range notes {
		if err := stream.Send(&pb.SubscribeResponse{Response: &pb.SubscribeResponse_Update{Update: n}}); err != nil {
			return err
		}
	}
	return nil
}

func sendSync(stream pb.GNMI_SubscribeServer) error {
	return stream.Send(&pb.SubscribeResponse{Response: &pb.SubscribeResponse_SyncResponse{SyncResponse: true}})
}

// portNote is a whole sample of a port that is up.
func portNote(at time.Time, port string, octets, packets int) *pb.Notification {
	return leafNote(at.UnixNano(), port, operStatus, "UP", portSpeed, "SPEED_10GB", outOctets, octets, outPkts, packets)
}

// device is a switch that samples at the intervals it is asked for. Its state is in the
// generated types, and ygot writes it.
type device struct {
	pb.UnimplementedGNMIServer
	encodings []pb.Encoding
	refuse    func(*pb.SubscriptionList) error
	refuseGet func(*pb.GetRequest) error
	suppress  bool

	mu     sync.Mutex
	dev    *oc.Device
	change chan struct{} // closed when a status changes
	gets   int
}

func newDevice(t testing.TB, ports ...string) *device {
	d := &device{
		encodings: []pb.Encoding{pb.Encoding_JSON, pb.Encoding_JSON_IETF, pb.Encoding_PROTO},
		dev:       &oc.Device{}, change: make(chan struct{}),
	}
	for _, p := range ports {
		i, err := d.dev.NewInterface(p)
		if err != nil {
			t.Fatal(err)
		}
		i.OperStatus = oc.Interface_OperStatus_UP
		i.Counters = &oc.Interface_Counters{
			OutOctets: ygot.Uint64(0), OutUnicastPkts: ygot.Uint64(0), OutMulticastPkts: ygot.Uint64(0), OutBroadcastPkts: ygot.Uint64(0),
			InOctets: ygot.Uint64(1 << 40), LastClear: ygot.Uint64(1),
		}
		i.Ethernet = &oc.Interface_Ethernet{PortSpeed: oc.IfEthernet_ETHERNET_SPEED_SPEED_10GB}
	}
	return d
}

// with changes the state of a port.
func (d *device) with(port string, f func(*oc.Interface)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.dev.Interface[port].OperStatus
	f(d.dev.Interface[port])
	if d.dev.Interface[port].OperStatus != before {
		close(d.change)
		d.change = make(chan struct{})
	}
}

// send counts frames as sent.
func (d *device) send(port string, octets, packets uint64) {
	d.with(port, func(i *oc.Interface) {
		*i.Counters.OutOctets += octets
		*i.Counters.OutUnicastPkts += packets
	})
}

func (d *device) Capabilities(context.Context, *pb.CapabilityRequest) (*pb.CapabilityResponse, error) {
	return &pb.CapabilityResponse{SupportedEncodings: d.encodings, GNMIVersion: "0.10.0"}, nil
}

func (d *device) Get(_ context.Context, req *pb.GetRequest) (*pb.GetResponse, error) {
	if d.refuseGet != nil {
		if err := d.refuseGet(req); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gets++
	at := time.Now().UnixNano()
	var out []*pb.Notification
	for _, p := range req.Path {
		n := d.collect(at, p, req.Encoding, nil)
		if len(n) == 0 {
			return nil, status.Errorf(codes.NotFound, "no such path: %v", p)
		}
		out = append(out, n...)
	}
	return &pb.GetResponse{Notification: out}, nil
}

func (d *device) Subscribe(stream pb.GNMI_SubscribeServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	list := first.GetSubscribe()
	if d.refuse != nil {
		if err := d.refuse(list); err != nil {
			return err
		}
	}
	interval := time.Hour
	for _, sub := range list.Subscription {
		switch {
		case sub.SampleInterval != 0:
			interval = min(interval, time.Duration(sub.SampleInterval))
		case sub.Mode != pb.SubscriptionMode_ON_CHANGE:
			interval = min(interval, 50*time.Millisecond)
		}
	}
	last := make(map[string]string)
	notes, changed := d.sample(list, last, func(*pb.Subscription) bool { return true })
	if err := errors.Join(send(stream, notes...), sendSync(stream)); err != nil {
		return err
	}
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		sampled := true
		select {
		case <-stream.Context().Done():
			return nil
		case <-changed:
			sampled = false
		case <-t.C:
		}
		notes, next := d.sample(list, last, func(s *pb.Subscription) bool {
			return (s.Mode != pb.SubscriptionMode_ON_CHANGE) == sampled
		})
		if !sampled {
			changed = next
		}
		if err := send(stream, notes...); err != nil {
			return err
		}
	}
}

// sample is what is at the paths of some subscriptions, all at one instant. changed is
// closed when that is not the newest status any more.
func (d *device) sample(list *pb.SubscriptionList, last map[string]string, which func(*pb.Subscription) bool) (notes []*pb.Notification, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := time.Now().UnixNano()
	for _, sub := range list.Subscription {
		if which(sub) {
			notes = append(notes, d.collect(at, sub.Path, list.Encoding, last)...)
		}
	}
	return notes, d.change
}

// collect is what is at a path, in one notification a port. Where last is given and the
// device suppresses, only what differs from it. The caller holds the lock.
func (d *device) collect(at int64, path *pb.Path, enc pb.Encoding, last map[string]string) []*pb.Notification {
	var notes []*pb.Notification
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range d.dev.Interface {
			if !yield(name) {
				return
			}
		}
	}) {
		if key := path.Elem[1].Key["name"]; key != name && key != "*" {
			continue
		}
		i := d.dev.Interface[name]
		prefix := &pb.Path{Elem: interfacePath("", name, "x").Elem[:2]}
		var rest []string
		for _, e := range path.Elem[2:] {
			rest = append(rest, e.Name)
		}
		n := &pb.Notification{Timestamp: at, Prefix: prefix}
		if enc == pb.Encoding_PROTO {
			all, err := ygot.TogNMINotifications(i, at, ygot.GNMINotificationsConfig{UsePathElem: true})
			if err != nil {
				panic(err)
			}
			for _, u := range asState(all)[0].Update {
				if under(u.Path, rest) {
					n.Update = append(n.Update, u)
				}
			}
		} else if js := jsonAt(i, rest, enc == pb.Encoding_JSON_IETF); js != nil {
			v := &pb.TypedValue{Value: &pb.TypedValue_JsonIetfVal{JsonIetfVal: js}}
			if enc == pb.Encoding_JSON {
				v.Value = &pb.TypedValue_JsonVal{JsonVal: js}
			}
			n.Update = append(n.Update, &pb.Update{Path: &pb.Path{Elem: path.Elem[2:]}, Val: v})
		}
		if d.suppress && last != nil {
			n.Update = slices.DeleteFunc(n.Update, func(u *pb.Update) bool {
				key, val := name+u.Path.String(), u.Val.String()
				same := last[key] == val
				last[key] = val
				return same
			})
		}
		if len(n.Update) > 0 {
			notes = append(notes, n)
		}
	}
	return notes
}

func under(p *pb.Path, rest []string) bool {
	if len(p.Elem) < len(rest) {
		return false
	}
	for i, name := range rest {
		if p.Elem[i].Name != name {
			return false
		}
	}
	return true
}

func jsonAt(i *oc.Interface, rest []string, full bool) []byte {
	m, err := ygot.ConstructIETFJSON(i, &ygot.RFC7951JSONConfig{AppendModuleName: full, PreferShadowPath: true})
	if err != nil {
		panic(err)
	}
	var at any = m
	for _, name := range rest {
		in, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = nil
		for key, v := range in {
			if gnmi.Bare(key) == name {
				at = v
			}
		}
	}
	if at == nil {
		return nil
	}
	js, err := json.Marshal(at)
	if err != nil {
		panic(err)
	}
	return js
}
