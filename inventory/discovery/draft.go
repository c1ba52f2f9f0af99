package discovery

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/quantize"
)

// Draft is a fleet as another system describes it. Its texts are as that system has them.
type Draft struct {
	Command string // that made it
	Devices []*Device
	Cables  []Cable
	Notes   []string // what a person should know, a sentence each
}

// Device is a switch of a draft.
type Device struct {
	Name     string
	Platform string // as csig calls it; "" where it is not known
	What     string // what the other system says of it, where Platform is ""
	Address  string
	Counters string // how they are read, as YAML in one line; "" where it is not known
	FillIn   string // what a person has to fill in of Counters; "" nothing
	Tags     []string
	Ports    []Port
	LeftOut  []string // names of ports that are not for tags, as far as csig can tell
}

// Port is a port of a switch.
type Port struct {
	Name  string
	Speed uint64 // bit/s, 0 where it is not known
	MTU   int    // bytes, 0 where it is not known
	Note  string
}

// End is a port, or a host where Port is "".
type End struct{ Device, Port string }

func (e End) String() string {
	if e.Port == "" {
		return e.Device
	}
	return e.Device + ":" + e.Port
}

// Cable is a cable; A is a port of one of the draft's devices.
type Cable struct {
	A, B End
	Note string
}

// maxNotes is how many notes of a draft are written: a wrong export has one for each port.
const maxNotes = 200

// maxText is how many bytes of a text of the other system a comment has.
const maxText = 100

