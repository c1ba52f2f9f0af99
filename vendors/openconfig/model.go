// Package openconfig sets up switches whose gNMI target has OpenConfig's models: the TPID and
// the MTU of interfaces (openconfig-vlan, openconfig-interfaces), by types that ygot
// generated from them (package protocol/gnmi/oc).
//
// What csig keeps on the switch, its record, is in the descriptions of ACL sets that no
// interface uses, named csig-record-…: the models have no other place for the text of a
// client.
package openconfig

import (
	pb "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/openconfig/ygot/ygot"

	"github.com/csig-agent/csig/protocol/gnmi/oc"
	"github.com/csig-agent/csig/vendors/gnmiset"
)

// Model is where OpenConfig has what csig configures.
func Model() *gnmiset.Model {
	return &gnmiset.Model{
		Needs: []string{"openconfig-interfaces", "openconfig-vlan", "openconfig-acl"},
		Ports: interfacePath("*", "config"), State: interfacePath("*", "state", "mtu"),
		Record: path(&pb.PathElem{Name: "acl"}, &pb.PathElem{Name: "acl-sets"}),
		Lists:  map[string][]string{"interfaces/interface": {"name"}, "acl/acl-sets/acl-set": {"name", "type"}},
		TPID:   "interfaces/interface/config/tpid", MTU: "interfaces/interface/config/mtu", Exists: "interfaces/interface/config/name",
		StateMTU: "interfaces/interface/state/mtu", Text: "acl/acl-sets/acl-set/config/description",
		PortPath: func(name string, leaf ...string) *pb.Path {
			if len(leaf) > 0 {
				leaf = append([]string{"config"}, leaf...)
			}
			return interfacePath(name, leaf...)
		},
		RecordPath: func(name string) *pb.Path {
			return path(&pb.PathElem{Name: "acl"}, &pb.PathElem{Name: "acl-sets"}, &pb.PathElem{Name: "acl-set", Key: map[string]string{"name": name, "type": "ACL_IPV4"}})
		},
		PortValue: func(name, tpid string, mtu uint16) ([]byte, error) {
			i := &oc.Interface{Name: &name, Tpid: tpids[tpid]}
			if mtu != 0 {
				i.Mtu = &mtu
			}
			return marshal(i)
		},
		RecordValue: func(name, text string) ([]byte, error) {
			return marshal(&oc.Acl_AclSet{Name: &name, Type: oc.Acl_ACL_TYPE_ACL_IPV4, Description: &text})
		},
		Identity: identity,
	}
}

func path(elem ...*pb.PathElem) *pb.Path { return &pb.Path{Origin: "openconfig", Elem: elem} }

func interfacePath(name string, more ...string) *pb.Path {
	p := path(&pb.PathElem{Name: "interfaces"}, &pb.PathElem{Name: "interface", Key: map[string]string{"name": name}})
	for _, m := range more {
		p.Elem = append(p.Elem, &pb.PathElem{Name: m})
	}
	return p
}

func marshal(v ygot.GoStruct) ([]byte, error) {
	return ygot.Marshal7951(v, &ygot.RFC7951JSONConfig{AppendModuleName: true})
}

// tpids are the identities by their names.
var tpids = names()

func names() map[string]oc.E_VlanTypes_TPID_TYPES {
	m := map[string]oc.E_VlanTypes_TPID_TYPES{}
	for e, def := range oc.ΛEnum["E_VlanTypes_TPID_TYPES"] {
		m[def.Name] = oc.E_VlanTypes_TPID_TYPES(e)
	}
	return m
}
