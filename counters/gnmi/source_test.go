package gnmi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/openconfig/ygot/ygot"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/gnmi/oc"
)

// Every mode with every encoding gives the same samples.
func TestModesAndEncodings(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Auto, Sample, TargetDefined, Get} {
		for _, enc := range []string{"", "PROTO", "JSON_IETF", "JSON"} {
			bubble(t, fmt.Sprintf("%v,%s", mode, enc), func(t *testing.T) {
				d := newDevice(t, "e1", "e2", "lag1")
				d.with("lag1", func(i *oc.Interface) {
					i.Ethernet = nil
					i.Aggregation = &oc.Interface_Aggregation{LagSpeed: ygot.Uint32(20000)}
				})
				d.send("e1", 1_000_000_000_000_000, 7)
				if enc != "" {
					d.encodings = []pb.Encoding{pb.Encoding_ASCII, pb.Encoding(pb.Encoding_value[enc])}
				}
				s := open(t, Config{Config: gnmi.Config{Dial: serve(t, d)}, Mode: mode, Ports: []string{"e2", "lag1", "e1"}})
				before := time.Now()
				got := read(t, s)
				for i, want := range []counters.Sample{
					{Port: "e2", Speed: 10e9},
					{Port: "lag1", Speed: 20e9},
					{Port: "e1", Speed: 10e9, Octets: 1_000_000_000_000_000, Packets: 7},
				} {
					g := got[i]
					if g.At.Before(before) || g.Local.Before(before) || g.Local.After(time.Now()) {
						t.Errorf("%s: At %v, Local %v: want both between %v and now", g.Port, g.At, g.Local, before)
					}
					want.Up, want.Bits, want.Overhead, want.At, want.Local = true, 64, 20, g.At, g.Local
					if g != want {
						t.Errorf("sample %+v\nwant   %+v", g, want)
					}
				}
				info := s.Info()
				wantMode, wantEnc := mode, enc
				if mode == Auto {
					wantMode = Sample
				}
				if enc == "" {
					wantEnc = "PROTO"
				}
				if info.Mode != wantMode || info.Encoding != wantEnc || info.Version != "0.10.0" || info.Invalid != 0 {
					t.Errorf("info %+v", info)
				}
				d.send("e2", 500, 5)
				d.with("e1", func(i *oc.Interface) { i.OperStatus = oc.Interface_OperStatus_DOWN })
				until(t, s, "both changes are seen", func(got []counters.Sample, err error) bool {
					return err == nil && got[0].Octets == 500 && got[0].Packets == 5 && !got[2].Up && got[2].Err == nil
				})
			})
		}
	}
}

