package openflow

import (
	"slices"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestOneFrameOnOpenVSwitch is TestOneFrame on a real Open vSwitch.
func TestOneFrameOnOpenVSwitch(t *testing.T) {
	t.Parallel()
	l := labOf(t, oftest.StartSwitch(t, 3), 3, oftest.Faults{})
	oneFrame(t, l)
	if f, err := l.driver.Probe(t.Context()); err != nil || f.Rules.Entries <= maxFill { // by which csig qualify tells the memory of a CPU
		t.Errorf("Open vSwitch promises %d entries, %v", f.Rules.Entries, err)
	}
}

// likeOpenVSwitch compares tags with which frames leave the switch in memory with those of a real
// one, which loses R, and takes a tag of zeros for none.
func likeOpenVSwitch(t *testing.T, tags, memory, real []uint16) {
	t.Helper()
	for i := range tags {
		memory[i], real[i] = memory[i]&^0x1000, real[i]&^0x1000
	}
	vendorstest.Tags(t, "as Open vSwitch", tags, memory, func(i int) uint16 { return real[i] })
}

// TestMemoryIsLikeOpenVSwitch: the switch in memory forwards tags as a real Open vSwitch with the same
// flows, those of one port and of csig's tables.
func TestMemoryIsLikeOpenVSwitch(t *testing.T) {
	t.Parallel()
	tags := slices.DeleteFunc(eachOf(fewer(t, 1, 32)), func(tag uint16) bool { return tag&0xefff == 0 })
	var got [2][]uint16
	for i, b := range []oftest.Bench{inMemory(2), oftest.StartSwitch(t, 2)} {
		l := labOf(t, b, 2, oftest.Faults{})
		l.apply(t, setupFor(ports(vlanrules.Update, "p2")...))
		l.update(t, time.Minute, given("p2", intent(quantize.MinABW, 13, 5), intent(quantize.MaxPD, 9, 6)))
		l.Settled()
		got[i] = l.exchange(t, 2, tags)
	}
	likeOpenVSwitch(t, tags, got[0], got[1])
}

// TestOFDPAIsLikeOpenVSwitch is TestMemoryIsLikeOpenVSwitch of the tables and groups of OF-DPA.
func TestOFDPAIsLikeOpenVSwitch(t *testing.T) {
	t.Parallel()
	tags := sample()[1:]
	var got [2][]uint16
	for i, b := range []oftest.Bench{inMemory(3), oftest.StartSwitch(t, 3)} {
		l := flatLabOf(t, b, true, nil)
		l.apply(t, flatWant(inventory.Conservative, "p1", "p2"))
		for _, s := range []uint8{13, 30} {
			l.update(t, time.Minute, given("p2", intent(quantize.MinABW, s, 5), intent(quantize.MaxPD, s-9, 6)))
			l.Settled()
			for from := 0; from < len(tags); from += window {
				got[i] = append(got[i], l.leave(t, tags[from:min(from+window, len(tags))]...)...)
			}
		}
	}
	likeOpenVSwitch(t, append(tags, tags...), got[0], got[1])
}

// TestLongEverySample is what tests do with fewer samples otherwise.
func TestLongEverySample(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"tags": TestEveryTag, "tags of OF-DPA": TestOFDPAEveryTag, "tags of one table": TestFlatEveryTag, "changes of one table": TestFlatAnyOrder,
		"setups": TestSetupsInAnyOrder, "setups of one table": TestFlatAnySetup, "cuts": TestCutUpdate, "crashes": TestCrash, "crashes of one table": TestFlatCrash,
		"tags of a real switch": TestMemoryIsLikeOpenVSwitch, "flows that are not read": TestRemoveUnread,
	} {
		t.Run(name, test)
	}
}
