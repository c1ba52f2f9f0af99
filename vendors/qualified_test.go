package vendors

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vlanrules"
)

func is[T any](v T) *T { return &v }

// measuredOf is an entry with nothing in it but what a test measures.
func measuredOf(change func(q *inventory.Facts)) *inventory.Facts {
	q := &inventory.Facts{Name: "x", Platform: "p", Model: "M", Version: "V", Date: "2026-11-22", TPIDs: []uint16{0x9900}, Reasons: inventory.FactReasons{}}
	change(q)
	return q
}

// capable is a device that can do everything, as far as its driver knows.
func capable() Facts {
	return Facts{
		Platform: "p", Passthrough: vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "csig cannot see it"}, TagDepths: make([]vlanrules.Verdict, 3),
		Rules: vlanrules.Caps{Entries: 100}, Notes: []string{"a note"},
		Traits: Traits{Independent: That(true, Source{Assumed, "a guess"}), Survives: That(true, Source{Read, "a manual"})},
	}
}

// What was measured takes the place of what is assumed and read, and says where from.
func TestQualified(t *testing.T) {
	const ran = "ran on M V, 2026-11-22"
	verdict := func(v vlanrules.Verdict) string { return v.Level.String() + ": " + v.Reason }
	for _, row := range []struct {
		name    string
		measure func(q *inventory.Facts)
		got     func(f *Facts) string
		want    string
	}{
		{"nothing", func(*inventory.Facts) {}, func(f *Facts) string { return verdict(f.Update) }, "full: " + ran},
		{"update wrong", func(q *inventory.Facts) {
			q.UpdateExact = is(false)
			q.Reasons["update_exact"] = "S=3 became 4"
		}, func(f *Facts) string { return verdict(f.Update) }, "refused: compare-and-replace is not right for every value of the tag: S=3 became 4 (" + ran + ")"},
		{"update right", func(q *inventory.Facts) { q.UpdateExact = is(true) }, func(f *Facts) string { return f.Traits.UpdateSource.String() }, ran},
		{"not hitless", func(q *inventory.Facts) { q.Hitless = is(false) }, func(f *Facts) string { return verdict(f.Update) }, "degraded: while a rule changes, frames may see neither the old nor the new value (" + ran + ")"},
		{"DEI lost", func(q *inventory.Facts) { q.Loses = &[]string{"DEI"} }, func(f *Facts) string { return verdict(f.Update) + f.Traits.Loses.String() }, "degraded: R (DEI) of a tag is lost (" + ran + ")" + ran},
		{"PCP lost", func(q *inventory.Facts) { q.Loses = &[]string{"PCP"} }, func(f *Facts) string { return f.Update.Level.String() + f.Passthrough.Level.String() }, "refusedrefused"},
		{"nothing lost", func(q *inventory.Facts) { q.Loses = &[]string{} }, func(f *Facts) string { return f.Update.Level.String() + f.Traits.Loses.String() }, "full" + ran},
		{"passthrough", func(q *inventory.Facts) { q.Passthrough = is(true) }, func(f *Facts) string { return verdict(f.Passthrough) }, "full: frames with the tag leave as they came (" + ran + ")"},
		{"no passthrough", func(q *inventory.Facts) { q.Passthrough = is(false) }, func(f *Facts) string { return verdict(f.Passthrough) }, "refused: frames with the tag do not leave as they came (" + ran + ")"},
		{"bridging follows", func(q *inventory.Facts) { q.Independent = is(false) }, func(f *Facts) string {
			return f.Update.Level.String() + f.Passthrough.Level.String() + f.Traits.Independent.String()
		}, "refusedrefused" + ran},
		{"bridging does not follow", func(q *inventory.Facts) { q.Independent = is(true) }, func(f *Facts) string { return f.Update.Level.String() + f.Traits.Independent.String() }, "full" + ran},
		{"learning follows", func(q *inventory.Facts) { q.Learning = is(false) }, func(f *Facts) string { return f.Update.Level.String() + f.Passthrough.Level.String() }, "refusedrefused"},
		{"flooding differs", func(q *inventory.Facts) { q.Flooding = is(false) }, func(f *Facts) string { return f.Update.Level.String() + f.Passthrough.Level.String() }, "degradeddegraded"},
		{"bridging VLAN matched", func(q *inventory.Facts) { q.SeesWireVID = is(false) }, func(f *Facts) string { return f.Update.Level.String() + string(f.Traits.Key.Is) }, "refusedbridging VLAN"},
		{"ordinary VLANs change", func(q *inventory.Facts) { q.VLANsUnchanged = is(false) }, func(f *Facts) string { return f.Update.Level.String() }, "refused"},
		{"ordinary VLANs change, and what to look at", func(q *inventory.Facts) { q.VLANsUnchanged = is(false) }, func(f *Facts) string { return f.Update.Reason }, "frames without the tag do not pass as without csig (with rules that see no TPID, frames of ordinary VLANs came to them: what steers frames there, or what the fleet file declares of ordinary VLANs, is at fault) (" + ran + ")"},
		{"fewer entries", func(q *inventory.Facts) { q.Entries = is(10) }, func(f *Facts) string { return string(rune('0' + f.Rules.Entries/10)) }, "1"},
		{"more entries than the driver knows of", func(q *inventory.Facts) { q.Entries = is(1000) }, func(f *Facts) string { return string(rune('0' + f.Rules.Entries/100)) }, "1"},
		{"entries of a table that the driver knows no end of", func(q *inventory.Facts) { q.Entries = is(10) }, func(f *Facts) string {
			f.Rules.Entries = 0
			q := f.Qualified(measuredOf(func(q *inventory.Facts) { q.Entries = is(10) }))
			return fmt.Sprint(q.Rules.Entries, q.Rules.Shared)
		}, "10 true"},
		{"no entries", func(q *inventory.Facts) { q.Entries = is(0) }, func(f *Facts) string { return f.Update.Level.String() }, "refused"},
		{"as untried", func(*inventory.Facts) {}, func(f *Facts) string {
			f.Update, f.TagDepths[0], f.Unqualified = vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "never ran; outer tags only"}, vlanrules.Verdict{Level: vlanrules.Degraded, Reason: "never ran"}, "never ran"
			q := f.Qualified(measuredOf(func(q *inventory.Facts) { q.UpdateExact = is(true) }))
			p := f.Qualified(measuredOf(func(*inventory.Facts) {}))
			return verdict(q.Update) + ", " + verdict(q.TagDepths[0]) + ", " + verdict(p.Update) + ", " + verdict(p.TagDepths[0])
		}, "degraded: outer tags only; " + ran + ", full: , degraded: never ran; outer tags only; " + ran + ", degraded: never ran"},
		{"no strip", func(q *inventory.Facts) { q.Strip = is(false) }, func(f *Facts) string { return f.Strip.Level.String() }, "refused"},
		{"no lease", func(q *inventory.Facts) { q.Lease = is(false) }, func(f *Facts) string { return f.Lease.Level.String() + f.Traits.LeaseSource.String() }, "refused" + ran},
		{"slow", func(q *inventory.Facts) { q.RuleChange, q.AckToWire = is(10*time.Millisecond), is(30*time.Millisecond) }, func(f *Facts) string { return f.Traits.MinUpdate.Is.String() }, "40ms"},
		{"slow at each step", func(*inventory.Facts) {}, func(f *Facts) string {
			f.AckWaits = 7
			return f.Qualified(measuredOf(func(q *inventory.Facts) { q.RuleChange, q.AckToWire = is(10*time.Millisecond), is(30*time.Millisecond) })).Traits.MinUpdate.Is.String()
		}, "220ms"},
		{"one VLAN tag in front", func(q *inventory.Facts) { q.TagsInFront = is(1) }, func(f *Facts) string { return f.TagDepths[1].Level.String() + verdict(f.TagDepths[2]) }, "fullfull: "},
		{"two VLAN tags in front fail", func(q *inventory.Facts) { q.TagsInFront, q.TagsInFrontFail = is(1), is(2) }, func(f *Facts) string { return f.TagDepths[1].Level.String() + verdict(f.TagDepths[2]) }, "fullrefused: a tag behind 2 VLAN tags does not get past it (" + ran + ")"},
		{"one VLAN tag in front fails", func(q *inventory.Facts) { q.TagsInFrontFail = is(1) }, func(f *Facts) string {
			return f.TagDepths[0].Level.String() + f.TagDepths[1].Level.String() + verdict(f.TagDepths[2])
		}, "fullrefusedfull: "},
		{"more VLAN tags than the driver knows of fail", func(q *inventory.Facts) { q.TagsInFrontFail = is(3) }, func(f *Facts) string { return verdict(f.TagDepths[2]) }, "full: "},
		{"lost in a restart", func(q *inventory.Facts) { q.SurvivesReboot = is(false) }, func(f *Facts) string { return f.Traits.Survives.String() }, ran},
		{"lost in a link flap", func(q *inventory.Facts) { q.SurvivesFlap = is(false) }, func(f *Facts) string { return f.Update.Level.String() }, "degraded"},
		{"VIDs dropped", func(q *inventory.Facts) { q.DroppedVIDs = &[]inventory.VIDRange{{First: 4095, Last: 4095}} }, func(f *Facts) string {
			if f.Rules.MatchReserved && f.Rules.Reserved[0] == (vlanrules.VIDRange{First: 4095, Last: 4095}) && f.Traits.VIDs.Is.Reserved[0] == (VIDRange{4095, 4095}) {
				return f.Traits.VIDs.String()
			}
			return "lost"
		}, ran},
		{"hash over IP", func(q *inventory.Facts) { q.Hash = &[]string{"MAC", "IP"} }, func(f *Facts) string {
			return joinFields(f.Traits.Hash.Is) + f.Traits.Parses.String()
		}, "MAC and IP" + ran},
		{"ECN not marked", func(q *inventory.Facts) { q.ECN = is(false) }, func(f *Facts) string {
			if f.Traits.Parses.Is {
				return "parses"
			}
			return f.Notes[1]
		}, "ECN is not marked behind the tag (" + ran + ")"},
	} {
		t.Run(row.name, func(t *testing.T) {
			before := capable()
			f := before.Qualified(measuredOf(row.measure))
			if got := row.got(&f); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
			if !reflect.DeepEqual(before, capable()) {
				t.Error("the device's own facts were changed")
			}
		})
	}
}

