// Package srlinux sets up Nokia's SR Linux by gNMI, in its own models: the TPID and the MTU of
// interfaces. The record that csig keeps on the switch is in the descriptions of ACL filters
// that no interface uses, named csig-record-….
package srlinux

import (
	"encoding/json"
	"fmt"
	"strings"

	pb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/gnmiset"
)

// Model is where SR Linux has what csig configures.
func Model() *gnmiset.Model {
	return &gnmiset.Model{
		Needs: []string{"urn:srl_nokia/interfaces", "urn:srl_nokia/acl"},
		Ports: portPath("*"), State: portPath("*", "mtu"), Record: path("acl"),
		Lists: map[string][]string{"interface": {"name"}, "acl/acl-filter": {"name", "type"}},
		TPID:  "interface/tpid", MTU: "interface/mtu", Exists: "interface/admin-state", StateMTU: "interface/mtu", Text: "acl/acl-filter/description",
		IsPort: func(name string) bool { // or an aggregate
			return strings.HasPrefix(name, "ethernet-") || strings.HasPrefix(name, "lag")
		},
		PortPath: portPath,
		RecordPath: func(name string) *pb.Path {
			p := path("acl", "acl-filter")
			p.Elem[1].Key = map[string]string{"name": name, "type": "ipv4"}
			return p
		},
		PortValue: func(_, tpid string, mtu uint16) ([]byte, error) {
			if tpid != "" {
				tpid = "srl_nokia-interfaces-vlans:" + tpid
			}
			return json.Marshal(struct {
				TPID string `json:"srl_nokia-interfaces-vlans:tpid,omitempty"`
				MTU  uint16 `json:"srl_nokia-interfaces:mtu,omitempty"`
			}{tpid, mtu})
		},
		RecordValue: func(_, text string) ([]byte, error) {
			return json.Marshal(struct {
				Description string `json:"srl_nokia-acl:description"`
			}{text})
		},
		Identity: identity, Keeps: keeps,
	}
}

// identity is what srl_nokia-platform-chassis.yang and srl_nokia-system-info.yang have.
func identity(get gnmiset.Getter) (vendors.Identity, error) {
	id := vendors.Identity{Maker: "Nokia"}
	for _, one := range []struct {
		to   *string
		path []string
	}{
		{&id.Model, []string{"platform", "chassis", "type"}},
		{&id.Serial, []string{"platform", "chassis", "serial-number"}},
		{&id.Version, []string{"system", "information", "version"}},
	} {
		leaves, err := get(&gnmi.Shape{Leaves: map[string]bool{strings.Join(one.path, "/"): true}, Longest: gnmiset.MaxValue}, path(one.path...))
		if err != nil {
			return id, err
		}
		for _, l := range leaves {
			*one.to = l.Value
		}
	}
	return id, nil
}

// keeps is an error where a server waits for confirmations of its own kind
// (srl_nokia-gnmi.yang, commit-confirmed-timeout): csig cannot see which server it reaches.
func keeps(get gnmiset.Getter) error {
	const timeout = "system/grpc-server/gnmi/commit-confirmed-timeout"
	p := path(strings.Split(timeout, "/")...)
	p.Elem[1].Key = map[string]string{"name": "*"}
	leaves, err := get(&gnmi.Shape{Lists: map[string][]string{"system/grpc-server": {"name"}}, Leaves: map[string]bool{timeout: true}, Longest: gnmiset.MaxValue}, p)
	for _, l := range leaves {
		if l.Value != "0" {
			return &vendors.PermanentError{Err: fmt.Errorf("its gRPC server %s has a commit-confirmed-timeout of %s s: SR Linux waits so long for a confirmation of each change, which csig cannot give; set it to 0", l.Keys[0], l.Value)}
		}
	}
	return err
}

// path has no origin: the server's yang-models are native unless configured otherwise
// (srl_nokia-grpc.yang).
func path(names ...string) *pb.Path {
	p := &pb.Path{}
	for _, name := range names {
		p.Elem = append(p.Elem, &pb.PathElem{Name: name})
	}
	return p
}

func portPath(name string, leaf ...string) *pb.Path {
	p := path(append([]string{"interface"}, leaf...)...)
	p.Elem[0].Key = map[string]string{"name": name}
	return p
}