// Whatever a target refuses, the next best way is found.
func TestFallback(t *testing.T) {
	t.Parallel()
	leaves := func(list *pb.SubscriptionList) bool { return len(list.Subscription[0].Path.Elem) > 4 }
	has := func(list *pb.SubscriptionList, f func(*pb.Subscription) bool) bool {
		return slices.ContainsFunc(list.Subscription, f)
	}
	onChange := func(s *pb.Subscription) bool { return s.Mode == pb.SubscriptionMode_ON_CHANGE }
	sample := func(s *pb.Subscription) bool { return s.Mode == pb.SubscriptionMode_SAMPLE }
	timed := func(s *pb.Subscription) bool { return s.SampleInterval != 0 }
	wild := func(s *pb.Subscription) bool { return s.Path.Elem[1].Key["name"] == "*" }
	many := make([]string, wildcardFrom)
	for i := range many {
		many[i] = fmt.Sprintf("e%d", i+1)
	}
	for _, tt := range []struct {
		name   string
		ports  []string
		refuse func(*pb.SubscriptionList) bool
		code   codes.Code
		want   string
	}{
		{"nothing", []string{"e1"}, func(*pb.SubscriptionList) bool { return false }, 0, "sample, PROTO"},
		{"nothing, many ports", many, func(*pb.SubscriptionList) bool { return false }, 0, "sample, PROTO, all interfaces"},
		{"leaves", []string{"e1"}, leaves, codes.NotFound, "sample, PROTO, containers"},
		{"wildcards", many, func(l *pb.SubscriptionList) bool { return has(l, wild) }, codes.InvalidArgument, "sample, PROTO"},
		{"names", []string{"e1"}, func(l *pb.SubscriptionList) bool { return !has(l, wild) }, codes.NotFound, "sample, PROTO, all interfaces"},
		{"ON_CHANGE", []string{"e1"}, func(l *pb.SubscriptionList) bool { return has(l, onChange) }, codes.InvalidArgument, "sample, PROTO, containers, status sampled"},
		{"short intervals", []string{"e1"}, func(l *pb.SubscriptionList) bool { return has(l, timed) }, codes.InvalidArgument, "sample, PROTO, containers, target's shortest interval"},
		{"short intervals and ON_CHANGE", []string{"e1"}, func(l *pb.SubscriptionList) bool { return has(l, timed) || has(l, onChange) }, codes.InvalidArgument,
			"sample, PROTO, containers, target's shortest interval, status sampled"},
		{"SAMPLE", []string{"e1"}, func(l *pb.SubscriptionList) bool { return has(l, sample) }, codes.Unimplemented, "target-defined, PROTO, containers"},
		{"subscriptions", []string{"e1"}, func(*pb.SubscriptionList) bool { return true }, codes.Unimplemented, "get"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			d := newDevice(t, tt.ports...)
			d.refuse = func(l *pb.SubscriptionList) error {
				if tt.refuse(l) {
					return status.Error(tt.code, "not like that")
				}
				return nil
			}
			d.send("e1", 1234, 5)
			s := open(t, Config{Config: gnmi.Config{Dial: serve(t, d)}, Ports: tt.ports})
			until(t, s, "a first sample comes", octets(1234))
			if got := s.Info().Request; got != tt.want {
				t.Errorf("asked for %q, want %q", got, tt.want)
			}
			d.send("e1", 1, 0)
			until(t, s, "a sample comes", octets(1235))
		})
	}
}

func TestNoWayToRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		srv  *script
		mode Mode
		want error
		text string
	}{
		{"neither subscriptions nor Get", &script{encodings: []pb.Encoding{pb.Encoding_PROTO}}, Auto, ErrRefused, "Capabilities"},
		{"no subscriptions, which are wanted", &script{encodings: []pb.Encoding{pb.Encoding_PROTO}}, Sample, ErrRefused, "mode sample"},
		{"only an encoding of its own", &script{encodings: []pb.Encoding{pb.Encoding_ASCII}}, Auto, gnmi.ErrEncoding, "ASCII"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			s := open(t, Config{Config: gnmi.Config{Device: "leaf1", Dial: serve(t, tt.srv)}, Mode: tt.mode, Ports: []string{"e1"}})
			_, err := tryRead(s)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || !strings.Contains(err.Error(), "device leaf1") {
				t.Errorf("error %v, want %v with %q", err, tt.want, tt.text)
			}
		})
	}
}

// A port that the device does not have is that port's trouble, in every mode, even if
// the target refuses what names it.
func TestMissingPort(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Sample, TargetDefined, Get} {
		for _, strict := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%v,strict=%t", mode, strict), func(t *testing.T) {
				d := newDevice(t, "e1", "e3")
				if strict {
					d.refuse = func(l *pb.SubscriptionList) error {
						for _, s := range l.Subscription {
							if s.Path.Elem[1].Key["name"] == "e2" {
								return status.Error(codes.NotFound, "interface e2 does not exist")
							}
						}
						return nil
					}
				}
				s := open(t, Config{Config: gnmi.Config{Device: "leaf1", Dial: serve(t, d)}, Mode: mode, Ports: []string{"e1", "e2", "e3"}})
				got := read(t, s)
				if got[0].Err != nil || got[2].Err != nil {
					t.Errorf("the others: %v, %v", got[0].Err, got[2].Err)
				}
				if err := got[1].Err; !errors.Is(err, gnmi.ErrMissing) || got[1].Port != "e2" {
					t.Errorf("e2: %v, want ErrMissing", err)
				}
				d.mu.Lock()
				i, err := d.dev.NewInterface("e2")
				if err != nil {
					t.Fatal(err)
				}
				*i = *d.dev.Interface["e1"]
				i.Name = ygot.String("e2")
				close(d.change)
				d.change = make(chan struct{})
				d.mu.Unlock()
				until(t, s, "the port is there once it exists", func(got []counters.Sample, err error) bool {
					return err == nil && got[1].Err == nil
				})
				if mode == Get {
					d.mu.Lock()
					delete(d.dev.Interface, "e3")
					d.mu.Unlock()
					if err := read(t, s)[2].Err; !errors.Is(err, gnmi.ErrMissing) {
						t.Errorf("e3 after it was removed: %v, want ErrMissing", err)
					}
				}
			})
		}
	}
}