// Nothing that was measured raises what the device or its driver refuses.
func TestQualifiedRaisesNoRefusal(t *testing.T) {
	f := capable()
	no := Refusal("the driver's reason")
	f.Update, f.Strip, f.Lease, f.Passthrough, f.TagDepths[1] = no, no, no, no, no
	good := measuredOf(func(q *inventory.Facts) {
		q.Passthrough, q.UpdateExact, q.Hitless, q.Strip, q.Lease, q.SeesWireVID, q.Independent, q.Learning = is(true), is(true), is(true), is(true), is(true), is(true), is(true), is(true)
		q.TagsInFront, q.Entries = is(2), is(1000)
	})
	f = f.Qualified(good)
	for name, v := range map[string]vlanrules.Verdict{"update": f.Update, "strip": f.Strip, "lease": f.Lease, "passthrough": f.Passthrough, "a tag in front": f.TagDepths[1]} {
		if v.Level != vlanrules.Refused || !strings.HasPrefix(v.Reason, no.Reason) {
			t.Errorf("%s is %v: %s", name, v.Level, v.Reason)
		}
	}
}

// A refusal keeps the device's own reason, and facts that two entries are laid over are
// not each other's.
func TestQualifiedKeepsWhatItWasGiven(t *testing.T) {
	f := capable()
	f.Update = Refusal("the driver's reason")
	wrong := f.Qualified(measuredOf(func(q *inventory.Facts) { q.UpdateExact, q.Hitless = is(false), is(false) }))
	if !strings.HasPrefix(wrong.Update.Reason, "the driver's reason; ran on ") {
		t.Errorf("update: %s", wrong.Update.Reason)
	}
	f.Rules.Reserved = make([]vlanrules.VIDRange, 1, 4)
	drops := func(vid uint16) Facts {
		return f.Qualified(measuredOf(func(q *inventory.Facts) { q.DroppedVIDs = &[]inventory.VIDRange{{First: vid, Last: vid}} }))
	}
	if a, b := drops(7), drops(9); a.Rules.Reserved[1].First != 7 || b.Rules.Reserved[1].First != 9 || a.Rules.MatchReserved {
		t.Errorf("reserved: %v and %v", a.Rules.Reserved, b.Rules.Reserved)
	}
}

