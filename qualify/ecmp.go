package qualify

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/inventory"
)

// Routed is a destination that the switch routes, by equal-cost next hops at the third port and
// the fourth.
type Routed struct {
	Router MAC        // of the switch: what is sent to it is routed
	To     netip.Addr // IPv4
}

// ParseRouted reads MAC,ADDRESS.
func ParseRouted(text string) (*Routed, error) {
	mac, address, _ := strings.Cut(text, ",")
	hw, _ := net.ParseMAC(mac)
	to, _ := netip.ParseAddr(address)
	if len(hw) != len(MAC{}) || hw[0]&1 != 0 || MAC(hw) == (MAC{}) || !to.Is4() || to.IsUnspecified() || to.IsMulticast() {
		return nil, fmt.Errorf("%q: want MAC,ADDRESS: the switch's MAC address as a router, and an IPv4 address that it routes", text)
	}
	return &Routed{MAC(hw), to}, nil
}

// routing is how long a packet may take to be routed: a frame that is bridged behind it is no sign
// that it has been.
const routing = 50 * time.Millisecond

// followed is how many flows of each path are sent with each S and T of the tag.
const followed = 4

// routable is a frame to be routed, of one of the flows: of four MAC addresses, four IP
// addresses and four UDP ports that it comes from.
func (t *Trial) routable(flow, to int, tags []byte) Frame {
	f := ipFrameWith(to, 0, tags, uint16(10000+flow&3))
	f.Src, f.Dst = t.Address(uint8(100+flow>>4&3)), t.Routed.Router
	address := t.Routed.To.As4()
	f.Header[15] = byte(16 + flow>>2&3)
	copy(f.Header[16:], address[:])
	sumIP(f.Header[:20])
	return f
}

// paths are the next hops' ports that a frame was routed to.
func (l tried) paths() []int {
	return slices.DeleteFunc(l.ports(), func(port int) bool { return port < 2 })
}

// plainPaths are the paths of the flows without the tag.
func (t *Trial) plainPaths(ctx context.Context) ([]int, error) {
	var frames []Frame
	for flow := range flows {
		frames = append(frames, t.routable(flow, 2, nil))
	}
	other := t.routable(0, 1, nil)
	other.Dst = t.Address(5)
	seen, err := t.several(ctx, 0, append(frames, other))
	if err != nil {
		return nil, err
	}
	third, fourth := t.Ports[2].Name, t.Ports[3].Name
	count, out := map[int]int{}, make([]int, flows)
	for flow := range flows {
		ports := seen[flow].paths()
		if len(ports) != 1 {
			return nil, Cannot("a packet without the tag to %v at %v leaves by %d of %s and %s: configure a route to it with two next hops of equal cost there, whose MAC addresses are configured, too", t.Routed.To, t.Routed.Router, len(ports), third, fourth)
		}
		out[flow] = ports[0]
		count[ports[0]]++
		const ttl = 22
		if got := seen[flow].at(ports[0]).At(ports[0]); got[ttl] >= frames[flow].Header[8] {
			return nil, Cannot("a packet without the tag to %v leaves by %s with the TTL that it came with: it is not routed", t.Routed.To, t.Ports[ports[0]].Name)
		}
	}
	if len(count) < 2 {
		return nil, Cannot("%d flows without the tag to %v all leave by %s: %s and %s have to be next hops of equal cost, chosen by source address or UDP port", flows, t.Routed.To, t.Ports[out[0]].Name, third, fourth)
	}
	if err := t.Positive("flows without the tag are routed to both next hops, each to one", true, ""); err != nil {
		return nil, err
	}
	return out, t.Negative("a packet to another MAC address than the router's is not routed", len(seen[flows].paths()) == 0, "it leaves by %s or %s", third, fourth)
}

