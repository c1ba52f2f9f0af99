package vendors

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// Traits is how a platform treats tags, apart from what a single device is
// asked (Facts): statements with their sources. What a driver does not know it
// leaves out; the zero value states nothing.
type Traits struct {
	// What carries compare-and-replace, or would.
	Access   Fact[string]   `json:"access"`    // what csig programs it through, or would
	MatchVID Fact[Match]    `json:"match_vid"` // of the tag's VID, where S and LM are
	MatchPCP Fact[Match]    `json:"match_pcp"` // of its PCP, where T is
	MatchDEI Fact[Match]    `json:"match_dei"` // of its DEI, where R is
	Key      Fact[KeySpace] `json:"key"`
	Stage    Fact[Stage]    `json:"stage"`
	Sets     Fact[Fields]   `json:"sets"`      // fields of the tag that an action can set
	Loses    Fact[Fields]   `json:"loses"`     // fields that a rewrite, or forwarding itself, does not preserve
	Position Fact[Position] `json:"position"`  // of the tag that rules see
	VLANs    Fact[int]      `json:"vlan_tags"` // how many VLAN tags may stand in front of the CSIG tag
	VIDs     Fact[VIDs]     `json:"vids"`
	Table    Fact[Table]    `json:"table"`
	Txn      Fact[Txn]      `json:"transaction"`
	Revert   Fact[string]   `json:"auto_revert"` // how a change that loses contact takes itself back; "" it does not
	Survives Fact[bool]     `json:"survives_reboot"`

	// MinUpdate is the shortest change of the signal that was measured, in
	// nanoseconds; 0: none was.
	MinUpdate Fact[time.Duration] `json:"min_update_ns"`

	// TPIDs.
	TPIDs      Fact[TPIDs]    `json:"tpids"`       // that can be made CSIG's
	TPIDChange Fact[string]   `json:"tpid_change"` // why ordinary traffic notices a change of TPID; "" it does not
	VLANTPIDs  Fact[TPIDList] `json:"vlan_tpids"`  // that it takes for a VLAN tag's without being told to

	// What becomes of frames whose TPID it takes for a VLAN tag's, by setting
	// or without. Of others it sees MAC addresses and an unknown ethertype.
	Independent Fact[bool]   `json:"bridging_vlan_independent"` // the VLAN they are bridged in does not follow the tag's VID
	Learning    Fact[bool]   `json:"learning_unaffected"`       // nor does MAC learning
	Parses      Fact[bool]   `json:"parses_past_the_tag"`       // it finds the IP header behind it
	Hash        Fact[Fields] `json:"hash"`                      // fields that ECMP and LAG choose by
	DropDEI     Fact[bool]   `json:"dei_is_drop_precedence"`
	TrustPCP    Fact[bool]   `json:"pcp_chooses_queue"` // or is remarked, unless that is switched off

	// Routed is whether a tagged frame that is routed, not bridged, leaves with
	// its tag.
	Routed Fact[bool] `json:"tag_survives_routing"`

	Strip  Fact[StripMeans] `json:"strip"`
	Native Fact[string]     `json:"native"` // what of CSIG the data plane does itself; "" nothing

	// How the verdicts of Facts are known.
	UpdateSource      Source `json:"update_source"`
	WideSource        Source `json:"wide_source"`
	LeaseSource       Source `json:"lease_source"`
	PassthroughSource Source `json:"passthrough_source"`
}

// Mark is how a statement is known.
type Mark string

// The marks, the best first.
const (
	Ran     Mark = "ran"     // tried with csig
	Read    Mark = "read"    // the platform's own text or source says so
	Assumed Mark = "assumed" // inferred: no text that says it was found
	Unknown Mark = ""        // nothing is stated
)

// Source is how a statement is known: its mark, and what was run, the document
// and its section or the repository and its path, or why it is assumed.
type Source struct {
	Mark Mark   `json:"mark"`
	From string `json:"from"`
}

// Fact is one statement with its source.
type Fact[T any] struct {
	Is T `json:"value"`
	Source
}

// Known reports whether anything is stated.
func (s Source) Known() bool { return s.Mark != Unknown }

// Sure reports whether it was tried or read, and not inferred.
func (s Source) Sure() bool { return s.Mark == Ran || s.Mark == Read }

// That makes statements about a platform that share a source:
//
//	ran := vendors.Source{Mark: vendors.Ran, From: docs.Linux}
//	t.VLANs = vendors.That(4, ran)
func That[T any](value T, s Source) Fact[T] { return Fact[T]{value, s} }

// Match is the strongest condition on a field of the tag.
type Match string

// The kinds of match.
const (
	MatchNone    Match = "none"
	MatchExact   Match = "exact"
	MatchRange   Match = "range"
	MatchTernary Match = "ternary"
	MatchAny     Match = "any" // range and ternary
)

// KeySpace is what rules take for the tag's VID.
type KeySpace string

// The key spaces. Only the wire's VID makes true compare-and-replace.
const (
	KeyWire         KeySpace = "wire VID"
	KeyBridging     KeySpace = "bridging VLAN"
	KeySubinterface KeySpace = "subinterface"
	KeyNone         KeySpace = "none" // nothing is keyed by a VID
)

// Stage is where in the pipeline rules stand.
type Stage string

// The stages.
const (
	StageIngress      Stage = "ingress"
	StageEgress       Stage = "egress"
	StageBeforeOutput Stage = "before output" // the egress port is chosen, and rules can see which
	StageNone         Stage = "none"
)

