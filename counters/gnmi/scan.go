package gnmi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	pb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// ScanConfig is how a target is asked by Scan.
type ScanConfig struct {
	gnmi.Config
	Encoding string // proto, json_ietf or json; "" is the first of these that the target has
	Origin   string // of paths; "" is none, and openconfig where that finds nothing
}

// encodingNames are the encodings as gNMI's clients write them.
var encodingNames = map[string]pb.Encoding{"proto": pb.Encoding_PROTO, "json_ietf": pb.Encoding_JSON_IETF, "json": pb.Encoding_JSON}

// maxScanned is how many interfaces, and how many neighbours, a listing has at most.
const maxScanned = 10_000

// below is where the leaves of an interface are.
const below = "interfaces/interface/"

// listed are the leaves of an interface that a listing shows, beside those that csig reads.
const (
	listedIndex  = below + "state/ifindex"
	listedAlias  = below + "state/description"
	listedStatus = below + "state/oper-status"
)

// interfaceShape is the part of /interfaces that a listing is made of.
var interfaceShape = func() *gnmi.Shape {
	s := &gnmi.Shape{Lists: map[string][]string{"interfaces/interface": {"name"}}, Leaves: map[string]bool{listedIndex: true, listedAlias: true}, Longest: gnmi.MaxName, Lenient: true}
	for l := outOctets; l < kept; l++ {
		s.Leaves[below+leafPaths[l]] = true
	}
	return s
}()

const (
	lldpNeighbor = "lldp/interfaces/interface/neighbors/neighbor"
	hostname     = "system/state/hostname"
	lldpName     = "lldp/state/system-name"
)

// neighborShape is the part of /lldp that neighbours are in (openconfig-lldp).
var neighborShape = &gnmi.Shape{
	Lists: map[string][]string{"lldp/interfaces/interface": {"name"}, lldpNeighbor: {"id"}},
	Leaves: map[string]bool{
		lldpNeighbor + "/state/chassis-id": true, lldpNeighbor + "/state/system-name": true, lldpNeighbor + "/state/port-id": true,
		lldpNeighbor + "/state/port-id-type": true, lldpNeighbor + "/state/port-description": true,
	},
	Longest: gnmi.MaxName, Lenient: true,
}

var systemShape = &gnmi.Shape{Leaves: map[string]bool{hostname: true, lldpName: true}, Longest: gnmi.MaxName, Lenient: true}

// scanner asks a target for what people want to know.
type scanner struct {
	target *gnmi.Target
	device string // in prefixes; "" is none
	encs   []pb.Encoding
	origin string
}

// Scan lists the interfaces of a target, with what a Source would read of each, and its
// neighbours.
func Scan(ctx context.Context, cfg ScanConfig) (*counters.Listing, error) {
	t, err := gnmi.Connect(cfg.Config)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	s := &scanner{target: t, device: cfg.Target, origin: cfg.Origin}
	encs, version, err := t.Capabilities(ctx)
	if err != nil {
		return nil, t.Error(advised(err))
	}
	s.encs = encs
	if cfg.Encoding != "" {
		enc, ok := encodingNames[cfg.Encoding]
		if !ok {
			return nil, fmt.Errorf("device %s: gNMI: encoding %q: want proto, json_ietf or json", cmp.Or(cfg.Device, cfg.Address), cfg.Encoding)
		}
		s.encs = []pb.Encoding{enc}
	}
	l := &counters.Listing{Protocol: strings.TrimSpace("gNMI " + version)}
	if len(s.encs) == 1 {
		l.Protocol += ", " + s.encs[0].String()
	}
	ports, err := s.interfaces(ctx)
	if err == nil && len(ports) == 0 && s.origin == "" {
		s.origin = openconfigOrigin
		ports, err = s.interfaces(ctx)
	}
	if err == nil && len(ports) == 0 {
		err = fmt.Errorf("/interfaces/interface: %w: does it have openconfig-interfaces, perhaps under another --origin?", gnmi.ErrMissing)
	}
	if err != nil {
		return nil, t.Error(advised(err))
	}
	if len(ports) > maxScanned {
		l.Notes = append(l.Notes, fmt.Sprintf("it lists %d interfaces: these are the first %d", len(ports), maxScanned))
		ports = ports[:maxScanned]
	}
	for _, p := range ports {
		l.Interfaces = append(l.Interfaces, p.listed())
	}
	// What follows is nice to have.
	l.Name = s.name(ctx, hostname)
	switch l.Neighbors, err = s.neighbors(ctx); {
	case err == nil:
	case ctx.Err() != nil:
		return l, t.Error(advised(err))
	default:
		l.Notes = append(l.Notes, "neighbours: "+untrusted.Text(err.Error(), gnmi.MaxText))
	}
	return l, nil
}

