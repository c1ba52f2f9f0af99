package gnmitest

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Evil is text that must not reach a terminal, a log or a document as it is.
const Evil = "\x1b]8;;http://evil\x07\x1b[31m\n| table\r\n\u202e"

// endless sends each message again and again, after some that come once.
func endless(first func(ports []string) [][]byte, again func(ports []string) [][]byte) func([]string, func([]byte) error, <-chan struct{}) error {
	return func(ports []string, send func([]byte) error, _ <-chan struct{}) error {
		if first != nil {
			for _, m := range first(ports) {
				if err := send(m); err != nil {
					return err
				}
			}
		}
		for messages := again(ports); ; {
			for _, m := range messages {
				if err := send(m); err != nil {
					return err
				}
			}
		}
	}
}

// steadily sends what the messages are at each instant, every 20 ms, after a sync.
func steadily(messages func(ports []string, at time.Time, k int) []*pb.Notification) func([]string, func([]byte) error, <-chan struct{}) error {
	return func(ports []string, send func([]byte) error, gone <-chan struct{}) error {
		for k := 0; ; k++ {
			for _, n := range messages(ports, time.Now(), k) {
				if err := send(update(n)); err != nil {
					return err
				}
			}
			if k == 0 {
				if err := send(syncResponse); err != nil {
					return err
				}
			}
			if !wait(20*time.Millisecond, gone) {
				return nil
			}
		}
	}
}

// once sends messages and then nothing.
func once(messages func(ports []string) [][]byte) func([]string, func([]byte) error, <-chan struct{}) error {
	return func(ports []string, send func([]byte) error, gone <-chan struct{}) error {
		for _, m := range messages(ports) {
			if err := send(m); err != nil {
				return err
			}
		}
		<-gone
		return nil
	}
}

func first(ports []string) [][]byte {
	var out [][]byte
	for _, p := range ports {
		out = append(out, update(sample(time.Now(), p, 1)))
	}
	return append(out, syncResponse)
}

// of sends good samples, and between them what is wrong.
func of(wrong func(port string, at time.Time, k int) *pb.Notification) func([]string, func([]byte) error, <-chan struct{}) error {
	return steadily(func(ports []string, at time.Time, k int) (out []*pb.Notification) {
		for _, p := range ports {
			if k%2 == 0 { // until the next time, or a reader would have to come between two messages
				out = append(out, sample(at, p, uint64(100*k)))
			} else {
				out = append(out, wrong(p, at, k))
			}
		}
		return out
	})
}

func just(n *pb.Notification) func([]string) [][]byte {
	m := update(n)
	return func([]string) [][]byte { return [][]byte{m} }
}

// emptyElements is a notification whose path has so many elements without a name, two
// bytes each.
func emptyElements(n int) []byte {
	field := func(tag byte, inner []byte) []byte {
		size := len(inner)
		out := []byte{tag}
		for ; size >= 0x80; size >>= 7 {
			out = append(out, byte(size)|0x80)
		}
		return append(append(out, byte(size)), inner...)
	}
	return field(0x0a, field(0x12, bytes.Repeat([]byte{0x1a, 0x00}, n))) // update: prefix: elem
}

func fault(code codes.Code, message string) func() ([]byte, error) {
	return func() ([]byte, error) { return nil, status.Error(code, message) }
}

// Healthy is a target that samples its ports every 20 ms.
func Healthy() Target {
	return Target{Name: "healthy", Alive: true, subscribe: steadily(func(ports []string, at time.Time, k int) (out []*pb.Notification) {
		for _, p := range ports {
			out = append(out, sample(at, p, uint64(100*k)))
		}
		return out
	})}
}

