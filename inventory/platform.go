package inventory

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Platform is what fleet files can say of the devices of one platform in
// particular. vendors/all defines those of the platforms that csig drives.
type Platform struct {
	Name string // as the key platform has it, e.g. "ovs"

	// Key is the platform's own key under management, Doc what it says, and Keys a
	// pointer to the struct of its values, with tags as those of Management.
	Key  string
	Doc  string
	Keys PlatformKeys

	// Native is a platform whose devices measure by themselves: their schedule is for
	// looking after them, and may be slower than their interval.
	Native bool

	// Missing says why a device that csig sets up needs Keys, and Hint what to
	// write; both are "" where it can do without.
	Missing, Hint string

	// PortName says why the platform can have no port of a name, "" where it can;
	// nil is as all platforms.
	PortName func(name string) string
}

// PlatformKeys is a pointer to the struct of a platform's own keys.
type PlatformKeys interface {
	// Place tells a device from others of its machine, "" where nothing does; path
	// gives a file its one spelling. With device, what is at the place is a device
	// by itself, and the rest of the machine is not.
	Place(path func(string) string) (text string, device bool)
}

// NetworkKeys are PlatformKeys that lead to a device over the network, without SSH.
type NetworkKeys interface {
	PlatformKeys
	// Reaches says how, for people, for a device with an address.
	Reaches(address string) string
}

// ListeningKeys are PlatformKeys of devices that may connect to their agent.
type ListeningKeys interface {
	PlatformKeys
	// Listens is the address at which the agent waits for the device; "": nowhere. One
	// process can open it.
	Listens() string
}

// TagKeys are PlatformKeys of switches that csig gives the domain's TPID, unless the CSIG
// tag is not the first one.
type TagKeys interface {
	PlatformKeys
	// InnerTag reports whether the CSIG tag stands behind another, so that the switch need not
	// know its TPID. Nil keys are those of a device whose file says nothing.
	InnerTag() bool
}

// InnerTag reports whether the platform's own keys say that the CSIG tag stands behind another.
func (d *Device) InnerTag() bool {
	keys, ok := OwnKeys[TagKeys](d)
	if p := platforms[d.Platform]; !ok && p != nil {
		keys, ok = p.Keys.(TagKeys)
	}
	return ok && keys.InnerTag()
}

// native reports whether the device measures by itself.
func (d *Device) native() bool {
	p := platforms[d.Platform]
	return p != nil && p.Native
}

// Reaches is how the platform's own keys lead to a device over the network; "" where
// they do not.
func (d *Device) Reaches() string {
	if keys, ok := OwnKeys[NetworkKeys](d); ok {
		return keys.Reaches(d.Address)
	}
	return ""
}

// platforms are those defined, by their names.
var platforms = make(map[string]*Platform)

// DefinePlatform has fleet files take a platform's own keys. It is for init
// functions, since a file that has been read was read without the keys. A name that
// is taken is a mistake in the program, and panics; so is a key, but where platforms
// that are driven the same way share its Keys.
func DefinePlatform(p Platform) {
	for _, other := range platforms {
		if other.Name == p.Name || p.Key != "" && other.Key == p.Key && (reflect.TypeOf(other.Keys) != reflect.TypeOf(p.Keys) || other.Doc != p.Doc) {
			panic("inventory: platform " + p.Name + " is defined twice, or its key is")
		}
	}
	platforms[p.Name] = &p
}

// OwnKeys is what the file says of a device under its platform's own key, whose
// type T is; false where it says nothing.
func OwnKeys[T PlatformKeys](d *Device) (keys T, ok bool) {
	for _, own := range d.Management.Own {
		if keys, ok = own.(T); ok {
			return keys, true
		}
	}
	return keys, false
}

// Place tells a device from others of its machine by its platforms' own keys, as
// PlatformKeys.Place does; with devices alone by those whose place is a device.
func (m *Management) Place(path func(string) string, devices bool) string {
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m.Own)) {
		if text, device := m.Own[key].Place(path); text != "" && (device || !devices) {
			out.WriteString(", " + text)
		}
	}
	return out.String()
}

// ownKeys are the keys of all platforms, which have their values in a field that
// is a map.
func ownKeys(index []int) []key {
	var out []key
	seen := map[string]bool{}
	for _, p := range platforms {
		if p.Key == "" || seen[p.Key] {
			continue
		}
		seen[p.Key] = true
		out = append(out, key{name: p.Key, doc: p.Doc, index: index, own: reflect.TypeOf(p.Keys), kind: pointerKind(mappingKind(keySetOf(reflect.TypeOf(p.Keys).Elem(), "")))})
	}
	slices.SortFunc(out, func(a, b key) int { return strings.Compare(a.name, b.name) })
	return out
}

// get is the value of a key in its struct, and whether it is given.
func (k *key) get(v reflect.Value) (reflect.Value, bool) {
	field := v.FieldByIndex(k.index)
	if k.own == nil {
		return field, !field.IsZero()
	}
	if field = field.MapIndex(reflect.ValueOf(k.name)); !field.IsValid() {
		return field, false
	}
	return field.Elem(), true
}

// set gives a key a value. A struct's own map is not changed: others may share it.
func (k *key) set(v, value reflect.Value) {
	field := v.FieldByIndex(k.index)
	if k.own == nil {
		field.Set(value)
		return
	}
	own := field.Addr().Interface().(*map[string]PlatformKeys)
	if *own = maps.Clone(*own); *own == nil {
		*own = make(map[string]PlatformKeys)
	}
	(*own)[k.name] = value.Interface().(PlatformKeys)
}

// needPlatformKeys wants a device's own keys where csig is to set it up and its
// platform needs them.
func (c *compiler) needPlatformKeys(d *Device, at originID, what string) {
	set := d.Level.Support == LevelAuto || d.Level.Support == LevelSoftware
	if p := platforms[d.Platform]; p != nil && p.Missing != "" && d.Management.Own[p.Key] == nil && set {
		c.errorf(at, p.Hint, `%s: "management: %s" is missing: %s`, what, p.Key, p.Missing)
	}
}
