package gnmi

import (
	pb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/protobuf/proto"
)

func marshal(n *pb.Notification) ([]byte, error)   { return proto.Marshal(n) }
func unmarshal(b []byte, n *pb.Notification) error { return proto.Unmarshal(b, n) }
