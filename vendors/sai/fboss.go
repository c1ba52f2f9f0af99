package sai

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// The attributes of FBOSS on Cisco's Silicon One (facebook/fboss,
// fboss/agent/test/utils/CsigTestUtils.cpp): they are the vendor's own, in no public header.
const (
	fbossTPIDs   = "SAI_SWITCH_ATTR_CSIG_TPID"
	fbossABW     = "SAI_SWITCH_ATTR_CSIG_ABW_HISTOGRAM_SPEC"  // Mbit/s
	fbossABWC    = "SAI_SWITCH_ATTR_CSIG_ABWC_HISTOGRAM_SPEC" // percent
	fbossAction  = "SAI_PORT_ATTR_CSIG_TAG_ACTION"
	fbossLocator = "SAI_PORT_ATTR_CSIG_LINK_LOCATOR"

	fbossUpdates = "SAI_PORT_CSIG_TAG_ACTION_UPDATE"
	fbossPasses  = "SAI_PORT_CSIG_TAG_ACTION_PASSTHROUGH"
	fbossStrips  = "SAI_PORT_CSIG_TAG_ACTION_STRIP"
)

// A signal has 7 thresholds; S on the wire is the bucket with the highest bit set.
const (
	fbossThresholds = 7
	fbossFirst      = 16
)

// setting is an attribute that is set.
type setting struct {
	key   string // "switch ATTRIBUTE" or "port NAME ATTRIBUTE"
	value string
}

func ofPort(port, attr string) string { return "port " + port + " " + attr }

// thresholds are what FBOSS has of a table: the low ends of buckets 17 to 23.
func thresholds(sig quantize.Signal, b *quantize.Buckets) (U32s, error) {
	u, most := uint64(1_000_000), uint64(math.MaxUint32)
	if sig == quantize.MinABWC {
		u, most = 10_000, 100
	}
	bounds, out := b.Bounds(), make(U32s, fbossThresholds)
	for i := range out {
		low := bounds[fbossFirst+1+i]
		if low%u != 0 || low/u > most {
			return nil, lacks("thresholds of "+sig.String(), "FBOSS has them in %s, and bucket %d begins at %s", quantize.FormatValue(sig, u), fbossFirst+1+i, quantize.FormatValue(sig, low))
		}
		out[i] = uint32(low / u)
	}
	return out, nil
}

// fbossSwitch makes what all ports share, in order.
func fbossSwitch(p *quantize.Profile) (out []setting, degraded vlanrules.Verdict, err error) {
	var errs []error
	degraded = also(degraded, ownInterval)
	if p.Layout != quantize.Draft00 {
		errs = append(errs, lacks("layout "+p.Layout.String(), "FBOSS has the layout of draft-00"))
	}
	if p.WideTPID != 0 {
		errs = append(errs, lacks("wide", "FBOSS has compact tags alone"))
	}
	for _, sig := range (&Input{Profile: p}).signals() {
		attr := map[quantize.Signal]string{quantize.MinABW: fbossABW, quantize.MinABWC: fbossABWC}[sig]
		if attr == "" {
			errs = append(errs, lacks("signal "+sig.String(), "FBOSS has abw and abwc"))
			continue
		}
		sp := p.Signals[sig]
		list, err := thresholds(sig, &sp.Buckets)
		errs = append(errs, err)
		bounds := sp.Buckets.Bounds()
		at := func(s int) string { return quantize.FormatValue(sig, bounds[s]) }
		degraded = also(degraded, fmt.Sprintf("of %s it has 8 buckets, S from 16 to 23: below %s it advertises 16, which the profile reads as %s or more, and from %s up 23",
			sig, at(fbossFirst+1), at(fbossFirst), at(fbossFirst+fbossThresholds)))
		out = append(out, setting{"switch " + attr, list.String()})
	}
	out = append(out, setting{"switch " + fbossTPIDs, U16s{p.TPID}.String()})
	if err := errors.Join(errs...); err != nil {
		return nil, degraded, &vendors.PermanentError{Err: err}
	}
	return out, degraded, nil
}

// fbossPorts is what ports have: the action, and the locator of one that updates.
func fbossPorts(device *inventory.Device, want *vendors.Setup) (out []setting, err error) {
	for _, p := range portsOf(device, want) {
		action := fbossPasses
		switch p.Action {
		case vlanrules.Strip:
			action = fbossStrips
		case vlanrules.Update:
			action = fbossUpdates
			locator, err := p.locator(want.Signals)
			if err == nil && locator > 127 {
				err = &CapabilityError{"locator", p.Name, fmt.Sprintf("%d does not fit seven bits", locator)}
			}
			if err != nil {
				return nil, &vendors.PermanentError{Err: err}
			}
			out = append(out, setting{ofPort(p.Name, fbossLocator), fmt.Sprint(locator)})
		}
		out = append(out, setting{ofPort(p.Name, fbossAction), action})
	}
	return out, nil
}

// fbossCalls are the settings that lead from what is set to what is to be, in an order in
// which a port strips first, and updates with all it needs. A port that is in neither list
// has what it had. A port that updates and is told to update again keeps what it has of the
// old attributes: it passes tags through while they change.
func fbossCalls(have map[string]string, shared, ports []setting) []setting {
	var first, last []setting
	differs := func(s setting) bool { return have[s.key] != s.value }
	shared = slices.DeleteFunc(slices.Clone(shared), func(s setting) bool { return !differs(s) })
	wanted := map[string]bool{}
	moved := "" // the port whose locator is another one
	for _, s := range ports {
		wanted[s.key] = true
		place, isAction := strings.CutSuffix(s.key, fbossAction)
		switch {
		case !isAction:
			if differs(s) {
				moved = strings.TrimSuffix(s.key, fbossLocator)
				last = append(last, s)
			}
		case s.value != fbossUpdates:
			if differs(s) {
				first = append(first, s)
			}
		case differs(s):
			last = append(last, s)
		case len(shared) > 0 || moved == place:
			first = append(first, setting{s.key, fbossPasses})
			last = append(last, s)
		}
	}
	gone := make([]string, 0, len(have))
	for key := range have {
		gone = append(gone, key)
	}
	slices.Sort(gone)
	var end []setting
	for _, key := range gone {
		if strings.HasSuffix(key, " "+fbossAction) && !wanted[key] && have[key] != fbossPasses {
			end = append(end, setting{key, fbossPasses})
		}
	}
	return slices.Concat(first, shared, last, end)
}
