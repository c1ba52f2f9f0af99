package qualify

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

// every returns whether it is the nth time.
func every(n int) func() bool {
	i := 0
	return func() bool { i++; return i%n == 0 }
}

// TestChance: what happens to frames at random, or in one direction, is named as that, and
// is no property of VIDs.
func TestChance(t *testing.T) { byChance(t) }

func TestLongChance(t *testing.T) { byChance(t) }

func byChance(t *testing.T) {
	data := func(f []byte) bool { // of the bench, no sentinel
		at := strings.Index(string(f[:searched/2]), "CSGQ")
		return at > 0 && f[at+payloadSize-1] == kindData
	}
	vid := func(f []byte) uint16 { return binary.BigEndian.Uint16(f[14:]) & 0xfff }
	lossy := func(n int) func(int, int, []byte) []byte {
		nth := every(n)
		return func(_, _ int, f []byte) []byte {
			if data(f) && nth() {
				return nil
			}
			return f
		}
	}
	when := func(drop func(from int, f []byte) bool) func(int, int, []byte) []byte {
		return func(from, _ int, f []byte) []byte {
			if drop(from, f) {
				return nil
			}
			return f
		}
	}
	twice := func(n int) *soft {
		nth, s := every(n), &soft{}
		s.route = func(from int, f []byte) []int {
			if data(f) && nth() {
				return []int{1 - from, 1 - from}
			}
			return []int{1 - from}
		}
		return s
	}
	cleared := func(mask byte) func(int, int, []byte) []byte {
		return func(_, _ int, f []byte) []byte {
			if hasTag(f) {
				f[14] &^= mask
			}
			return f
		}
	}
	most := func(f []byte) bool { return hasTag(f) && vid(f) != 100 && vid(f) != 1278 }
	for _, tc := range []struct {
		name, id string
		s        *soft
		outcome  Outcome
		codes    string // of all faults
		found    string // a part
	}{
		{"random loss", "vids", &soft{treat: lossy(97)}, Fail, "random-loss", "frames are lost at random: "},
		{"random loss in VLANs", "vlans", &soft{treat: lossy(97)}, Fail, "random-loss", "lost at random"},
		{"random loss in bridging", "bridging", &soft{treat: lossy(97)}, Fail, "random-loss", "lost at random"},
		{"random duplicates", "vids", twice(97), Fail, "random-duplicates", "more than once"},
		{"random duplicates in VLANs", "vlans", twice(97), Fail, "random-duplicates", "more than once"},
		{"all frames twice", "tpid", &soft{route: func(from int, f []byte) []int {
			if hasTag(f) {
				return []int{1 - from, 1 - from}
			}
			return nil
		}}, Fail, "tag-duplicated", "arrived 2 times"},
		{"random loss and a dropped VID", "vids", &soft{treat: func() func(int, int, []byte) []byte {
			loss := lossy(97)
			return func(from, to int, f []byte) []byte {
				if hasTag(f) && vid(f) == 4095 {
					return nil
				}
				return loss(from, to, f)
			}
		}()}, Fail, "vid-4095-lost random-loss", "frames with these VIDs are lost: 4095"},
		{"one way without VLANs", "vlans", &soft{treat: when(func(from int, f []byte) bool { return from == 1 && f[12] == 0x81 })}, Fail, "vlan-one-way-8100", "not the other way"},
		{"one way without VLANs", "positions", &soft{treat: when(func(from int, f []byte) bool { return from == 1 && f[12] == 0x81 })}, NotTested, "", "and back"},
		{"one way without the tag behind", "positions", &soft{treat: when(func(from int, f []byte) bool { return from == 1 && f[12] == 0x81 && f[16] == 0x99 })}, Fail, "behind-1-lost", "p2 to p1"},
		{"learning", "learning", &soft{}, Pass, "", "with 14 VIDs"},
		{"learning where most VIDs are lost", "learning", &soft{treat: when(func(_ int, f []byte) bool { return most(f) })}, Pass, "", "with 2 VIDs"},
		{"learning where all tags are lost", "learning", &soft{treat: when(func(_ int, f []byte) bool { return hasTag(f) })}, NotTested, "", "0 of 14 VIDs"},
		{"learning where some frames are lost", "learning", &soft{treat: lossy(11)}, Fail, "random-loss", "lost at random"},
		{"learning where many frames are lost", "learning", &soft{treat: lossy(7)}, NotTested, "", "the path loses frames"},
		{"DEI 1 is dropped", "marks", &soft{treat: when(func(_ int, f []byte) bool { return hasTag(f) && f[14]&0x10 != 0 })}, Fail, "marks-lost", "did not arrive"},
		{"PCP is cleared", "mtu", &soft{treat: cleared(0xe0)}, Pass, "", "1500 bytes passes"},
	} {
		if tc.id == "vlans" && strings.HasPrefix(tc.name, "random") && !vendorstest.Long(t) {
			continue // they send the most frames, and vids has both
		}
		t.Run(tc.id+": "+tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				list := slices.DeleteFunc(Forwarding(), func(e Experiment) bool { return e.ID != tc.id })
				o := options(t, list...)
				o.About = About{Device: "sw1", Platform: "linux", Model: "X-1", Version: "7.4"}
				r, err := Run(t.Context(), softBench(t, 2, tc.s), o)
				if err != nil {
					t.Fatal(err)
				}
				res, codes := r.Result(tc.id), []string{}
				for _, f := range res.Faults {
					codes = append(codes, f.Code)
				}
				if res.Outcome != tc.outcome || strings.Join(codes, " ") != tc.codes || !strings.Contains(res.Found, tc.found) {
					t.Errorf("%s: %s %v; want %s: %s %s", res.Outcome, res.Found, codes, tc.outcome, tc.found, tc.codes)
				}
				text, err := os.ReadFile(filepath.Join(o.Folder, factsFile))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := inventory.ParseFacts(factsFile, text); err != nil {
					t.Errorf("%v\n%s", err, text)
				}
				for _, key := range []string{"dropped_vids", "bridging_vlan_independent"} {
					if codes := strings.Join(codes, " "); strings.HasPrefix(codes, "random") && strings.Contains(string(text), key) {
						t.Errorf("%s is a fact:\n%s", key, text)
					}
				}
				if strings.HasSuffix(tc.codes, "-lost random-loss") && !strings.Contains(string(text), "dropped_vids: [4095]") {
					t.Errorf("%s", text)
				}
			})
		})
	}
}
