package assess

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/planstest"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

func TestCautions(t *testing.T) {
	book := vendors.Source{Mark: vendors.Read, From: "a book"}
	// What is harmless of a platform that takes 0x88a8 for a VLAN tag's TPID.
	harmless := func(edit func(*vendors.Traits)) vendors.Traits {
		t := vendors.Traits{
			VLANTPIDs: vendors.That(vendors.TPIDList{0x8100, 0x88a8}, book), Independent: vendors.That(true, book), Learning: vendors.That(true, book),
			Parses: vendors.That(true, book), Hash: vendors.That(vendors.Fields{vendors.FieldIP}, book), DropDEI: vendors.That(false, book),
			TrustPCP: vendors.That(false, book), Routed: vendors.That(true, book),
		}
		edit(&t)
		return t
	}
	for name, tc := range map[string]struct {
		tpid   uint16
		basis  Basis
		level  inventory.Support
		none   string // why csig has no driver
		traits vendors.Traits
		want   []string // findings of the device, in order
	}{
		"nothing is known": {0x9900, BasisFile, inventory.LevelPassthrough, "", vendors.Traits{},
			[]string{"so check: QoS trust", "so check: DEI", "so check: hashing", "so check: the VLAN"}},
		"nothing is known of one that does it itself": {0x9900, BasisFile, inventory.LevelNative, "", vendors.Traits{}, nil},
		"no traits": {0x9900, BasisProbe, "", "", vendors.Traits{},
			[]string{"so check: QoS trust", "so check: DEI", "so check: hashing", "so check: the VLAN"}},
		"another TPID": {0x9900, BasisProbe, "", "", harmless(func(*vendors.Traits) {}),
			[]string{"it does not look behind TPID 0x9900"}},
		"another TPID, and routes none": {0x9900, BasisProbe, "", "", harmless(func(t *vendors.Traits) { t.Routed.Is = false }),
			[]string{"tagged frames; it bridges tagged frames, and routes none"}},
		"another TPID, native": {0x9900, BasisPlatform, inventory.LevelNative, "", harmless(func(t *vendors.Traits) { t.Native = vendors.That("all", book) }),
			[]string{"its level is native"}},
		"a TPID that csig sets": {0x9900, BasisPlatform, "", "", harmless(func(t *vendors.Traits) {
			t.Independent.Is, t.TPIDs = false, vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x9900}, AsVLAN: true}, book)
		}), []string{"it takes 0x9900 for a VLAN tag's TPID, and the tag's VID, which is the signal, chooses the VLAN that frames are bridged in (read: a book)"}},
		"another TPID, that a user may set": {0x9900, BasisPlatform, "", "no driver", harmless(func(t *vendors.Traits) {
			t.Independent.Is, t.TPIDs = false, vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x9900}, AsVLAN: true}, book)
		}), []string{"tagged frames; were that set as a TPID of its, the tag's VID"}},
		"another TPID, that no user can set": {0x9900, BasisPlatform, "", "no driver", harmless(func(t *vendors.Traits) {
			t.Independent.Is, t.TPIDs = false, vendors.That(vendors.TPIDs{List: vendors.TPIDList{0x9100}, AsVLAN: true}, book)
		}), []string{"filters of IP fields do not take in tagged frames"}},
		"harmless": {0x88a8, BasisProbe, "", "", harmless(func(*vendors.Traits) {}), nil},
		"hashes the VID": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) { t.Hash.Is = vendors.Fields{vendors.FieldVID, vendors.FieldPCP} }),
			[]string{"take in the VID: flows may be reordered when S changes"}},
		"hashes the PCP": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) { t.Hash.Is = vendors.Fields{vendors.FieldPCP} }),
			[]string{"take in the PCP: packets of a flow"}},
		"finds no IP header": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) { t.Parses.Is = false }),
			[]string{"does not find the IP header behind it: hashing (ECMP, LAG), ECN marking, DSCP, ACLs and PFC"}},
		"drops by DEI": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) { t.DropDEI.Is = true }),
			[]string{"DEI is drop precedence"}},
		"queues by PCP": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) { t.TrustPCP.Is = true }),
			[]string{"the PCP chooses the queue"}},
		"routes without the tag": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) { t.Routed.Is = false }),
			[]string{"leave without their tag"}},
		"keeps VIDs": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) {
			t.VIDs = vendors.That(vendors.VIDs{Last: 4094, Reserved: vendors.VIDRanges{{First: 1002, Last: 1005}}}, book)
		}), []string{"it keeps VIDs 1002 to 1005 for itself"}},
		"bridges as assumed": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) {
			t.Independent.Source = vendors.Source{Mark: vendors.Assumed, From: "of bridges without filtering"}
		}), []string{"so check: the VLAN that a frame is bridged in does not follow the VID of the tag: that is so of bridges without filtering"}},
		"loses R": {0x88a8, BasisProbe, "", "", harmless(func(t *vendors.Traits) { t.Loses = vendors.That(vendors.Fields{vendors.FieldDEI}, book) }),
			[]string{"a tag's R (DEI) is lost on the way through it: read: a book"}},
		"half known": {0x88a8, BasisProbe, "", "", vendors.Traits{VLANTPIDs: vendors.That(vendors.TPIDList{0x88a8}, book)},
			[]string{"so check: hashing (ECMP, LAG), ECN", "so check: hashing (ECMP, LAG) does not", "so check: DEI", "so check: QoS trust", "so check: the VLAN", "so check: the tag survives"}},
		"no tag reaches it": {0x88a8, BasisPlatform, inventory.LevelDiscard, "", vendors.Traits{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := planstest.Fabric(1, 0, 1)
			f.Profile.TPID, f.Devices[0].Level, f.Devices[0].Interval = tc.tpid, inventory.Level{Support: tc.level}, time.Second
			a := assessed1(f, func(*inventory.Device) Evidence {
				facts := vendors.Facts{Traits: tc.traits}
				if tc.none != "" {
					facts.Update = refused("no driver")
				}
				return Evidence{Basis: tc.basis, Observation: plans.Observation{Facts: facts, NoDriver: tc.none}, Counters: Freshness{Readings: 10, Kind: "live"}}
			})
			var got []string
			for _, f := range a.Findings {
				if f.Device != "" {
					got = append(got, f.Reason)
				}
			}
			ok := len(got) == len(tc.want)
			for i := range min(len(got), len(tc.want)) {
				ok = ok && strings.Contains(got[i], tc.want[i])
			}
			if !ok {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
	f := planstest.Fabric(2, 1, 1)
	if text := fmt.Sprint(assessed1(f, ableEvidence).Findings); !strings.Contains(text, "VIDs from 1 to 4094") {
		t.Error(text)
	}
	f.Profile.InitialS = map[quantize.Signal]uint8{quantize.MinABW: 30}
	if text := fmt.Sprint(assessed1(f, ableEvidence).Findings); strings.Contains(text, "VIDs from") {
		t.Errorf("with initial_s: 30: %s", text)
	}
}
