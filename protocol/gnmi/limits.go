package gnmi

import (
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that boundedCodec wraps
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// What one target can make csig do: far more than the counters of some thousand
// interfaces each second take.
const (
	bytesPerSecond = 8 << 20
	workPerSecond  = time.Second / 4  // of one processor, on what a stream brings
	workPerUpdate  = time.Microsecond // of it, before csig looks at one
	windowSize     = 1 << 20          // bytes under way, of a stream and of the connection
	maxHeaders     = 64 << 10         // bytes of HTTP/2 headers in one answer
	maxParts       = 1 << 18          // messages within a message: paths, elements, values
	scanFrom       = 128 << 10        // bytes; smaller messages cannot have that many that matter
	maxDepth       = 64               // of messages within each other; encoding/json has a bound of its own
	maxModels      = 1 << 16
)

// What of a target's text is kept, in bytes.
const (
	MaxText = 300 // in an error, which may have several
	MaxName = 256
)

// throttle bounds how much of something comes in a second, and twice that at once.
type throttle struct {
	rate float64
	used float64 // of what may come at once
	at   time.Time
}

// take counts n and returns how long to wait before more of it is taken.
func (t *throttle) take(n int64, now time.Time) time.Duration {
	t.used = max(0, t.used-t.rate*now.Sub(t.at).Seconds()) + float64(n)
	t.at = now
	return time.Duration((t.used - 2*t.rate) / t.rate * float64(time.Second))
}

// throttledConn reads no faster than bytesPerSecond: a target that floods fills its own
// buffers.
type throttledConn struct {
	net.Conn
	limit throttle
}

// Read is that of net.Conn.
func (c *throttledConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if wait := c.limit.take(int64(n), time.Now()); wait > 0 {
		time.Sleep(wait) // short: what b holds is all that it waits for
	}
	return n, err
}

// boundedCodec is gRPC's own codec for messages that do not grow too much when they are
// decoded: an element of a path takes two bytes on the wire and a hundred in memory.
type boundedCodec struct{ encoding.CodecV2 }

func newCodec() boundedCodec { return boundedCodec{encoding.GetCodecV2("proto")} }

// Unmarshal is that of encoding.CodecV2.
func (c boundedCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(proto.Message); ok && data.Len() > scanFrom {
		left := maxParts
		if err := count(data.Materialize(), m.ProtoReflect().Descriptor(), &left, maxDepth); err != nil {
			return err
		}
	}
	return c.CodecV2.Unmarshal(data, v)
}

var errTooManyParts = fmt.Errorf("a message of more than %d parts, or %d deep", maxParts, maxDepth)

// count takes the messages in msg, at any depth, from left.
func count(msg []byte, kind protoreflect.MessageDescriptor, left *int, depth int) error {
	if depth == 0 {
		return errTooManyParts
	}
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return protowire.ParseError(n)
		}
		msg = msg[n:]
		if n = protowire.ConsumeFieldValue(num, typ, msg); n < 0 {
			return protowire.ParseError(n)
		}
		f := kind.Fields().ByNumber(num)
		if typ == protowire.BytesType && (f == nil || f.Message() != nil || f.IsList()) {
			if *left--; *left < 0 {
				return errTooManyParts
			}
			if f != nil && f.Message() != nil {
				inner, _ := protowire.ConsumeBytes(msg)
				if err := count(inner, f.Message(), left, depth-1); err != nil {
					return err
				}
			}
		}
		msg = msg[n:]
	}
	return nil
}
