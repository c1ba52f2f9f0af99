package api

import (
	"fmt"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Facts is what a device can really do, as vendors.Facts.
type Facts struct {
	Format   string    `json:"format"`
	Platform string    `json:"platform"`
	Rules    Rules     `json:"rules"`
	Update   Ability   `json:"update"`
	Wide     Ability   `json:"wide"`
	Strip    Ability   `json:"strip"`
	Others   int       `json:"strip_others"` // how many TPIDs strip removes besides the domain's own
	Lease    Ability   `json:"lease"`
	Through  Ability   `json:"through"`
	Depths   []Ability `json:"depths"` // of tags behind 0, 1, 2 … VLAN tags
	Ports    []string  `json:"ports"`  // names of the ports it has; empty: not read
	Notes    []string  `json:"notes"`
	Off      []string  `json:"off"`         // what csig off does not restore
	Slack    int       `json:"slack_bytes"` // beyond a port's MTU
	Hinders  []Hinder  `json:"hinders"`

	Traits vendors.Traits `json:"traits"`
}

// Ability is a level, "full", "degraded" or "refused", and why it is not full.
type Ability struct {
	Level  string `json:"level"`
	Reason string `json:"reason"`
}

// Hinder is an issue of a port that affects tags.
type Hinder struct {
	Port string `json:"port"`
	Ability
}

// Rules is what the table of rules can express, as vlanrules.Caps.
type Rules struct {
	Match         string     `json:"match"`
	MatchPCP      bool       `json:"match_pcp"`
	MatchD        bool       `json:"match_d"`
	Txn           string     `json:"transaction"`
	Modify        bool       `json:"modify"`
	ModifyMatch   bool       `json:"modify_match"`
	ModifyEntry   bool       `json:"modify_entry"`
	Values        bool       `json:"values"`
	Entries       int        `json:"entries"`
	Taken         int        `json:"entries_taken"`
	Shared        bool       `json:"shared"`
	Ports         int        `json:"ports"`
	Positions     int        `json:"positions"`
	VIDMin        uint16     `json:"vid_min"`
	VIDMax        uint16     `json:"vid_max"`
	Reserved      []VIDRange `json:"reserved"`
	MatchReserved bool       `json:"match_reserved"`
}

// VIDRange is the VIDs First to Last.
type VIDRange struct {
	First uint16 `json:"first"`
	Last  uint16 `json:"last"`
}

// FactsOf is the form of facts that travels.
func FactsOf(f *vendors.Facts) Facts {
	c := &f.Rules
	out := Facts{
		Format: FactsFormat, Platform: f.Platform, Update: abilityOf(f.Update), Wide: abilityOf(f.Wide), Strip: abilityOf(f.Strip),
		Lease: abilityOf(f.Lease), Through: abilityOf(f.Through), Depths: []Ability{}, Ports: append([]string{}, f.Ports...), Notes: append([]string{}, f.Notes...), Off: append([]string{}, f.Off...), Slack: f.Slack, Others: f.Others, Traits: f.Traits,
		Rules: Rules{
			Match: c.Match.String(), MatchPCP: c.MatchPCP, MatchD: c.MatchD, Txn: c.Txn.String(), Modify: c.Modify, ModifyMatch: c.ModifyMatch,
			ModifyEntry: c.ModifyEntry, Values: c.Values, Entries: c.Entries, Taken: c.Taken, Shared: c.Shared, Ports: c.Ports,
			Positions: c.Positions, VIDMin: c.VIDMin, VIDMax: c.VIDMax, Reserved: []VIDRange{}, MatchReserved: c.MatchReserved,
		},
	}
	out.Hinders = []Hinder{}
	for _, h := range f.Hinders {
		out.Hinders = append(out.Hinders, Hinder{h.Port, abilityOf(h.Verdict)})
	}
	for _, v := range f.Depths {
		out.Depths = append(out.Depths, abilityOf(v))
	}
	for _, r := range c.Reserved {
		out.Rules.Reserved = append(out.Rules.Reserved, VIDRange(r))
	}
	return out
}

// Facts is the inverse of FactsOf. The error names a word that this csig does
// not know.
func (f *Facts) Facts() (vendors.Facts, error) {
	r := &f.Rules
	out := vendors.Facts{
		Platform: f.Platform, Ports: f.Ports, Notes: f.Notes, Off: f.Off, Slack: f.Slack, Others: f.Others, Traits: f.Traits,
		Rules: vlanrules.Caps{
			MatchPCP: r.MatchPCP, MatchD: r.MatchD, Modify: r.Modify, ModifyMatch: r.ModifyMatch, ModifyEntry: r.ModifyEntry,
			Values: r.Values, Entries: r.Entries, Taken: r.Taken, Shared: r.Shared, Ports: r.Ports, Positions: r.Positions,
			VIDMin: r.VIDMin, VIDMax: r.VIDMax, MatchReserved: r.MatchReserved,
		},
	}
	for _, v := range r.Reserved {
		out.Rules.Reserved = append(out.Rules.Reserved, vlanrules.VIDRange(v))
	}
	var err error
	if out.Rules.Match, err = word(r.Match, vlanrules.MatchRange, vlanrules.MatchTernary, vlanrules.MatchTernaryUnordered, vlanrules.MatchExact); err != nil {
		return out, err
	}
	if out.Rules.Txn, err = word(r.Txn, vlanrules.TxnTable, vlanrules.TxnBatch, vlanrules.TxnEntry); err != nil {
		return out, err
	}
	for _, a := range []struct {
		from Ability
		to   *vlanrules.Verdict
	}{{f.Update, &out.Update}, {f.Wide, &out.Wide}, {f.Strip, &out.Strip}, {f.Lease, &out.Lease}, {f.Through, &out.Through}} {
		if *a.to, err = a.from.verdict(); err != nil {
			return out, err
		}
	}
	for _, h := range f.Hinders {
		v, err := h.verdict()
		if err != nil {
			return out, err
		}
		out.Hinders = append(out.Hinders, vendors.PortVerdict{Port: h.Port, Verdict: v})
	}
	for _, a := range f.Depths {
		v, err := a.verdict()
		if err != nil {
			return out, err
		}
		out.Depths = append(out.Depths, v)
	}
	return out, nil
}

func abilityOf(v vlanrules.Verdict) Ability { return Ability{v.Level.String(), v.Reason} }

func (a Ability) verdict() (vlanrules.Verdict, error) {
	level, err := word(a.Level, vlanrules.Full, vlanrules.Degraded, vlanrules.Refused)
	return vlanrules.Verdict{Level: level, Reason: a.Reason}, err
}

// word finds the value that is written so.
func word[T fmt.Stringer](text string, values ...T) (T, error) {
	for _, v := range values {
		if v.String() == text {
			return v, nil
		}
	}
	var none T
	return none, fmt.Errorf("%q is a word this csig does not know: use the csig that goes with the daemon", text)
}
