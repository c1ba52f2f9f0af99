package gnmi

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
)

// flood is a stream that always has another message.
type flood struct {
	pb.GNMI_SubscribeClient
	message *pb.SubscribeResponse
}

func (f *flood) Recv() (*pb.SubscribeResponse, error) { return f.message, nil }

// A stream brings no more than what csig may work on, and waits no longer than its context.
func TestStreamIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const updates = 100_000 // a tenth of a second's work, of which two seconds' worth may come at once
		ctx, cancel := context.WithCancel(t.Context())
		s := &Stream{target: &Target{}, ctx: ctx, work: throttle{rate: float64(workPerSecond)}, stream: &flood{message: &pb.SubscribeResponse{
			Response: &pb.SubscribeResponse_Update{Update: &pb.Notification{Update: make([]*pb.Update, updates-1)}},
		}}}
		read := func(n int) time.Duration {
			t.Helper()
			begun := time.Now()
			for range n {
				if _, err := s.Recv(); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(begun)
		}
		if took := read(6); took != 0 {
			t.Errorf("the first messages took %v", took)
		}
		if took := read(10); took != 4*time.Second {
			t.Errorf("ten more took %v, want 4s: a second's work in four", took)
		}
		cancel()
		if took := read(10); took != 0 {
			t.Errorf("after its end, ten took %v", took)
		}
	})
}
