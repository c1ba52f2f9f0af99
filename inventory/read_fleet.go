package inventory

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// Format is the first line of every fleet file.
const Format = "csig.fleet/v1"

// Load reads and validates a fleet file. Mistakes in it are Errors.
func Load(path string) (*Fleet, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("fleet file: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("fleet file: %w", err)
	}
	return Parse(path, data)
}

// Parse reads and validates the text of a fleet file; name stands for the file
// in errors and becomes Fleet.Path. Mistakes are Errors, all that there are.
func Parse(name string, data []byte) (*Fleet, error) {
	src, text, failure := prepare(name, data)
	if failure != nil {
		return nil, Errors{failure}
	}
	root, failure := parseYAML(src, text)
	if failure != nil {
		return nil, Errors{failure}
	}
	r := &reader{src: src, anchors: make(map[string]ast.Node)}
	ast.Walk(r, root)
	f := r.fleet(root)
	if len(r.errs) > 0 {
		return nil, r.errs.finish()
	}
	f.Path = name
	return f, nil
}

// fleet reads the whole file.
func (r *reader) fleet(root ast.Node) *Fleet {
	o, ok := r.object(root, "fleet", "format", "profile", "policy", "vlan_tpids", "devices")
	if !ok {
		return nil
	}
	if format, ok := r.text(o.need("format", `add "format: `+Format+`" as the first line`), "format"); ok && format != Format {
		hint := "want " + Format
		if strings.HasPrefix(format, "csig.fleet/") {
			hint = "this csig reads " + Format
		}
		r.errorf(o.get("format"), hint, "format: %q is not a fleet format that is known here", format)
	}
	p := r.readProfile(o.need("profile", "it says what all devices of the domain share"))
	f := &Fleet{Profile: p.profile, VLANTPIDs: r.vlanTPIDs(o.get("vlan_tpids"))}
	p.checkVLANs(f.VLANTPIDs)
	f.Policy = p.policy(o.get("policy"))

	devices := o.get("devices")
	if devices == nil {
		return r.defaults(f)
	}
	list, _ := r.list(devices, "devices")
	seen := make(map[string]ast.Node)
	local := ""
	for i, n := range list {
		d, nameNode := p.device(n, i, f.Policy)
		if first := seen[d.Name]; nameNode != nil && first != nil {
			r.errorf(nameNode, fmt.Sprintf("the first is on line %d", place(first).line), "device %s is there twice", d.Name)
		} else if nameNode != nil {
			seen[d.Name] = nameNode
		}
		f.Devices = append(f.Devices, d)
		if d.Local && local != "" {
			r.errorf(n, "only the device that this agent runs on is local", "device %s: %s is local already", d.Name, local)
		} else if d.Local {
			local = d.Name
		}
	}
	return r.defaults(f)
}

// defaults fills in what the file leaves out.
func (r *reader) defaults(f *Fleet) *Fleet {
	every := "@every " + f.Profile.Interval.String()
	for i := range f.Devices {
		d := &f.Devices[i]
		if d.Interval == 0 {
			d.Interval = f.Profile.Interval
		}
		if d.Schedule == "" {
			d.Schedule = f.Policy.Schedule
		}
		if d.Schedule == "" {
			d.Schedule = "@every " + d.Interval.String()
		}
	}
	if f.Policy.Schedule == "" {
		f.Policy.Schedule = every
	}
	return f
}

// defaultVLANTPIDs are those that csig looks behind for the tag.
var defaultVLANTPIDs = [...]uint16{0x8100, 0x88a8}

func (r *reader) vlanTPIDs(n ast.Node) []uint16 {
	if n == nil {
		return slices.Clone(defaultVLANTPIDs[:])
	}
	list, _ := r.list(n, "vlan_tpids")
	out := make([]uint16, 0, len(list))
	for _, item := range list {
		v, ok := r.tpid(item, "vlan_tpids")
		switch {
		case !ok:
		case !slices.Contains(defaultVLANTPIDs[:], v):
			r.errorf(item, "leave it out where no frame has both tags", "vlan_tpids: csig finds its tag behind 0x8100 and 0x88a8 only, not behind 0x%04x", v)
		case slices.Contains(out, v):
			r.errorf(item, "", "vlan_tpids: 0x%04x is there twice", v)
		default:
			out = append(out, v)
		}
	}
	return out
}

// checkVLANs refuses a TPID that ordinary VLANs of the domain use: its frames
// would be rewritten as if their VID were a signal.
func (p *profileReader) checkVLANs(vlans []uint16) {
	for _, t := range []struct {
		field string
		value uint16
	}{{"tpid", p.profile.TPID}, {"wide_tpid", p.profile.WideTPID}} {
		if n := p.nodes[t.field]; n != nil && !p.reported[t.field] && slices.Contains(vlans, t.value) {
			p.errorf(n, `choose another, e.g. 0x9900; or, where no VLAN of the domain uses it, add "vlan_tpids: [0x8100]"`,
				"profile: %s: 0x%04x is a TPID of the domain's VLANs, too", t.field, t.value)
		}
	}
}