// Field is a part of a frame.
type Field string

// Fields are a list of them, in the order they are read.
type Fields []Field

// The fields.
const (
	FieldPCP Field = "PCP"
	FieldDEI Field = "DEI"
	FieldVID Field = "VID"
	FieldMAC Field = "MAC"
	FieldIP  Field = "IP"
	FieldL4  Field = "L4"
)

// Has reports whether the list has a field.
func (f Fields) Has(x Field) bool { return slices.Contains(f, x) }

// Position is which tag of a frame rules see.
type Position string

// The positions.
const (
	PositionOuter Position = "outer"
	PositionAny   Position = "any" // any of those that it parses
)

// VIDs is which VIDs the platform takes.
type VIDs struct {
	First    uint16    `json:"first"`
	Last     uint16    `json:"last"`
	Reserved VIDRanges `json:"reserved"`
}

// VIDRanges are ranges of VIDs.
type VIDRanges []VIDRange

// VIDRange is the VIDs First to Last.
type VIDRange struct {
	First uint16 `json:"first"`
	Last  uint16 `json:"last"`
}

// Table is how much room rules have.
type Table struct {
	Entries int    `json:"entries"` // 0: no limit, or the device says
	Sharers string `json:"sharers"` // who shares them, "" for none
}

// Txn is the largest change that the platform takes as a whole.
type Txn string

// The transactions.
const (
	TxnNone      Txn = "none"
	TxnEntry     Txn = "entry"
	TxnBatch     Txn = "batch" // of entries, all or nothing
	TxnTable     Txn = "table"
	TxnCandidate Txn = "candidate" // a configuration that is committed
)

// TPIDs is which TPIDs can be set.
type TPIDs struct {
	Any    bool     `json:"any"`
	List   TPIDList `json:"list"`    // where not any
	AtMost int      `json:"at_most"` // at a time, for each of Scope; 0: as many as it takes
	Scope  Scope    `json:"scope"`
	AsVLAN bool     `json:"as_vlan"` // setting one makes it a VLAN tag's
}

// Takes reports whether a TPID can be set.
func (t TPIDs) Takes(tpid uint16) bool { return t.Any || slices.Contains(t.List, tpid) }

// TPIDList is a list of TPIDs.
type TPIDList []uint16

// MarshalJSON writes [] where there is none.
func (l TPIDList) MarshalJSON() ([]byte, error) { return list(l) }

// MarshalJSON writes [] where there is none.
func (f Fields) MarshalJSON() ([]byte, error) { return list(f) }

// MarshalJSON writes [] where there is none.
func (r VIDRanges) MarshalJSON() ([]byte, error) { return list(r) }

func list[T any](l []T) ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(l)
}

// Scope is what a TPID is set for.
type Scope string

// The scopes.
const (
	ScopePort   Scope = "port"
	ScopeChip   Scope = "chip"
	ScopeGlobal Scope = "global"
)

// StripMeans is how the platform removes the tag.
type StripMeans string

// The means.
const (
	StripNone StripMeans = "none"
	StripPop  StripMeans = "pop"       // a rule takes the tag away
	StripFlag StripMeans = "port flag" // a port's setting does
)

// ForVLAN reports whether the platform takes this TPID for a VLAN tag's without
// being told to.
func (t *Traits) ForVLAN(tpid uint16) bool { return slices.Contains(t.VLANTPIDs.Is, tpid) }

// Measures tells whether updates have a signal: those that byte counters show, or what a
// native data plane measures of single frames.
func (f *Facts) Measures(sig quantize.Signal) bool {
	return sig.Counted() || slices.Contains(f.Frames, sig)
}

// Updates is Update in a domain of this TPID: refused where the platform cannot
// be given it.
func (f *Facts) Updates(tpid uint16) vlanrules.Verdict {
	if t := &f.Traits.TPIDs; f.Update.Level != vlanrules.Refused && t.Known() && !t.Is.Takes(tpid) {
		var list []string
		for _, one := range t.Is.List {
			list = append(list, fmt.Sprintf("0x%04x", one))
		}
		return vlanrules.Verdict{Level: vlanrules.Refused, Reason: fmt.Sprintf("it takes the TPIDs %s, and the domain's is 0x%04x", strings.Join(list, ", "), tpid)}
	}
	return f.Update
}

// Forwards is what a device does with tagged frames it is told nothing about:
// Through, but refused where the VID of the domain's tags would choose the VLAN
// that frames are bridged in. Degraded is a condition that csig cannot see.
func (f *Facts) Forwards(tpid uint16) vlanrules.Verdict {
	t := &f.Traits
	switch {
	case f.Passthrough.Level == vlanrules.Refused || !t.ForVLAN(tpid):
	case t.Independent.Known() && !t.Independent.Is:
		return vlanrules.Verdict{Level: vlanrules.Refused, Reason: fmt.Sprintf("0x%04x", tpid) + " is a VLAN tag's TPID to it, so that the tag's VID, which is the signal, chooses the VLAN that frames are bridged in"}
	case t.Learning.Known() && !t.Learning.Is:
		return vlanrules.Verdict{Level: vlanrules.Refused, Reason: fmt.Sprintf("0x%04x", tpid) + " is a VLAN tag's TPID to it, and it learns MAC addresses by the tag's VID, which is the signal"}
	}
	return f.Passthrough
}
