package ovs

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// A miss is a frame that the datapath has no cached flow for: ovs-vswitchd has to look
// it up in the tables, and a machine that cannot keep up loses frames at its sockets.

// missed is how many frames the datapath had no flow for since it began.
func (s *sandwich) missed(t testing.TB) (n int) {
	t.Helper()
	_, after, ok := strings.Cut(s.Appctl("dpctl/show"), "missed:")
	if _, err := fmt.Sscan(after, &n); !ok || err != nil {
		t.Fatalf("no count of misses: %v", err)
	}
	return n
}

// missesOf sends a frame for each tag, of which the switch has seen none, and returns
// the misses.
func (s *sandwich) missesOf(t testing.TB, tags []uint16, shape func(tci uint16) []tag) int {
	t.Helper()
	s.settle()
	before := s.missed(t)
	s.exchange(t, tags, shape)
	return s.missed(t) - before
}

// distinct are tags in a random order that differ for Open vSwitch, which sees no R.
func distinct(n int) []uint16 {
	rng := rand.New(rand.NewPCG(1, 2))
	tags := allTags()
	tags = slices.DeleteFunc(tags, func(tci uint16) bool { return tci&0x1000 != 0 || tci == 0 })
	rng.Shuffle(len(tags), func(i, j int) { tags[i], tags[j] = tags[j], tags[i] })
	return tags[:n]
}

// signals is the best bucket of each signal, which changes no tag, or the worst, which
// changes each tag of withSignal.
func signals(worst bool) vendors.PortUpdate {
	at := [3]uint8{31, 31, 0}
	if worst {
		at = [3]uint8{0, 0, 31}
	}
	u := vendors.PortUpdate{Port: "swp1"}
	for i, sig := range []quantize.Signal{quantize.MinABW, quantize.MinABWC, quantize.MaxPD} {
		u.Intents = append(u.Intents, bucket(sig, at[i], 5))
	}
	return u
}

// withSignal are those tags whose S every port has something to say about.
func withSignal(tags []uint16) []uint16 {
	return slices.DeleteFunc(slices.Clone(tags), func(tci uint16) bool { s := tci >> 7 & 31; return tci>>13 > 2 || s == 0 || s == 31 })
}

// newFlowBridge has flows that hand frames over, so that every miss is csig's.
func newFlowBridge(t testing.TB) *sandwich {
	s := newHanded(t)
	s.Ofctl("add-flow", "csig", "in_port=1,actions=load:2->NXM_NX_REG15[],resubmit(,60)")
	s.keep()
	return s
}

// keep has what is cached stay, also on a machine that is slow.
func (s *sandwich) keep() { s.Vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=600000") }

// classes are the values of T and S.
const classes = 1 << 8

// few is how many misses there are whatever the tags: one for each time that a frame is
// parsed, and of each kind.
const few = 20

// TestMissesOfNewTags bounds what a tag costs that the switch has not seen: tags that
// leave as they came share a cached flow for T and S, and others take one each.
func TestMissesOfNewTags(t *testing.T) {
	t.Parallel()
	s := newFlowBridge(t)
	tags := withSignal(distinct(2000))
	n := len(tags)
	if n < 650 { // more than the classes of either layout
		t.Fatalf("%d tags are too few to tell", n)
	}
	for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
		classes := classes
		if layout == quantize.UEC {
			classes *= 2 // D
		}
		shared := func(int) int { return classes + few }
		each := func(n int) int { return classes + n + few }
		alone := func(n int) int { return n + few }
		setup := setupFor(layout, swp1)
		apply(t, s.driver, setup)
		for _, tc := range []struct {
			name  string
			worst bool
			shape int
			least int // tags that tell
			most  func(n int) int
		}{
			{"kept", false, 0, n, shared},
			{"changed", true, 0, n / 3, each},
			{"a VLAN, kept", false, 1, n, shared},
			{"a VLAN, changed", true, 1, n / 3, each},
			{"behind a VLAN, kept", false, 2, n / 3, alone},
			{"behind a VLAN, changed", true, 2, n / 3, alone},
		} {
			some := tags
			if !vendorstest.Long(t) {
				some = tags[:tc.least]
			}
			update(t, s.driver, time.Hour, signals(tc.worst))
			if got, most := s.missesOf(t, some, shapes[tc.shape].before), tc.most(len(some)); got > most {
				t.Errorf("%s, %s: %d misses for %d new tags, want at most %d", layout, tc.name, got, len(some), most)
			}
		}
	}
	strip := swp1
	strip.Action = vlanrules.Strip
	apply(t, s.driver, setupFor(quantize.Draft00, strip))
	if got := s.missesOf(t, tags[:n/3], shapes[0].before); got > n/3+few {
		t.Errorf("a port that strips: %d misses for %d new tags, want at most %d", got, n/3, n/3+few)
	}
}

