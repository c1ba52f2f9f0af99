package openconfig

import (
	"cmp"
	"slices"

	pb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/gnmiset"
)

const component = "components/component/state/"

// identity is read of the first chassis and the first operating system
// (openconfig-platform.yang); other components are not asked for more than their type.
func identity(get gnmiset.Getter) (id vendors.Identity, err error) {
	at := func(name string, leaf ...*pb.PathElem) *pb.Path {
		return path(append([]*pb.PathElem{{Name: "components"}, {Name: "component", Key: map[string]string{"name": name}}, {Name: "state"}}, leaf...)...)
	}
	lists := map[string][]string{"components/component": {"name"}}
	types, err := get(&gnmi.Shape{Lists: lists, Leaves: map[string]bool{component + "type": true}, Longest: gnmiset.MaxValue}, at("*", &pb.PathElem{Name: "type"}))
	if err != nil {
		return id, err
	}
	slices.SortStableFunc(types, func(a, b gnmi.Leaf) int { return cmp.Compare(a.Keys[0], b.Keys[0]) })
	state := &gnmi.Shape{Lists: lists, Leaves: map[string]bool{}, Longest: gnmiset.MaxValue}
	for _, leaf := range []string{"mfg-name", "model-name", "part-no", "description", "software-version", "serial-no"} {
		state.Leaves[component+leaf] = true
	}
	of := func(kind string) (map[string]string, error) {
		values := map[string]string{}
		i := slices.IndexFunc(types, func(l gnmi.Leaf) bool { return l.Value == kind })
		if i < 0 {
			return values, nil
		}
		leaves, err := get(state, at(types[i].Keys[0]))
		for _, l := range leaves {
			if l.Keys[0] == types[i].Keys[0] {
				values[l.Path] = l.Value
			}
		}
		return values, err
	}
	chassis, err := of("CHASSIS")
	if err != nil {
		return id, err
	}
	system, err := of("OPERATING_SYSTEM")
	if err != nil {
		return id, err
	}
	return vendors.Identity{
		Maker:   chassis[component+"mfg-name"],
		Model:   cmp.Or(chassis[component+"model-name"], chassis[component+"part-no"], chassis[component+"description"]),
		Version: cmp.Or(system[component+"software-version"], chassis[component+"software-version"]),
		Serial:  chassis[component+"serial-no"],
	}, nil
}
