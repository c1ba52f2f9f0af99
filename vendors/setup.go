package vendors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// setupJSON is a Setup as files and sockets have it.
type setupJSON struct {
	TPID     uint16    `json:"tpid"`
	WideTPID uint16    `json:"wide_tpid"`
	Layout   string    `json:"layout"`
	Signals  []string  `json:"signals"`
	OnStale  string    `json:"on_stale"`
	Profile  string    `json:"profile,omitempty"` // not there in what older versions wrote
	Others   []uint16  `json:"others,omitempty"`
	Wide     []uint16  `json:"wide_others,omitempty"`
	Ports    []portRun `json:"ports"` // in the device's port order
	Damaged  string    `json:"damaged,omitempty"`
	Config   string    `json:"config,omitempty"`
}

// portRun is consecutive ports with one action, whose names differ in a final
// number: Prefix+First … Prefix+Last. A port without such a number has First
// -1 and its whole name as Prefix.
type portRun struct {
	Action  string `json:"action"`
	Others  bool   `json:"strip_others,omitempty"`
	Prefix  string `json:"prefix"`
	First   int    `json:"first"`
	Last    int    `json:"last"`
	Damaged string `json:"damaged,omitempty"`
}

// MarshalJSON writes a setup with consecutive ports as one, so that a device of
// many ports stays legible. A setup without a TPID is nothing of ours.
func (s Setup) MarshalJSON() ([]byte, error) {
	out := setupJSON{Signals: []string{}, Ports: []portRun{}, Damaged: s.Damaged, Config: s.Config}
	if s.TPID == 0 && len(s.Ports) == 0 {
		return json.Marshal(out)
	}
	out.TPID, out.WideTPID, out.Layout, out.OnStale, out.Profile = s.TPID, s.WideTPID, s.Layout.String(), string(s.OnStale), s.Profile
	for _, t := range s.Others {
		if t.Wide {
			out.Wide = append(out.Wide, t.TPID)
		} else {
			out.Others = append(out.Others, t.TPID)
		}
	}
	for _, sig := range s.Signals {
		out.Signals = append(out.Signals, sig.String())
	}
	for _, p := range s.Ports {
		prefix, n := splitNumber(p.Port)
		if i := len(out.Ports) - 1; i >= 0 {
			r := &out.Ports[i]
			if n >= 0 && r.Prefix == prefix && r.First >= 0 && r.Last+1 == n && r.Action == p.Action.String() && r.Others == p.StripOthers && r.Damaged == p.Damaged {
				r.Last = n
				continue
			}
		}
		out.Ports = append(out.Ports, portRun{Action: p.Action.String(), Others: p.StripOthers, Prefix: prefix, First: n, Last: n, Damaged: p.Damaged})
	}
	return json.Marshal(out)
}

// Bounds of one setup that is read: its text comes from daemons and from files.
const (
	MaxPorts  = 1 << 16    // of a device
	maxNumber = 99_999_999 // at the end of a port's name, as splitNumber has it
	maxName   = 255        // of a port, in bytes
)

// UnmarshalJSON is the inverse of MarshalJSON. The error says what no setup can
// hold.
func (s *Setup) UnmarshalJSON(text []byte) error {
	var in setupJSON
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return err
	}
	out, err := in.setup()
	*s = out
	return err
}