// plainName is a name that YAML takes for a string without quotes.
var plainName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*[0-9]$`)

// QuoteName writes a name so that YAML reads it again as it is.
func QuoteName(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return strconv.Quote(name)
}

// Buckets is the preset of available bandwidths for a fastest link, in bit/s: the smallest that
// reaches it, or the largest; log-100G where no speed is known.
func Buckets(fastest uint64) string {
	if fastest == 0 {
		return "log-100G"
	}
	best, top := "", uint64(0)
	for _, name := range quantize.PresetNames(quantize.MinABW) {
		table, err := quantize.Preset(quantize.MinABW, name)
		if err != nil || !strings.HasPrefix(name, "log-") {
			continue
		}
		if _, high := table.Range(quantize.NumBuckets - 1); top == 0 || top < fastest && high > top || high >= fastest && high < top {
			best, top = name, high
		}
	}
	return best
}

func (d *Draft) note(format string, args ...any) {
	d.Notes = append(d.Notes, fmt.Sprintf(format, args...))
}

// YAML is the fleet file. It loads as it is; what a fleet file cannot have is left out, with a
// note.
func (d *Draft) YAML() ([]byte, error) {
	d.drop()
	if len(d.Devices) == 0 {
		return nil, fmt.Errorf("no switch with a port: %s", strings.Join(d.Notes[:min(len(d.Notes), 3)], "; "))
	}
	d.connect()
	text := d.write()
	if _, err := inventory.Parse(d.Command, text); err != nil {
		return nil, fmt.Errorf("the fleet file would not load, which is a bug in csig: %w", err)
	}
	return text, nil
}

// problem is why a fleet file cannot have a device with these ports; nil for none.
func problem(d *Device, ports ...Port) error {
	one := Draft{Command: "one", Devices: []*Device{{Name: d.Name, Platform: d.Platform, What: d.What, Address: d.Address, Counters: d.Counters, Ports: ports}}}
	_, err := inventory.Parse("one", one.write())
	return err
}

// drop leaves out what a fleet file cannot have.
func (d *Draft) drop() {
	slices.SortFunc(d.Devices, func(a, b *Device) int { return inventory.CompareNames(a.Name, b.Name) })
	at := make(map[string]string)
	var keep []*Device
	for _, dev := range d.Devices {
		shown := untrusted.Text(dev.Name, maxText)
		if dev.Address != "" {
			place := dev.Address + " " + dev.Counters // ports and targets behind one address differ
			if first, taken := at[place]; taken {
				d.note("device %s has the address of %s, %s: it is left open", shown, first, untrusted.Text(dev.Address, maxText))
				dev.Address = ""
			} else {
				at[place] = shown
			}
		}
		some := Port{Name: "p1"}
		if dev.Address != "" && problem(dev, some) != nil {
			was := dev.Address
			if dev.Address = ""; problem(dev, some) == nil {
				d.note("device %s: address %s is none that a fleet file takes: it is left open", shown, untrusted.Text(was, maxText))
			} else {
				dev.Address = was // it is not the reason
			}
		}
		if err := problem(dev, some); err != nil {
			d.note("device %s is left out: %s", shown, reason(err))
			continue
		}
		if len(dev.Ports) > 0 && problem(dev, dev.Ports...) != nil {
			dev.Ports = slices.DeleteFunc(dev.Ports, func(p Port) bool {
				err := problem(dev, p)
				if err != nil {
					d.note("device %s: port %s is left out: %s", shown, untrusted.Text(p.Name, maxText), reason(err))
				}
				return err != nil
			})
		}
		dev.Ports = slices.DeleteFunc(dev.Ports, func(p Port) bool { return strings.Contains(p.Name, "#") }) // a comment, under links
		if len(dev.Ports) == 0 {
			d.note("device %s is left out: it has no port for tags: csig counters scan lists its interfaces", shown)
			continue
		}
		slices.SortFunc(dev.Ports, func(a, b Port) int { return inventory.CompareNames(a.Name, b.Name) })
		before := len(dev.Ports)
		if dev.Ports = slices.CompactFunc(dev.Ports, func(a, b Port) bool { return a.Name == b.Name }); len(dev.Ports) < before {
			d.note("device %s has ports of the same name", shown)
		}
		if n := len(keep); n > 0 && keep[n-1].Name == dev.Name {
			d.note("device %s is there twice: the second is left out", shown)
			continue
		}
		keep = append(keep, dev)
	}
	d.Devices = keep
}

// reason is the first mistake of a fleet file, in one line.
func reason(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if _, after, ok := strings.Cut(text, ": "); ok {
		text = after
	}
	return untrusted.Text(text, 200)
}

// connect leaves out cables without two ends, and gives both ends of a cable one speed.
func (d *Draft) connect() {
	ports := make(map[End]*Port)
	devices := make(map[string]bool)
	for _, dev := range d.Devices {
		devices[dev.Name] = true
		for i := range dev.Ports {
			ports[End{dev.Name, dev.Ports[i].Name}] = &dev.Ports[i]
		}
	}
	taken := make(map[End]End)
	var keep []Cable
	for _, c := range d.Cables {
		shown := untrusted.Text(c.A.String()+" - "+c.B.String(), 2*maxText)
		if c.B.Port == "" && devices[c.B.Device] || c.B.Port != "" && ports[c.B] == nil {
			c.B.Port = "" // of a device that is left out, or unknown: a host, as far as the file goes
			if devices[c.B.Device] {
				d.note("cable %s is left out: device %s has no such port", shown, untrusted.Text(c.B.Device, maxText))
				continue
			}
		}
		switch {
		case ports[c.A] == nil:
			continue // it was left out
		case c.A.Device == c.B.Device:
			d.note("cable %s is left out: both ends are of one device", shown)
			continue
		case c.B.Port == "" && problem(&Device{Name: c.B.Device}, Port{Name: "p1"}) != nil:
			d.note("cable %s is left out: a fleet file has no such name of a host", shown)
			continue
		}
		if taken[c.A] == c.B && taken[c.A] != (End{}) {
			continue // the same cable from its other end
		}
		if other, twice := taken[c.A]; twice {
			d.note("cable %s is left out: its first end is connected to %s, too", shown, untrusted.Text(other.String(), maxText))
			continue
		}
		if other, twice := taken[c.B]; twice && c.B.Port != "" {
			d.note("cable %s is left out: its second end is connected to %s, too", shown, untrusted.Text(other.String(), maxText))
			continue
		}
		if taken[c.A] = c.B; c.B.Port != "" {
			taken[c.B] = c.A
			oneSpeed(ports[c.A], ports[c.B], c)
			if inventory.CompareNames(c.A.String(), c.B.String()) > 0 {
				c.A, c.B = c.B, c.A
			}
		}
		keep = append(keep, c)
	}
	slices.SortStableFunc(keep, func(a, b Cable) int { return inventory.CompareNames(a.A.String(), b.A.String()) })
	d.Cables = keep
}

// oneSpeed gives the two ends of a cable the lower speed: what a port can do is not what a link
// runs at.
func oneSpeed(a, b *Port, c Cable) {
	if a.Speed == 0 || b.Speed == 0 || a.Speed == b.Speed {
		return
	}
	fast, slow, other := a, b, c.B
	if b.Speed > a.Speed {
		fast, slow, other = b, a, c.A
	}
	fast.Note = strings.TrimPrefix(fast.Note+"; ", "; ") + fmt.Sprintf("FILL IN speed: %s here, and %s at %s", inventory.FormatSpeed(fast.Speed), inventory.FormatSpeed(slow.Speed), other)
	fast.Speed = slow.Speed
}

// write is the text of the file.
func (d *Draft) write() []byte {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	fastest := uint64(0)
	for _, dev := range d.Devices {
		for i := range dev.Ports {
			fastest = max(fastest, dev.Ports[i].Speed)
		}
	}
	p("# A fleet file by %s. Look through what is marked FILL IN, and check", comment(d.Command))
	p("# it with csig inventory check -i.")
	for i, note := range d.Notes {
		if i == maxNotes {
			p("# … and %d more", len(d.Notes)-i)
			break
		}
		p("# - %s", comment(note))
	}
	p("format: csig.fleet/v1")
	p("")
	p("profile:                   # every device of the domain has to have the same")
	p("  name: lab                # FILL IN: the domain's name")
	p("  tpid: 0x9900             # FILL IN: IEEE has assigned none, so one that nothing else uses")
	p("  interval: 1s             # FILL IN: Δt, over which the available bandwidth is averaged")
	p("  signals:")
	p("    abw:  {buckets: %s}  # FILL IN: named by the fastest link of the domain", Buckets(fastest))
	p("    abwc: {buckets: log}")
	p("")
	unread := slices.ContainsFunc(d.Devices, func(dev *Device) bool { return dev.Counters == "" })
	if unread {
		p("# FILL IN how the counters are read and the switches are reached, for example:")
		p("# defaults:")
		p("#   counters: {source: snmp, snmp: {version: 2c, community: {file: /etc/csig/community}}}")
		p("")
	}
	p("devices:")
	for _, dev := range d.Devices {
		p("  - name: %s", QuoteName(dev.Name))
		if dev.Platform != "" {
			p("    platform: %s", dev.Platform)
		} else {
			p("    platform: unknown      # FILL IN: one of csig platforms, and take level out%s", said(dev.What))
			p("    level: {is: discard, reason: \"FILL IN: its platform is not known\"}")
		}
		if dev.Address != "" {
			p("    address: %s", strconv.Quote(dev.Address))
		} else {
			p("    # FILL IN address: of its management port")
		}
		if dev.Counters != "" {
			fill := ""
			if dev.FillIn != "" {
				fill = "  # FILL IN: " + comment(dev.FillIn)
			}
			p("    counters: %s%s", dev.Counters, fill)
		}
		if tags := plainTags(dev.Tags); len(tags) > 0 {
			p("    tags: [%s]", strings.Join(tags, ", "))
		}
		p("    ports:")
		for i := range dev.Ports {
			q := &dev.Ports[i]
			speed, mtu, note := "", "", q.Note
			if q.Speed > 0 {
				speed = ", speed: " + inventory.FormatSpeed(q.Speed)
			}
			if q.MTU >= 576 && q.MTU <= 65535 { // what fleet files take
				mtu = fmt.Sprintf(", mtu: %d", q.MTU)
			}
			if note != "" {
				note = "  # " + comment(note)
			}
			p("      - {name: %s%s%s}%s", QuoteName(q.Name), speed, mtu, note)
		}
		if n := len(dev.LeftOut); n > 0 {
			p("      # left out: %s", comment(strings.Join(dev.LeftOut, ", ")))
		}
	}
	d.writeCables(p)
	return []byte(b.String())
}

func (d *Draft) writeCables(p func(format string, args ...any)) {
	if len(d.Cables) > 0 {
		p("")
		p("links: |")
		for _, c := range d.Cables {
			note := ""
			if c.Note != "" {
				note = "  # " + comment(c.Note)
			}
			p("  %s - %s%s", c.A, c.B, note)
		}
	}
	hosts := make(map[string]bool)
	for _, c := range d.Cables {
		if c.B.Port == "" {
			hosts[c.B.Device] = true
		}
	}
	p("")
	if len(hosts) == 0 {
		p("# FILL IN the hosts at these ports that read tags:")
		p("# hosts:")
		p("#   - {name: h1, mtu: 1500, csig: true}")
		return
	}
	p("# FILL IN which hosts read tags. Where a port leads to one that does not, or to a switch outside")
	p("# of the domain, the tag has to go: action: strip.")
	p("# hosts:")
	for _, name := range slices.SortedFunc(maps.Keys(hosts), inventory.CompareNames) {
		p("#   - {name: %s, csig: true}", QuoteName(name))
	}
}

// comment is a text that ends no line.
func comment(text string) string { return untrusted.Text(text, 400) }

func said(what string) string {
	if what == "" {
		return ""
	}
	return "; it is said to be " + untrusted.Text(what, maxText)
}

// plainTag is a word that a fleet file takes for a tag.
var plainTag = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,39}$`)

func plainTags(tags []string) (out []string) {
	for _, t := range tags {
		if plainTag.MatchString(t) && !slices.Contains(out, strconv.Quote(t)) {
			out = append(out, strconv.Quote(t))
		}
	}
	return out
}
