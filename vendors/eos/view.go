package eos

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// view is what csig knows of a switch's configuration.
type view struct {
	flows    map[string][]string // the lines of each, sorted
	on       bool                // DirectFlow is
	handlers map[string][]string // event handlers of csig's
	records  []string            // access lists of csig's, sorted
	misnamed string              // an access list with a name of csig's that is not one, "" for none
	ports    []port
	vlans    [4096]bool // that are configured
}

// port is an interface.
type port struct {
	name    string
	trunk   bool
	allowed string // VLANs of the trunk, "" for all
	native  int
	member  string // of an aggregate, "" for none
	tpid    uint16
	longest []string // lines that limit how long frames may be (l2 mtu, l2 mru)
}

// defaultTPID is EOS's (Configurable TPID).
const defaultTPID = 0x8100

const (
	maxPorts = 4096
	maxFlows = 1 << 16
)

// parse reads `show running-config`: sections that begin at the margin, with their lines
// indented by three blanks, and a flow's by six.
func parse(lines []string) (*view, error) {
	v := &view{flows: map[string][]string{}, handlers: map[string][]string{}}
	v.vlans[1] = true
	var section func(depth int, line string)
	for _, line := range lines {
		text := strings.TrimSpace(line)
		depth := len(line) - len(strings.TrimLeft(line, " "))
		switch {
		case text == "" || text[0] == '!':
		case depth > 0 && section != nil:
			section(depth, text)
		case depth == 0:
			section = v.begin(strings.Fields(text), text)
		}
		if len(v.ports) > maxPorts || len(v.flows) > maxFlows || len(v.records) > 2*maxPorts {
			return nil, fmt.Errorf("the configuration has more than %d interfaces or %d flows", maxPorts, maxFlows)
		}
	}
	for _, list := range v.flows {
		slices.Sort(list)
	}
	for _, list := range v.handlers {
		slices.Sort(list)
	}
	slices.Sort(v.records)
	return v, nil
}

// begin begins a section; nil where csig has no use for it.
func (v *view) begin(words []string, text string) func(int, string) {
	switch {
	case text == "directflow":
		flow := ""
		return func(depth int, line string) {
			name, begins := strings.CutPrefix(line, "flow ")
			switch {
			case depth == 3 && begins:
				flow = name
				v.flows[flow] = []string{}
			case depth == 3:
				flow = ""
				v.on = v.on || line == "no shutdown"
			case flow != "":
				v.flows[flow] = append(v.flows[flow], line)
			}
		}
	case len(words) == 3 && words[0] == "mac" && words[1] == "access-list":
		name := words[2]
		if !isRecord(name) {
			return nil
		}
		v.records = append(v.records, name)
		return func(int, string) { // one with entries is an access list of a user's
			v.records = slices.DeleteFunc(v.records, func(n string) bool { return n == name })
			v.misnamed = name
		}
	case len(words) == 2 && words[0] == "event-handler" && strings.HasPrefix(words[1], deadFlows):
		name := words[1]
		v.handlers[name] = []string{}
		return func(_ int, line string) { v.handlers[name] = append(v.handlers[name], line) }
	case len(words) == 2 && words[0] == "vlan":
		v.addVLANs(words[1])
	case len(words) == 2 && words[0] == "interface":
		v.ports = append(v.ports, port{name: words[1], tpid: defaultTPID, native: 1})
		at := len(v.ports) - 1
		return func(_ int, line string) { v.ports[at].take(strings.Fields(line), line) }
	}
	return nil
}

func (p *port) take(words []string, line string) {
	last := words[len(words)-1]
	switch {
	case line == "switchport mode trunk":
		p.trunk = true
	case strings.HasPrefix(line, "switchport trunk allowed vlan "):
		p.allowed = strings.TrimPrefix(line, "switchport trunk allowed vlan ")
	case strings.HasPrefix(line, "switchport trunk native vlan "):
		p.native = 4095 // "tag", or a number
		if n, err := strconv.Atoi(last); err == nil {
			p.native = n
		}
	case words[0] == "channel-group" && len(words) > 1:
		p.member = words[1]
	case len(words) == 3 && words[0] == "l2" && (words[1] == "mtu" || words[1] == "mru") && strings.Trim(last, "0123456789") == "":
		p.longest = append(p.longest, line)
	case strings.HasPrefix(line, "switchport dot1q ethertype "):
		n, err := strconv.ParseUint(last, 0, 16)
		if p.tpid = uint16(n); err != nil {
			p.tpid = 0
		}
	}
}

