package inventory

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"github.com/csig-agent/csig/quantize"
)

// Format is the first line of every fleet file.
const Format = formatPrefix + "v1"

// formatPrefix is in every fleet file of any version, and in nothing else.
const formatPrefix = "csig.fleet/"

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

// checkVLANs refuses TPIDs that ordinary VLANs of the domain use: frames with the
// profile's would be rewritten as if their VID were a signal, and tags with the
// retired ones would be stripped.
func (p *profileReader) checkVLANs(vlans []uint16) {
	refuse := func(field string, tpid uint16, hint, format string) {
		if n := p.nodes[field]; n != nil && !p.reported[field] && slices.Contains(vlans, tpid) {
			p.errorf(n, hint+`where no VLAN of the domain uses it, add "vlan_tpids: [0x8100]"`, format, tpid)
		}
	}
	const own = "choose another, e.g. 0x9900; or, "
	refuse("tpid", p.profile.TPID, own, "profile: tpid: 0x%04x is a TPID of the domain's VLANs, too")
	refuse("wide_tpid", p.profile.WideTPID, own, "profile: wide_tpid: 0x%04x is a TPID of the domain's VLANs, too")
	for _, r := range p.retired {
		refuse(fmt.Sprintf("retired.%04x", r.TPID), r.TPID, "", "profile: retired_tpids: 0x%04x is a TPID of the domain's VLANs, too: their tags would be stripped")
	}
}

func (r *reader) policy(n ast.Node) (out layered[Policy]) {
	if n == nil {
		return out
	}
	r.layer = r.c.origins.layer("policy")
	keys, given := out.parts()
	keysOf[Policy]().read(r, n, "policy", keys, given)
	return out
}

// schedule reads when to sample.
func (r *reader) schedule(n ast.Node, what string) (string, bool) {
	text, ok := r.text(n, what)
	if !ok {
		return "", false
	}
	if _, err := ParseSchedule(text); err != nil {
		r.errorf(n, `e.g. "@every 100ms", or "*/10 * 8-17 * * 1-5": each 10 s in working hours`, "%s: %v", strings.TrimSuffix(what, ": schedule"), err)
		return "", false
	}
	return text, true
}

// parseMargin reads how far inside of its bucket better news has to be.
func parseMargin(text string, _ func(string) string) (uint64, string, string) {
	const wholeWidth, step = 1_000_000, 1_000 // ppm
	v, err := quantize.MinABWC.Unit().Parse(text)
	switch {
	case err != nil:
		return 0, err.Error(), ""
	case v > wholeWidth || v%step != 0:
		return 0, "want 0% to 100% in steps of 0.1%", "it is a part of the better bucket's width, e.g. 10%"
	}
	return v, "", ""
}

// tooSparse says why a device is never sampled as often as its averaging window,
// "" when it is: load between two windows would be seen by none.
func tooSparse(d *Device) string {
	if period := d.Period(); d.Interval > 0 && period > d.Interval {
		return fmt.Sprintf("the schedule %q leaves %s between samples, longer than the interval of %s", d.Schedule, period, d.Interval)
	}
	return "" // or reported where it was read
}

const sparseHint = "sample at least once each interval, or lengthen the interval"

// portNameProblem says why a platform can have no port of that name, "" when
// it can.
func portNameProblem(name, platform string) string {
	switch {
	case isPlainPort(name): // of which there are many
		return ""
	case strings.ContainsAny(name, "[]"):
		return "brackets stand for ranges, e.g. swp[1-32]"
	case name == "" || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		return "a port's name is one word"
	case len(name) > 64:
		return "longer than 64 bytes"
	case platforms[platform] != nil && platforms[platform].PortName != nil:
		return platforms[platform].PortName(name)
	case !strings.HasPrefix(platform, "linux"):
		return ""
	case len(name) > 15:
		return "a Linux interface name has at most 15 bytes"
	case name == "." || name == ".." || strings.ContainsAny(name, "/:"):
		return "a Linux interface name has neither '/' nor ':'"
	}
	return ""
}

// isPlainPort reports whether a name is one that every platform takes: letters and
// digits, 15 at most.
func isPlainPort(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return name != "" && len(name) <= 15
}

func parseSpeed(text string, _ func(string) string) (uint64, string, string) {
	v, err := ParseSpeed(text)
	if err != nil {
		return 0, err.Error(), "e.g. 10G, 400G or 100M"
	}
	return v, "", ""
}

// parseRate is parseSpeed where there is no device that could be asked.
func parseRate(text string, quote func(string) string) (uint64, string, string) {
	v, problem, hint := parseSpeed(text, quote)
	if strings.HasPrefix(problem, zeroSpeed) {
		problem = zeroSpeed
	}
	return v, problem, hint
}

const zeroSpeed = "a speed of 0 leaves nothing to share"

// ParseSpeed reads a link's capacity in bit/s as people write it: "10G",
// "2.5G", "100M", or with the whole unit, "25Gbit/s" or "25Gbps". Zero is an error.
func ParseSpeed(text string) (uint64, error) {
	full := text
	if strings.HasSuffix(text, "k") || strings.HasSuffix(text, "M") || strings.HasSuffix(text, "G") || strings.HasSuffix(text, "T") {
		full += "bit/s"
	}
	v, err := quantize.BitPerSecond.Parse(full)
	if err != nil { // which quotes what was made of the text
		return 0, errors.New(strings.Replace(err.Error(), strconv.Quote(full), strconv.Quote(text), 1))
	}
	if v == 0 {
		return 0, errors.New(zeroSpeed + ": leave it out to ask the device")
	}
	return v, nil
}

// FormatSpeed is the inverse of ParseSpeed: "10G", "2.5G", "500bit/s". 0 is "".
func FormatSpeed(bps uint64) string {
	if bps == 0 {
		return ""
	}
	text := strings.ReplaceAll(quantize.BitPerSecond.Format(bps), " ", "")
	if short := strings.TrimSuffix(text, "bit/s"); short != strconv.FormatUint(bps, 10) {
		return short
	}
	return text
}
