// Package openconfig sets up switches whose gNMI target has OpenConfig's models: the TPID and
// the MTU of interfaces (openconfig-vlan, openconfig-interfaces), by types that ygot
// generated from them (package oc).
//
// What csig keeps on the switch, its record, is in the descriptions of ACL sets that no
// interface uses, named csig-record-…: the models have no other place for the text of a
// client.
package openconfig

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/openconfig/ygot/ygot"

	"github.com/csig-agent/csig/counters/gnmi"
	"github.com/csig-agent/csig/vendors/gnmiset"
	"github.com/csig-agent/csig/vendors/openconfig/oc"
	"github.com/csig-agent/csig/vendors/setuponly"
	"github.com/csig-agent/csig/vendors/untrusted"
)

// recordName is what the names of the ACL sets with the record begin with; a number follows.
const recordName = "csig-record-"

// maxValue is how many bytes a value may have that csig reads: more than its own have.
const maxValue = 512

// Paths, as Leaf.Path has them.
const (
	configTPID = "interfaces/interface/config/tpid"
	configMTU  = "interfaces/interface/config/mtu"
	configName = "interfaces/interface/config/name"
	stateMTU   = "interfaces/interface/state/mtu"
	recordText = "acl/acl-sets/acl-set/config/description"
	recordKey  = "acl/acl-sets/acl-set/config/name"
)