// A target that was upgraded, and does other things than before.
func TestGetThatIsNoLongerThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, "e1")
		var mu sync.Mutex
		subscriptions := false
		allowed := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return subscriptions
		}
		d.refuse = func(*pb.SubscriptionList) error {
			if allowed() {
				return nil
			}
			return status.Error(codes.Unimplemented, "no subscriptions")
		}
		d.refuseGet = func(*pb.GetRequest) error {
			if !allowed() {
				return nil
			}
			return status.Error(codes.Unimplemented, "no Get")
		}
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, d)}, Ports: []string{"e1"}})
		read(t, s)
		if m := s.Info().Mode; m != Get {
			t.Fatalf("mode %v", m)
		}
		mu.Lock()
		subscriptions = true
		mu.Unlock()
		if _, err := tryRead(s); !errors.Is(err, ErrRefused) {
			t.Errorf("without Get: %v, want ErrRefused", err)
		}
		until(t, s, "there is a subscription", func(_ []counters.Sample, err error) bool {
			return err == nil && s.Info().Mode == Sample
		})
	})
}

func TestGetInSmallerPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ports []string
		for i := range 100 {
			ports = append(ports, fmt.Sprintf("e%d", i))
		}
		d := newDevice(t, ports...)
		for i, p := range ports {
			d.send(p, uint64(i), 1)
		}
		d.encodings = []pb.Encoding{pb.Encoding_JSON_IETF}
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, d), MaxMessage: 6000}, Mode: Get, Ports: ports})
		for range 2 {
			for i, g := range read(t, s) {
				if g.Err != nil || g.Octets != uint64(i) || g.Speed != 10e9 {
					t.Fatalf("%s: %+v", g.Port, g)
				}
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.chunk >= mostPorts {
			t.Errorf("still asks for %d ports at once, though the answers are too large", s.chunk)
		}
	})
}

func TestGetAsksForSpeedAfterAPortCameUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, "e1")
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, d)}, Mode: Get, Ports: []string{"e1"}})
		read(t, s)
		read(t, s)
		d.mu.Lock()
		before := d.gets
		d.mu.Unlock()
		read(t, s)
		d.mu.Lock()
		if n := d.gets - before; n != 1 {
			t.Errorf("a reading took %d Gets, want 1", n)
		}
		d.mu.Unlock()
		d.with("e1", func(i *oc.Interface) { i.OperStatus = oc.Interface_OperStatus_DOWN })
		read(t, s)
		d.with("e1", func(i *oc.Interface) {
			i.OperStatus = oc.Interface_OperStatus_UP
			i.Ethernet.PortSpeed = oc.IfEthernet_ETHERNET_SPEED_SPEED_1GB
		})
		if got := read(t, s)[0]; got.Speed != 1e9 {
			t.Errorf("speed %d after the link came back at 1 Gbit/s", got.Speed)
		}
	})
}

// The stream of a target that leaves out unchanged values says nothing of an idle device; a
// Get does.
func TestIdleDeviceIsAskedWithGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, "e1")
		d.suppress = true
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, d)}, Ports: []string{"e1"}, Interval: 20 * time.Millisecond})
		first := read(t, s)[0].At
		until(t, s, "an idle port's sample is newer", func(got []counters.Sample, err error) bool {
			return err == nil && got[0].Err == nil && got[0].At.Sub(first) > 200*time.Millisecond
		})
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.gets == 0 {
			t.Error("without a Get, how?")
		}
	})
}

