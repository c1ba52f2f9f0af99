// Package gnmitest has hostile and broken gNMI targets for tests: what reads them must
// stay small, quick and truthful, and other devices must not notice.
package gnmitest

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Target is one manner of being hostile or broken.
type Target struct {
	Name string
	// Alive is a target that sends its ports' counters beside what is wrong with it.
	Alive bool
	// Flood is a target that sends without a pause: what it costs is the time of a processor.
	Flood bool

	raw       func(net.Conn) // instead of gRPC; returns when the other side is gone
	caps      func() ([]byte, error)
	get       func(ports []string) ([]byte, error)
	subscribe func(ports []string, send func([]byte) error, gone <-chan struct{}) error
}

// Serve lets the target answer on the loopback interface until the test ends.
func (g *Target) Serve(t testing.TB, ports ...string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.ServeOn(t, l, ports...)
	return l.Addr().String()
}

// ServeOn is Serve on a listener of the caller's, also one in memory.
func (g *Target) ServeOn(t testing.TB, l net.Listener, ports ...string) {
	t.Helper()
	if g.raw != nil {
		serveRaw(t, l, g.raw)
		return
	}
	srv := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{encoding.GetCodecV2("proto")}), grpc.MaxConcurrentStreams(64))
	srv.RegisterService(g.service(ports), g)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	t.Cleanup(func() {
		srv.Stop()
		<-done
	})
}

func serveRaw(t testing.TB, l net.Listener, serve func(net.Conn)) {
	var mu sync.Mutex
	var all sync.WaitGroup
	var conns []net.Conn
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			all.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
}

// rawCodec sends messages that are encoded already, so that a flood costs the target
// nothing.
type rawCodec struct{ encoding.CodecV2 }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return c.CodecV2.Marshal(v)
}

func (g *Target) service(ports []string) *grpc.ServiceDesc {
	unary := func(name string, in func() proto.Message, answer func() ([]byte, error)) grpc.MethodDesc {
		return grpc.MethodDesc{MethodName: name, Handler: func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			if err := dec(in()); err != nil {
				return nil, err
			}
			return answer()
		}}
	}
	return &grpc.ServiceDesc{
		ServiceName: "gnmi.gNMI", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			unary("Capabilities", func() proto.Message { return &pb.CapabilityRequest{} }, func() ([]byte, error) {
				if g.caps != nil {
					return g.caps()
				}
				return encode(&pb.CapabilityResponse{SupportedEncodings: []pb.Encoding{pb.Encoding_PROTO, pb.Encoding_JSON_IETF}, GNMIVersion: "0.10.0"}), nil
			}),
			unary("Get", func() proto.Message { return &pb.GetRequest{} }, func() ([]byte, error) {
				if g.get != nil {
					return g.get(ports)
				}
				return nil, status.Error(codes.Unimplemented, "no Get here")
			}),
		},
		Streams: []grpc.StreamDesc{{StreamName: "Subscribe", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
			if err := s.RecvMsg(&pb.SubscribeRequest{}); err != nil {
				return err
			}
			if g.subscribe == nil {
				return status.Error(codes.Unimplemented, "no Subscribe here")
			}
			return g.subscribe(ports, func(b []byte) error { return s.SendMsg(b) }, s.Context().Done())
		}}},
	}
}

func encode(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

func update(n *pb.Notification) []byte {
	return encode(&pb.SubscribeResponse{Response: &pb.SubscribeResponse_Update{Update: n}})
}

var syncResponse = encode(&pb.SubscribeResponse{Response: &pb.SubscribeResponse_SyncResponse{SyncResponse: true}})

func path(elems ...string) *pb.Path {
	p := &pb.Path{}
	for _, e := range elems {
		p.Elem = append(p.Elem, &pb.PathElem{Name: e})
	}
	return p
}

func portPath(port, rest string) *pb.Path {
	p := path(append([]string{"interfaces", "interface"}, strings.Split(rest, "/")...)...)
	p.Elem[1].Key = map[string]string{"name": port}
	return p
}

func number(n uint64) *pb.TypedValue {
	return &pb.TypedValue{Value: &pb.TypedValue_UintVal{UintVal: n}}
}

func text(s string) *pb.TypedValue {
	return &pb.TypedValue{Value: &pb.TypedValue_StringVal{StringVal: s}}
}

func jsonValue(s string) *pb.TypedValue {
	return &pb.TypedValue{Value: &pb.TypedValue_JsonIetfVal{JsonIetfVal: []byte(s)}}
}

// sample is a whole one of a port that is up.
func sample(at time.Time, port string, frames uint64) *pb.Notification {
	return &pb.Notification{Timestamp: at.UnixNano(), Update: []*pb.Update{
		{Path: portPath(port, "state/oper-status"), Val: text("UP")},
		{Path: portPath(port, "ethernet/state/port-speed"), Val: text("SPEED_10GB")},
		{Path: portPath(port, "state/counters/out-octets"), Val: number(1000 * frames)},
		{Path: portPath(port, "state/counters/out-pkts"), Val: number(frames)},
	}}
}

// wait reports whether d has passed, and the other side is there yet.
func wait(d time.Duration, gone <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-gone:
		return false
	}
}

// preface reads the beginning of an HTTP/2 connection and answers it.
func preface(c net.Conn) error {
	if _, err := io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	_, err := c.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00")) // SETTINGS
	return err
}
