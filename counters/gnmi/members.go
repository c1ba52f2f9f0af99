package gnmi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// Members returns the members of each link aggregation group of the device, by name
// and sorted: those that name the group in ethernet/state/aggregate-id, and those that
// it lists in aggregation/state/member. The map is empty where the target has
// neither.
//
// It asks the target, with Get or else a ONCE subscription, and may be called while the Source is
// subscribed, but not concurrently with Read.
func (s *Source) Members(ctx context.Context) (map[string][]string, error) {
	if s.closed {
		return nil, s.deviceError(fmt.Errorf("read LAG members: %w", os.ErrClosed))
	}
	encs, _, err := s.capabilities(ctx)
	if err != nil {
		return nil, s.deviceError(fmt.Errorf("read LAG members: %w", err))
	}
	s.mu.Lock()
	origin := s.origin
	s.mu.Unlock()
	found := membership{}
	d := decoder{target: s.cfg.Target, sink: found}
	// One by one, as a target may have only one of them.
	var refusals []error
	for _, id := range [...]leafID{aggregateID, member} {
		err := s.once(ctx, encs, interfacePath(origin, "*", leafPaths[id]), d.notification)
		switch {
		case err == nil:
		case refused(err):
			refusals = append(refusals, err)
		default:
			return nil, s.deviceError(fmt.Errorf("read LAG members: %w", err))
		}
	}
	if len(refusals) == 2 && !absent(refusals[0]) && !absent(refusals[1]) {
		return nil, s.deviceError(fmt.Errorf("read LAG members: %w: %w", ErrRefused, errors.Join(refusals...)))
	}
	members := make(map[string][]string, len(found))
	for lag, ports := range found {
		members[lag] = slices.Sorted(maps.Keys(ports))
	}
	return members, nil
}

// once hands on what the target has at one path, with Get or else a ONCE subscription.
func (s *link) once(ctx context.Context, encs []pb.Encoding, path *pb.Path, take func(*pb.Notification)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*s.cfg.Timeout)
	defer cancel()
	prefix := &pb.Path{Target: s.cfg.Target}
	var err error
	for _, enc := range encs {
		var reply *pb.GetResponse
		reply, err = s.client.Get(ctx, &pb.GetRequest{Prefix: prefix, Path: []*pb.Path{path}, Encoding: enc}, grpc.WaitForReady(true))
		if err = s.classify(ctx, err); err == nil {
			for _, n := range reply.GetNotification() {
				take(n)
			}
			return nil
		}
		if !refused(err) || absent(err) {
			return err
		}
		if err = s.onceStream(ctx, enc, []*pb.Path{path}, take); err == nil || !refused(err) {
			return err
		}
	}
	return err
}

// onceStream hands on what a ONCE subscription to the paths brings.
func (s *link) onceStream(ctx context.Context, enc pb.Encoding, paths []*pb.Path, take func(*pb.Notification)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.client.Subscribe(ctx)
	if err != nil {
		return s.classify(ctx, err)
	}
	work := newWork()
	list := &pb.SubscriptionList{Prefix: &pb.Path{Target: s.cfg.Target}, Mode: pb.SubscriptionList_ONCE, Encoding: enc}
	for _, path := range paths {
		list.Subscription = append(list.Subscription, &pb.Subscription{Path: path})
	}
	_ = stream.Send(&pb.SubscribeRequest{Request: &pb.SubscribeRequest_Subscribe{Subscribe: list}}) // Recv reports what is wrong
	for {
		reply, err := stream.Recv()
		begun := time.Now()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return s.classify(ctx, err)
		case reply.GetSyncResponse():
			return nil
		}
		take(reply.GetUpdate())
		s.pace(ctx, &work, begun, reply)
	}
}

// membership is who is a member of what.
type membership map[string]map[string]bool

var _ sink = membership{}

func (m membership) update(name string, id leafID, v *value) {
	switch {
	case id == aggregateID && v.kind == textValue && v.text != "":
		m.add(v.text, name)
	case id == member:
		for _, port := range v.list {
			m.add(name, port)
		}
		if v.kind == textValue {
			m.add(name, v.text) // a list of one, as some write it
		}
	}
}

// add takes names that can be printed; a device with more aggregates than switches have
// ports is not believed.
func (m membership) add(lag, port string) {
	for _, name := range [...]string{lag, port} {
		if untrusted.Text(name, maxName) != name {
			return
		}
	}
	if len(m) >= maxMembers || len(m[lag]) >= maxMembers {
		return
	}
	if m[lag] == nil {
		m[lag] = make(map[string]bool)
	}
	m[lag][port] = true
}

func (m membership) remove(string, *node) {}

func (m membership) damaged(string, error) {}