func (p *profileReader) policy(n ast.Node) Policy {
	out := Policy{OnStale: Conservative, Estimator: Estimator{Method: Raw}}
	if n == nil {
		return out
	}
	o, _ := p.object(n, "policy", "on_stale", "schedule", "estimator", "damping")
	if stale := o.get("on_stale"); stale != nil {
		if word, ok := p.word(stale, "policy: on_stale", string(Conservative), string(StaleStrip), string(StalePassthrough)); ok {
			out.OnStale = OnStale(word)
		}
	}
	out.Schedule = p.schedule(o.get("schedule"), "policy")
	if out.Schedule != "" {
		p.checkSchedule(o.get("schedule"), out.Schedule, p.profile.Interval, "policy")
	}
	out.Estimator = p.estimator(o.get("estimator"), "policy", out.Estimator)
	out.Damping = p.damping(o.get("damping"))
	return out
}

// schedule reads a schedule, "" when there is none.
func (p *profileReader) schedule(n ast.Node, what string) string {
	text, ok := p.text(n, what+": schedule")
	if !ok {
		return ""
	}
	if _, err := ParseSchedule(text); err != nil {
		p.errorf(n, `e.g. "@every 100ms", or five cron fields`, "%s: %v", what, err)
		return ""
	}
	return text
}

// checkSchedule refuses to sample less often than the averaging window: load
// between two windows would be seen by none.
func (p *profileReader) checkSchedule(n ast.Node, text string, interval time.Duration, what string) {
	s, err := ParseSchedule(text)
	if err != nil || interval == 0 {
		return // reported where it was read
	}
	if gap, err := LongestGap(s); err == nil && gap > interval {
		p.errorf(n, "sample at least once each interval, or lengthen the interval", "%s: the schedule %q leaves %s between samples, longer than the interval of %s", what, text, gap, interval)
	}
}

// device reads one device; the node is its name's, nil when it has none.
func (p *profileReader) device(n ast.Node, index int, policy Policy) (Device, ast.Node) {
	var d Device
	what := fmt.Sprintf("device %d", index+1)
	if name := p.called(n); plainName.MatchString(name) {
		what = "device " + name
	}
	o, ok := p.object(n, what, "name", "platform", "local", "address", "interval", "schedule", "estimator", "counters", "ports")
	if !ok {
		return d, nil
	}
	nameNode := o.need("name", "")
	if d.Name, ok = p.name(nameNode, what+": name"); !ok {
		nameNode = nil
	}
	d.Platform, _ = p.name(o.need("platform", "e.g. linux"), what+": platform")
	d.Local = p.bool(o.get("local"), what+": local")

	interval, schedule := o.get("interval"), o.get("schedule")
	if interval != nil {
		d.Interval, _ = p.interval(interval, what+": interval")
	}
	if schedule != nil {
		d.Schedule = p.schedule(schedule, what)
	}
	effective := d.Interval
	if effective == 0 {
		effective = p.profile.Interval
	}
	switch {
	case d.Schedule != "":
		p.checkSchedule(schedule, d.Schedule, effective, what)
	case interval != nil && policy.Schedule != "":
		p.checkSchedule(interval, policy.Schedule, effective, what)
	}
	d.Estimator = p.estimator(o.get("estimator"), what, policy.Estimator)
	if address := o.get("address"); address != nil {
		d.Address = p.address(address, what+": address")
	}
	d.Counters = p.counters(o)
	ports := o.need("ports", "list the device's egress ports")
	if ports == nil {
		return d, nameNode
	}
	list, ok := p.list(ports, what+": ports")
	if ok && len(list) == 0 && !p.full() {
		p.errorf(ports, "", "%s: there are no ports", what)
	}
	p.ports(&d, list, what)
	return d, nameNode
}

// ports reads a device's ports and checks that they can be told apart.
func (p *profileReader) ports(d *Device, list []ast.Node, device string) {
	type written struct {
		sig quantize.Signal
		lm  uint16
	}
	names := make(map[string]int) // line
	locators := make(map[written]string)
	// 1 to stale-1 can name a port: a device with more of them has to share.
	enough := len(list) < int(p.profile.Layout.LMStale())
	for i, n := range list {
		port, nameNode, lmNode := p.port(n, i, d.Platform, device)
		if nameNode != nil {
			if line, twice := names[port.Name]; twice {
				p.errorf(nameNode, fmt.Sprintf("the first is on line %d", line), "%s: port %s is there twice", device, port.Name)
			} else {
				names[port.Name] = place(nameNode).line
			}
		}
		for _, sig := range p.signals() {
			lm, ok := port.LM[sig]
			if !ok {
				continue
			}
			if other, taken := locators[written{sig, lm}]; taken && enough {
				p.errorf(lmNode, "the receiver could not tell which of the two is the bottleneck", "%s, port %s: lm: %s is port %s's already", device, port.Name, p.describe(sig, lm), other)
				break // the other signals would say the same
			}
			locators[written{sig, lm}] = port.Name
		}
		d.Ports = append(d.Ports, port)
	}
}

