package gnmiset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	pb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/setuponly"
)

// Model is where a platform's models have what csig reads and writes.
type Model struct {
	// Needs are models of which the target has to have each, by the beginning of the name.
	Needs []string

	Ports  *pb.Path // of the configuration: all ports
	State  *pb.Path // the MTU that holds, of all ports; it may be missing
	Record *pb.Path // of the configuration: the objects with the record

	// Lists are those on the way to the leaves, with their keys: the first one is the name of a
	// port or of an object.
	Lists map[string][]string

	// Leaves of a port: its TPID and MTU, one that each has, and the MTU that holds. Text is that
	// of an object. All are as gnmi.Leaf.Path has them.
	TPID, MTU, Exists, StateMTU, Text string

	// IsPort reports whether an interface can have a TPID; nil: each can.
	IsPort func(name string) bool

	// PortPath is a port, or its leaf tpid or mtu; RecordPath an object.
	PortPath   func(name string, leaf ...string) *pb.Path
	RecordPath func(name string) *pb.Path

	// PortValue is an update of a port in JSON_IETF: an identity, "" where it stays, and an MTU
	// with the L2 header, 0 where it stays. RecordValue is that of an object.
	PortValue   func(name, tpid string, mtu uint16) ([]byte, error)
	RecordValue func(name, text string) ([]byte, error)

	// Identity is what the switch reports of itself.
	Identity func(get Getter) (vendors.Identity, error)

	// Keeps is an error where the switch would not keep a Set; nil: it keeps each.
	Keeps func(get Getter) error
}

// Getter returns the state at a path, nothing where there is none.
type Getter func(*gnmi.Shape, *pb.Path) ([]gnmi.Leaf, error)

const (
	// recordName is what the names of the objects with the record begin with; the number of
	// the part follows.
	recordName = "csig-record-"
	// maxPart is how many bytes of it are in one object: a description has 255 in many platforms.
	maxPart = 240
	// maxParts is how many objects it may take.
	maxParts = 1000

	// MaxValue is how many bytes a value may have that csig reads: more than its own have.
	MaxValue = 512
)

// shape is what is read of answers.
func (m *Model) shape() *gnmi.Shape {
	return &gnmi.Shape{
		Lists: m.Lists, Longest: MaxValue,
		Leaves: map[string]bool{m.TPID: true, m.MTU: true, m.Exists: true, m.StateMTU: true, m.Text: true},
		Skip: func(path string, keys []string) bool { // objects of other users
			return path == m.Text && !strings.HasPrefix(keys[0], recordName)
		},
	}
}

// parse makes a configuration of what was read, its record in parts.
func (m *Model) parse(config, state []gnmi.Leaf) ([]setuponly.Port, []string, error) {
	var ports []setuponly.Port
	at := map[string]int{}
	parts := map[int]string{}
	for i, l := range append(config[:len(config):len(config)], state...) {
		name := l.Keys[0]
		if l.Path == m.Text {
			n, err := strconv.Atoi(strings.TrimPrefix(name, recordName))
			if err != nil || n < 0 || n >= maxParts || recordName+strconv.Itoa(n) != name {
				return nil, nil, fmt.Errorf("%s has a name of csig's record, and is no part of it: delete or rename it", untrusted.Text(name, 64))
			}
			parts[n] = l.Value
			continue
		}
		if m.IsPort != nil && !m.IsPort(name) {
			continue
		}
		k, there := at[name]
		if !there {
			k = len(ports)
			at[name] = k
			ports = append(ports, setuponly.Port{Name: name})
		}
		p := &ports[k]
		switch inState := i >= len(config); {
		case l.Path == m.TPID:
			var err error
			if p.TPID, err = fromModel(l.Value); err != nil {
				p.Refused = err.Error()
			}
		case l.Path == m.MTU && !inState || l.Path == m.StateMTU && inState:
			if _, err := strconv.ParseUint(l.Value, 10, 16); err != nil {
				return nil, nil, fmt.Errorf("interface %s: its MTU is %s, want a number of 16 bits", name, untrusted.Text(l.Value, 40))
			}
			if mtu := setuponly.WithoutHeader(l.Value); inState {
				p.Now = mtu
			} else {
				p.MTU = mtu
			}
		}
	}
	if len(ports) > vendors.MaxPorts {
		return nil, nil, fmt.Errorf("it has more than %d ports", vendors.MaxPorts)
	}
	slices.SortStableFunc(ports, func(a, b setuponly.Port) int { return strings.Compare(a.Name, b.Name) })
	return ports, inOrder(parts), nil
}

