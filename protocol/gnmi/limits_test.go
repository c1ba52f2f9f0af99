package gnmi

import (
	"strings"
	"testing"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
)

func TestThrottle(t *testing.T) {
	t.Parallel()
	limit, now := throttle{rate: 100}, time.Unix(1000, 0)
	for _, step := range []struct {
		after time.Duration
		n     int
		want  time.Duration
	}{
		{0, 200, 0},                   // two seconds' worth at once
		{0, 50, time.Second / 2},      // and no more
		{time.Second, 50, 0},          // what was used up comes back
		{time.Hour, 300, time.Second}, // but not more than that
	} {
		now = now.Add(step.after)
		if wait := max(limit.take(int64(step.n), now), 0); wait != step.want {
			t.Errorf("%d after %v: wait %v, want %v", step.n, step.after, wait, step.want)
		}
	}
}

// A large message is refused where values are nested deeper than any model has them.
func TestMessageOfNestedValues(t *testing.T) {
	t.Parallel()
	for depth, want := range map[int]bool{20: true, 40: false} {
		value := &pb.TypedValue{Value: &pb.TypedValue_StringVal{StringVal: strings.Repeat("x", scanFrom)}}
		for range depth {
			value = &pb.TypedValue{Value: &pb.TypedValue_LeaflistVal{LeaflistVal: &pb.ScalarArray{Element: []*pb.TypedValue{value}}}}
		}
		codec, msg := newCodec(), new(pb.Notification)
		data, err := codec.Marshal(&pb.Notification{Update: []*pb.Update{{Val: value}}})
		if err != nil {
			t.Fatal(err)
		}
		if err = codec.Unmarshal(data, msg); (err == nil) != want || want && len(msg.Update) != 1 {
			t.Errorf("%d leaf-lists in each other: %v", depth, err)
		}
	}
}
