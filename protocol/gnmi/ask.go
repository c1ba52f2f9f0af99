package gnmi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// encodings are those that csig reads, best first.
var encodings = []pb.Encoding{pb.Encoding_PROTO, pb.Encoding_JSON_IETF, pb.Encoding_JSON}

// Capabilities asks the target what it can do and returns the encodings to try, and its
// version of gNMI.
func (t *Target) Capabilities(ctx context.Context) (encs []pb.Encoding, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Timeout)
	defer cancel()
	reply, err := t.client.Capabilities(ctx, &pb.CapabilityRequest{})
	switch err = t.classify(ctx, err); {
	case err == nil:
		k := slices.IndexFunc(encodings, func(e pb.Encoding) bool { return slices.Contains(reply.GetSupportedEncodings(), e) })
		if k < 0 {
			return nil, "", fmt.Errorf("%w: it has %v, wanted is one of %v", ErrEncoding, few(reply.GetSupportedEncodings()), encodings)
		}
		encs = encodings[k : k+1]
	case Refused(err):
		// It may subscribe all the same, as gateways do.
		encs = encodings
	default:
		return nil, "", err
	}
	return encs, untrusted.Text(reply.GetGNMIVersion(), MaxName), nil
}

// few are the first ones of a list that may have any length.
func few(list []pb.Encoding) []pb.Encoding { return list[:min(len(list), 10)] }

// Notifications sends a Get; wait is to wait for a connection, however often making one fails.
func (t *Target) Notifications(ctx context.Context, req *pb.GetRequest, wait bool) ([]*pb.Notification, error) {
	reply, err := t.client.Get(ctx, req, grpc.WaitForReady(wait))
	return reply.GetNotification(), t.classify(ctx, err)
}

// Once hands on what the target has at one path, with Get or else a ONCE subscription.
func (t *Target) Once(ctx context.Context, encs []pb.Encoding, path *pb.Path, take func(*pb.Notification)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*t.cfg.Timeout)
	defer cancel()
	prefix := &pb.Path{Target: t.cfg.Target}
	var err error
	for _, enc := range encs {
		var notes []*pb.Notification
		if notes, err = t.Notifications(ctx, &pb.GetRequest{Prefix: prefix, Path: []*pb.Path{path}, Encoding: enc}, true); err == nil {
			for _, n := range notes {
				take(n)
			}
			return nil
		}
		if !Refused(err) || Absent(err) {
			return err
		}
		if err = t.OnceStream(ctx, enc, []*pb.Path{path}, take); err == nil || !Refused(err) {
			return err
		}
	}
	return err
}

// OnceStream hands on what a ONCE subscription to the paths brings.
func (t *Target) OnceStream(ctx context.Context, enc pb.Encoding, paths []*pb.Path, take func(*pb.Notification)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	list := &pb.SubscriptionList{Prefix: &pb.Path{Target: t.cfg.Target}, Mode: pb.SubscriptionList_ONCE, Encoding: enc}
	for _, path := range paths {
		list.Subscription = append(list.Subscription, &pb.Subscription{Path: path})
	}
	stream, err := t.Subscribe(ctx, list)
	if err != nil {
		return err
	}
	for {
		reply, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case reply.GetSyncResponse():
			return nil
		}
		take(reply.GetUpdate())
	}
}

// Stream is a subscription. It is not safe for concurrent use.
type Stream struct {
	target *Target
	ctx    context.Context
	stream pb.GNMI_SubscribeClient
	work   throttle
	begun  time.Time             // of the work on last
	last   *pb.SubscribeResponse // nil before the first
}

// Subscribe opens a stream, which ends with ctx.
func (t *Target) Subscribe(ctx context.Context, list *pb.SubscriptionList) (*Stream, error) {
	stream, err := t.client.Subscribe(ctx)
	if err != nil {
		return nil, t.classify(ctx, err)
	}
	_ = stream.Send(&pb.SubscribeRequest{Request: &pb.SubscribeRequest_Subscribe{Subscribe: list}}) // Recv reports what is wrong
	return &Stream{target: t, ctx: ctx, stream: stream, work: throttle{rate: float64(workPerSecond)}}, nil
}

// Recv returns the next message. It waits first where the work on the one before took more than
// a stream may take.
func (s *Stream) Recv() (*pb.SubscribeResponse, error) {
	s.pace()
	reply, err := s.stream.Recv()
	s.begun, s.last = time.Now(), reply
	return reply, s.target.classify(s.ctx, err)
}

func (s *Stream) pace() {
	if s.last == nil {
		return
	}
	now := time.Now()
	parts := 1 + len(s.last.GetUpdate().GetUpdate()) + len(s.last.GetUpdate().GetDelete())
	wait := s.work.take(int64(now.Sub(s.begun))+int64(parts)*int64(workPerUpdate), now)
	if wait <= 0 {
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-s.ctx.Done():
	case <-t.C:
	}
}
