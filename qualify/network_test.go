package qualify

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/vendorstest"
)

// soft is a switch that learns and floods, with a way to treat frames of its own.
type soft struct {
	mu       sync.Mutex
	ports    []*wire
	stations map[MAC]int
	// treat returns what leaves a port of a frame that is to leave there; nil: nothing.
	treat func(from, to int, frame []byte) []byte
	// route chooses the ports in place of those that were learned; nil: those.
	route func(from int, frame []byte) []int
	// loses one frame in so many at random, and of those with tags one in losesTagged; 0: none.
	loses, losesTagged int
	random             *rand.Rand
	// late is how much later the second port receives what comes after a pause.
	late time.Duration
}

func (s *soft) lost(frame []byte) bool {
	return s.loses > 0 && s.random.IntN(s.loses) == 0 || hasTag(frame) && s.losesTagged > 0 && s.random.IntN(s.losesTagged) == 0
}

func (s *soft) forward(from int, frame []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dst, src := MAC(frame[:6]), MAC(frame[6:12])
	s.stations[src] = from
	var to []int
	at, known := s.stations[dst]
	switch {
	case s.route != nil && s.route(from, frame) != nil:
		to = s.route(from, frame)
	case bytes.HasPrefix(frame, []byte{0x01, 0x80, 0xc2, 0, 0}):
	case known:
		to = []int{at}
	default:
		for i := range s.ports {
			to = append(to, i)
		}
	}
	for _, i := range to {
		if i == from {
			continue
		}
		out := slices.Clone(frame)
		if s.treat != nil {
			out = s.treat(from, i, out)
		}
		if out != nil && !s.lost(out) {
			s.ports[i].frames <- out
		}
	}
}

