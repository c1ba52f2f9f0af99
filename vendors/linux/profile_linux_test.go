package linux

import (
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// TestProfileIsRecorded changes nothing but the profile: the switch says which,
// and what its maps held for the old one is advertised no more.
func TestProfileIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	d := openDriver(t, w.netns)
	of := func(profile string) vendors.Setup {
		s := setupFor(updatePort)
		s.Profile = profile
		return s
	}
	for _, tc := range []struct {
		name, profile string
		detail        string // of the change
		value         uint16 // before the next update
	}{
		{"by an older version", "", "", 0},
		{"recorded", profileA, "none recorded -> 0a1b2c3d4e5f…", 9<<7 | 4},
		{"the same again", profileA, "", 9<<7 | 4},
		{"another", profileB, "0a1b2c3d4e5f… -> ffeeddccbbaa…", stale},
		{"back", profileA, "ffeeddccbbaa… -> 0a1b2c3d4e5f…", stale},
		{"as it was", "", "0a1b2c3d4e5f… -> none recorded", stale},
	} {
		t.Run(tc.name, func(t *testing.T) {
			have, err := d.Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			changes, err := d.Diff(have, of(tc.profile))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range changes {
				if c.What == "profile" && (c.Kind != vendors.Alter || c.Port != "" || c.Detail != tc.detail) || c.What != "profile" && tc.detail != "" {
					t.Errorf("change %+v, want %q", c, tc.detail)
				}
			}
			if (len(changes) == 0) != (tc.detail == "") && tc.value != 0 {
				t.Errorf("changes %+v, want %q", changes, tc.detail)
			}
			apply(t, d, of(tc.profile))
			if tc.value != 0 {
				if got := w.value(initial); got != tc.value {
					t.Errorf("before an update 0x%04x, want 0x%04x", got, tc.value)
				}
			}
			if res := update(t, d, time.Minute, one(9, 4)); res.Repaired != nil {
				t.Errorf("repaired %s", res.Repaired)
			}
			if got := w.value(initial); got != 9<<7|4 {
				t.Errorf("after an update 0x%04x", got)
			}
			if have, err = d.Observe(t.Context()); err != nil || have.Profile != tc.profile || have.Damaged != "" {
				t.Errorf("observed %+v, %v", have, err)
			}
			if named := strings.Contains(w.run("nft", "list", "ruleset"), "set profile"); named != (tc.profile != "") {
				t.Errorf("the ruleset says so: %v", named)
			}
		})
	}
}

// TestRecordOfProfileIsDamaged takes the record away, or writes something else.
func TestRecordOfProfileIsDamaged(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"gone":      "delete set netdev csig profile",
		"illegible": `delete set netdev csig profile; add set netdev csig profile { typeof @ll,112,16; comment "hash=12"; }`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			d := openDriver(t, w.netns)
			s := setupFor(updatePort)
			s.Profile = profileA
			apply(t, d, s)
			update(t, d, time.Minute, one(9, 4))
			w.nft(script)
			have, err := openDriver(t, w.netns).Observe(t.Context())
			if err != nil || have.Profile != "" || name == "illegible" && !strings.Contains(have.Damaged, "profile") {
				t.Errorf("observed %+v, %v", have, err)
			}
			if left, err := d.Diff(have, s); err != nil || len(left) == 0 {
				t.Errorf("no difference from %+v, %v", have, err)
			}
			if res := update(t, d, time.Minute, one(9, 4)); !strings.Contains(res.Repaired.String(), "profile") {
				t.Errorf("repaired %q", res.Repaired)
			}
			if have, err := d.Observe(t.Context()); err != nil || have.Profile != profileA || have.Damaged != "" {
				t.Errorf("afterwards %+v, %v", have, err)
			}
			if got := w.value(initial); got != 9<<7|4 {
				t.Errorf("0x%04x", got)
			}
		})
	}
}