func (s setupJSON) setup() (Setup, error) {
	out := Setup{TPID: s.TPID, WideTPID: s.WideTPID, OnStale: inventory.OnStale(s.OnStale), Profile: s.Profile, Damaged: s.Damaged, Config: s.Config}
	if s.Profile != "" && !IsProfileHash(s.Profile) {
		return out, fmt.Errorf("profile %q is not a hash of one: want 64 hexadecimal digits", s.Profile)
	}
	if s.Config != "" && !IsProfileHash(s.Config) {
		return out, errors.New("config is not the hash of a configuration: want 64 hexadecimal digits")
	}
	for _, t := range s.Others {
		out.Others = append(out.Others, OtherTPID{TPID: t})
	}
	for _, t := range s.Wide {
		out.Others = append(out.Others, OtherTPID{TPID: t, Wide: true})
	}
	slices.SortFunc(out.Others, CompareTPIDs)
	if s.Layout != "" {
		layout, err := quantize.ParseLayout(s.Layout)
		if err != nil {
			return out, err
		}
		out.Layout = layout
	}
	for _, name := range s.Signals {
		sig, err := quantize.ParseSignal(name)
		if err != nil {
			return out, err
		}
		out.Signals = append(out.Signals, sig)
	}
	for _, r := range s.Ports {
		action, ok := actions[r.Action]
		if !ok {
			return out, fmt.Errorf("unknown action %q", untrusted.Text(r.Action, 40))
		}
		if len(r.Prefix) > maxName {
			return out, fmt.Errorf("port %q: its name has %d bytes, at most %d can be", untrusted.Text(r.Prefix, 40), len(r.Prefix), maxName)
		}
		numbers := 1
		if r.First >= 0 {
			// Each by itself first: a difference may overflow.
			if r.Last < r.First || r.Last > maxNumber {
				return out, fmt.Errorf("ports %s%d to %d: no such range", untrusted.Text(r.Prefix, 40), r.First, r.Last)
			}
			numbers = r.Last - r.First + 1
		}
		if numbers > MaxPorts-len(out.Ports) {
			return out, fmt.Errorf("it has more than %d ports", MaxPorts)
		}
		out.Ports = slices.Grow(out.Ports, numbers)
		for n := range numbers {
			p := PortSetup{Port: r.Prefix, Action: action, StripOthers: r.Others, Damaged: r.Damaged}
			if r.First >= 0 {
				p.Port += strconv.Itoa(r.First + n)
			}
			out.Ports = append(out.Ports, p)
		}
	}
	return out, nil
}

var actions = map[string]vlanrules.Action{
	vlanrules.Passthrough.String(): vlanrules.Passthrough,
	vlanrules.Update.String():      vlanrules.Update,
	vlanrules.Strip.String():       vlanrules.Strip,
}

// IsProfileHash reports whether a text can be a profile's hash.
func IsProfileHash(text string) bool {
	return len(text) == 64 && strings.Trim(text, "0123456789abcdef") == ""
}

// ShortProfile is a profile's hash as people compare it, "none recorded" for "".
func ShortProfile(hash string) string {
	if hash == "" {
		return "none recorded"
	}
	return hash[:min(12, len(hash))] + "…"
}

// TPIDNames is a short text for a list of TPIDs: "0x88a8, 0x9901 (wide)".
func TPIDNames(list []OtherTPID) string {
	var out []string
	for _, t := range list {
		text := fmt.Sprintf("0x%04x", t.TPID)
		if t.Wide {
			text += " (wide)"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// splitNumber divides a port's name before its final number; -1 where it has
// none that strconv.Itoa would write the same way.
func splitNumber(name string) (prefix string, n int) {
	i := len(name)
	for i > 0 && name[i-1] >= '0' && name[i-1] <= '9' {
		i--
	}
	for i < len(name)-1 && name[i] == '0' {
		i++ // a leading zero belongs to the prefix: swp01 is not swp1
	}
	digits := name[i:]
	if digits == "" || len(digits) > 8 {
		return name, -1
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return name, -1
	}
	return name[:i], n
}

// Names is a short text for a list of names: "swp1 … swp4, swp7".
func Names(names []string) string {
	text := ""
	for i := 0; i < len(names); {
		prefix, n := splitNumber(names[i])
		j := i + 1
		for j < len(names) && n >= 0 {
			p, m := splitNumber(names[j])
			if p != prefix || m != n+j-i {
				break
			}
			j++
		}
		if text != "" {
			text += ", "
		}
		text += names[i]
		switch {
		case j-i == 2:
			text += ", " + names[j-1]
		case j-i > 2:
			text += " … " + names[j-1]
		}
		i = j
	}
	return text
}
