package vendors

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vlanrules"
)

// Identity is what a device reports of itself, "" for what it does not.
type Identity struct {
	Maker   string `json:"maker"`
	Model   string `json:"model"`
	Version string `json:"version"` // of its software
	Serial  string `json:"serial"`
}

// maxIdentity is how much of what a device reports of itself is repeated, in bytes.
const maxIdentity = 128

// Contradicts is why an entry of facts is not of this device in a domain of this TPID,
// "" where nothing says so.
func (f *Facts) Contradicts(q *inventory.Facts, tpid uint16) string {
	if why := f.OtherModel(q); why != "" {
		return why
	}
	if !slices.Contains(q.TPIDs, tpid) {
		return fmt.Sprintf("none of the TPIDs that they were measured with is the domain's, 0x%04x: qualify it with that", tpid)
	}
	return ""
}

// OtherModel is why an entry of facts is not of this device's platform, model or version,
// "" where nothing says so.
func (f *Facts) OtherModel(q *inventory.Facts) string {
	differ := func(reported, measured string) bool {
		return reported != "" && !strings.EqualFold(strings.TrimSpace(reported), strings.TrimSpace(measured))
	}
	switch {
	case f.Platform != q.Platform:
		return fmt.Sprintf("they are of platform %s, and it is %s", q.Platform, f.Platform)
	case differ(f.Identity.Model, q.Model):
		return fmt.Sprintf("they are of %s, and it is %s: qualify that model", q.Model, untrusted.Text(f.Identity.Model, maxIdentity))
	case differ(f.Identity.Version, q.Version):
		return fmt.Sprintf("they are of %s %s, and it runs %s: qualify it again", q.Model, q.Version, untrusted.Text(f.Identity.Version, maxIdentity))
	}
	return ""
}

// RanOn is the source of what was measured of a model.
func RanOn(q *inventory.Facts) Source {
	return Source{Mark: Ran, From: fmt.Sprintf("on %s %s, %s", q.Model, q.Version, q.Date)}
}

// String is the mark and where it is from: "ran on MODEL VERSION, DATE", "read: DOCUMENT".
func (s Source) String() string {
	if s.Mark == Ran && strings.HasPrefix(s.From, "on ") {
		return string(s.Mark) + " " + s.From
	}
	return string(s.Mark) + ": " + s.From
}

// Qualified is what a device can do by its own facts and by what was measured of its
// model: measured traits take the place of those that are read or assumed, and what
// failed lowers verdicts. Nothing raises a verdict of what the device or its driver
// refuses. An entry that Contradicts tells of is not to be given.
func (f Facts) Qualified(q *inventory.Facts) Facts {
	f.Notes, f.TagDepths = slices.Clone(f.Notes), slices.Clone(f.TagDepths)
	f.Rules.Reserved = slices.Clone(f.Rules.Reserved)
	m := &measured{f: &f, q: q, ran: RanOn(q)}
	m.frames()
	m.others()
	m.rules()
	if !strings.Contains(f.Update.Reason, m.ran.String()) {
		f.Update.Reason = joined(f.Update.Reason, m.ran.String())
	}
	return f
}

// measured lays an entry over a device's facts.
type measured struct {
	f   *Facts
	q   *inventory.Facts
	ran Source
}

// saw is what was seen, with its source.
func (m *measured) saw(key, what string) string {
	if reason := m.q.Reasons[key]; reason != "" {
		what += ": " + reason
	}
	return what + " (" + m.ran.String() + ")"
}

func (m *measured) note(key, what string) { m.f.Notes = append(m.f.Notes, m.saw(key, what)) }

// refuse and degrade lower a verdict. One that is refused keeps its own reason.
func (m *measured) refuse(v *vlanrules.Verdict, why string) {
	if v.Level != vlanrules.Refused {
		*v = Refusal(why)
	}
}

