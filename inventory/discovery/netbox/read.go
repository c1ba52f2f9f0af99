// Package netbox reads what NetBox exports: the CSV files of its lists of devices, interfaces and
// cables, and the JSON of its REST API (NetBox 4.6).
package netbox

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/inventory/discovery"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// Bounds of an export: 10,000 switches of 64 ports have far less.
const (
	maxBytes = 512 << 20 // of one file
	maxItems = 4_000_000
	maxText  = 100
)

// Export is what files of NetBox have in common.
type Export struct {
	devices    []device
	interfaces []iface
	cables     []cable
	notes      []string
	withPeers  bool // of interfaces, what is connected to them
}

type device struct {
	name, status, role, platform, model, maker, address string
	tags                                                []string
}

type iface struct {
	device, name, kind string
	kbps               uint64
	mtu                int
	disabled, mgmt     bool
	peers              []discovery.End
}

type cable struct {
	status string
	a, b   []discovery.End
}

// Read adds one file; name is for errors.
func (x *Export) Read(name string, r io.Reader) error {
	in := bufio.NewReaderSize(untrusted.NewReader(r, maxBytes), 1<<16)
	head, _ := in.Peek(1 << 12) // an error comes again
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	head = bytes.TrimLeft(head, " \t\r\n")
	var err error
	if len(head) > 0 && (head[0] == '{' || head[0] == '[') {
		err = x.readJSON(in)
	} else {
		err = x.readCSV(in, head)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (x *Export) full() error {
	if len(x.devices)+len(x.interfaces)+len(x.cables) >= maxItems {
		return fmt.Errorf("more than %d devices, interfaces and cables", maxItems)
	}
	return nil
}

// columns of a CSV file, by the names in its first line in small letters.
type columns map[string]int

func (c columns) has(names ...string) bool {
	for _, name := range names {
		if _, ok := c[name]; !ok {
			return false
		}
	}
	return true
}

// get is the first of these columns that the file has.
func (c columns) get(row []string, names ...string) string {
	for _, name := range names {
		if i, ok := c[name]; ok && i < len(row) {
			return strings.TrimSpace(row[i])
		}
	}
	return ""
}

var errKind = errors.New("these are neither devices, interfaces nor cables of NetBox: export their lists with All Data, or save the REST API's /api/dcim/devices/, /interfaces/ and /cables/ with ?limit=0")

func (x *Export) readCSV(in io.Reader, head []byte) error {
	r := csv.NewReader(in)
	first, _, _ := bytes.Cut(head, []byte("\n"))
	for _, c := range []rune{',', ';', '\t', '|'} { // what NetBox lets its users choose
		if bytes.ContainsRune(first, c) {
			r.Comma = c
			break
		}
	}
	r.FieldsPerRecord, r.ReuseRecord, r.LazyQuotes = -1, true, true
	names, err := r.Read()
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	} else if err != nil {
		return err
	}
	cols := make(columns)
	for i, name := range names {
		name = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")))
		if _, twice := cols[name]; !twice {
			cols[name] = i
		}
	}
	var take func(row []string)
	switch {
	case cols.has("termination a", "termination b"):
		if !cols.has("device a", "device b") {
			return errors.New("cables without the columns Device A and Device B: export them with All Data")
		}
		take = func(row []string) { x.cables = append(x.cables, cols.cable(row)) }
	case cols.has("side_a_device", "side_a_name", "side_b_device", "side_b_name"):
		take = func(row []string) { x.cables = append(x.cables, cols.importCable(row)) }
	case cols.has("device", "name", "type"):
		x.withPeers = x.withPeers || cols.has("connection") || cols.has("link peers")
		take = func(row []string) { x.interfaces = append(x.interfaces, cols.iface(row)) }
	case cols.has("name") && (cols.has("ip address") || cols.has("role") || cols.has("device_type") || cols.has("manufacturer")):
		take = func(row []string) { x.devices = append(x.devices, cols.device(row)) }
	default:
		return errKind
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = x.full()
		}
		if err != nil {
			return err
		}
		take(row)
	}
}