// Hostile lists the targets.
func Hostile() []Target {
	others := &pb.Notification{Timestamp: 1, Update: []*pb.Update{{Path: path("components", "component", "state"), Val: number(1)}}}
	long := strings.Repeat("n", 1<<20)
	deep := strings.Repeat(`{"a":[`, 1<<18)
	return []Target{
		{Name: "says nothing", raw: func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }},
		{Name: "hangs up", raw: func(net.Conn) {}},
		{Name: "garbage", raw: func(c net.Conn) {
			for b := bytes.Repeat([]byte("no HTTP/2 "), 1000); ; {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}},
		{Name: "a byte at a time", raw: func(c net.Conn) {
			for _, b := range bytes.Repeat([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00"), 1000) {
				if _, err := c.Write([]byte{b}); err != nil || !wait(10*time.Millisecond, nil) {
					return
				}
			}
		}},
		{Name: "endless pings", Flood: true, raw: func(c net.Conn) {
			if preface(c) != nil {
				return
			}
			for b := bytes.Repeat([]byte("\x00\x00\x08\x06\x00\x00\x00\x00\x00aaaaaaaa"), 1000); ; {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}},
		{Name: "a frame of 16 MiB", raw: func(c net.Conn) {
			if preface(c) != nil {
				return
			}
			for b := append([]byte("\xff\xff\xff\x01\x04\x00\x00\x00\x01"), make([]byte, 1<<16)...); ; {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}},
		{Name: "refuses with a long text", caps: fault(codes.Unknown, strings.Repeat(Evil, 200)),
			subscribe: func([]string, func([]byte) error, <-chan struct{}) error {
				return status.Error(codes.InvalidArgument, Evil+strings.Repeat("x", 4000))
			}},
		{Name: "refuses the login with a text", caps: fault(codes.Unauthenticated, Evil)},
		{Name: "capabilities without end", caps: func() ([]byte, error) {
			reply := &pb.CapabilityResponse{SupportedEncodings: make([]pb.Encoding, 1<<20), GNMIVersion: strings.Repeat(Evil, 1000)}
			for i := range reply.SupportedEncodings {
				reply.SupportedEncodings[i] = pb.Encoding_ASCII
			}
			return encode(reply), nil
		}},
		{Name: "never a word in the stream", subscribe: once(func([]string) [][]byte { return nil })},
		{Name: "never syncs, sends nothing wanted", subscribe: func(_ []string, send func([]byte) error, gone <-chan struct{}) error {
			for wait(20*time.Millisecond, gone) {
				if err := send(update(others)); err != nil {
					return err
				}
			}
			return nil
		}},
		{Name: "syncs, sends nothing wanted", subscribe: once(func([]string) [][]byte { return [][]byte{syncResponse} })},
		{Name: "flood of updates without a request", Flood: true, subscribe: endless(nil, just(others))},
		{Name: "flood of syncs", Flood: true, subscribe: endless(first, func([]string) [][]byte { return [][]byte{syncResponse} }), Alive: true},
		{Name: "flood of empty messages", Flood: true, subscribe: endless(first, func([]string) [][]byte { return [][]byte{{}} }), Alive: true},
		{Name: "flood of the same sample", Flood: true, subscribe: endless(first, func(ports []string) [][]byte { return first(ports)[:len(ports)] }), Alive: true},
		{Name: "flood of large messages", subscribe: endless(first, just(&pb.Notification{Timestamp: 1, Update: []*pb.Update{{Path: path("x"), Val: text(strings.Repeat(long, 3))}}})), Alive: true},
		{Name: "a message of 16 MiB", subscribe: endless(first, just(&pb.Notification{Timestamp: 1, Update: []*pb.Update{{Path: path("x"), Val: text(strings.Repeat(long, 16))}}})), Alive: true},
		{Name: "two million elements in a path", subscribe: endless(first, func([]string) [][]byte { return [][]byte{emptyElements(2_000_000)} }), Alive: true},
		{Name: "Get of two million elements", get: func([]string) ([]byte, error) { return emptyElements(2_000_000), nil }},
		{Name: "names of a megabyte", Alive: true, subscribe: of(func(_ string, at time.Time, _ int) *pb.Notification { return sample(at, long[:1<<18]+Evil, 1) })},
		{Name: "deep JSON", Alive: true, subscribe: of(func(port string, at time.Time, _ int) *pb.Notification {
			return &pb.Notification{Timestamp: at.UnixNano(), Update: []*pb.Update{{Path: portPath(port, "state/counters"), Val: jsonValue(`{"x":` + deep)}}}
		})},
		{Name: "wide JSON", Alive: true, subscribe: of(func(port string, at time.Time, _ int) *pb.Notification {
			return &pb.Notification{Timestamp: at.UnixNano(), Update: []*pb.Update{{Path: path("interfaces"), Val: jsonValue(`{"interface":[` + strings.Repeat(`{"name":"z"},`, 20_000) + `{"name":"` + port + `"}]}`)}}}
		})},
		{Name: "damaged JSON with a text", Alive: true, subscribe: of(func(port string, at time.Time, _ int) *pb.Notification {
			return &pb.Notification{Timestamp: at.UnixNano(), Update: []*pb.Update{{Path: portPath(port, "state"), Val: jsonValue(`{"` + Evil + `"`)}}}
		})},
		{Name: "values of the wrong type", subscribe: steadily(func(ports []string, at time.Time, k int) []*pb.Notification {
			values := []*pb.TypedValue{text(Evil + long), {Value: &pb.TypedValue_BoolVal{BoolVal: true}}, {}, nil, jsonValue(`{}`), {Value: &pb.TypedValue_DoubleVal{DoubleVal: math.Inf(1)}}, {Value: &pb.TypedValue_IntVal{IntVal: -1}}}
			n := sample(at, ports[0], uint64(k))
			n.Update[2].Val = values[k%len(values)]
			return []*pb.Notification{n}
		})},
		{Name: "times of the future", Alive: true, subscribe: of(func(port string, _ time.Time, _ int) *pb.Notification {
			return sample(time.Unix(0, math.MaxInt64), port, 5)
		})},
		{Name: "times of the past", Alive: true, subscribe: of(func(port string, _ time.Time, k int) *pb.Notification {
			return sample(time.Unix(0, math.MinInt64+int64(k)), port, 5)
		})},
		{Name: "times that jump", Alive: true, subscribe: steadily(func(ports []string, at time.Time, k int) (out []*pb.Notification) {
			for _, p := range ports {
				out = append(out, sample(at.Add(time.Duration(k*k%7-3)*time.Hour), p, uint64(100*k)))
			}
			return out
		})},
		{Name: "ends each stream", Alive: true, subscribe: func(ports []string, send func([]byte) error, _ <-chan struct{}) error {
			for _, m := range first(ports) {
				if err := send(m); err != nil {
					return err
				}
			}
			return errors.New(Evil)
		}},
		{Name: "deletes its ports", Alive: true, subscribe: of(func(port string, at time.Time, _ int) *pb.Notification {
			return &pb.Notification{Timestamp: at.UnixNano(), Delete: []*pb.Path{portPath(port, "state"), path("interfaces"), path()}, Atomic: true}
		})},
	}
}
