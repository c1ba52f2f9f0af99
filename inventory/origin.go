package inventory

import "fmt"

// Origin says where a value of a resolved fleet comes from.
type Origin struct {
	Layer string `json:"layer"` // "device", "port", "group leaf", "defaults", "links", "policy", "profile", "built-in", "allotted", or for locators "derived from speed, the rest allotted" and the like
	File  string `json:"file"`  // "" for what no file says
	Line  int    `json:"line"`  // from 1
	Col   int    `json:"col"`   // from 1, in characters
}

// String is "group leaf (fleet.yaml:12:5)", or the layer alone.
func (o Origin) String() string {
	if o.File == "" {
		return o.Layer
	}
	return fmt.Sprintf("%s (%s:%d:%d)", o.Layer, o.File, o.Line, o.Col)
}

// originID is an index into origins.list; 0 stands for no value at all.
type originID uint32

// Origins that no file has.
const (
	notGiven originID = iota
	builtIn
	allotted
	firstOrigin
)

// compactOrigin is an Origin in twelve bytes, since a fleet has millions.
type compactOrigin struct {
	file, layer uint16
	line, col   uint32
}

// origins has where everything comes from.
type origins struct {
	files   []string
	layers  []string
	list    []compactOrigin
	policy  policyOrigins
	devices []deviceOrigins // as Fleet.Devices
}

type policyOrigins struct{ interval, schedule, estimator originID }

type deviceOrigins struct {
	from  *layered[deviceKeys] // what its layers say together
	ports []portOrigins        // as Device.Ports
}

type portOrigins struct {
	name, speed, mtu, action, lm, strip, peer originID

	derived, unknown attributeSet // fields of the locator that no lm gives: derived, and 0 for not known
}

func newOrigins() *origins {
	return &origins{layers: []string{"", "built-in", "allotted"}, list: make([]compactOrigin, firstOrigin)}
}

// layer registers a layer's name.
func (o *origins) layer(name string) uint16 {
	o.layers = append(o.layers, name)
	return uint16(len(o.layers) - 1)
}

func (o *origins) add(file, layer uint16, at position) originID {
	o.list = append(o.list, compactOrigin{file, layer, uint32(at.line), uint32(at.col)})
	return originID(len(o.list) - 1)
}

func (o *origins) of(id originID) Origin {
	switch id {
	case notGiven:
		return Origin{}
	case builtIn, allotted:
		return Origin{Layer: o.layers[id]}
	}
	c := o.list[id]
	return Origin{Layer: o.layers[c.layer], File: o.files[c.file], Line: int(c.line), Col: int(c.col)}
}

// DeviceOrigins says where the values of one device come from, by the keys of
// the fleet file; keys without a value are absent. Tags are "tags: NAME". It is
// nil for a device that was not read from a file.
func (f *Fleet) DeviceOrigins(name string) map[string]Origin {
	d, ok := f.originsOf(name)
	if !ok {
		return nil
	}
	o := f.index.origins
	ids := map[string]originID{
		"level": builtIn, "counters": builtIn, "interval": o.policy.interval, "schedule": o.policy.schedule, "estimator": o.policy.estimator,
	}
	d.from.origins("", ids)
	for _, key := range []string{"groups", "management", "port", "ports", "tags"} {
		delete(ids, key)
	}
	d.from.keys.Management.origins("management: ", ids)
	for _, tag := range d.from.keys.Tags {
		ids["tags: "+tag.name] = tag.at
	}
	out := make(map[string]Origin)
	for key, id := range ids {
		if id != notGiven {
			out[key] = o.of(id)
		}
	}
	return out
}

// origins notes where the keys are given.
func (l *layered[T]) origins(prefix string, to map[string]originID) {
	if l.at == nil {
		return
	}
	for _, k := range keysOf[T]().keys {
		if at := l.at[k.number]; at != notGiven {
			to[prefix+k.name] = at
		}
	}
}

// PortOrigins says where the values of one port come from, as DeviceOrigins
// does.
func (f *Fleet) PortOrigins(ref PortRef) map[string]Origin {
	d, ok := f.originsOf(ref.Device)
	if !ok {
		return nil
	}
	i, _ := f.deviceAt(ref.Device)
	for j := range f.Devices[i].Ports {
		if f.Devices[i].Ports[j].Name != ref.Port || j >= len(d.ports) {
			continue
		}
		p := d.ports[j]
		out := make(map[string]Origin)
		for key, id := range map[string]originID{"name": p.name, "speed": p.speed, "mtu": p.mtu, "action": p.action, "lm": p.lm, "peer": p.peer} {
			if id != notGiven {
				out[key] = f.index.origins.of(id)
			}
		}
		p.fieldOrigins(f, out)
		return out
	}
	return nil
}

func (f *Fleet) originsOf(name string) (deviceOrigins, bool) {
	i, ok := f.deviceAt(name)
	if !ok || f.index == nil || f.index.origins == nil || i >= len(f.index.origins.devices) {
		return deviceOrigins{}, false
	}
	return f.index.origins.devices[i], true
}
