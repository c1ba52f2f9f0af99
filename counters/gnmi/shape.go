package gnmi

import (
	"fmt"
	"strings"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
)

// shape is one way to ask for the counters. Targets refuse whatever they do not
// implement, so the shapes are tried in turn, best first.
type shape struct {
	mode     Mode
	encoding pb.Encoding
	all      bool // [name=*] instead of the ports' names
	tree     bool // whole containers instead of leaves
	fastest  bool // as often as the target can, instead of every interval
	polled   bool // SAMPLE for status and speed too
	origin   string
}

func (s shape) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v, %v", s.mode, s.encoding)
	for _, o := range []struct {
		on   bool
		text string
	}{
		{s.all, "all interfaces"},
		{s.tree, "containers"},
		{s.fastest, "target's shortest interval"},
		{s.polled, "status sampled"},
	} {
		if o.on {
			b.WriteString(", " + o.text)
		}
	}
	if s.origin != "" {
		b.WriteString(", origin " + s.origin)
	}
	return b.String()
}

// wildcardFrom is how many ports make it cheaper to ask for all interfaces.
const wildcardFrom = 16

// shapes lists the ways to try, in order.
func shapes(mode Mode, encodings []pb.Encoding, ports int) []shape {
	steps := []shape{
		{mode: Sample},
		{mode: Sample, tree: true},
		{mode: Sample, tree: true, polled: true},
		{mode: Sample, tree: true, fastest: true},
		{mode: Sample, tree: true, fastest: true, polled: true},
		{mode: TargetDefined, tree: true},
	}
	var list []shape
	for _, enc := range encodings {
		for _, s := range steps {
			if mode != Auto && mode != s.mode {
				continue
			}
			s.encoding = enc
			// A name that the target does not have makes some refuse them all, and
			// others do not take wildcards.
			s.all = ports >= wildcardFrom
			list = append(list, s)
			s.all = !s.all
			list = append(list, s)
		}
	}
	return list
}

// request is what to subscribe to in a shape.
func (s shape) request(c *Config) *pb.SubscriptionList {
	var counters, rest []string
	if s.tree {
		counters = []string{"state/counters"}
		rest = []string{leafPaths[operStatus], "ethernet/state", "aggregation/state"}
	} else {
		for l := outOctets; l <= lastClear; l++ {
			counters = append(counters, leafPaths[l])
		}
		for l := operStatus; l <= lagSpeed; l++ {
			rest = append(rest, leafPaths[l])
		}
	}
	names := c.Ports
	if s.all {
		names = []string{"*"}
	}
	list := &pb.SubscriptionList{
		Prefix:   &pb.Path{Target: c.Target},
		Mode:     pb.SubscriptionList_STREAM,
		Encoding: s.encoding,
	}
	interval, heartbeat := uint64(c.Interval), uint64(max(10*c.Interval, 10*time.Second))
	for _, name := range names {
		for _, path := range counters {
			sub := &pb.Subscription{Path: interfacePath(s.origin, name, path), Mode: pb.SubscriptionMode_SAMPLE, SampleInterval: interval}
			switch {
			case s.mode == TargetDefined:
				sub.Mode, sub.SampleInterval, sub.HeartbeatInterval = pb.SubscriptionMode_TARGET_DEFINED, 0, heartbeat
			case s.fastest:
				sub.SampleInterval = 0
			}
			list.Subscription = append(list.Subscription, sub)
		}
		for _, path := range rest {
			sub := &pb.Subscription{Path: interfacePath(s.origin, name, path), Mode: pb.SubscriptionMode_ON_CHANGE, HeartbeatInterval: heartbeat}
			switch {
			case s.mode == TargetDefined:
				sub.Mode = pb.SubscriptionMode_TARGET_DEFINED
			case s.polled:
				sub.Mode, sub.HeartbeatInterval, sub.SampleInterval = pb.SubscriptionMode_SAMPLE, 0, interval
				if s.fastest {
					sub.SampleInterval = 0
				}
			}
			list.Subscription = append(list.Subscription, sub)
		}
	}
	return list
}

// interfacePath is the path of what is at rest below an interface.
func interfacePath(origin, name, rest string) *pb.Path {
	p := &pb.Path{Origin: origin, Elem: []*pb.PathElem{
		{Name: "interfaces"},
		{Name: "interface", Key: map[string]string{"name": name}},
	}}
	for e := range strings.SplitSeq(rest, "/") {
		p.Elem = append(p.Elem, &pb.PathElem{Name: e})
	}
	return p
}