// Facts of another platform, model, version or TPID are not a device's.
func TestContradicts(t *testing.T) {
	q := measuredOf(func(*inventory.Facts) {})
	for _, row := range []struct {
		platform string
		identity Identity
		tpid     uint16
		want     string // a part
	}{
		{"p", Identity{}, 0x9900, ""},
		{"p", Identity{Model: " m", Version: "v"}, 0x9900, ""},
		{"sonic", Identity{}, 0x9900, "they are of platform p, and it is sonic"},
		{"p", Identity{Model: "N", Version: "V"}, 0x9900, "they are of M, and it is N: qualify that model"},
		{"p", Identity{Model: "M", Version: "V2"}, 0x9900, "they are of M V, and it runs V2: qualify it again"},
		{"p", Identity{Model: "M\x1b[31m"}, 0x9900, "and it is M"},
		{"p", Identity{}, 0x9901, "none of the TPIDs that they were measured with is the domain's, 0x9901"},
	} {
		f := Facts{Platform: row.platform, Identity: row.identity}
		if got := f.Contradicts(q, row.tpid); (got == "") != (row.want == "") || !strings.Contains(got, row.want) || strings.Contains(got, "\x1b") {
			t.Errorf("%+v: got %q, want %q", row, got, row.want)
		}
	}
}