func (c columns) device(row []string) device {
	d := device{
		name: c.get(row, "name"), status: c.get(row, "status"), role: c.get(row, "role"), platform: c.get(row, "platform"),
		model: c.get(row, "type", "device_type"), maker: c.get(row, "manufacturer"), address: c.get(row, "ip address", "primary_ip", "ipv4 address"),
	}
	for tag := range strings.SplitSeq(c.get(row, "tags"), ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			d.tags = append(d.tags, tag)
		}
	}
	return d
}

func (c columns) iface(row []string) iface {
	i := iface{device: c.get(row, "device"), name: c.get(row, "name"), kind: c.get(row, "type")}
	i.kbps, _ = strconv.ParseUint(c.get(row, "speed (kbps)"), 10, 64)
	i.mtu, _ = strconv.Atoi(c.get(row, "mtu"))
	i.disabled = strings.EqualFold(c.get(row, "enabled"), "false")
	i.mgmt = strings.EqualFold(c.get(row, "management only", "mgmt_only"), "true")
	// Connection is the other end of the whole path, through patch panels.
	peers := c.get(row, "connection")
	if peers == "" {
		peers = c.get(row, "link peers")
	}
	for peer := range strings.SplitSeq(peers, ", ") {
		if dev, port, ok := strings.Cut(peer, " > "); ok {
			i.peers = append(i.peers, discovery.End{Device: dev, Port: port})
		}
	}
	return i
}

// cable is of the list of cables.
func (c columns) cable(row []string) cable {
	return cable{
		status: c.get(row, "status"),
		a:      ends(c.get(row, "device a"), c.get(row, "termination a")),
		b:      ends(c.get(row, "device b"), c.get(row, "termination b")),
	}
}

// importCable is of a file that NetBox imports cables from.
func (c columns) importCable(row []string) cable {
	out := cable{status: c.get(row, "status")}
	if c.get(row, "side_a_type") == interfaceType && c.get(row, "side_b_type") == interfaceType {
		out.a, out.b = ends(c.get(row, "side_a_device"), c.get(row, "side_a_name")), ends(c.get(row, "side_b_device"), c.get(row, "side_b_name"))
	}
	return out
}

// interfaceType is what NetBox calls an interface's model.
const interfaceType = "dcim.interface"

func ends(device, names string) (out []discovery.End) {
	if device == "" {
		return nil
	}
	for name := range strings.SplitSeq(names, ",") {
		if name != "" {
			out = append(out, discovery.End{Device: device, Port: name})
		}
	}
	return out
}

// object is a device, an interface or a cable of the REST API, as far as csig looks at it.
type object struct {
	URL  string          `json:"url"`
	Name string          `json:"name"`
	Type json.RawMessage `json:"type"` // of an interface: choice

	Status                 choice
	DeviceType             *ref `json:"device_type"`
	Role, Platform         *ref
	PrimaryIP              *ref `json:"primary_ip"`
	Tags                   []ref
	Device                 *ref
	Enabled                *bool
	MgmtOnly               bool `json:"mgmt_only"`
	MTU                    *int
	Speed                  *uint64
	ConnectedEndpoints     []endpoint `json:"connected_endpoints"`
	ConnectedEndpointsType string     `json:"connected_endpoints_type"`
	LinkPeers              []endpoint `json:"link_peers"`
	LinkPeersType          string     `json:"link_peers_type"`
	ATerminations          []side     `json:"a_terminations"`
	BTerminations          []side     `json:"b_terminations"`
}

type choice struct{ Value string }

// ref is an object in another, in brief.
type ref struct {
	Name, Model, Address, Slug string
	Manufacturer               *ref
}

type endpoint struct {
	Name   string
	Device *ref
}

type side struct {
	ObjectType string `json:"object_type"`
	Object     *endpoint
}

