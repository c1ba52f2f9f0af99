package ebpf

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Platform is what fleet files know of it; it has no keys of its own.
var Platform = inventory.Platform{Name: "linux-ebpf", Native: true}

// maxLease bounds what a deadline is set to.
const maxLease = 24 * time.Hour

// maxName is the longest name of a network device, in bytes (IFNAMSIZ, less the zero).
const maxName = 15

// Offline is what the platform promises without a device at hand.
func Offline() vendors.Facts {
	return vendors.Facts{
		Platform:    Platform.Name,
		Native:      true,
		Rules:       vlanrules.Caps{Match: vlanrules.MatchRange, MatchPCP: true, MatchD: true, Txn: vlanrules.TxnTable, ModifyEntry: true},
		Layout:      &vendors.Layout{},
		MTUHeadroom: 4,
		Others:      maxOthers,
		TagDepths:   make([]vlanrules.Verdict, maxVLANs+1),
		Traits:      traits(),
		Notes: []string{
			"the value is of the interval before, measured in the kernel: csig computes it too, from the counters, to compare",
			"the rewrite happens before the queueing discipline: frames that already wait in a queue keep the value they were given, and those that the queue drops are taken back at the next frame",
			"assumed from the platform, not probed: Linux 6.6 or newer with BTF, and the right to load BPF programs",
		},
	}
}

func validate(s *vendors.Setup) error {
	if err := s.Check("", func(p *vendors.PortSetup) error {
		if p.Port == "" || len(p.Port) > maxName || strings.ContainsAny(p.Port, "/ \t\n") {
			return errors.New("that is not the name of a network device")
		}
		return nil
	}); err != nil {
		return err
	}
	if len(s.Others) > maxOthers {
		return &vendors.PermanentError{Err: fmt.Errorf("%d other TPIDs, at most %d can be", len(s.Others), maxOthers)}
	}
	return nil
}

// Diff lists what Apply(want) would change on a device of this platform, given what was
// observed there. It reads nothing, and needs no device.
func Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	if err := validate(&want); err != nil {
		return nil, err
	}
	out := vendors.DiffShared(&have, &want, "BPF program", vendors.DescribeShared)
	if !have.Nothing() {
		out = append(out, vendors.DiffProfile(&have, &want)...)
	}
	return append(out, vendors.DiffPorts(&have, &want,
		func(p *vendors.PortSetup) string {
			text := "CSIG tags leave as they are"
			switch p.Action {
			case vlanrules.Update:
				text = "measures, compares and replaces " + strings.Join(want.SignalNames(), ", ") + " in the kernel"
			case vlanrules.Strip:
				return "removes the tag"
			}
			if p.StripOthers {
				text += "; removes tags of other TPIDs"
			}
			return text
		},
		func(o, p *vendors.PortSetup) string {
			switch {
			case p.StripOthers && !o.StripOthers:
				return "removes tags of other TPIDs"
			case o.StripOthers && !p.StripOthers:
				return "tags of other TPIDs leave as they are"
			}
			return ""
		})...), nil
}
