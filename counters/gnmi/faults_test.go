package gnmi

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/memnet"
)

var onlyProto = []pb.Encoding{pb.Encoding_PROTO}

// hold keeps a stream open.
func hold(stream pb.GNMI_SubscribeServer) error {
	<-stream.Context().Done()
	return nil
}

func TestDroppedStream(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		end    error
		unsync bool // before it had sent everything
	}{
		{"closed", nil, false},
		{"an internal error", status.Error(codes.Internal, "telemetry process restarts"), false},
		{"unavailable", status.Error(codes.Unavailable, "shutting down"), false},
		{"what would be a refusal at the start", status.Error(codes.InvalidArgument, "confused"), false},
		{"the same before sync", status.Error(codes.InvalidArgument, "confused"), true},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var streams atomic.Int64
			srv := &script{encodings: onlyProto, subscribe: func(_ *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error {
				n := int(streams.Add(1))
				if err := send(stream, portNote(time.Now(), "e1", 1000*n, n)); err != nil {
					return err
				}
				if tt.unsync && n < 4 {
					return tt.end
				}
				if err := sendSync(stream); err != nil {
					return err
				}
				if n < 4 {
					return tt.end
				}
				return hold(stream)
			}}
			s := open(t, Config{Config: gnmi.Config{Dial: serve(t, srv)}, Ports: []string{"e1"}, Interval: unhurried})
			var epoch uint64
			until(t, s, "the fourth stream brings its sample", func(got []counters.Sample, err error) bool {
				// What a stream brought remains true while the next is opened.
				if err != nil || got[0].Err != nil {
					t.Errorf("in between: %v %+v", err, got)
					return true
				}
				epoch = got[0].Epoch
				return got[0].Octets == 4000
			})
			if epoch != 0 {
				t.Errorf("epoch %d: a counter that continues is the same one", epoch)
			}
			if info := s.Info(); info.Streams != 4 || info.Request != "sample, PROTO" {
				t.Errorf("info %+v", info)
			}
		})
	}
}

func TestTargetThatGoesAwayAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at atomic.Pointer[memnet.Listener]
		at.Store(memnet.Listen(address))
		d := newDevice(t, "e1")
		d.send("e1", 1000, 1)
		g := serveOn(t, at.Load(), d)
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return at.Load().Dial(ctx) }
		s := open(t, Config{Config: gnmi.Config{Device: "leaf1", Dial: dial, MaxBackoff: 50 * time.Millisecond}, Ports: []string{"e1"}})
		read(t, s)
		g.Stop()
		until(t, s, "its absence shows", func(_ []counters.Sample, err error) bool {
			if err != nil && (!errors.Is(err, gnmi.ErrNoAnswer) && !errors.Is(err, ErrStream) || !strings.Contains(err.Error(), "leaf1")) {
				t.Errorf("error %v, want ErrNoAnswer of leaf1", err)
			}
			return err != nil
		})
		at.Store(memnet.Listen(address))
		d.send("e1", 1, 0)
		serveOn(t, at.Load(), d)
		until(t, s, "it is back", octets(1001))
	})
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	s := open(t, Config{Config: gnmi.Config{Device: "leaf1", Address: address}, Ports: []string{"e1"}})
	for range 3 {
		begin := time.Now()
		_, err := tryRead(s)
		if !errors.Is(err, gnmi.ErrNoAnswer) || !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), "gNMI is enabled") {
			t.Errorf("error %v, want ErrNoAnswer, what the kernel said and the next step", err)
		}
		if took := time.Since(begin); took > patience/2 {
			t.Errorf("took %v to say so", took)
		}
	}
}

// A peer that accepts the connection and then says nothing.
func TestMuteTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, plain := range []bool{true, false} {
			l := memnet.Listen(address) // where nobody accepts
			cfg := Config{Config: gnmi.Config{Dial: l.DialContext, Timeout: 100 * time.Millisecond}, Ports: []string{"e1"}}
			if !plain {
				cfg.TLS.SkipVerify = true
			}
			if _, err := tryRead(open(t, cfg)); !errors.Is(err, gnmi.ErrNoAnswer) {
				t.Errorf("plain %t: %v, want ErrNoAnswer", plain, err)
			}
		}
	})
}

func TestTargetThatAcceptsAndSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &script{encodings: onlyProto, subscribe: func(_ *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error { return hold(stream) }}
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, srv), Timeout: time.Second}, Ports: []string{"e1"}})
		if _, err := tryRead(s); !errors.Is(err, gnmi.ErrNoAnswer) || !strings.Contains(err.Error(), "nothing came in 1s") {
			t.Errorf("error %v, want ErrNoAnswer after the timeout", err)
		}
	})
}

