package octest

import (
	"encoding/json"
	"slices"
	"strings"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csig-agent/csig/protocol/gnmi/oc"
)

// What a target with Native has is the part of SR Linux's own models that csig writes
// (nokia/srlinux-yang-models srl_nokia-interfaces.yang, srl_nokia-interfaces-vlans.yang,
// srl_nokia-acl.yang): interface: tpid, mtu (1500..9500); acl/acl-filter of a name and a type:
// description (1..255 bytes). Anything else is unknown. It is kept as what it means in
// OpenConfig's.

// NativeModels are those of its Capabilities.
var NativeModels = []string{"urn:srl_nokia/interfaces:srl_nokia-interfaces", "urn:srl_nokia/interfaces/vlans:srl_nokia-interfaces-vlans", "urn:srl_nokia/acl:srl_nokia-acl"}

const (
	vlansPrefix = "srl_nokia-interfaces-vlans:"
	ocTPIDs     = "openconfig-vlan-types:"
)

// nativeMTU is SR Linux's default-port-mtu.
const nativeMTU = 9232

// fromNative is a request in OpenConfig's models.
func fromNative(req *pb.SetRequest) (*pb.SetRequest, error) {
	out := &pb.SetRequest{}
	for _, p := range req.GetDelete() {
		at, leaf, err := ocPath(p)
		if err != nil {
			return nil, err
		}
		switch leaf {
		case "":
		case "tpid", "mtu", "description":
			at.Elem = append(at.Elem, &pb.PathElem{Name: "config"}, &pb.PathElem{Name: leaf})
		default:
			return nil, status.Errorf(codes.InvalidArgument, "unknown element %s", leaf)
		}
		out.Delete = append(out.Delete, at)
	}
	if len(req.GetReplace()) > 0 {
		return nil, status.Error(codes.Unimplemented, "no replace here")
	}
	for _, u := range req.GetUpdate() {
		at, leaf, err := ocPath(u.GetPath())
		if err != nil || leaf != "" {
			return nil, status.Errorf(codes.InvalidArgument, "%v: want an entry of a list: %v", u.GetPath(), err)
		}
		var have map[string]any
		if err := json.Unmarshal(u.GetVal().GetJsonIetfVal(), &have); err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		isPort := at.Elem[0].Name == "interfaces"
		config := map[string]any{"name": at.Elem[len(at.Elem)-1].Key["name"]}
		if !isPort {
			config["type"] = "openconfig-acl:ACL_IPV4"
		}
		for name, value := range have {
			text, isText := value.(string)
			number, isNumber := value.(float64)
			switch {
			case isPort && (name == vlansPrefix+"tpid" || name == "tpid") && isText && strings.HasPrefix(text, vlansPrefix):
				config["openconfig-vlan:tpid"] = ocTPIDs + strings.TrimPrefix(text, vlansPrefix)
			case isPort && bare(name) == "mtu" && isNumber && number >= 1500 && number <= 9500:
				config["mtu"] = number
			case !isPort && bare(name) == "description" && isText && len(text) >= 1 && len(text) <= 255:
				config["description"] = text
			default:
				return nil, status.Errorf(codes.InvalidArgument, "%s: unknown element, or a value out of its range: %v", name, value)
			}
		}
		entry := map[string]any{"name": config["name"], "config": config}
		if !isPort {
			entry["type"] = config["type"]
		}
		js, err := json.Marshal(entry)
		if err != nil {
			return nil, err
		}
		out.Update = append(out.Update, &pb.Update{Path: at, Val: &pb.TypedValue{Value: &pb.TypedValue_JsonIetfVal{JsonIetfVal: js}}})
	}
	return out, nil
}

// ocPath is where OpenConfig has an interface or an ACL filter, and what of it a path names.
func ocPath(p *pb.Path) (at *pb.Path, leaf string, err error) {
	e := p.GetElem()
	at = &pb.Path{}
	switch {
	case p.GetOrigin() != "":
		return nil, "", status.Errorf(codes.InvalidArgument, "origin %s", p.GetOrigin())
	case len(e) > 0 && e[0].GetName() == "interface":
		at.Elem = []*pb.PathElem{{Name: "interfaces"}, {Name: "interface", Key: e[0].GetKey()}}
		e = e[1:]
	case len(e) > 1 && e[0].GetName() == "acl" && e[1].GetName() == "acl-filter" && e[1].GetKey()["type"] == "ipv4":
		at.Elem = []*pb.PathElem{{Name: "acl"}, {Name: "acl-sets"}, {Name: "acl-set", Key: map[string]string{"name": e[1].GetKey()["name"], "type": "ACL_IPV4"}}}
		e = e[2:]
	default:
		return nil, "", status.Errorf(codes.InvalidArgument, "unknown path %v", p)
	}
	if len(e) > 1 {
		return nil, "", status.Errorf(codes.InvalidArgument, "unknown path %v", p)
	}
	if len(e) == 1 {
		leaf = e[0].GetName()
	}
	return at, leaf, nil
}

// nativeTree is the data of a kind in SR Linux's models.
func (t *Target) nativeTree(kind pb.GetRequest_DataType) map[string]any {
	var list, filters []any
	for _, name := range t.names {
		i := t.running.Interface[name]
		entry := map[string]any{"name": name, "admin-state": "enable"}
		if i.Tpid != 0 {
			entry[vlansPrefix+"tpid"] = vlansPrefix + oc.ΛEnum["E_VlanTypes_TPID_TYPES"][int64(i.Tpid)].Name
		}
		if i.Mtu != nil {
			entry["mtu"] = *i.Mtu
		} else if kind != pb.GetRequest_CONFIG {
			entry["mtu"] = nativeMTU
		}
		list = append(list, entry)
	}
	out := map[string]any{"srl_nokia-interfaces:interface": list}
	if kind != pb.GetRequest_CONFIG {
		out["srl_nokia-platform:platform"] = map[string]any{"srl_nokia-platform-chassis:chassis": map[string]any{"type": Model, "serial-number": Serial}}
		out["srl_nokia-system:system"] = map[string]any{
			"srl_nokia-system-info:information": map[string]any{"version": Version},
			"srl_nokia-grpc:grpc-server":        []any{map[string]any{"name": "mgmt", "gnmi": map[string]any{"commit-confirmed-timeout": t.Timeout}}},
		}
	}
	if t.running.Acl == nil {
		return out
	}
	var names []string
	for key := range t.running.Acl.AclSet {
		names = append(names, key.Name)
	}
	slices.Sort(names)
	for _, name := range names {
		set := t.running.Acl.AclSet[oc.Acl_AclSet_Key{Name: name, Type: oc.Acl_ACL_TYPE_ACL_IPV4}]
		entry := map[string]any{"name": name, "type": "ipv4"}
		if set.Description != nil {
			entry["description"] = *set.Description
		}
		filters = append(filters, entry)
	}
	if len(filters) > 0 {
		out["srl_nokia-acl:acl"] = map[string]any{"acl-filter": filters}
	}
	return out
}
