package linux

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// The objects of our table.
const (
	tableName  = "csig"
	tableMark  = "csig v1" // the table's comment: whose it is, and which format
	markPrefix = "csig "
	setLease   = "lease"
	setProfile = "profile"
	mapStale   = "stale"
	chainStale = "stale"
	portPrefix = "p_"
)

// stripName is the name of our BPF programs, by which we know them again.
const stripName = "csig_strip"

// portKey is the name of a port's chain and map. The kernel takes any bytes in
// interface names and in nftables names, but the nft command reads only
// letters, digits and _ / \ . in the latter, and has keywords. So every name
// starts with p_, a "_" becomes "__", and any other byte "_" and two hex
// digits.
func portKey(port string) string {
	var b strings.Builder
	b.WriteString(portPrefix)
	for i := 0; i < len(port); i++ {
		switch c := port[i]; {
		case c == '_':
			b.WriteString("__")
		case c == '.', '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// othersMark in a port's comment says that it strips other TPIDs.
const othersMark = "+others"

// portComment marks a port's map or set with what it is for.
func portComment(p vendors.PortSetup) string {
	if p.StripOthers {
		return p.Action.String() + othersMark + " " + p.Port
	}
	return p.Action.String() + " " + p.Port
}

// parsePortComment is the inverse of portComment.
func parsePortComment(s string) (vendors.PortSetup, bool) {
	action, port, ok := strings.Cut(s, " ")
	if !ok || port == "" {
		return vendors.PortSetup{}, false
	}
	action, others := strings.CutSuffix(action, othersMark)
	for _, a := range []vlanrules.Action{vlanrules.Passthrough, vlanrules.Update, vlanrules.Strip} {
		if a.String() == action {
			return vendors.PortSetup{Port: port, Action: a, StripOthers: others}, true
		}
	}
	return vendors.PortSetup{}, false
}

// setupComment writes the part of a setup that all ports share, for the
// comment of the lease set.
func setupComment(s *vendors.Setup) string {
	return fmt.Sprintf("tpid=0x%04x wide=0x%04x layout=%s signals=%s stale=%s",
		s.TPID, s.WideTPID, s.Layout, strings.Join(s.SignalNames(), ","), s.OnStale)
}

// parseSetupComment is the inverse of setupComment; ok is false for any text
// that setupComment would not write.
func parseSetupComment(text string) (s vendors.Setup, ok bool) {
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case "tpid":
			s.TPID, err = parseTPID(value)
		case "wide":
			s.WideTPID, err = parseTPID(value)
		case "layout":
			s.Layout, err = quantize.ParseLayout(value)
		case "signals":
			for _, name := range strings.Split(value, ",") {
				sig, e := quantize.ParseSignal(name)
				if e != nil {
					err = e
				}
				s.Signals = append(s.Signals, sig)
			}
		case "stale":
			s.OnStale = inventory.OnStale(value)
		}
		if err != nil {
			return vendors.Setup{}, false
		}
	}
	return s, setupComment(&s) == text
}

// profileComment writes what the set profile says: the profile's hash, and the
// other TPIDs that are stripped; "" where there is neither, and no such set.
func profileComment(s *vendors.Setup) string {
	var words []string
	if s.Profile != "" {
		words = append(words, "hash="+s.Profile)
	}
	var compact, wide []string
	for _, t := range s.Others {
		if t.Wide {
			wide = append(wide, fmt.Sprintf("0x%04x", t.TPID))
		} else {
			compact = append(compact, fmt.Sprintf("0x%04x", t.TPID))
		}
	}
	if compact != nil {
		words = append(words, "others="+strings.Join(compact, ","))
	}
	if wide != nil {
		words = append(words, "wide="+strings.Join(wide, ","))
	}
	return strings.Join(words, " ")
}

// parseProfileComment is the inverse of profileComment: it adds what a text
// says to a setup; ok is false, and the setup as it was, for any text that
// profileComment would not write.
func parseProfileComment(text string, s *vendors.Setup) (ok bool) {
	out := vendors.Setup{}
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "hash":
			out.Profile = value
		case "others", "wide":
			for _, v := range strings.Split(value, ",") {
				t, err := parseTPID(v)
				if err != nil {
					return false
				}
				out.Others = append(out.Others, vendors.OtherTPID{TPID: t, Wide: key == "wide"})
			}
		}
	}
	slices.SortFunc(out.Others, vendors.CompareTPIDs)
	if profileComment(&out) != text || out.Profile != "" && !vendors.IsProfileHash(out.Profile) {
		return false
	}
	s.Profile, s.Others = out.Profile, out.Others
	return true
}

func parseTPID(s string) (uint16, error) {
	v, err := strconv.ParseUint(s, 0, 16)
	return uint16(v), err
}
