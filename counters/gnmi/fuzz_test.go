package gnmi

import (
	"fmt"
	"testing"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/protobuf/proto"
)

// FuzzNotification holds that nothing a target sends makes the state wrong in kind: each
// sample is either in error or plausible, and the source continues.
func FuzzNotification(f *testing.F) {
	seed := func(notes ...*pb.Notification) {
		for _, n := range notes {
			b, err := proto.Marshal(n)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	at := time.Unix(1_800_000_000, 0)
	seed(portNote(at, "e1", 5, 5), leafNote(-1, "e1", outOctets, "12", outUnicast, 3, outMulticast, true),
		&pb.Notification{Timestamp: at.UnixNano(), Atomic: true, Prefix: interfacePath("", "e1", "state"), Delete: []*pb.Path{{}}},
		&pb.Notification{Update: []*pb.Update{{Path: &pb.Path{}, Val: &pb.TypedValue{Value: &pb.TypedValue_JsonIetfVal{
			JsonIetfVal: []byte(`{"openconfig-interfaces:interfaces":{"interface":[{"name":"e1","state":{"oper-status":"UP","counters":{"out-octets":"7","out-pkts":1}}}]}}`)}}}}},
	)
	f.Fuzz(func(t *testing.T, data []byte) {
		n := new(pb.Notification)
		if proto.Unmarshal(data, n) != nil {
			return
		}
		b := newBench(t, Config{Ports: []string{"e1", "e2"}})
		b.begin("e1", 1000, 10)
		b.begin("e2", 1000, 10)
		b.sync()
		b.read()
		b.pass(time.Second)
		for range 2 {
			b.take(n)
			for i, s := range b.read() {
				if want := fmt.Sprintf("e%d", i+1); s.Port != want {
					t.Fatalf("sample %d is of %q", i, s.Port)
				}
				if s.Err == nil && (s.Bits != 64 || s.At.IsZero() || s.Up && s.Overhead != 20) {
					t.Fatalf("sample %+v", s)
				}
			}
		}
		(membership{}).all(n)
	})
}

func (m membership) all(n *pb.Notification) {
	d := decoder{sink: m}
	d.notification(n)
}