// inOrder is the parts of a record by their numbers; one that is missing leaves a gap, which
// no record has.
func inOrder(parts map[int]string) []string {
	out := make([]string, 0, len(parts))
	for n := 0; n < maxParts && len(parts) > 0; n++ {
		part, there := parts[n]
		if !there {
			part = " "
		}
		delete(parts, n)
		out = append(out, part)
	}
	return out
}

// split is a record in parts.
func split(record string) (parts []string) {
	for len(record) > maxPart {
		parts = append(parts, record[:maxPart])
		record = record[maxPart:]
	}
	if record != "" {
		parts = append(parts, record)
	}
	return parts
}

// request is a Set of an edit, on a switch whose record has these parts.
func (m *Model) request(e *setuponly.Edit, have []string) (*pb.SetRequest, error) {
	req := &pb.SetRequest{}
	update := func(at *pb.Path, js []byte, err error) error {
		req.Update = append(req.Update, &pb.Update{Path: at, Val: &pb.TypedValue{Value: &pb.TypedValue_JsonIetfVal{JsonIetfVal: js}}})
		return err
	}
	for _, p := range e.Ports {
		tpid, mtu := "", 0
		if p.TPID != nil && *p.TPID == "" {
			req.Delete = append(req.Delete, m.PortPath(p.Port, "tpid"))
		} else if p.TPID != nil {
			var err error
			if tpid, err = toModel(*p.TPID); err != nil {
				return nil, fmt.Errorf("interface %s: %w", p.Port, err)
			}
		}
		if p.MTU != nil && *p.MTU == 0 {
			req.Delete = append(req.Delete, m.PortPath(p.Port, "mtu"))
		} else if p.MTU != nil {
			if mtu = setuponly.WithHeader(*p.MTU); *p.MTU < 0 || mtu > 1<<16-1 {
				return nil, fmt.Errorf("interface %s: an MTU of %d has no place in its models", p.Port, *p.MTU)
			}
		}
		if tpid == "" && mtu == 0 {
			continue
		}
		js, err := m.PortValue(p.Port, tpid, uint16(mtu))
		if err := update(m.PortPath(p.Port), js, err); err != nil {
			return nil, err
		}
	}
	if e.Record == nil {
		return req, nil
	}
	want := split(*e.Record)
	for i := range max(len(have), len(want)) {
		name := recordName + strconv.Itoa(i)
		switch {
		case i >= len(want):
			req.Delete = append(req.Delete, m.RecordPath(name))
		case i >= len(have) || have[i] != want[i]:
			js, err := m.RecordValue(name, want[i])
			if err := update(m.RecordPath(name), js, err); err != nil {
				return nil, err
			}
		}
	}
	return req, nil
}

// TPIDs are those of OpenConfig's models, and of SR Linux's, that a port can be given: TPID_ANY
// is for matching alone (openconfig-vlan-types.yang, srl_nokia-interfaces-vlans.yang).
var TPIDs = []uint16{0x8100, 0x88a8, 0x9100, 0x9200}

// Format is a TPID in text: 0x88a8.
func Format(tpid uint16) (string, error) {
	if !slices.Contains(TPIDs, tpid) {
		return "", fmt.Errorf("the domain's TPID is 0x%04x, and its models have 0x8100, 0x88a8, 0x9100 and 0x9200 alone", tpid)
	}
	return fmt.Sprintf("0x%04x", tpid), nil
}

// fromModel is the text of an identity; of one that the models do not have, the error says so.
func fromModel(name string) (string, error) {
	for _, tpid := range TPIDs {
		if name == fmt.Sprintf("TPID_0X%04X", tpid) {
			return Format(tpid)
		}
	}
	if name == "TPID_ANY" {
		return name, nil
	}
	return name, fmt.Errorf("its TPID is %s, which its models do not have: csig could not give it back", untrusted.Text(name, 64))
}

// toModel is the identity that fromModel has the text of.
func toModel(text string) (string, error) {
	name := text
	if hex, ok := strings.CutPrefix(text, "0x"); ok {
		name = "TPID_0X" + strings.ToUpper(hex)
	}
	_, err := fromModel(name)
	return name, err
}