// port reads one port, with the nodes of its name and locator.
func (p *profileReader) port(n ast.Node, index int, platform, device string) (port Port, nameNode, lmNode ast.Node) {
	port.Action = vlanrules.Update
	what := fmt.Sprintf("%s, port %d", device, index+1)
	if name := p.called(n); name != "" && portNameProblem(name, platform) == "" {
		what = device + ", port " + name
	}
	o, ok := p.object(n, what, "name", "speed", "action", "lm", "peer")
	if !ok {
		return port, nil, nil
	}
	nameNode = o.need("name", "the device's own name of the port")
	if port.Name, ok = p.portName(nameNode, what+": name", platform); !ok {
		nameNode = nil
	}
	if speed := o.get("speed"); speed != nil {
		port.Speed = p.speed(speed, what+": speed")
	}
	actionOK := true
	if action := o.get("action"); action != nil {
		var word string
		word, actionOK = p.word(action, what+": action", "update", "passthrough", "strip")
		for _, a := range []vlanrules.Action{vlanrules.Passthrough, vlanrules.Update, vlanrules.Strip} {
			if actionOK && a.String() == word {
				port.Action = a
			}
		}
	}
	_, given := o.values["lm"]
	if lmNode = o.get("lm"); lmNode != nil {
		port.LM, _ = p.lm(lmNode, what+": lm")
	} else if !given && actionOK && port.Action == vlanrules.Update {
		p.errorf(o.node, "give the port a number of its own, or action: passthrough", `%s: "lm" is missing: an update port writes it`, what)
	}
	if peer := o.get("peer"); peer != nil {
		port.Peer = p.peer(peer, what+": peer")
	}
	return port, nameNode, lmNode
}

// portName reads the device's own name of a port.
func (p *profileReader) portName(n ast.Node, what, platform string) (string, bool) {
	s, ok := p.text(n, what)
	if !ok {
		return "", false
	}
	if problem := portNameProblem(s, platform); problem != "" {
		p.errorf(n, "", "%s: %q: %s", what, s, problem)
		return "", false
	}
	return s, true
}

// portNameProblem says why a platform can have no port of that name, "" when
// it can.
func portNameProblem(name, platform string) string {
	switch {
	case name == "" || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		return "a port's name is one word"
	case len(name) > 64:
		return "longer than 64 bytes"
	case platform != "linux":
		return ""
	case len(name) > 15:
		return "a Linux interface name has at most 15 bytes"
	case name == "." || name == ".." || strings.ContainsAny(name, "/:"):
		return "a Linux interface name has neither '/' nor ':'"
	}
	return ""
}

// peer reads the far end of a link: "device:port", or a host's name.
func (p *profileReader) peer(n ast.Node, what string) Peer {
	s, ok := p.text(n, what)
	if !ok {
		return Peer{}
	}
	device, port, split := strings.Cut(s, ":")
	if !plainName.MatchString(device) || split && portNameProblem(port, "") != "" {
		p.errorf(n, `write "s2:swp1" in quotes, or h1 for a host`, "%s: %q is not the far end of a link", what, s)
		return Peer{}
	}
	return Peer{Device: device, Port: port}
}

// speed reads a capacity: 10G, 400G, 2.5G, 100M, or with the whole unit.
func (p *profileReader) speed(n ast.Node, what string) uint64 {
	s, ok := p.text(n, what)
	if !ok {
		return 0
	}
	v, err := ParseSpeed(s)
	if err != nil {
		p.errorf(n, "e.g. 10G, 400G or 100M", "%s: %v", what, err)
	}
	return v
}

// ParseSpeed reads a link's capacity in bit/s as people write it: "10G",
// "2.5G", "100M", or with the whole unit, "25Gbps". Zero is an error.
func ParseSpeed(text string) (uint64, error) {
	full := text
	if strings.HasSuffix(text, "k") || strings.HasSuffix(text, "M") || strings.HasSuffix(text, "G") || strings.HasSuffix(text, "T") {
		full += "bps"
	}
	v, err := quantize.BitPerSecond.Parse(full)
	if err != nil {
		return 0, err
	}
	if v == 0 {
		return 0, errors.New("a speed of 0 leaves nothing to share: leave it out to ask the device")
	}
	return v, nil
}

// FormatSpeed is the inverse of ParseSpeed: "10G", "2.5G", "500bps". 0 is "".
func FormatSpeed(bps uint64) string {
	if bps == 0 {
		return ""
	}
	text := strings.ReplaceAll(quantize.BitPerSecond.Format(bps), " ", "")
	if short := strings.TrimSuffix(text, "bps"); short != strconv.FormatUint(bps, 10) {
		return short
	}
	return text
}