func runECMP(ctx context.Context, t *Trial) error {
	if t.Routed == nil {
		return Cannot("csig has to know what is routed: --routed MAC,ADDRESS, the switch's MAC address as a router at %s, and an IPv4 address whose next hops of equal cost are at %s and %s", t.Ports[0].Name, t.Ports[2].Name, t.Ports[3].Name)
	}
	defer func(settle time.Duration) { t.Settle = settle }(t.Settle)
	t.Settle = max(t.Settle, routing)
	plain, err := t.plainPaths(ctx)
	if err != nil {
		return err
	}
	// Each tag is bridged, too: what becomes of it there is no matter of routing.
	const tags = 8 * 32 // each T with each S
	tci := func(i int) uint16 {
		return uint16(i&7)<<13 | t.Profile.Layout.VID(uint8(i>>3), t.Profile.Layout.LMNone())
	}
	var frames []Frame
	for i := range tags {
		frames = append(frames, Frame{To: 1, Tags: VLAN(t.Profile.TPID, tci(i))})
	}
	type packet struct{ flow, tag int }
	var packets []packet
	count := map[int]int{}
	for flow, path := range plain {
		step := 1
		if count[path]++; count[path] > followed {
			step = 33 // each T once, and eight S
		}
		for i := 0; i < tags; i += step {
			packets = append(packets, packet{flow, i})
			frames = append(frames, t.routable(flow, path, VLAN(t.Profile.TPID, tci(i))))
		}
	}
	seen, err := t.several(ctx, 0, frames)
	if err != nil {
		return err
	}
	bridged, left := seen[:tags], []string{}
	for i := range tags {
		if !bridged[i].reached(1) {
			left = append(left, fmt.Sprintf("%04x", tci(i)))
		}
	}
	switch len(left) {
	case 0:
	case tags:
		return Cannot("no frame with the tag arrives that is bridged: see the experiments tpid and vids")
	default:
		t.Note("left out, as frames with them do not arrive where they are bridged: tags %s", some(left))
	}
	sent, routed := 0, map[int]int{} // paths by flow and tag
	for k, p := range packets {
		if !bridged[p.tag].reached(1) {
			continue
		}
		sent++
		l := seen[tags+k]
		paths := l.paths()
		if len(paths) > 1 {
			t.faultOnce("ecmp-sprays", "packets of one flow with one tag do not leave by one next hop")
		}
		if len(paths) > 0 {
			routed[p.flow<<16|int(tci(p.tag))] = paths[0]
			t.keepsTag(l.at(paths[0]), paths[0], bridged[p.tag].at(1).At(1))
		}
	}
	if n := sent - len(routed); n > 0 {
		t.Fault("ecmp-lost", "packets with the tag are not routed as those without it: %d of %d do not arrive", n, sent)
	}
	if len(routed) > 0 && !t.Has("ecmp-sprays") {
		t.chosen(plain, routed)
	}
	t.Found("%d flows stay on the paths that they have without the tag, %d of them with each T and S; and routing keeps the tag", flows, min(count[2], followed)+min(count[3], followed))
	return nil
}

// keepsTag looks for the tag of a packet that was routed, as it is where that is bridged.
func (t *Trial) keepsTag(s *Seen, port int, bridged []byte) {
	switch got := s.At(port); {
	case binary.BigEndian.Uint16(got[12:]) == ipv4:
		t.faultOnce("ecmp-tag-lost", "routing removes the tag %x", s.Tags)
	case string(got[12:16]) != string(bridged[12:16]) || binary.BigEndian.Uint16(got[16:]) != ipv4:
		t.faultOnce("ecmp-tag-altered", "routing alters the tag %x: %x became %x", s.Tags, bridged[12:18], got[12:18])
	}
}

// chosen judges what chooses the path: routed are those of frames with the tag, by flow<<16 and
// TCI.
func (t *Trial) chosen(plain []int, routed map[int]int) {
	fields := []string{}
	for _, field := range []struct {
		name string
		mask int
	}{{"MAC", 3 << 20}, {"IP", 3 << 18}, {"L4", 3 << 16}, {"PCP", 0xe000}, {"VID", 0x0fff}} {
		first := map[int]int{} // by all else
		for key, path := range routed {
			if other, ok := first[key&^field.mask]; ok && other != path && !slices.Contains(fields, field.name) {
				fields = append(fields, field.name)
			}
			first[key&^field.mask] = path
		}
	}
	t.Listed("hash", fields)
	used, moved := map[int]bool{}, map[int]bool{}
	for key, path := range routed {
		used[path] = true
		if path != plain[key>>16] {
			moved[key>>16] = true
		}
	}
	hashed := slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return f != "PCP" && f != "VID" })
	for _, f := range hashed {
		t.Fault("ecmp-hashes-"+f, "the %s of the tag chooses the path: a flow is reordered as the signal changes", f)
	}
	switch {
	case len(hashed) > 0:
	case len(used) == 1:
		t.Fault("ecmp-one-path", "all flows with the tag leave by one next hop, and without it by both: addresses and ports are not found behind it")
	case len(moved) > 0:
		t.Fault("ecmp-differs", "%d of %d flows leave by another next hop with the tag than without it", len(moved), flows)
	}
}

// ecmpFacts are whether packets with the tag are routed as others, and the fields that choose
// the path, with those that choose the member of a LAG.
func ecmpFacts(r *Result, f *inventory.Facts) {
	f.Routing = fact(r.Outcome == Pass)
	fields := r.List("hash")
	if fields == nil {
		return
	}
	if f.Hash != nil {
		fields = slices.Concat(*f.Hash, fields)
	}
	list := []string{}
	for _, field := range fields {
		if !slices.Contains(list, field) {
			list = append(list, field)
		}
	}
	f.Hash = &list
}