// A stream that goes silent is opened again.
func TestStuckStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var streams atomic.Int64
		srv := &script{encodings: onlyProto, subscribe: func(_ *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error {
			n := int(streams.Add(1))
			if err := errors.Join(send(stream, portNote(time.Now(), "e1", 1000*n, n)), sendSync(stream)); err != nil {
				return err
			}
			return hold(stream)
		}}
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, srv)}, Ports: []string{"e1"}, silence: 100 * time.Millisecond})
		until(t, s, "another stream brings its sample", octets(2000))
		if e := s.Info().LastError; !strings.Contains(e, "100ms") {
			t.Errorf("last error %q", e)
		}
	})
}

func TestLateSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		srv := &script{encodings: onlyProto, subscribe: func(_ *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error {
			if err := send(stream, portNote(time.Now(), "e1", 1000, 1)); err != nil {
				return err
			}
			<-release
			if err := errors.Join(send(stream, portNote(time.Now(), "e2", 2000, 2)), sendSync(stream)); err != nil {
				return err
			}
			return hold(stream)
		}}
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, srv)}, Ports: []string{"e1", "e2"}, Interval: unhurried})
		// Before it, it is unknown whether there is an e2.
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if got, err := s.Read(ctx, nil); err != nil || got[0].Octets != 1000 || got[1].Err == nil {
			t.Errorf("at the end of the context: %+v, %v, want e1 and an error for e2", got, err)
		}
		close(release)
		until(t, s, "the rest comes", func(got []counters.Sample, err error) bool { return err == nil && got[1].Octets == 2000 })
	})
}

func TestSyncThatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &script{encodings: onlyProto, subscribe: func(_ *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error {
			if err := send(stream, portNote(time.Now(), "e1", 1000, 1)); err != nil {
				return err
			}
			return hold(stream)
		}}
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, srv), Timeout: time.Second}, Ports: []string{"e1", "e2"}, Interval: unhurried})
		got := read(t, s)
		if got[0].Octets != 1000 || !errors.Is(got[1].Err, gnmi.ErrMissing) {
			t.Errorf("after the timeout: %+v", got)
		}
	})
}

// Sync before the first sample: the ports are not missing yet.
func TestEarlySync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &script{encodings: onlyProto, subscribe: func(_ *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error {
			if err := sendSync(stream); err != nil {
				return err
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-stream.Context().Done():
			}
			if err := send(stream, portNote(time.Now(), "e1", 1000, 1)); err != nil {
				return err
			}
			return hold(stream)
		}}
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, srv)}, Ports: []string{"e1"}, Interval: unhurried})
		if got := read(t, s)[0]; got.Err != nil || got.Octets != 1000 {
			t.Errorf("first sample %+v", got)
		}
	})
}

func TestHugeMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &script{encodings: onlyProto, subscribe: func(_ *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error {
			n := portNote(time.Now(), "e1", 1000, 1)
			n.Update = append(n.Update, &pb.Update{Path: interfacePath("", "e1", "state/description"),
				Val: &pb.TypedValue{Value: &pb.TypedValue_StringVal{StringVal: strings.Repeat("x", 1<<20)}}})
			if err := errors.Join(send(stream, n), sendSync(stream)); err != nil {
				return err
			}
			return hold(stream)
		}}
		dial := serve(t, srv)
		if got := read(t, open(t, Config{Config: gnmi.Config{Dial: dial}, Ports: []string{"e1"}, Interval: unhurried}))[0]; got.Err != nil || got.Octets != 1000 {
			t.Errorf("below the limit: %+v", got)
		}
		_, err := tryRead(open(t, Config{Config: gnmi.Config{Dial: dial, MaxMessage: 1 << 20}, Ports: []string{"e1"}}))
		if !errors.Is(err, gnmi.ErrTooLarge) || !strings.Contains(err.Error(), "larger messages") {
			t.Errorf("above the limit: %v, want ErrTooLarge and what to do", err)
		}
	})
}