// readJSON reads a list of objects, or the answer of the REST API that has one as its results.
func (x *Export) readJSON(in io.Reader) error {
	dec := json.NewDecoder(in)
	open, err := dec.Token()
	if err != nil {
		return err
	}
	if open == json.Delim('[') {
		return x.objects(dec)
	}
	found := false
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		switch key {
		case "results":
			if at, err := dec.Token(); err != nil || at != json.Delim('[') {
				return errors.Join(errKind, err)
			}
			if err := x.objects(dec); err != nil {
				return err
			}
			if _, err := dec.Token(); err != nil { // the list's end
				return err
			}
			found = true
		case "next":
			var next *string
			if err := dec.Decode(&next); err != nil {
				return err
			}
			if next != nil && *next != "" {
				return errors.New("it is one page of several: ask with ?limit=0, or save every page and name all files")
			}
		default:
			var other json.RawMessage
			if err := dec.Decode(&other); err != nil {
				return err
			}
		}
	}
	if !found {
		return errKind
	}
	return nil
}

func (x *Export) objects(dec *json.Decoder) error {
	for n := 1; dec.More(); n++ {
		var o object
		if err := dec.Decode(&o); err != nil {
			return fmt.Errorf("object %d: %s", n, untrusted.Text(err.Error(), maxText))
		}
		if err := x.full(); err != nil {
			return err
		}
		switch {
		case o.ATerminations != nil || o.BTerminations != nil || strings.Contains(o.URL, "/dcim/cables/"):
			x.cables = append(x.cables, cable{status: o.Status.Value, a: sides(o.ATerminations), b: sides(o.BTerminations)})
		case o.DeviceType != nil || strings.Contains(o.URL, "/dcim/devices/"):
			x.devices = append(x.devices, o.device())
		case o.Device != nil && (strings.Contains(o.URL, "/dcim/interfaces/") || o.URL == "" && len(o.Type) > 0):
			x.withPeers = true
			x.interfaces = append(x.interfaces, o.iface())
		default:
			return fmt.Errorf("object %d: %w", n, errKind)
		}
	}
	return nil
}

func (o *object) device() device {
	d := device{name: o.Name, status: o.Status.Value, role: o.Role.name(), platform: o.Platform.name()}
	if o.DeviceType != nil {
		d.model, d.maker = o.DeviceType.Model, o.DeviceType.Manufacturer.name()
	}
	if o.PrimaryIP != nil {
		d.address = o.PrimaryIP.Address
	}
	for _, t := range o.Tags {
		d.tags = append(d.tags, t.Name)
	}
	return d
}

func (r *ref) name() string {
	if r == nil {
		return ""
	}
	return r.Name
}

func (o *object) iface() iface {
	var kind choice
	_ = json.Unmarshal(o.Type, &kind) // without one its speed is not known
	i := iface{device: o.Device.name(), name: o.Name, kind: kind.Value, mgmt: o.MgmtOnly, disabled: o.Enabled != nil && !*o.Enabled}
	if o.Speed != nil {
		i.kbps = *o.Speed
	}
	if o.MTU != nil {
		i.mtu = *o.MTU
	}
	switch {
	case o.ConnectedEndpointsType == interfaceType:
		i.peers = endpoints(o.ConnectedEndpoints)
	case o.LinkPeersType == interfaceType:
		i.peers = endpoints(o.LinkPeers)
	}
	return i
}

func endpoints(list []endpoint) (out []discovery.End) {
	for _, e := range list {
		if e.Device != nil {
			out = append(out, discovery.End{Device: e.Device.Name, Port: e.Name})
		}
	}
	return out
}

func sides(list []side) (out []discovery.End) {
	for _, s := range list {
		if s.ObjectType == interfaceType && s.Object != nil && s.Object.Device != nil {
			out = append(out, discovery.End{Device: s.Object.Device.Name, Port: s.Object.Name})
		}
	}
	return out
}

// Roles are the roles that the devices have, each once.
func (x *Export) Roles() (out []string) {
	for i := range x.devices {
		if r := x.devices[i].role; r != "" && !slices.Contains(out, r) && len(out) < 100 {
			out = append(out, untrusted.Text(r, maxText))
		}
	}
	slices.Sort(out)
	return out
}
