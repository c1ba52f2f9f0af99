package openflow

import (
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/vendors"
)

// What a platform's own texts state is in its facts, and nothing of it in those of
// another: notes of one switch would send an operator of the next astray.
func TestPlatformsHaveFactsOfTheirOwn(t *testing.T) {
	any := Offline("openflow")
	seen := map[string]string{}
	for _, name := range []string{"picos", "onyx", "comware-openflow"} {
		f := Offline(name)
		if f.Platform != name || f.Traits.MatchVID.Mark != vendors.Read || f.Traits.MatchVID.Source == any.Traits.MatchVID.Source {
			t.Errorf("%s: %q matches the VID as %v", name, f.Platform, f.Traits.MatchVID.Source)
		}
		if f.Traits.MatchVID.Is != any.Traits.MatchVID.Is || f.Update != any.Update {
			t.Errorf("%s: its sources change what it can do: %v, %v", name, f.Traits.MatchVID.Is, f.Update)
		}
		own := 0
		for _, note := range f.Notes {
			if slices.Contains(any.Notes, note) {
				continue
			}
			if own++; seen[note] != "" {
				t.Errorf("%s has a note of %s: %s", name, seen[note], note)
			}
			seen[note] = name
		}
		if own == 0 {
			t.Errorf("%s has no note of its own", name)
		}
	}
}

// Onyx drops tags whose VID is no VLAN: its facts say which, and what senders can do.
func TestOnyxVIDs(t *testing.T) {
	f := Offline("onyx")
	if f.Traits.VIDs.Is.Last != 4094 || !slices.ContainsFunc(f.Notes, func(note string) bool {
		return strings.Contains(note, "VLAN 4095") && strings.Contains(note, "initial_s: 30")
	}) {
		t.Errorf("%+v, %q", f.Traits.VIDs, f.Notes)
	}
}