// addVLANs takes in a list such as 2,5-9.
func (v *view) addVLANs(list string) {
	for one := range strings.SplitSeq(list, ",") {
		a, b, ranged := strings.Cut(one, "-")
		first, err := strconv.Atoi(a)
		last := first
		if ranged && err == nil {
			last, err = strconv.Atoi(b)
		}
		for n := max(first, 1); err == nil && n <= min(last, 4094); n++ {
			v.vlans[n] = true
		}
	}
}

// port is an interface by name, nil where there is none.
func (v *view) port(name string) *port {
	for i := range v.ports {
		if v.ports[i].name == name {
			return &v.ports[i]
		}
	}
	return nil
}

func (v *view) has(record string) bool {
	_, found := slices.BinarySearch(v.records, record)
	return found
}

// of are the ports that have a record of a kind, in the switch's order.
func (v *view) of(kind string) (ports []string) {
	for i := range v.ports {
		if v.has(ofPort(kind, v.ports[i].name)) {
			ports = append(ports, v.ports[i].name)
		}
	}
	return ports
}

// held are csig's flows of a port by their bands, those that are not as csig left them, and
// the bands that are in use.
func (d *Driver) held(v *view, port string) (flows map[string]rule, damaged []string, used [bands]bool) {
	flows = map[string]rule{}
	for name, lines := range v.flows {
		r, ok := parseRule(name)
		f := d.forward(r.forward)
		if !ok || f == nil || f.Port != port || r.band == deadBand {
			continue
		}
		used[r.band] = true
		if want, err := r.lines(f, d.cfg.Priority); err == nil && sameLines(lines, want) {
			flows[name] = r
		} else {
			damaged = append(damaged, name)
		}
	}
	slices.Sort(damaged)
	return flows, damaged, used
}

// orphans are flows of csig's of no forwarding flow that is declared.
func (d *Driver) orphans(v *view) (names []string) {
	for name := range v.flows {
		if r, ok := parseRule(name); ok && d.forward(r.forward) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// sameLines compares lines, the first of them sorted.
func sameLines(have, want []string) bool {
	sorted := slices.Sorted(slices.Values(want))
	return slices.Equal(have, sorted)
}

// setup is what a view has of csig's.
func (d *Driver) setup(v *view) vendors.Setup {
	var s vendors.Setup
	found := 0
	for _, name := range v.records {
		if one, ok := parseRecord(name); ok {
			s, found = one, found+1
		}
	}
	ports := v.of(updateRecord)
	orphans := d.orphans(v)
	switch {
	case found == 0 && (len(v.records)+len(v.handlers) > 0 || len(orphans) > 0 || d.ownFlows(v) > 0):
		s.Damaged = "the record of the setup (mac access-list csig-setup-…) is not there"
	case found > 1:
		s.Damaged = "there is more than one record of the setup"
	case len(orphans) > 0:
		s.Damaged = "there are flows of csig's of no declared forwarding flow: " + orphans[0]
	case found == 1:
		s.Damaged = cmp.Or(d.missingTPID(v, &s, ports), d.leftOver(v, ports))
	}
	for i := range v.ports {
		name := v.ports[i].name
		p := vendors.PortSetup{Port: name, Action: updates}
		switch {
		case slices.Contains(ports, name):
		case v.has(ofPort(passRecord, name)):
			p.Action = vlanrules.Passthrough
		default:
			continue
		}
		if _, damaged, _ := d.held(v, name); len(damaged) > 0 {
			p.Damaged = "a flow is not as csig left it: " + damaged[0]
		} else if at := v.port(name); at.tpid != s.TPID {
			p.Damaged = fmt.Sprintf("its TPID is 0x%04x", at.tpid)
		}
		s.Ports = append(s.Ports, p)
	}
	return s
}

func (d *Driver) ownFlows(v *view) (n int) {
	for name := range v.flows {
		if _, ok := parseRule(name); ok {
			n++
		}
	}
	return n
}

// leftOver is which flow the dead-man has written late at a port that no longer updates, "" for none.
func (d *Driver) leftOver(v *view, ports []string) string {
	for i := range d.cfg.Forwarding {
		if port := d.cfg.Forwarding[i].Port; !slices.Contains(ports, port) {
			for _, flow := range d.fallen(v, port) {
				return "the dead-man has written a flow at " + port + ", which does not update: " + flow
			}
		}
	}
	return ""
}

// missingTPID is which port that frames come in by does not have the TPID, "" for none.
func (d *Driver) missingTPID(v *view, s *vendors.Setup, ports []string) string {
	for i := range d.cfg.Forwarding {
		f := &d.cfg.Forwarding[i]
		if p := v.port(f.InPort); slices.Contains(ports, f.Port) && p != nil && p.tpid != s.TPID {
			return fmt.Sprintf("the TPID of %s, by which frames come in, is 0x%04x", f.InPort, p.tpid)
		}
	}
	return ""
}
