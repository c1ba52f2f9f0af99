package plans

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// Bounds of a plan's text, and of each line of a journal. The plan of 10,000
// switches of 64 ports has 16 MB, some 300,000 elements and 1,300,000 ports.
const (
	MaxText     = 128 << 20 // bytes
	MaxElements = 2 << 20   // of all its arrays together
	MaxPorts    = 8 << 20   // of all its setups together; before as many as the journal has
)

// CheckSize refuses a valid JSON text, of a plan or of a record, that would take
// far more memory than bytes: a port range of a few bytes stands for 65,536 ports.
// Ports counts those that are in memory already.
func CheckSize(text []byte, ports int64) error {
	if n := elements(text); n > MaxElements {
		return fmt.Errorf("it lists %d things, at most %d can be", n, MaxElements)
	}
	var size struct {
		planSize          // of a plan
		Plan     planSize // and of a record
		Setup    portCount
	}
	if err := json.Unmarshal(text, &size); err != nil {
		return err
	}
	if ports += size.ports() + size.Plan.ports() + int64(size.Setup); ports > MaxPorts {
		return fmt.Errorf("its setups have %d ports together, at most %d can be", ports, MaxPorts)
	}
	return nil
}

// elements counts the elements of all arrays of a valid JSON text.
func elements(text []byte) int {
	n := 0
	var open []byte // brackets
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			if open = append(open, c); c == '[' {
				n++
			}
		case ']', '}':
			open = open[:max(0, len(open)-1)]
		case ',':
			if len(open) > 0 && open[len(open)-1] == '[' {
				n++
			}
		}
	}
	return n
}

// planSize is what takes memory in a plan.
type planSize struct {
	Devices []struct{ Observed portCount }
	Stages  []struct {
		Waves []struct {
			Steps []struct{ Want portCount }
		}
	}
}

func (p *planSize) ports() int64 {
	n := int64(0)
	for _, d := range p.Devices {
		n += int64(d.Observed)
	}
	for _, s := range p.Stages {
		for _, w := range s.Waves {
			for _, step := range w.Steps {
				n += int64(step.Want)
			}
		}
	}
	return n
}

// portCount is how many ports a setup has, in JSON.
type portCount int64

// UnmarshalJSON counts without making any port.
func (n *portCount) UnmarshalJSON(text []byte) error {
	var s struct {
		Ports []struct{ First, Last int64 }
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	*n = 0
	for _, p := range s.Ports {
		// A range that no setup can have is refused when it is read.
		if *n++; p.First >= 0 && p.Last > p.First {
			*n += portCount(min(uint64(p.Last-p.First), vendors.MaxPorts))
		}
	}
	return nil
}

// OtherFormat is the error of a file of another version, or of another kind.
func OtherFormat(kind, want, format, version string) error {
	family, _, _ := strings.Cut(want, "/")
	if !strings.HasPrefix(format, family+"/") {
		return fmt.Errorf("not a %s: its format is %q, want %q", kind, untrusted.Text(format, 60), want)
	}
	return fmt.Errorf("it is a %s of format %s, which csig %s wrote; this csig reads %s alone: use that csig for it", kind, untrusted.Text(format, 60), VersionName(version), want)
}

// VersionName is a version of csig for an error: cleaned, and not empty.
func VersionName(version string) string {
	return cmp.Or(untrusted.Text(version, 60), "of an unknown version")
}
