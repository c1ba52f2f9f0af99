package eos

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// prefix marks what is csig's.
const prefix = "csig-"

// bands is how many priorities csig's flows may have.
const bands = 8

// rule is a flow of csig's: frames of a forwarding flow with a signal and some VIDs get
// another VID. Band counts from the lowest of csig's priorities.
type rule struct {
	forward          string // Forwarding.id
	pcp              uint16
	vid, mask, value uint16
	band             int
}

func (r *rule) name() string {
	return fmt.Sprintf("%s%s-t%d-%d-%d-%d-b%d", prefix, r.forward, r.pcp, r.vid, r.mask, r.value, r.band)
}

var flowName = regexp.MustCompile(`^csig-[0-9a-f]{8}-t[0-7]-\d{1,4}-\d{1,4}-\d{1,4}-b[0-8]$`)

// parseRule is the inverse of name.
func parseRule(name string) (r rule, ok bool) {
	if !flowName.MatchString(name) {
		return r, false
	}
	_, err := fmt.Sscanf(name, prefix+"%8s-t%d-%d-%d-%d-b%d", &r.forward, &r.pcp, &r.vid, &r.mask, &r.value, &r.band)
	return r, err == nil && r.name() == name
}

// lines are the flow as it is configured, in the order in which csig gives them: until its
// actions are there it takes no frame to another port.
func (r *rule) lines(f *Forwarding, priority uint16) ([]string, error) {
	lines, err := f.conditions()
	if err != nil {
		return nil, err
	}
	vid := fmt.Sprintf("match vlan %d", r.vid)
	if r.mask != 0xfff {
		vid += fmt.Sprintf(" 0x%03x", r.mask)
	}
	return append(append([]string{fmt.Sprintf("priority %d", int(priority)+r.band)}, lines...),
		vid, fmt.Sprintf("match cos %d", r.pcp), fmt.Sprintf("action set vlan %d", r.value), "action output interface "+f.Port), nil
}

// ruleOf is an entry of the compiler's as a flow of a band.
func ruleOf(f *Forwarding, e *vlanrules.Entry, band int) rule {
	return rule{f.id(), e.Match.PCP.Value, e.Match.VID.Value, e.Match.VID.Mask, e.VID, band}
}

// Records are MAC access lists without entries, which nothing applies: they say which setup
// the switch has, which ports update or pass tags through, and which got their TPID from csig.
const (
	setupRecord  = prefix + "setup-"
	updateRecord = prefix + "update-"
	passRecord   = prefix + "pass-"
	tpidRecord   = prefix + "tpid-"
)

// recordName is the name of the record of a setup.
func recordName(s *vendors.Setup) string {
	bits := 0
	for _, sig := range s.Signals {
		bits |= 1 << sig
	}
	return fmt.Sprintf("%s%04x-%s-%x-%c", setupRecord, s.TPID, s.Layout, bits, s.OnStale[0])
}

var recordText = regexp.MustCompile(`^csig-setup-([0-9a-f]{4})-(draft-00|uec)-([0-9a-f]{1,2})-([cp])$`)

// parseRecord is the inverse of recordName.
func parseRecord(name string) (s vendors.Setup, ok bool) {
	m := recordText.FindStringSubmatch(name)
	if m == nil {
		return s, false
	}
	var bits uint8
	if _, err := fmt.Sscanf(m[1]+" "+m[3], "%x %x", &s.TPID, &bits); err != nil {
		return s, false
	}
	var err error
	if s.Layout, err = quantize.ParseLayout(m[2]); err != nil {
		return s, false
	}
	s.OnStale = inventory.Conservative
	if m[4] == "p" {
		s.OnStale = inventory.StalePassthrough
	}
	for _, sig := range quantize.Signals {
		if bits>>sig&1 == 1 {
			s.Signals = append(s.Signals, sig)
		}
	}
	return s, recordName(&s) == name
}

// ofPort is the name of a port's record, and portOf its inverse.
func ofPort(kind, port string) string { return kind + strings.ReplaceAll(port, "/", "_") }

func portOf(kind, record string) (string, bool) {
	port, ok := strings.CutPrefix(record, kind)
	port = strings.ReplaceAll(port, "_", "/")
	return port, ok && portName(port) == ""
}

// isRecord reports whether an access list is csig's.
func isRecord(name string) bool {
	_, setup := parseRecord(name)
	return setup || slices.ContainsFunc([]string{updateRecord, passRecord, tpidRecord}, func(kind string) bool {
		_, ok := portOf(kind, name)
		return ok
	})
}

var interfaceName = regexp.MustCompile(`^[A-Za-z][A-Za-z-]{0,24}\d{1,4}(/\d{1,3}){0,2}$`)

// portName is why the platform can have no port of a name, "" where it can.
func portName(name string) string {
	if !interfaceName.MatchString(name) {
		return "want the interface as EOS writes it, e.g. Ethernet1, Ethernet3/1 or Port-Channel10"
	}
	return ""
}
