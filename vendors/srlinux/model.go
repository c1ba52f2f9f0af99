// Package srlinux sets up Nokia's SR Linux by gNMI, in its own models: the TPID and the MTU of
// interfaces. The record that csig keeps on the switch is in the descriptions of ACL filters
// that no interface uses, named csig-record-….
package srlinux

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	pb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/csig-agent/csig/counters/gnmi"
	"github.com/csig-agent/csig/vendors/gnmiset"
	"github.com/csig-agent/csig/vendors/openconfig"
	"github.com/csig-agent/csig/vendors/setuponly"
	"github.com/csig-agent/csig/vendors/untrusted"
)

// recordName is what the names of the ACL filters with the record begin with; a number follows.
const recordName = "csig-record-"

// Paths, as Leaf.Path has them.
const (
	portTPID   = "interface/tpid"
	portMTU    = "interface/mtu"
	portState  = "interface/admin-state"
	recordText = "acl/acl-filter/description"
)

// Model is where SR Linux has what csig configures.
func Model() *gnmiset.Model {
	all := path(&pb.PathElem{Name: "interface", Key: map[string]string{"name": "*"}})
	return &gnmiset.Model{
		Needs: []string{"urn:srl_nokia/interfaces", "urn:srl_nokia/acl"},
		Shape: &gnmi.Shape{
			Lists:   map[string][]string{"interface": {"name"}, "acl/acl-filter": {"name", "type"}},
			Leaves:  map[string]bool{portTPID: true, portMTU: true, portState: true, recordText: true},
			Longest: 512,
			Skip: func(path string, keys []string) bool { // ACL filters of other users
				return path == recordText && !strings.HasPrefix(keys[0], recordName)
			},
		},
		Ports: all, State: path(&pb.PathElem{Name: "interface", Key: map[string]string{"name": "*"}}, &pb.PathElem{Name: "mtu"}),
		Record: path(&pb.PathElem{Name: "acl"}),
		Parse:  parse, Edit: edit,
	}
}

// path has no origin: the server's yang-models are native unless configured otherwise
// (srl_nokia-grpc.yang).
func path(elem ...*pb.PathElem) *pb.Path { return &pb.Path{Elem: elem} }

func portPath(name string, more ...string) *pb.Path {
	p := path(&pb.PathElem{Name: "interface", Key: map[string]string{"name": name}})
	for _, m := range more {
		p.Elem = append(p.Elem, &pb.PathElem{Name: m})
	}
	return p
}

func recordPath(part int) *pb.Path {
	return path(&pb.PathElem{Name: "acl"}, &pb.PathElem{Name: "acl-filter", Key: map[string]string{"name": recordName + strconv.Itoa(part), "type": "ipv4"}})
}

// portName tells whether an interface can have a TPID: a port or an aggregate.
func portName(name string) bool {
	return strings.HasPrefix(name, "ethernet-") || strings.HasPrefix(name, "lag")
}

func parse(config, state []gnmi.Leaf) ([]setuponly.Port, []string, error) {
	var ports []setuponly.Port
	at := map[string]int{}
	parts := map[int]string{}
	for i, l := range append(config[:len(config):len(config)], state...) {
		if l.Path == recordText {
			if number, ours := strings.CutPrefix(l.Keys[0], recordName); ours {
				n, err := strconv.Atoi(number)
				if err != nil || n < 0 || n >= gnmiset.MaxParts || strconv.Itoa(n) != number {
					return nil, nil, fmt.Errorf("ACL filter %s is none of csig's record, whose name it has: delete or rename it", untrusted.Text(l.Keys[0], 64))
				}
				parts[n] = l.Value
			}
			continue
		}
		name := l.Keys[0]
		if !portName(name) {
			continue
		}
		k, there := at[name]
		if !there {
			k = len(ports)
			at[name] = k
			ports = append(ports, setuponly.Port{Name: name})
		}
		p := &ports[k]
		switch l.Path {
		case portTPID:
			p.TPID = l.Value
			if _, err := tpidOf(l.Value); err != nil {
				p.Refused = err.Error()
			}
		case portMTU:
			n, err := strconv.ParseUint(l.Value, 10, 16)
			if err != nil {
				return nil, nil, fmt.Errorf("interface %s: its MTU is %s, want a number of 16 bits", name, untrusted.Text(l.Value, 40))
			}
			if i < len(config) {
				p.MTU = int(n)
			} else {
				p.Now = int(n)
			}
		}
	}
	slices.SortStableFunc(ports, func(a, b setuponly.Port) int { return strings.Compare(a.Name, b.Name) })
	return ports, gnmiset.InOrder(parts), nil
}

// tpidOf checks a name of the models (srl_nokia-interfaces-vlans.yang, TPID_TYPES).
func tpidOf(name string) (string, error) {
	for _, tpid := range openconfig.TPIDs {
		if have, err := openconfig.Spell(tpid); err == nil && have == name {
			return name, nil
		}
	}
	if name == "TPID_ANY" {
		return name, nil
	}
	return "", fmt.Errorf("its TPID is %s, which SR Linux's models do not have: csig could not give it back", untrusted.Text(name, 64))
}

// port is what csig configures of an interface.
type port struct {
	TPID string `json:"srl_nokia-interfaces-vlans:tpid,omitempty"`
	MTU  int    `json:"srl_nokia-interfaces:mtu,omitempty"`
}

// filter is an ACL filter with a part of the record.
type filter struct {
	Description string `json:"srl_nokia-acl:description"`
}

func edit(ports []setuponly.PortEdit, record map[int]string) (*pb.SetRequest, error) {
	req := &pb.SetRequest{}
	for _, p := range ports {
		var out port
		if p.TPID != nil && *p.TPID == "" {
			req.Delete = append(req.Delete, portPath(p.Port, "tpid"))
		} else if p.TPID != nil {
			name, err := tpidOf(*p.TPID)
			if err != nil {
				return nil, fmt.Errorf("interface %s: %w", p.Port, err)
			}
			out.TPID = "srl_nokia-interfaces-vlans:" + name
		}
		if p.MTU != nil && *p.MTU == 0 {
			req.Delete = append(req.Delete, portPath(p.Port, "mtu"))
		} else if p.MTU != nil {
			out.MTU = *p.MTU
		}
		if out == (port{}) {
			continue
		}
		if err := update(req, portPath(p.Port), out); err != nil {
			return nil, err
		}
	}
	for n := range gnmiset.MaxParts {
		switch text, there := record[n]; {
		case !there:
		case text == "":
			req.Delete = append(req.Delete, recordPath(n))
		default:
			if err := update(req, recordPath(n), filter{text}); err != nil {
				return nil, err
			}
		}
	}
	return req, nil
}

func update(req *pb.SetRequest, at *pb.Path, v any) error {
	js, err := json.Marshal(v)
	if err != nil {
		return err
	}
	req.Update = append(req.Update, &pb.Update{Path: at, Val: &pb.TypedValue{Value: &pb.TypedValue_JsonIetfVal{JsonIetfVal: js}}})
	return nil
}