// TestLongMissesOfNewTags is TestMissesOfNewTags with all of the tags each time.
func TestLongMissesOfNewTags(t *testing.T) { TestMissesOfNewTags(t) }

// TestLongCachedFlowsDoNotOverlap has the switch cache frames with the same tags under
// one bucket after the other: what is read of a frame at a time that it is parsed does
// not depend on the signal (doc.go: Open vSwitch confuses flows that overlap).
func TestLongCachedFlowsDoNotOverlap(t *testing.T) {
	t.Parallel()
	s := newFlowBridge(t)
	tags := distinct(300)
	values := regexp.MustCompile(`([a-z_]+)=[^,/()]+`)
	outside := regexp.MustCompile(`ufid:[^,]*,|, packets:.*`)
	key := regexp.MustCompile(`recirc_id\((\w+)\)|eth_type\(\w+\)|frag=\w+|ipv[46]\(`)
	for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
		apply(t, s.driver, setupFor(layout, swp1))
		read, seen := map[string]string{}, map[string]bool{}
		for _, at := range []uint8{31, 0, 15, 7, 22} {
			var u []vlanrules.Intent
			for _, sig := range []quantize.Signal{quantize.MinABW, quantize.MinABWC, quantize.MaxPD} {
				u = append(u, bucket(sig, at, 5))
			}
			update(t, s.driver, time.Hour, vendors.PortUpdate{Port: "swp1", Intents: u})
			for _, shape := range shapes {
				s.exchange(t, tags, shape.before)
			}
			for line := range strings.Lines(s.Appctl("dpctl/dump-flows", "-m")) {
				id, _, _ := strings.Cut(line, ", ")
				if seen[id] || !strings.Contains(line, "recirc_id") {
					continue
				}
				seen[id] = true
				line = outside.ReplaceAllString(line, "")
				same := strings.Join(key.FindAllString(line, -1), " ")
				masks := values.ReplaceAllString(line, "$1")
				if before, ok := read[same]; ok && before != masks {
					t.Fatalf("%s, bucket %d: of frames with %s there is read\n%s, and was before\n%s", layout, at, same, masks, before)
				}
				read[same] = masks
			}
		}
		if len(read) < 5 {
			t.Errorf("%s: only %v", layout, slices.Sorted(maps.Keys(read)))
		}
		s.settle()
	}
}

// BenchmarkNewTags is what a tag costs that the switch has not seen, in misses of the
// datapath, and the time of a CPU that ovs-vswitchd takes for a frame afterwards, of
// which the sockets that are there in place of devices are a part.
func BenchmarkNewTags(b *testing.B) {
	tags := withSignal(distinct(6000))
	const again = 4
	run := func(b *testing.B, s *sandwich, shape func(tci uint16) []tag) {
		misses, frames := 0, b.N*len(tags)
		var busy time.Duration
		for range b.N {
			misses += s.missesOf(b, tags, shape)
			before := s.busy(b)
			for range again {
				s.exchange(b, tags, shape)
			}
			busy += s.busy(b) - before
		}
		b.ReportMetric(float64(misses)/float64(frames), "misses/tag")
		b.ReportMetric(busy.Seconds()*1e6/float64(again*frames), "µs/cached-frame")
		b.ReportMetric(0, "ns/op")
	}
	for _, bridge := range []string{"NORMAL", "flows"} {
		var s *sandwich
		if bridge == "NORMAL" {
			s = newSandwich(b)
			s.keep()
		} else {
			s = newFlowBridge(b)
		}
		for _, tc := range []struct {
			name   string
			action vlanrules.Action
			worst  bool
		}{
			{"without", vlanrules.Passthrough, false},
			{"kept", vlanrules.Update, false},
			{"changed", vlanrules.Update, true},
			{"strip", vlanrules.Strip, false},
		} {
			port := swp1
			port.Action = tc.action
			apply(b, s.driver, setupFor(quantize.Draft00, port))
			if tc.action == vlanrules.Update {
				update(b, s.driver, time.Hour, signals(tc.worst))
			}
			for _, shape := range shapes[:3] {
				b.Run(bridge+"/"+tc.name+"/"+shape.name, func(b *testing.B) { run(b, s, shape.before) })
			}
		}
	}
}

// busy is the time of a CPU that ovs-vswitchd has taken.
func (s *sandwich) busy(t testing.TB) time.Duration {
	t.Helper()
	pid, err := os.ReadFile(filepath.Join(s.Dir, "vs.pid"))
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')'):]))
	var ticks time.Duration
	for _, f := range fields[12:14] { // utime and stime: proc_pid_stat(5)
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatalf("%q: %v", stat, err)
		}
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond
}