// schemaPath is a path whose elements have no keys, but * for names: "interface=*" is
// interface[name=*].
func schemaPath(origin string, elems ...string) *pb.Path {
	p := &pb.Path{Origin: origin}
	for _, e := range elems {
		name, key, list := strings.Cut(e, "=")
		elem := &pb.PathElem{Name: name}
		if list {
			elem.Key = map[string]string{key: "*"}
		}
		p.Elem = append(p.Elem, elem)
	}
	return p
}

// leaves reads what a shape has below a path.
func (s *scanner) leaves(ctx context.Context, shape *gnmi.Shape, path *pb.Path) ([]gnmi.Leaf, error) {
	var out []gnmi.Leaf
	var bad error
	err := s.target.Once(ctx, s.encs, path, func(n *pb.Notification) {
		if t := n.GetPrefix().GetTarget(); s.device != "" && t != "" && t != s.device {
			return
		}
		if bad == nil {
			var more []gnmi.Leaf
			if more, bad = shape.Append(out, n); bad == nil {
				out = more
			}
		}
	})
	if err == nil {
		err = bad
	}
	return out, err
}

// name is a leaf with the device's name, "" where it has none.
func (s *scanner) name(ctx context.Context, leaf string) string {
	leaves, err := s.leaves(ctx, systemShape, schemaPath(s.origin, strings.Split(leaf, "/")...))
	if err != nil || len(leaves) == 0 {
		return ""
	}
	return leaves[0].Value
}

// listedPort is an interface of a listing.
type listedPort struct {
	port
	row counters.Interface
}

// interfaces reads those of the target, in the order of their indexes and names.
func (s *scanner) interfaces(ctx context.Context) ([]*listedPort, error) {
	var all []gnmi.Leaf
	var refusals []error
	for i, part := range [nParts][2]string{statePart: {"state"}, ethernetPart: {"ethernet", "state"}, aggregationPart: {"aggregation", "state"}} {
		path := schemaPath(s.origin, "interfaces", "interface=name", part[0])
		if part[1] != "" {
			path.Elem = append(path.Elem, &pb.PathElem{Name: part[1]})
		}
		leaves, err := s.leaves(ctx, interfaceShape, path)
		switch {
		case err == nil:
			all = append(all, leaves...)
		case gnmi.Refused(err) && i > 0: // it need not have Ethernet ports or aggregates
		case gnmi.Refused(err):
			refusals = append(refusals, err)
		default:
			return nil, err
		}
	}
	if len(all) == 0 && len(refusals) > 0 {
		return nil, fmt.Errorf("%w: /interfaces/interface[name=*]/state: %w", ErrRefused, errors.Join(refusals...))
	}
	ids := make(map[string]leafID, kept)
	for l := outOctets; l < kept; l++ {
		ids[below+leafPaths[l]] = l
	}
	byName := make(map[string]*listedPort)
	var list []*listedPort
	for _, leaf := range all {
		if len(leaf.Keys) != 1 {
			continue
		}
		p := byName[leaf.Keys[0]]
		if p == nil {
			p = &listedPort{row: counters.Interface{Name: leaf.Keys[0]}}
			byName[leaf.Keys[0]], list = p, append(list, p)
		}
		p.take(leaf, ids)
	}
	slices.SortStableFunc(list, func(a, b *listedPort) int {
		return cmp.Or(cmp.Compare(a.row.Index, b.row.Index), strings.Compare(a.row.Name, b.row.Name))
	})
	return list, nil
}