// softBench is a bench at such a switch. Its cards send one at a time.
func softBench(t *testing.T, ports int, s *soft) *Bench {
	t.Helper()
	s.stations, s.random = map[MAC]int{}, rand.New(rand.NewPCG(1, 2))
	b := &Bench{Profile: &quantize.Profile{TPID: 0x9900}, Settle: time.Millisecond, Patience: 200 * time.Millisecond, NoWay: "it has none"}
	for i := range ports {
		w := &wire{frames: make(chan []byte, 1<<14), closed: make(chan struct{})}
		w.change = func(frame []byte) []byte {
			s.forward(i, frame)
			return nil
		}
		if i == 1 {
			w.late = s.late
		}
		s.ports = append(s.ports, w)
		b.Ports = append(b.Ports, Cabled(fmt.Sprint("p", i+1), fmt.Sprint("c", i+1), MAC{2, byte(i)}, 1600, w))
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func hasTag(f []byte) bool { return f[12] == 0x99 }

// inner is where the payload begins: behind the tag.
func inner(f []byte) int {
	if hasTag(f) {
		return 18
	}
	return 14
}

// others are what TestLongNetworkFaults alone has: more faults of a kind that another one is of, at the switches
// that take the most frames, and more experiments that chance does not mislead.
var others = []string{
	"ECMP by PCP", "ECMP with the tag by another path", "routing remarks T", "all tags are remarked and VIDs of S=31 dropped", "loss, ECMP",
	"a LAG by PCP", "a LAG by MAC of four ports", "loss, a LAG", "loss, PFC", "all tags lost, PFC", "loss, PFC without tags", "loss, DSCP", "DSCP is remarked", "loss, flooding",
	"no storm control", "much loss of tags, VIDs",
}

// TestNetworkFaults: what an operator's network does with tags, each found and named; the
// same without the fault passes.
func TestNetworkFaults(t *testing.T) { networkFaults(t) }

func TestLongNetworkFaults(t *testing.T) { networkFaults(t) }

func networkFaults(t *testing.T) {
	broadcast := func(f []byte) bool { return f[0] == 0xff }
	burst := 0
	limited := func(f []byte) []byte { // every other one
		if burst++; burst%2 == 0 {
			return nil
		}
		return f
	}
	drop := func(when func(f []byte) bool) func(int, int, []byte) []byte {
		return func(_, _ int, f []byte) []byte {
			if when(f) {
				return nil
			}
			return f
		}
	}
	denied := func(f []byte) bool { return MAC(f[:6]) == deniedAddress }
	mirror := func(with bool) func(int, []byte) []int {
		return func(from int, f []byte) []int {
			switch { // the third port only listens
			case from == 2:
				return []int{}
			case from == 0 && (with || !hasTag(f)):
				return []int{1, 2}
			}
			return []int{1 - from}
		}
	}
	lag := func(key func(f []byte) byte) func(int, []byte) []int {
		return func(from int, f []byte) []int {
			if from != 0 {
				return []int{0}
			}
			return []int{1 + int(key(f)&1)}
		}
	}
	router := MAC{2, 0, 0, 0, 0, 1}
	ecmp := func(key func(f []byte) byte) func(int, []byte) []int {
		return func(from int, f []byte) []int {
			switch {
			case from > 1:
				return []int{}
			case MAC(f[:6]) == router:
				return []int{2 + int(key(f)&1)}
			}
			return []int{1 - from}
		}
	}
	routes := func(change func(f []byte) []byte) func(int, int, []byte) []byte {
		return func(_, to int, f []byte) []byte {
			if to < 2 {
				return f
			}
			f[inner(f)+8]-- // TTL
			return change(f)
		}
	}
	same := func(f []byte) []byte { return f }
	byFlow := func(f []byte) byte { at := inner(f); return f[at+15] ^ f[at+15]>>1 ^ f[at+21] ^ f[at+21]>>1 }
	turns := byte(0)
	byMAC := func(f []byte) byte { return f[11] }
	slow := func(from, _ int, f []byte) []byte {
		if hasTag(f) && from == 0 {
			time.Sleep(3 * time.Millisecond)
		}
		return f
	}
	tos := func(when func(f []byte) bool) func(int, int, []byte) []byte {
		return func(_, _ int, f []byte) []byte {
			at := inner(f)
			if when(f) && binary.BigEndian.Uint16(f[at-2:]) == ipv4 {
				f[at+1] &= 0x03 // DSCP to 0
			}
			return f
		}
	}
	paused := false
	pfc := func(tagged bool) func(int, int, []byte) []byte {
		return func(_, _ int, f []byte) []byte {
			vlan := f[12] == 0x81 || tagged && hasTag(f)
			if paused && vlan && f[14]>>5 == pausedPriority {
				return nil // for as long as the test looks
			}
			return f
		}
	}
	tagged := 0 // while priority 3 is paused
	leaky := func(_, _ int, f []byte) []byte {
		if paused && hasTag(f) && f[14]>>5 == pausedPriority {
			if tagged++; tagged == 2 {
				return f
			}
		}
		return pfc(true)(0, 0, f)
	}
	pauses := func(_ int, f []byte) []int {
		paused = paused || binary.BigEndian.Uint16(f[12:]) == 0x8808
		return nil
	}
	rows := []struct {
		name, id string
		ports    int
		s        *soft
		outcome  Outcome
		want     string // the fault's code, or a part of what was found
	}{
		{"no ACL", "acl", 2, &soft{}, NotTested, "configure one at p1"},
		{"an ACL for all", "acl", 2, &soft{treat: drop(denied)}, Pass, ""},
		{"an ACL that does not see behind the tag", "acl", 2, &soft{treat: drop(func(f []byte) bool { return denied(f) && !hasTag(f) })}, Fail, "acl-bypassed"},
		{"no mirror", "mirror", 3, &soft{}, NotTested, "configure a mirror session"},
		{"a port that gets nothing", "mirror", 3, &soft{route: func(from int, _ []byte) []int { return [][]int{{1}, {0}, {}}[from] }}, NotTested, "configure a mirror session"},
		{"a port that gets nothing", "flooding", 3, &soft{route: func(from int, _ []byte) []int { return [][]int{{1}, {0}, {}}[from] }}, NotTested, "not all ports receive"},
		{"a port that gets nothing", "vids", 3, &soft{route: func(from int, _ []byte) []int { return [][]int{{1}, {0}, {}}[from] }}, Pass, ""},
		{"a mirror", "mirror", 3, &soft{route: mirror(true)}, Pass, ""},
		{"a mirror without tagged frames", "mirror", 3, &soft{route: mirror(false)}, Fail, "mirror-lost"},
		{"a mirror that alters", "mirror", 3, &soft{route: mirror(true), treat: func(_, to int, f []byte) []byte {
			if to == 2 && hasTag(f) {
				f[15] ^= 1
			}
			return f
		}}, Fail, "mirror-altered"},
		{"no LAG", "lag", 3, &soft{}, NotTested, "p2, p3 are no LAG"},
		{"a LAG", "vids", 3, &soft{route: lag(byMAC)}, NotTested, "as members of a LAG"},
		{"a LAG by MAC of four ports", "lag", 4, &soft{route: lag(byMAC)}, Pass, ""},
		{"a LAG by MAC", "lag", 3, &soft{route: lag(byMAC)}, Pass, ""},
		{"a LAG with a member that is late", "lag", 3, &soft{route: lag(byMAC), late: 5 * time.Millisecond}, Pass, ""},
		{"a LAG by VID", "lag", 3, &soft{route: lag(func(f []byte) byte {
			if hasTag(f) {
				return f[15]
			}
			return f[11]
		})}, Fail, "lag-hashes-VID"},
		{"a LAG by PCP", "lag", 3, &soft{route: lag(func(f []byte) byte {
			if hasTag(f) {
				return f[14] >> 5
			}
			return f[11]
		})}, Fail, "lag-hashes-PCP"},
		{"ECMP at three ports", "ecmp", 3, &soft{}, NotTested, "4 cabled ports are needed"},
		{"no router", "ecmp", 4, &soft{}, NotTested, "leaves by 2 of p3 and p4"},
		{"not routed", "ecmp", 4, &soft{route: ecmp(byFlow)}, NotTested, "with the TTL that it came with"},
		{"one next hop", "ecmp", 4, &soft{route: ecmp(func([]byte) byte { return 1 }), treat: routes(same)}, NotTested, "all leave by p4"},
		{"ECMP", "ecmp", 4, &soft{route: ecmp(byFlow), treat: routes(same)}, Pass, "64 flows stay on the paths"},
		{"ECMP by VID", "ecmp", 4, &soft{route: ecmp(func(f []byte) byte {
			if hasTag(f) {
				return byFlow(f) ^ f[14] // a bit of S
			}
			return byFlow(f)
		}), treat: routes(same)}, Fail, "ecmp-hashes-VID"},
		{"ECMP by PCP", "ecmp", 4, &soft{route: ecmp(func(f []byte) byte {
			if hasTag(f) {
				return byFlow(f) ^ f[14]>>5
			}
			return byFlow(f)
		}), treat: routes(same)}, Fail, "ecmp-hashes-PCP"},
		{"ECMP with the tag by another path", "ecmp", 4, &soft{route: ecmp(func(f []byte) byte {
			if hasTag(f) {
				return byFlow(f) ^ 1
			}
			return byFlow(f)
		}), treat: routes(same)}, Fail, "ecmp-differs"},
		{"ECMP that does not see behind the tag", "ecmp", 4, &soft{route: ecmp(func(f []byte) byte {
			if hasTag(f) {
				return 0
			}
			return byFlow(f)
		}), treat: routes(same)}, Fail, "ecmp-one-path"},
		{"ECMP that sprays tags", "ecmp", 4, &soft{route: ecmp(func(f []byte) byte {
			if hasTag(f) {
				turns++
				return turns / 7
			}
			return byFlow(f)
		}), treat: routes(same)}, Fail, "ecmp-sprays"},
		{"tags are not routed", "ecmp", 4, &soft{route: ecmp(byFlow), treat: routes(func(f []byte) []byte {
			if hasTag(f) {
				return nil
			}
			return f
		})}, Fail, "ecmp-lost"},
		{"routing removes the tag", "ecmp", 4, &soft{route: ecmp(byFlow), treat: routes(func(f []byte) []byte {
			if hasTag(f) {
				return slices.Delete(f, 12, 16)
			}
			return f
		})}, Fail, "ecmp-tag-lost"},
		{"routing remarks T", "ecmp", 4, &soft{route: ecmp(byFlow), treat: routes(func(f []byte) []byte {
			if hasTag(f) {
				f[14] &= 0x1f
			}
			return f
		})}, Fail, "ecmp-tag-altered"},
		{"all tags are remarked and VIDs of S=31 dropped", "ecmp", 4, &soft{route: ecmp(byFlow), treat: func(_, to int, f []byte) []byte {
			if to > 1 {
				f[inner(f)+8]--
			}
			if hasTag(f) {
				if f[14]&0x0f == 0x0f && f[15]&0x80 != 0 {
					return nil
				}
				f[14] &= 0x1f
			}
			return f
		}}, Pass, "64 flows stay on the paths"}, // marks and vids tell of these
		{"loss, ECMP", "ecmp", 4, &soft{loses: 100, route: ecmp(byFlow), treat: routes(same)}, Pass, "64 flows stay on the paths"},
		{"flooding", "flooding", 3, &soft{}, Pass, ""},
		{"no flooding of tags", "flooding", 3, &soft{treat: func(_, to int, f []byte) []byte {
			if to == 2 && hasTag(f) && broadcast(f) {
				return nil
			}
			return f
		}}, Fail, "flooding-broadcast"},
		{"protocols", "bpdu-lldp", 2, &soft{}, Pass, ""},
		{"BPDUs behind the tag", "bpdu-lldp", 2, &soft{route: func(from int, f []byte) []int {
			if hasTag(f) && f[0] == 0x01 && f[5] == 0 {
				return []int{1 - from}
			}
			return nil
		}}, Fail, "bpdu-tagged"},
		{"no storm control", "storm", 2, &soft{}, NotTested, "no storm control acts"},
		{"storm control", "storm", 2, &soft{treat: func(_, _ int, f []byte) []byte {
			if broadcast(f) {
				return limited(f)
			}
			return f
		}}, Pass, "limits broadcast with the tag as without"},
		{"storm control that tags bypass", "storm", 2, &soft{treat: func(_, _ int, f []byte) []byte {
			if broadcast(f) && !hasTag(f) {
				return limited(f)
			}
			return f
		}}, Fail, "storm-bypassed"},
		{"storm control, all tags lost", "storm", 2, &soft{losesTagged: 1, treat: func(_, _ int, f []byte) []byte {
			if broadcast(f) {
				return limited(f)
			}
			return f
		}}, NotTested, "no frame with the tag arrives"},
		{"all tags lost", "mtu", 2, &soft{losesTagged: 1}, NotTested, "no frame with the tag arrives"},
		{"all tags lost", "bpdu-lldp", 2, &soft{losesTagged: 1}, NotTested, "no frame with the tag arrives"},
		{"all tags lost", "dscp", 2, &soft{losesTagged: 1}, NotTested, "no frame with the tag arrives"},
		{"storm control of unicast with tags", "storm", 2, &soft{treat: func(_, _ int, f []byte) []byte {
			if hasTag(f) {
				return limited(f)
			}
			return f
		}}, Fail, "storm-limits-tagged"},
		{"DSCP is kept", "dscp", 2, &soft{}, Pass, ""},
		{"DSCP is remarked", "dscp", 2, &soft{treat: tos(func([]byte) bool { return true })}, Pass, ""},
		{"DSCP is remarked without the tag alone", "dscp", 2, &soft{treat: tos(func(f []byte) bool { return !hasTag(f) })}, Fail, "dscp-differs"},
		{"latency", "latency", 2, &soft{}, Pass, ""},
		{"a slow path", "latency", 2, &soft{treat: slow}, Fail, "slow-path"},
		{"no PFC", "pfc", 2, &soft{}, NotTested, "switch PFC on"},
		{"PFC", "pfc", 2, &soft{treat: pfc(true), route: pauses}, Pass, ""},
		{"PFC that once lets a tag pass", "pfc", 2, &soft{treat: leaky, route: pauses}, NotTested, "in 4 of 5 tries"},
		{"PFC without tags", "pfc", 2, &soft{treat: pfc(false), route: pauses}, Fail, "pfc-ignored"},

		// A path that loses one frame in a hundred is no fault of the tag.
		{"loss, an ACL", "acl", 2, &soft{loses: 100, treat: drop(denied)}, Pass, ""},
		{"loss, an ACL that does not see behind the tag", "acl", 2, &soft{losesTagged: 15, treat: drop(func(f []byte) bool { return denied(f) && !hasTag(f) })}, Fail, "acl-bypassed"},
		{"all tags lost, an ACL", "acl", 2, &soft{losesTagged: 1, treat: drop(denied)}, NotTested, "frames with them arrive at no address"},
		{"nothing is flooded", "acl", 2, &soft{route: func(_ int, f []byte) []int {
			if f[2] == 0x51 { // the bench's ports
				return nil
			}
			return []int{}
		}}, NotTested, "a frame without the tag to another unknown address arrives"},
		{"loss, no ACL", "acl", 2, &soft{loses: 100}, NotTested, "configure one at p1"},
		{"loss, a mirror", "mirror", 3, &soft{loses: 100, route: mirror(true)}, Pass, ""},
		{"loss, a LAG", "lag", 3, &soft{loses: 100, route: lag(byMAC)}, Pass, ""},
		{"a LAG that sprays tags", "lag", 3, &soft{route: func() func(int, []byte) []int {
			n := byte(0)
			return lag(func(f []byte) byte {
				if !hasTag(f) {
					return f[11]
				}
				n++
				return n / 7
			})
		}()}, Fail, "lag-sprays"},
		{"loss, flooding", "flooding", 3, &soft{loses: 100}, Pass, ""},
		{"loss, protocols", "bpdu-lldp", 2, &soft{loses: 100}, Pass, ""},
		{"loss, DSCP", "dscp", 2, &soft{loses: 100}, Pass, ""},
		{"loss, PFC", "pfc", 2, &soft{loses: 100, treat: pfc(true), route: pauses}, Pass, ""},
		{"loss, PFC without tags", "pfc", 2, &soft{loses: 100, treat: pfc(false), route: pauses}, Fail, "pfc-ignored"},
		{"all tags lost, PFC", "pfc", 2, &soft{losesTagged: 1, treat: pfc(true), route: pauses}, NotTested, "paused or not"},

		// One that loses more is named.
		{"much loss", "acl", 2, &soft{loses: 5, treat: drop(denied)}, NotTested, "the path loses frames"},
		{"much loss of tags", "dscp", 2, &soft{losesTagged: 4}, NotTested, "the path loses frames"},
		{"much loss of tags, VIDs", "vids", 2, &soft{losesTagged: 4}, NotTested, "the path loses frames"},
	}
	byID := map[string][]int{} // those of one experiment share what they count, and run one after another
	for i := range rows {
		if slices.Contains(others, rows[i].name) && !vendorstest.Long(t) {
			continue
		}
		byID[rows[i].id] = append(byID[rows[i].id], i)
	}
	for id, list := range byID {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			for _, i := range list {
				tc := &rows[i]
				t.Run(tc.name, func(t *testing.T) {
					if id == "pfc" {
						paused = false
					}
					synctest.Test(t, func(t *testing.T) {
						b := softBench(t, tc.ports, tc.s)
						b.Routed = &Routed{router, netip.MustParseAddr("203.0.113.9")}
						r := judged(t, b, id, tc.outcome, tc.want)
						if tc.want == "storm-limits-tagged" {
							r.Switch.Model, r.Switch.Version = "X-1", "1"
							if f, err := r.Facts(Forwarding()); err != nil || f.StormControl != nil {
								t.Errorf("what limits unicast shows nothing of storm control: %+v, %v", f.StormControl, err)
							}
						}
					})
				})
			}
		})
	}
}