func TestLogin(t *testing.T) {
	secured := func(t *testing.T) (attempts *atomic.Int64, cfg Config) {
		ca := newAuthority(t)
		cert, key := ca.issue("127.0.0.1", time.Now().Add(time.Hour))
		attempts = new(atomic.Int64)
		srv := &guarded{device: newDevice(t, "e1"), attempts: attempts}
		return attempts, Config{
			Config: gnmi.Config{Device: "leaf1", Dial: serve(t, srv, ca.server(cert, key, false)), TLS: gnmi.TLS{CAFile: ca.file}, Username: "csig", Password: "hush"},
			Ports:  []string{"e1"},
		}
	}
	bubble(t, "right", func(t *testing.T) {
		_, cfg := secured(t)
		read(t, open(t, cfg))
	})
	for _, tt := range []struct {
		name, user string
		mode       Mode
	}{{"wrong password", "csig", ""}, {"no user", "", ""}, {"wrong password, Get", "csig", Get}} {
		bubble(t, tt.name, func(t *testing.T) {
			attempts, cfg := secured(t)
			cfg.Username, cfg.Password, cfg.Mode = tt.user, "Hush", tt.mode
			s := open(t, cfg)
			for range 5 {
				_, err := tryRead(s)
				if !errors.Is(err, gnmi.ErrCredentials) || !strings.Contains(err.Error(), "device leaf1") || !strings.Contains(err.Error(), "compare username") {
					t.Fatalf("error %v, want ErrCredentials of leaf1 and what to do", err)
				}
				if strings.Contains(err.Error(), "Hush") {
					t.Fatal("the password is in the error")
				}
			}
			for _, want := range []int64{1, 2} {
				if n := attempts.Load(); n != want {
					t.Errorf("%d attempts, want %d until MaxBackoff has passed: accounts get locked", n, want)
				}
				time.Sleep(s.cfg.MaxBackoff * 5 / 4) // one by now, and two are further apart than half of it
			}
		})
	}
	bubble(t, "not over plaintext by accident", func(t *testing.T) {
		// What protects the password is that TLS is the default.
		s, err := New(Config{
			Config: gnmi.Config{Address: address, Dial: serve(t, newDevice(t, "e1")), Username: "csig", Password: "hush", Backoff: time.Hour, MaxBackoff: time.Hour},
			Ports:  []string{"e1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := tryRead(s); !errors.Is(err, gnmi.ErrCertificate) {
			t.Errorf("error %v, want ErrCertificate from a target without TLS", err)
		}
	})
}

// guarded asks for a username and password.
type guarded struct {
	*device
	attempts *atomic.Int64
}

func (g *guarded) check(ctx context.Context) error {
	g.attempts.Add(1)
	s := new(script)
	s.note(ctx)
	md := s.calls[0]
	if u, p := md.Get("username"), md.Get("password"); len(u) != 1 || u[0] != "csig" || len(p) != 1 || p[0] != "hush" {
		return status.Error(codes.Unauthenticated, "go away")
	}
	return nil
}

func (g *guarded) Capabilities(ctx context.Context, r *pb.CapabilityRequest) (*pb.CapabilityResponse, error) {
	if err := g.check(ctx); err != nil {
		return nil, err
	}
	return g.device.Capabilities(ctx, r)
}

func (g *guarded) Subscribe(stream pb.GNMI_SubscribeServer) error {
	if err := g.check(stream.Context()); err != nil {
		return err
	}
	return g.device.Subscribe(stream)
}

func TestCertificates(t *testing.T) {
	synctest.Test(t, testCertificates) // all of them are of its time
}

func testCertificates(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	hour := time.Now().Add(time.Hour)
	good, goodKey := ca.issue("127.0.0.1", hour)
	named, namedKey := ca.issue("leaf1.example.net", hour)
	expired, expiredKey := ca.issue("127.0.0.1", time.Now().Add(-time.Minute))
	client, clientKey := ca.issue("csig", hour)
	oldClient, oldClientKey := ca.issue("csig", time.Now().Add(-time.Minute))
	for _, tt := range []struct {
		name   string
		server grpc.ServerOption
		tls    gnmi.TLS
		want   error  // nil: it works
		as     any    // what errors.As finds
		text   string // in the error
	}{
		{"verified", ca.server(good, goodKey, false), gnmi.TLS{CAFile: ca.file}, nil, nil, ""},
		{"with another name", ca.server(named, namedKey, false), gnmi.TLS{CAFile: ca.file, ServerName: "leaf1.example.net"}, nil, nil, ""},
		{"not verified", ca.server(expired, expiredKey, false), gnmi.TLS{SkipVerify: true}, nil, nil, ""},
		{"mutual", ca.server(good, goodKey, true), gnmi.TLS{CAFile: ca.file, CertFile: client, KeyFile: clientKey}, nil, nil, ""},
		{"expired", ca.server(expired, expiredKey, false), gnmi.TLS{CAFile: ca.file}, gnmi.ErrCertificate, new(x509.CertificateInvalidError), "expired"},
		{"of another authority", ca.server(good, goodKey, false), gnmi.TLS{CAFile: other.file}, gnmi.ErrCertificate, new(x509.UnknownAuthorityError), "unknown authority"},
		{"of the wrong name", ca.server(named, namedKey, false), gnmi.TLS{CAFile: ca.file}, gnmi.ErrCertificate, new(x509.HostnameError), "127.0.0.1"},
		{"mutual without ours", ca.server(good, goodKey, true), gnmi.TLS{CAFile: ca.file}, gnmi.ErrCertificate, nil, "certificate required"},
		{"mutual with an expired one", ca.server(good, goodKey, true), gnmi.TLS{CAFile: ca.file, CertFile: oldClient, KeyFile: oldClientKey}, gnmi.ErrCertificate, nil, "expired"},
	} {
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, newDevice(t, "e1"), tt.server), TLS: tt.tls}, Ports: []string{"e1"}})
		if tt.want == nil {
			if _, err := tryRead(s); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		// A server that refuses the client's certificate may close the
		// connection before its reason is read; the next attempt shows it.
		until(t, s, fmt.Sprintf("%s: the error is %v with %q", tt.name, tt.want, tt.text), func(_ []counters.Sample, err error) bool {
			if err == nil {
				t.Fatalf("%s: no error", tt.name)
			}
			return errors.Is(err, tt.want) && strings.Contains(err.Error(), tt.text) && (tt.as == nil || errors.As(err, tt.as))
		})
	}
	for _, tt := range []struct {
		name string
		tls  gnmi.TLS
		text string
	}{
		{"no such CA file", gnmi.TLS{CAFile: "nowhere.pem"}, "nowhere.pem"},
		{"a CA file without certificates", gnmi.TLS{CAFile: goodKey}, "no certificate in it"},
		{"key of another certificate", gnmi.TLS{CertFile: client, KeyFile: goodKey}, "client certificate"},
	} {
		if _, err := New(Config{Config: gnmi.Config{Address: address, TLS: tt.tls}, Ports: []string{"e1"}}); err == nil || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.text)
		}
	}
}