func (p *listedPort) take(l gnmi.Leaf, ids map[string]leafID) {
	switch l.Path {
	case listedIndex:
		if n, err := strconv.ParseUint(l.Value, 10, 32); err == nil {
			p.row.Index = uint32(n)
		}
	case listedAlias:
		p.row.Alias = l.Value
	case listedStatus:
		p.row.OperStatus = l.Value
	}
	if id, ok := ids[l.Path]; ok {
		n, err := id.number(&gnmi.Value{Kind: gnmi.Text, Text: l.Value})
		p.leaves[id] = leaf{set: err == nil, val: n, err: err}
	}
}

// listed is the interface with what a Source would read of it.
func (p *listedPort) listed() counters.Interface {
	row := p.row
	row.Speed, _ = p.speed()
	for _, id := range [...]leafID{outOctets, outPkts, outUnicast, outMulticast, outBroadcast} {
		if p.leaves[id].set {
			row.Wide = append(row.Wide, counterName(id))
		}
	}
	if err := p.trouble(); err != nil {
		row.Note = untrusted.Text(err.Error(), gnmi.MaxText)
		return row
	}
	row.Uses = []string{counterName(outOctets)}
	from := p.packets()
	for _, id := range packetLeaves[from] {
		row.Uses = append(row.Uses, counterName(id))
	}
	switch {
	case from == unicastPackets:
		row.Note = "multicast and broadcast packets are not counted"
	case row.Speed == 0:
		row.Note = "the device does not know its speed: give it in the fleet file"
	}
	return row
}

func counterName(id leafID) string {
	return strings.TrimPrefix(leafPaths[id], "state/counters/")
}

// neighbors reads /lldp.
func (s *scanner) neighbors(ctx context.Context) ([]counters.Neighbor, error) {
	path := schemaPath(s.origin, "lldp", "interfaces", "interface=name", "neighbors", "neighbor=id", "state")
	leaves, err := s.leaves(ctx, neighborShape, path)
	if gnmi.Refused(err) {
		return nil, fmt.Errorf("%w: %w", counters.ErrNoLLDP, err)
	}
	if err != nil {
		return nil, err
	}
	type key struct{ port, id string }
	at := make(map[key]int)
	var list []counters.Neighbor
	for _, l := range leaves {
		if len(l.Keys) != 2 {
			continue
		}
		k := key{l.Keys[0], l.Keys[1]}
		i, ok := at[k]
		if !ok {
			if i = len(list); i == maxScanned {
				return nil, fmt.Errorf("more than %d neighbours", maxScanned)
			}
			at[k] = i
			list = append(list, counters.Neighbor{Port: k.port})
		}
		switch n := &list[i]; strings.TrimPrefix(l.Path, lldpNeighbor+"/state/") {
		case "chassis-id":
			n.Chassis = l.Value
		case "system-name":
			n.System = l.Value
		case "port-id":
			n.PeerPort = l.Value
		case "port-description":
			n.PeerText = l.Value
		case "port-id-type":
			n.PeerKind = map[string]counters.PortID{"INTERFACE_NAME": counters.NamePortID, "MAC_ADDRESS": counters.MACPortID}[l.Value]
		}
	}
	slices.SortStableFunc(list, func(a, b counters.Neighbor) int { return strings.Compare(a.Port, b.Port) })
	return list, nil
}

// Neighbors implements counters.Neighbored with openconfig-lldp. It asks the target, with Get or
// else a ONCE subscription, and may be called while the Source is subscribed, but not
// concurrently with Read.
func (s *Source) Neighbors(ctx context.Context) (self string, list []counters.Neighbor, err error) {
	encs, _, err := s.target.Capabilities(ctx)
	if err != nil {
		return "", nil, s.deviceError(fmt.Errorf("read /lldp: %w", err))
	}
	s.mu.Lock()
	ask := &scanner{s.target, s.cfg.Target, encs, s.origin}
	s.mu.Unlock()
	list, err = ask.neighbors(ctx)
	if err == nil && len(list) == 0 && ask.origin == "" {
		ask.origin = openconfigOrigin
		list, err = ask.neighbors(ctx)
	}
	if err != nil {
		return "", nil, s.deviceError(fmt.Errorf("read /lldp: %w", err))
	}
	return cmp.Or(ask.name(ctx, lldpName), ask.name(ctx, hostname)), list, nil
}