// Model is where OpenConfig has what csig configures.
func Model() *gnmiset.Model {
	all := map[string]string{"name": "*"}
	return &gnmiset.Model{
		Needs: []string{"openconfig-interfaces", "openconfig-vlan", "openconfig-acl"},
		Shape: &gnmi.Shape{
			Lists:   map[string][]string{"interfaces/interface": {"name"}, "acl/acl-sets/acl-set": {"name", "type"}},
			Leaves:  map[string]bool{configTPID: true, configMTU: true, configName: true, stateMTU: true, recordText: true, recordKey: true},
			Longest: maxValue,
			Skip: func(path string, keys []string) bool { // ACL sets of other users
				return strings.HasPrefix(path, "acl/") && !strings.HasPrefix(keys[0], recordName)
			},
		},
		Ports:  path(&pb.PathElem{Name: "interfaces"}, &pb.PathElem{Name: "interface", Key: all}, &pb.PathElem{Name: "config"}),
		State:  path(&pb.PathElem{Name: "interfaces"}, &pb.PathElem{Name: "interface", Key: all}, &pb.PathElem{Name: "state"}, &pb.PathElem{Name: "mtu"}),
		Record: path(&pb.PathElem{Name: "acl"}, &pb.PathElem{Name: "acl-sets"}),
		Parse:  parse, Edit: edit,
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

func recordPath(part int) *pb.Path {
	return path(&pb.PathElem{Name: "acl"}, &pb.PathElem{Name: "acl-sets"},
		&pb.PathElem{Name: "acl-set", Key: map[string]string{"name": recordName + strconv.Itoa(part), "type": "ACL_IPV4"}})
}

// parse makes a configuration of leaves.
func parse(config, state []gnmi.Leaf) ([]setuponly.Port, []string, error) {
	var ports []setuponly.Port
	at := map[string]int{}
	port := func(name string) *setuponly.Port {
		i, there := at[name]
		if !there {
			i = len(ports)
			at[name] = i
			ports = append(ports, setuponly.Port{Name: name})
		}
		return &ports[i]
	}
	parts := map[int]string{}
	for _, l := range append(config[:len(config):len(config)], state...) {
		switch l.Path {
		case configTPID:
			p := port(l.Keys[0])
			p.TPID = l.Value
			if _, known := tpids[l.Value]; !known {
				p.Refused = "its TPID is " + untrusted.Text(l.Value, 64) + ", which OpenConfig does not have: csig could not give it back"
			}
		case configMTU, stateMTU:
			n, err := strconv.ParseUint(l.Value, 10, 16)
			if err != nil {
				return nil, nil, fmt.Errorf("interface %s: its MTU is %s, want a number of 16 bits", l.Keys[0], untrusted.Text(l.Value, 40))
			}
			if l.Path == configMTU {
				port(l.Keys[0]).MTU = int(n)
			} else if i, there := at[l.Keys[0]]; there {
				ports[i].Now = int(n)
			}
		case configName:
			port(l.Keys[0])
		case recordText:
			if number, ours := strings.CutPrefix(l.Keys[0], recordName); ours {
				n, err := strconv.Atoi(number)
				if err != nil || n < 0 || n >= gnmiset.MaxParts || strconv.Itoa(n) != number {
					return nil, nil, fmt.Errorf("ACL set %s is none of csig's record, whose name it has: delete or rename it", untrusted.Text(l.Keys[0], 64))
				}
				parts[n] = l.Value
			}
		}
	}
	slices.SortStableFunc(ports, func(a, b setuponly.Port) int { return strings.Compare(a.Name, b.Name) })
	return ports, gnmiset.InOrder(parts), nil
}

// edit is a Set of ports and of parts of the record, made of ygot's types.
func edit(ports []setuponly.PortEdit, record map[int]string) (*pb.SetRequest, error) {
	req := &pb.SetRequest{}
	dev := &oc.Device{}
	for _, p := range ports {
		i, err := dev.NewInterface(p.Port)
		if err != nil {
			return nil, err
		}
		if p.TPID != nil && *p.TPID == "" {
			req.Delete = append(req.Delete, interfacePath(p.Port, "config", "tpid"))
		} else if p.TPID != nil {
			known := false
			if i.Tpid, known = tpids[*p.TPID]; !known {
				return nil, fmt.Errorf("interface %s: TPID %s is not in OpenConfig's models", p.Port, untrusted.Text(*p.TPID, 64))
			}
		}
		if p.MTU != nil && *p.MTU == 0 {
			req.Delete = append(req.Delete, interfacePath(p.Port, "config", "mtu"))
		} else if p.MTU != nil {
			if *p.MTU < 0 || *p.MTU > 1<<16-1 {
				return nil, fmt.Errorf("interface %s: an MTU of %d is none of OpenConfig's", p.Port, *p.MTU)
			}
			i.Mtu = ygot.Uint16(uint16(*p.MTU))
		}
		if i.Tpid == 0 && i.Mtu == nil {
			continue
		}
		if err := update(req, interfacePath(p.Port), i); err != nil {
			return nil, err
		}
	}
	for n := range gnmiset.MaxParts {
		text, there := record[n]
		switch {
		case !there:
			continue
		case text == "":
			req.Delete = append(req.Delete, recordPath(n))
			continue
		}
		if dev.Acl == nil {
			dev.Acl = &oc.Acl{}
		}
		set, err := dev.Acl.NewAclSet(recordName+strconv.Itoa(n), oc.Acl_ACL_TYPE_ACL_IPV4)
		if err == nil {
			set.Description = ygot.String(text)
			err = update(req, recordPath(n), set)
		}
		if err != nil {
			return nil, err
		}
	}
	return req, nil
}

func update(req *pb.SetRequest, at *pb.Path, v ygot.GoStruct) error {
	js, err := ygot.Marshal7951(v, &ygot.RFC7951JSONConfig{AppendModuleName: true})
	if err != nil {
		return err
	}
	req.Update = append(req.Update, &pb.Update{Path: at, Val: &pb.TypedValue{Value: &pb.TypedValue_JsonIetfVal{JsonIetfVal: js}}})
	return nil
}

// tpids are OpenConfig's by their names.
var tpids = names()

func names() map[string]oc.E_VlanTypes_TPID_TYPES {
	m := map[string]oc.E_VlanTypes_TPID_TYPES{}
	for e, def := range oc.ΛEnum["E_VlanTypes_TPID_TYPES"] {
		m[def.Name] = oc.E_VlanTypes_TPID_TYPES(e)
	}
	return m
}

// TPIDs are those that a port can be given. TPID_ANY is for matching alone (openconfig-vlan-types.yang).
var TPIDs = []uint16{0x8100, 0x88a8, 0x9100, 0x9200}

// Spell is a TPID as OpenConfig's models, and those after them, have it.
func Spell(tpid uint16) (string, error) {
	if !slices.Contains(TPIDs, tpid) {
		return "", fmt.Errorf("the domain's TPID is 0x%04x, and its models have 0x8100, 0x88a8, 0x9100 and 0x9200 alone", tpid)
	}
	return fmt.Sprintf("TPID_0X%04X", tpid), nil
}