func TestMembers(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"Get", "subscription", "only aggregate-id", "only member", "none"} {
		bubble(t, way, func(t *testing.T) {
			d := newDevice(t, "e1", "e2", "e3", "e4", "lag1", "lag2")
			want := map[string][]string{"lag1": {"e1", "e2"}, "lag2": {"e4"}}
			for lag, ports := range want {
				if way != "only member" && way != "none" {
					for _, p := range ports {
						d.with(p, func(i *oc.Interface) { i.Ethernet.AggregateId = &lag })
					}
				}
				if way != "only aggregate-id" && way != "none" {
					d.with(lag, func(i *oc.Interface) { i.Aggregation = &oc.Interface_Aggregation{Member: ports} })
				}
			}
			if way == "none" {
				want = map[string][]string{}
			}
			var s *Source
			if way == "subscription" {
				s = open(t, Config{Config: gnmi.Config{Dial: serve(t, onceOnly{d})}, Ports: []string{"e1"}})
			} else {
				s = open(t, Config{Config: gnmi.Config{Dial: serve(t, d)}, Ports: []string{"e1"}})
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			got, err := s.Members(ctx)
			if err != nil || !maps.EqualFunc(got, want, slices.Equal) {
				t.Errorf("members %v, %v, want %v", got, err, want)
			}
		})
	}
}

// onceOnly does no Get, but ONCE.
type onceOnly struct{ *device }

func (onceOnly) Get(context.Context, *pb.GetRequest) (*pb.GetResponse, error) {
	return nil, status.Error(codes.Unimplemented, "no Get here")
}

func (o onceOnly) Subscribe(stream pb.GNMI_SubscribeServer) error {
	req, err := stream.Recv()
	if err != nil {
		return err
	}
	list := req.GetSubscribe()
	notes, _ := o.sample(list, nil, func(*pb.Subscription) bool { return true })
	return errors.Join(send(stream, notes...), sendSync(stream))
}

func TestReadAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, "e1")
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, d)}, Ports: []string{"e1"}})
		read(t, s)
		for range 2 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := tryRead(s); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("Read after Close: %v", err)
		}
		if _, err := s.Members(context.Background()); err == nil {
			t.Error("Members after Close did not fail")
		}
	})
}

func TestPortsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for want, ports := range map[string][]string{"no ports": nil, "port *": {"e1", "*"}} {
		if _, err := New(Config{Config: gnmi.Config{Device: "leaf1", Address: "leaf1:9339"}, Ports: ports}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "leaf1") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A first reading that has to end returns the ports that have come.
func TestReadingThatEndsWithSomeOfThePorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &script{encodings: onlyProto, subscribe: func(_ *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error {
			if err := send(stream, portNote(time.Now(), "e1", 1000, 1)); err != nil {
				return err
			}
			return hold(stream)
		}}
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, srv), Timeout: patience}, Ports: []string{"e1", "e2"}, Interval: unhurried})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got, err := s.Read(ctx, nil)
		if err != nil || len(got) != 2 || got[0].Err != nil || got[0].Octets != 1000 || got[1].Err == nil {
			t.Errorf("%+v, %v; want e1 and an error of e2", got, err)
		}
	})
}

func TestReadHonoursItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &script{encodings: []pb.Encoding{pb.Encoding_PROTO}, subscribe: func(_ *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error {
			<-stream.Context().Done()
			return nil
		}}
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, srv)}, Ports: []string{"e1"}})
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		begin := time.Now()
		_, err := s.Read(ctx, nil)
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, gnmi.ErrNoAnswer) || took > 50*time.Millisecond {
			t.Errorf("after %v: %v", took, err)
		}
		ctx, cancel = context.WithCancel(context.Background())
		cancel()
		if _, err := s.Read(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
	})
}