// Damage to one notification is no reason to give up the stream.
func TestDamagedNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &script{encodings: onlyProto, subscribe: func(_ *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error {
			at := time.Now()
			bad := []*pb.Notification{
				{}, {Update: []*pb.Update{{}}}, {Update: []*pb.Update{nil}}, {Delete: []*pb.Path{nil, {Element: []string{"x"}}}}, //nolint:staticcheck // old form
				{Timestamp: -5, Update: portNote(at, "e9", 1, 1).Update},
				{Prefix: &pb.Path{Target: "x", Origin: "y"}, Update: portNote(at, "e1", 5, 5).Update},
				{Update: []*pb.Update{{Path: interfacePath("", "e1", "state"), Val: &pb.TypedValue{Value: &pb.TypedValue_JsonIetfVal{JsonIetfVal: []byte(`{"counters":{`)}}}}},
			}
			if err := errors.Join(send(stream, bad...), stream.Send(&pb.SubscribeResponse{}),
				send(stream, portNote(at, "e1", 1000, 1)), sendSync(stream)); err != nil {
				return err
			}
			return hold(stream)
		}}
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, srv)}, Ports: []string{"e1"}, Interval: unhurried})
		if got := read(t, s)[0]; got.Err != nil || got.Octets != 1000 {
			t.Errorf("sample %+v", got)
		}
		if info := s.Info(); info.Invalid < 3 || info.LastInvalid == "" || info.Streams != 1 {
			t.Errorf("info %+v", info)
		}
	})
}

func TestTargetName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &script{encodings: onlyProto, subscribe: func(list *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error {
			if got := list.Prefix.Target; got != "leaf1" {
				return status.Errorf(codes.Internal, "target %q", got)
			}
			mine, others := portNote(time.Now(), "e1", 1000, 1), portNote(time.Now(), "e1", 5, 5)
			mine.Prefix, others.Prefix = &pb.Path{Target: "leaf1"}, &pb.Path{Target: "leaf2"}
			if err := errors.Join(send(stream, mine, others), sendSync(stream)); err != nil {
				return err
			}
			return hold(stream)
		}}
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, srv), Target: "leaf1"}, Ports: []string{"e1"}, Interval: unhurried})
		if got := read(t, s)[0]; got.Err != nil || got.Octets != 1000 {
			t.Errorf("sample %+v, want that of leaf1", got)
		}
	})
}
