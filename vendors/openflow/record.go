package openflow

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

// The setup is recorded in the lower halves of the cookies of flows that no frame
// meets: OpenFlow 1.3 has no other place for it. The ports' part of it is in their
// own flows.
//
//	word 0   TPID, and the TPID of wide tags
//	word 1   version, layout, on_stale, signals, how many others
//	word 2…  the profile's hash, eight words, where there is one
//	then     other TPIDs, a word each
const (
	recordVersion = 1

	hasProfile   = 1 << 7 // of the layout's byte
	profileWords = 8
	wideBit      = 1 << 16 // of another TPID's word
	maxOthers    = 64
)

var onStale = []inventory.OnStale{inventory.Conservative, inventory.StaleStrip, inventory.StalePassthrough}

// words are what is recorded of a setup.
func words(s *vendors.Setup) []uint32 {
	var signals, stale uint32
	for _, sig := range s.Signals {
		signals |= 1 << sig
	}
	for i, o := range onStale {
		if s.OnStale == o {
			stale = uint32(i)
		}
	}
	profile, err := hex.DecodeString(s.Profile)
	layout := uint32(s.Layout)
	if err == nil && len(profile) == 4*profileWords {
		layout |= hasProfile
	}
	out := []uint32{uint32(s.TPID)<<16 | uint32(s.WideTPID), recordVersion<<28 | stale<<24 | layout<<16 | signals<<8 | uint32(len(s.Others))}
	if layout&hasProfile != 0 {
		for i := range profileWords {
			out = append(out, uint32(profile[4*i])<<24|uint32(profile[4*i+1])<<16|uint32(profile[4*i+2])<<8|uint32(profile[4*i+3]))
		}
	}
	for _, o := range s.Others {
		w := uint32(o.TPID)
		if o.Wide {
			w |= wideBit
		}
		out = append(out, w)
	}
	return out
}

// readWords is the inverse of words.
func readWords(w []uint32) (s vendors.Setup, err error) {
	if len(w) < 2 || w[1]>>28 != recordVersion {
		return s, errors.New("it is incomplete, or of another version of csig")
	}
	stale, layout, signals, others := w[1]>>24&0xf, w[1]>>16&0xff, w[1]>>8&0xff, int(w[1]&0xff)
	s.TPID, s.WideTPID = uint16(w[0]>>16), uint16(w[0])
	s.Layout = quantize.Layout(layout &^ hasProfile)
	if int(stale) >= len(onStale) || s.Layout != quantize.Draft00 && s.Layout != quantize.UEC || s.TPID == 0 {
		return s, errors.New("it has values that csig does not know")
	}
	s.OnStale = onStale[stale]
	for _, sig := range quantize.Signals {
		if signals>>sig&1 == 1 {
			s.Signals = append(s.Signals, sig)
			signals &^= 1 << sig
		}
	}
	w = w[2:]
	if layout&hasProfile != 0 && len(w) >= profileWords {
		for _, x := range w[:profileWords] {
			s.Profile += fmt.Sprintf("%08x", x)
		}
		w = w[profileWords:]
	}
	if layout&hasProfile != 0 && s.Profile == "" || signals != 0 || len(w) != others {
		return s, errors.New("it is incomplete")
	}
	for _, x := range w {
		s.Others = append(s.Others, vendors.OtherTPID{TPID: uint16(x), Wide: x&wideBit != 0})
	}
	return s, nil
}

// nowhere is the match of the flows that no frame meets.
func nowhere() ofp.Match {
	return ofp.Match{Metadata: ofp.Masked64{Value: portMask, Mask: portMask}}
}

// record are the flows that record the setup.
func (p *pipeline) record() (flows []ofp.Flow) {
	for i, w := range words(p.setup) {
		f := p.flow(tableSelect, priorityRecord+uint16(i), nowhere(), nil)
		f.Cookie |= uint64(w)
		flows = append(flows, f)
	}
	return flows
}

// isRecord reports whether a flow of csig's first table is one of record.
func isRecord(f *ofp.Flow) bool { return f.Match == nowhere() && f.Priority >= priorityRecord }

// readRecord reads what flows, in any order, have recorded; found is false where none is.
func readRecord(flows []*ofp.Flow) (s vendors.Setup, found bool, err error) {
	if len(flows) == 0 {
		return s, false, nil
	}
	w := make([]uint32, len(flows))
	seen := make([]bool, len(flows))
	for _, f := range flows {
		i := int(f.Priority) - priorityRecord
		if i >= len(w) || seen[i] {
			return s, false, errors.New("it is incomplete")
		}
		w[i], seen[i] = uint32(f.Cookie), true
	}
	s, err = readWords(w)
	return s, err == nil, err
}
