package gnmi

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/gnmi/gnmitest"
	"github.com/csig-agent/csig/protocol/memnet"
)

// A target that has no Get is asked about silent ports with a subscription of its own.
func TestSilentPortOfATargetWithoutGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &script{encodings: onlyProto}
		asked := make(chan *pb.SubscriptionList, 100)
		var streams atomic.Int64 // a second one brings e1's sample again
		srv.subscribe = func(list *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error {
			if list.Mode == pb.SubscriptionList_ONCE {
				select {
				case asked <- list:
				default:
				}
				return errors.Join(send(stream, portNote(time.Now(), "e1", 7000, 7)), sendSync(stream))
			}
			streams.Add(1)
			if err := errors.Join(send(stream, portNote(time.Now(), "e1", 7000, 7), portNote(time.Now(), "e2", 0, 0)), sendSync(stream)); err != nil {
				return err
			}
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for i := 1; ; i++ {
				select {
				case <-stream.Context().Done():
					return nil
				case <-tick.C:
				}
				if err := send(stream, portNote(time.Now(), "e2", 1000*i, i)); err != nil {
					return err
				}
			}
		}
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, srv)}, Ports: []string{"e1", "e2"}, Interval: 20 * time.Millisecond})
		begun := read(t, s)[0].At
		s.mu.Lock()
		still := s.ports[0].still
		s.mu.Unlock()
		if len(asked) == 0 && still && streams.Load() == 1 {
			t.Error("a port with one sample stands still, and no request was made")
		}
		for list := <-asked; list.Subscription[0].Path.Elem[1].Key["name"] != "e1" || len(list.Subscription) != 1; {
			// On a busy machine e2's samples stop for a while, too.
			select {
			case list = <-asked:
			case <-time.After(patience):
				t.Fatalf("asked for %v, want e1", list)
			}
		}
		until(t, s, "e1 stands still", func([]counters.Sample, error) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.ports[0].still && s.ports[0].row.at > begun.UnixNano()
		})
	})
}

// Get that brings the same sample again is not a new one, and for long it is silence.
func TestGetOfTheSameSample(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1"}, Mode: Get, silence: 10 * time.Second})
	b.s.info.Mode = Get
	at := b.clock()
	arrived := b.now
	for i := range 20 {
		b.take(leafNote(at, "e1", operStatus, "UP", portSpeed, "SPEED_10GB", outOctets, 5, outPkts, 1))
		s := b.read()[0]
		switch {
		case i > 10:
			if !errors.Is(s.Err, ErrSilent) {
				t.Errorf("after %d s: %v, want ErrSilent", i, s.Err)
			}
		case s.Err != nil || s.At.UnixNano() != at || !s.Local.Equal(arrived):
			t.Errorf("after %d s: %+v, want that of the first", i, s)
		}
		b.pass(time.Second)
	}
}

// No number of slow refusals makes a reading last.
func TestReadingOfATargetThatRefusesSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &script{encodings: onlyProto, subscribe: func(_ *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error {
			select {
			case <-stream.Context().Done():
			case <-time.After(400 * time.Millisecond):
			}
			return status.Error(codes.InvalidArgument, "not this")
		}}
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, srv), Timeout: time.Second}, Ports: []string{"e1"}, Interval: 20 * time.Millisecond})
		_, err := s.Read(context.Background(), nil)
		if !errors.Is(err, gnmi.ErrNoAnswer) || !strings.Contains(err.Error(), "no answer in "+s.patience().String()) {
			t.Errorf("%v, want no answer in %v", err, s.patience())
		}
	})
}

// Members of aggregates are not waited for without end, and what does not print is no name.
func TestMembersOfAHostileTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &script{encodings: onlyProto, subscribe: func(_ *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error {
			<-stream.Context().Done()
			return nil
		}}
		s := open(t, Config{Config: gnmi.Config{Dial: serve(t, srv), Timeout: 100 * time.Millisecond}, Ports: []string{"e1"}})
		if _, err := s.Members(context.Background()); !errors.Is(err, gnmi.ErrNoAnswer) {
			t.Errorf("%v, want no answer", err)
		}
		m := membership{}
		m.add("lag1", "e1\x1b[31m")
		m.add("lag\n2", "e1")
		if m.add("lag1", "e1"); len(m) != 1 || len(m["lag1"]) != 1 {
			t.Errorf("%v", m)
		}
	})
}

// panics is a sink that fails.
type panics struct{ membership }

func (panics) update(string, leafID, *gnmi.Value) { panic("on purpose") }

func TestMessageOnWhichWeFail(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Ports: []string{"e1"}})
	b.s.dec.sink = panics{}
	b.take(leafNote(b.clock(), "e1", outOctets, 5))
	if info := b.s.Info(); info.Invalid != 1 || !strings.Contains(info.LastInvalid, "please report it: on purpose") {
		t.Errorf("%+v", info)
	}
}

// A target that sends, but nothing of these ports, and never says that it is complete: the
// reading says so in its own time.
func TestTargetThatSendsNothingWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, target := range gnmitest.Hostile() {
			if target.Name != "never syncs, sends nothing wanted" {
				continue
			}
			l := memnet.Listen(address)
			target.ServeOn(t, l, "e1")
			s := open(t, Config{Config: gnmi.Config{Dial: l.DialContext, Timeout: time.Second}, Ports: []string{"e1"}, Interval: 10 * time.Millisecond})
			samples, err := s.Read(context.Background(), nil)
			if len(samples) != 0 || !errors.Is(err, ErrSilent) {
				t.Errorf("%+v, %v; want ErrSilent", samples, err)
			}
			return
		}
		t.Error("there is no such target")
	})
}
