package gnmi

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csig-agent/csig/protocol/gnmi"
)

// part is a container that Get asks for, of each port.
type part uint8

const (
	statePart part = iota
	ethernetPart
	aggregationPart
	nParts
)

var parts = [nParts]struct {
	path string
	node *node
}{
	statePart:       {"state", interfaceNode("state")},
	ethernetPart:    {"ethernet/state", interfaceNode("ethernet")},
	aggregationPart: {"aggregation/state", interfaceNode("aggregation")},
}

func interfaceNode(name string) *node {
	return tree.child("interfaces").child("interface").child(name)
}

// speedsEvery is how often Get asks for speeds.
const speedsEvery = 30 * time.Second

// mostPorts is how many ports one Get asks for at most.
const mostPorts = 32

// poll takes one reading with Get. The error is for the whole device.
func (s *Source) poll(ctx context.Context) error {
	all := make([]int, len(s.ports))
	for i := range all {
		all[i] = i
	}
	if err := s.fetch(ctx, statePart, all); err != nil {
		return err
	}
	s.mu.Lock()
	again := s.otherOrigin()
	s.mu.Unlock()
	if again {
		return s.poll(ctx)
	}
	now := time.Now()
	if !s.speeds.IsZero() && now.Sub(s.speeds) < speedsEvery && !s.wasDown() {
		return nil
	}
	s.speeds = now
	for _, pt := range [...]part{ethernetPart, aggregationPart} {
		var ask []int
		s.mu.Lock()
		for i := range s.ports {
			if !s.ports[i].lacks[pt] {
				ask = append(ask, i)
			}
		}
		s.mu.Unlock()
		if err := s.fetch(ctx, pt, ask); err != nil {
			return err
		}
	}
	return nil
}

// wasDown reports whether a port came up since the last call, perhaps with another
// speed.
func (s *Source) wasDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	came := false
	for i := range s.ports {
		p := &s.ports[i]
		up, _ := p.up()
		came = came || up && p.down
		p.down = !up
	}
	return came
}

// fetch gets one part of the given ports. A port that the target does not have is
// left without the part; the error is for all of them.
func (s *Source) fetch(ctx context.Context, pt part, ports []int) error {
	for len(ports) > 0 {
		s.mu.Lock()
		n := min(s.chunk, len(ports))
		s.mu.Unlock()
		if err := s.fetchSome(ctx, pt, ports[:n]); err != nil {
			return err
		}
		ports = ports[n:]
	}
	return nil
}

// fetchSome is fetch in one Get, or in halves where the target refuses that.
func (s *Source) fetchSome(ctx context.Context, pt part, ports []int) error {
	req := &pb.GetRequest{Prefix: &pb.Path{Target: s.cfg.Target}}
	if s.cfg.Target == "" {
		req.Prefix = nil
	}
	s.mu.Lock()
	req.Encoding = s.encoding
	wait := s.started
	for _, i := range ports {
		req.Path = append(req.Path, interfacePath(s.origin, s.ports[i].name, parts[pt].path))
	}
	s.mu.Unlock()
	call, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	notes, err := s.target.Notifications(call, req, wait)
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", gnmi.ErrNoAnswer, ctx.Err())
	}
	switch tooLarge := errors.Is(err, gnmi.ErrTooLarge); {
	case err == nil:
	case status.Code(err) == codes.Unimplemented:
		return fmt.Errorf("%w: Get: %w", ErrRefused, err)
	case !tooLarge && !gnmi.Refused(err), tooLarge && len(ports) == 1:
		return err
	case len(ports) > 1:
		if tooLarge {
			s.mu.Lock()
			s.chunk = max(1, len(ports)/2)
			s.mu.Unlock()
		}
		if err := s.fetchSome(ctx, pt, ports[:len(ports)/2]); err != nil {
			return err
		}
		return s.fetchSome(ctx, pt, ports[len(ports)/2:])
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	polled := s.info.Mode == Get
	if polled {
		s.stream++
		s.refresh = false
	}
	s.asked = !polled
	for _, n := range notes {
		s.take(n, now)
	}
	s.asked = false
	if !polled {
		return nil
	}
	for _, i := range ports {
		p := &s.ports[i]
		p.expire(s.stream, parts[pt].node)
		if err != nil {
			p.lacks[pt] = pt != statePart
			p.damage = nil
		}
	}
	return nil
}

// fetchOnce asks about the ports with a subscription that ends with its first values, of
// a target that has no Get.
func (s *Source) fetchOnce(ctx context.Context, ports []int) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	s.mu.Lock()
	enc := s.encoding
	var paths []*pb.Path
	for _, i := range ports {
		paths = append(paths, interfacePath(s.origin, s.ports[i].name, parts[statePart].path))
	}
	s.mu.Unlock()
	return s.target.OnceStream(ctx, enc, paths, func(n *pb.Notification) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = true
		s.take(n, time.Now())
		s.asked = false
	})
}