func (m *measured) degrade(v *vlanrules.Verdict, why string) {
	if v.Level != vlanrules.Refused {
		*v = vlanrules.Verdict{Level: vlanrules.Degraded, Reason: joined(v.Reason, why)}
	}
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// failed reports that something was measured, and is not so.
func failed(v *bool) bool { return v != nil && !*v }

// frames is what becomes of frames with a tag that no rule changes.
func (m *measured) frames() {
	f, q, t := m.f, m.q, &m.f.Traits
	forwards := &f.Passthrough
	if q.Passthrough != nil {
		if t.PassthroughSource = m.ran; !*q.Passthrough {
			m.refuse(forwards, m.saw("passthrough", "frames with the tag do not leave as they came"))
		} else if forwards.Level == vlanrules.Degraded { // under a condition that csig cannot see: it was met
			*forwards = vlanrules.Verdict{Reason: m.saw("passthrough", "frames with the tag leave as they came")}
		}
	}
	if q.Loses != nil {
		t.Loses = That(fieldsOf(*q.Loses), m.because("loses"))
		switch lost := t.Loses.Is; {
		case lost.Has(FieldPCP), lost.Has(FieldVID):
			why := m.saw("loses", "the tag loses its "+joinFields(lost)+", where the signal is")
			m.refuse(forwards, why)
			m.refuse(&f.Update, why)
		case lost.Has(FieldDEI):
			m.degrade(&f.Update, m.saw("loses", "R (DEI) of a tag is lost"))
		}
	}
	if q.DroppedVIDs != nil {
		t.VIDs.Source = m.because("dropped_vids")
		if t.VIDs.Is.Last == 0 {
			t.VIDs.Is.Last = 4095
		}
		t.VIDs.Is.Reserved = nil
		f.Rules.MatchReserved = f.Rules.MatchReserved || len(f.Rules.Reserved) == 0
		for _, r := range *q.DroppedVIDs {
			t.VIDs.Is.Reserved = append(t.VIDs.Is.Reserved, VIDRange(r))
			f.Rules.Reserved = append(f.Rules.Reserved, vlanrules.VIDRange(r))
		}
	}
	for _, one := range []struct {
		key, not string
		is       *bool
		trait    *Fact[bool]
	}{
		{"bridging_vlan_independent", "the tag's VID, which is the signal, chooses the VLAN that frames are bridged in", q.Independent, &t.Independent},
		{"learning_unaffected", "it learns MAC addresses by the tag's VID, which is the signal", q.Learning, &t.Learning},
	} {
		if one.is == nil {
			continue
		}
		if *one.trait = That(*one.is, m.because(one.key)); !*one.is {
			why := m.saw(one.key, one.not)
			m.refuse(forwards, why)
			m.refuse(&f.Update, why)
		}
	}
	if failed(q.Flooding) {
		why := m.saw("flooding_unaffected", "frames with the tag are not flooded as others are")
		m.degrade(forwards, why)
		m.degrade(&f.Update, why)
	}
	if q.TagsInFront != nil {
		t.VLANs = That(*q.TagsInFront, m.because("tags_in_front"))
	}
	if n := q.TagsInFrontFail; n != nil && *n < len(f.TagDepths) { // what is deeper was not tried
		m.refuse(&f.TagDepths[*n], m.saw("tags_in_front_fail", fmt.Sprintf("a tag behind %d VLAN tags does not get past it", *n)))
	}
	if q.MaxFrame != nil {
		m.note("max_frame", fmt.Sprintf("frames with the tag of up to %d bytes without the FCS pass", *q.MaxFrame))
	}
}

// because is the source of a trait, with what was seen.
func (m *measured) because(key string) Source {
	s := m.ran
	if reason := m.q.Reasons[key]; reason != "" {
		s.From += ": " + reason
	}
	return s
}

// others is what else it does with frames that have a tag.
func (m *measured) others() {
	f, q, t := m.f, m.q, &m.f.Traits
	if q.Hash != nil {
		t.Hash = That(fieldsOf(*q.Hash), m.because("hash"))
		if t.Hash.Is.Has(FieldIP) || t.Hash.Is.Has(FieldL4) {
			t.Parses = That(true, m.because("hash"))
		}
	}
	for _, one := range []struct {
		key string
		is  *bool
	}{{"ecn_unaffected", q.ECN}, {"dscp_unaffected", q.DSCP}} {
		if failed(one.is) {
			t.Parses = That(false, m.because(one.key))
		}
	}
	if q.Queue != nil && *q.Queue {
		t.TrustPCP = That(false, m.ran)
	}
	for _, one := range []struct {
		key, not string
		is       *bool
	}{
		{"bpdu_unaffected", "BPDUs with a tag are treated in another way than those without", q.BPDU},
		{"lldp_unaffected", "LLDP frames with a tag are treated in another way than those without", q.LLDP},
		{"storm_control_unaffected", "storm control does not count frames with the tag", q.StormControl},
		{"acl_unaffected", "the operator's ACLs do not match behind the tag", q.ACL},
		{"mirror_unaffected", "mirrored frames are without the tag, or missing", q.Mirror},
		{"sflow_unaffected", "sFlow samples are without the tag, or missing", q.SFlow},
		{"pfc_unaffected", "PFC does not pause frames with the tag as those without", q.PFC},
		{"ecn_unaffected", "ECN is not marked behind the tag", q.ECN},
		{"dscp_unaffected", "DSCP is not found behind the tag, or not kept", q.DSCP},
		{"routing_unaffected", "packets with the tag are not routed as those without, or lose it", q.Routing},
		{"queue_unaffected", "the tag changes the queue of frames", q.Queue},
	} {
		if failed(one.is) {
			m.note(one.key, one.not)
		}
	}
	if failed(q.VLANsUnchanged) {
		m.refuse(&f.Update, m.saw("vlans_unchanged", "frames without the tag do not pass as without csig (with rules that see no TPID, frames of ordinary VLANs came to them: what steers frames there, or what the fleet file declares of ordinary VLANs, is at fault)"))
	}
	if q.LatencyAdded != nil {
		m.note("latency_added", fmt.Sprintf("the rules and the tag add %v to a frame's latency", *q.LatencyAdded))
	}
	if q.CounterRefresh != nil {
		m.note("counter_refresh", fmt.Sprintf("it refreshes its counters at most every %v", *q.CounterRefresh))
	}
	if q.CounterOverhead != nil {
		m.note("counter_overhead", fmt.Sprintf("its octet counters leave out %d bytes of what a frame takes on the wire", *q.CounterOverhead))
	}
}

// rules is what its rules do.
func (m *measured) rules() {
	f, q, t := m.f, m.q, &m.f.Traits
	if q.SeesWireVID != nil {
		if t.Key = That(KeyWire, m.because("sees_wire_vid")); !*q.SeesWireVID {
			t.Key.Is = KeyBridging
			m.refuse(&f.Update, m.saw("sees_wire_vid", "its rules match the VLAN of the bridge, not the VID on the wire"))
		}
	}
	if q.UpdateExact != nil {
		if t.UpdateSource = m.because("update_exact"); *q.UpdateExact {
			m.tried()
		} else {
			m.refuse(&f.Update, m.saw("update_exact", "compare-and-replace is not right for every value of the tag"))
		}
	}
	if failed(q.Hitless) {
		m.degrade(&f.Update, m.saw("hitless", "while a rule changes, frames may see neither the old nor the new value"))
	}
	if failed(q.Strip) {
		m.refuse(&f.Strip, m.saw("strip", "a port that is to strip does not remove the tag"))
	}
	if q.Entries != nil {
		t.Table.Source = m.because("entries")
		t.Table.Is.Entries = *q.Entries
		switch n := *q.Entries; {
		case n == 0:
			m.refuse(&f.Update, m.saw("entries", "its table takes no rule"))
		case f.Rules.Entries == 0: // whose they are was not measured: all ports', to be safe
			f.Rules.Entries, f.Rules.Shared = n, true
		case n < f.Rules.Entries:
			f.Rules.Entries = n
		}
	}
	if q.RuleChange != nil || q.AckToWire != nil {
		waits := time.Duration(max(1, f.AckWaits))
		t.MinUpdate = That(orZero(q.RuleChange)+waits*orZero(q.AckToWire), m.because("rule_change"))
		if waits > 1 && q.AckToWire != nil {
			m.note("ack_to_wire", fmt.Sprintf("each of up to %d steps of a change waits %v: a lease that is shorter than all of them cannot be renewed in time", waits, *q.AckToWire))
		}
	}
	if q.AckToWire != nil {
		m.note("ack_to_wire", fmt.Sprintf("frames show a change of its rules up to %v after it was acknowledged", *q.AckToWire))
	}
	if q.Lease != nil {
		if t.LeaseSource = m.because("lease"); !*q.Lease {
			m.refuse(&f.Lease, m.saw("lease", "it does not fall back by itself when csig is gone"))
		}
	}
	if q.FallbackAfter != nil {
		m.note("fallback_after", fmt.Sprintf("it falls back up to %v after the end of a lease", *q.FallbackAfter))
	}
	if q.SurvivesReboot != nil {
		t.Survives = That(*q.SurvivesReboot, m.because("survives_reboot"))
	}
	if failed(q.SurvivesFlap) {
		m.degrade(&f.Update, m.saw("survives_link_flap", "the setup of a port is lost when its link was down"))
	}
}

// tried takes back what holds until the rules were tried.
func (m *measured) tried() {
	f := m.f
	for _, v := range append([]*vlanrules.Verdict{&f.Update}, pointers(f.TagDepths)...) {
		if v.Level != vlanrules.Degraded || f.Unqualified == "" || !strings.HasPrefix(v.Reason, f.Unqualified) {
			continue
		}
		if v.Reason = strings.TrimPrefix(strings.TrimPrefix(v.Reason, f.Unqualified), "; "); v.Reason == "" {
			v.Level = vlanrules.Full
		}
	}
	f.Unqualified = ""
}

func pointers[T any](list []T) []*T {
	out := make([]*T, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

func orZero(d *time.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return *d
}

func fieldsOf(names []string) Fields {
	out := Fields{}
	for _, name := range names {
		out = append(out, Field(name))
	}
	return out
}

func joinFields(list Fields) string {
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = string(f)
	}
	return strings.Join(names, " and ")
}
