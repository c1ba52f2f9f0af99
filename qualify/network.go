package qualify

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/csig-agent/csig/inventory"
)

// ipHeader is an IPv4 header and a UDP header for a frame of ipFrame bytes with this tag
// in front, from a test network (RFC 5737).
func ipHeader(tos uint8, tags []byte, source uint16) []byte {
	n := ipFrame - 14 - len(tags)
	h := []byte{0x45, tos, 0, 0, 0x12, 0x34, 0, 0, 64, 17, 0, 0}
	binary.BigEndian.PutUint16(h[2:], uint16(n))
	from, to := netip.MustParseAddr("192.0.2.1").As4(), netip.MustParseAddr("192.0.2.2").As4()
	h = append(append(h, from[:]...), to[:]...)
	sum := uint32(0)
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum))
	h = binary.BigEndian.AppendUint16(h, source)
	h = binary.BigEndian.AppendUint16(h, 9) // discard
	h = binary.BigEndian.AppendUint16(h, uint16(n-20))
	return append(h, 0, 0) // no checksum
}

const (
	ipFrame = 100
	ipv4    = 0x0800
)

func ipFrameWith(to int, tos uint8, tags []byte, source uint16) Frame {
	return Frame{To: to, Tags: tags, Type: ipv4, Header: ipHeader(tos, tags, source), Size: ipFrame}
}

func runDSCP(ctx context.Context, t *Trial) error {
	tag := VLAN(t.Profile.TPID, 0x2f7e)
	var frames []Frame
	for tos := range 256 {
		frames = append(frames, ipFrameWith(1, uint8(tos), nil, 4660), ipFrameWith(1, uint8(tos), tag, 4660))
	}
	seen, err := t.Exchange(ctx, 0, frames)
	if err != nil {
		return err
	}
	remarked := 0
	for tos := range 256 {
		without, with := &seen[2*tos], &seen[2*tos+1]
		if without.Fate() == lost {
			return t.Positive("IP packets without the tag arrive", false, "one with DSCP %d did not", tos>>2)
		}
		a, b := without.At(1)[15], lastTOS(with)
		switch {
		case with.Fate() == lost:
			t.faultOnce("ip-lost", "an IP packet with DSCP %d behind the tag did not arrive", tos>>2)
		case a == b && a != uint8(tos):
			remarked++
		case a != b && (a^b)&3 != 0:
			t.faultOnce("ecn-differs", "ECN %d arrives as %d without the tag, and behind it as %d", tos&3, a&3, b&3)
		case a != b:
			t.faultOnce("dscp-differs", "DSCP %d arrives as %d without the tag, and behind it as %d", tos>>2, a>>2, b>>2)
		}
	}
	if err := t.Positive("IP packets without the tag arrive", true, ""); err != nil {
		return err
	}
	t.Found("64 DSCPs with each ECN arrive behind the tag as without it")
	if remarked > 0 {
		t.Note("%d of 256 are remarked, with the tag and without: the ports do not trust them", remarked)
	}
	return nil
}

// lastTOS is the TOS byte of an IP packet behind one tag; of another frame it is what
// was sent.
func lastTOS(s *Seen) uint8 {
	at := 14 + len(s.Tags) + 1
	if got := s.At(s.To); len(got) > at {
		return got[at]
	}
	return s.Sent[at]
}

// deniedAddress is the destination that an operator's ACL is to drop for the experiment.
var deniedAddress = MAC{0x02, 0xc5, 0x53, 0xac, 0x10, 0x01}

func runACL(ctx context.Context, t *Trial) error {
	frames := []Frame{{To: 1, Dst: deniedAddress}}
	for _, vid := range sampled {
		frames = append(frames, Frame{To: 1, Dst: deniedAddress, Tags: VLAN(t.Profile.TPID, vid)})
	}
	seen, err := t.Exchange(ctx, 0, frames)
	if err != nil {
		return err
	}
	if seen[0].Fate() != lost {
		return Cannot("no ACL drops a frame without the tag: configure one at %s that drops destination %v", t.Ports[0].Name, deniedAddress)
	}
	if err := t.Negative("the ACL drops a frame without the tag", true, ""); err != nil {
		return err
	}
	for i, vid := range sampled {
		if seen[1+i].Fate() != lost {
			t.faultOnce("acl-bypassed", "a frame with VID %d passes an ACL that drops it without the tag", vid)
		}
	}
	t.Found("the ACL drops frames with %d VIDs as those without the tag", len(sampled))
	return nil
}

func runMirror(ctx context.Context, t *Trial) error {
	frames := []Frame{{To: 1}}
	for _, vid := range sampled {
		frames = append(frames, Frame{To: 1, Tags: VLAN(t.Profile.TPID, vid)})
	}
	seen, err := t.Exchange(ctx, 0, frames)
	if err != nil {
		return err
	}
	if seen[0].Count(2) == 0 {
		return Cannot("a frame from %s without the tag is not mirrored to %s: configure a mirror session", t.way(0, 1), t.Ports[2].Name)
	}
	fate := Difference(seen[0].Sent, seen[0].At(2))
	if err := t.Positive("a frame without the tag is mirrored untouched", fate == "", "%s", fate); err != nil {
		return err
	}
	for i, vid := range sampled {
		switch s := &seen[1+i]; {
		case s.Count(2) == 0:
			t.faultOnce("mirror-lost", "a frame with VID %d is not mirrored", vid)
		case Difference(s.Sent, s.At(2)) != "":
			t.faultOnce("mirror-altered", "a frame with VID %d is mirrored, and %s", vid, Difference(s.Sent, s.At(2)))
		}
	}
	t.Found("frames with %d VIDs are mirrored untouched", len(sampled))
	return nil
}

// flows is how many flows show whether ports are a LAG.
const flows = 64

// member is the one port that a frame arrived at; -1: none or several.
func member(s *Seen) int {
	if len(s.Where) != 1 {
		return -1
	}
	return s.Where[0].Port
}

func runLAG(ctx context.Context, t *Trial) error {
	tag := VLAN(t.Profile.TPID, 0x2f7e)
	var frames []Frame
	for i := range flows {
		f := ipFrameWith(1, 0, nil, uint16(10000+i))
		f.Src, f.Dst = t.Address(uint8(100+i)), t.Address(9)
		frames = append(frames, f)
	}
	seen, err := t.Exchange(ctx, 0, frames)
	if err != nil {
		return err
	}
	used := map[int]bool{}
	for i := range seen {
		used[member(&seen[i])] = true
	}
	if used[-1] || len(used) < 2 {
		return Cannot("%d flows from %s do not spread over the other ports, one each: configure those as one LAG", flows, t.Ports[0].Name)
	}
	if err := t.Positive("flows without the tag spread over the members", true, ""); err != nil {
		return err
	}
	// Fields that change the member while all else stays.
	for _, field := range []struct {
		name string
		with func(i int, f *Frame)
	}{
		{"VID", func(i int, f *Frame) { f.Tags = VLAN(t.Profile.TPID, 0x2000|uint16(1+i*61)) }},
		{"PCP", func(i int, f *Frame) { f.Tags = VLAN(t.Profile.TPID, uint16(i&7)<<13|0xf7e) }},
		{"DEI", func(i int, f *Frame) { f.Tags = VLAN(t.Profile.TPID, uint16(i&1)<<12|0xf7e) }},
		{"MAC", func(i int, f *Frame) { f.Tags, f.Src = tag, t.Address(uint8(100+i)) }},
		{"L4", func(i int, f *Frame) { f.Tags, f.Header = tag, ipHeader(0, tag, uint16(10000+i)) }},
	} {
		var frames []Frame
		for i := range flows {
			f := ipFrameWith(1, 0, tag, 10000)
			f.Src, f.Dst = t.Address(100), t.Address(9)
			field.with(i, &f)
			frames = append(frames, f)
		}
		if seen, err = t.Exchange(ctx, 0, frames); err != nil {
			return err
		}
		used := map[int]bool{}
		for i := range seen {
			used[member(&seen[i])] = true
		}
		if len(used) > 1 {
			t.Listed("hash", []string{field.name})
			if slices.Contains([]string{"VID", "PCP", "DEI"}, field.name) {
				t.Fault("lag-hashes-"+field.name, "the %s of the tag chooses the member: a flow is reordered as the signal changes", field.name)
			}
		}
	}
	t.Found("a flow stays on its member whatever its tag")
	return nil
}

// lagFacts are the fields that choose the member.
func lagFacts(r *Result, f *inventory.Facts) {
	list := []string{}
	for _, l := range r.Lists {
		if l.Name == "hash" {
			list = append(list, l.Values...)
		}
	}
	f.Hash = &list
}

// Priority flow control (IEEE 802.1Q clause 36): a frame that stops priority 3 for the
// longest time it can, sent as often.
const (
	pausedPriority = 3
	pauses         = 40
	pauseEvery     = time.Millisecond
)

func pauseFrame(src MAC) []byte {
	b := append([]byte{0x01, 0x80, 0xc2, 0x00, 0x00, 0x01}, src[:]...)
	b = append(b, 0x88, 0x08, 0x01, 0x01, 0, 1<<pausedPriority)
	for i := range 8 {
		q := uint16(0)
		if i == pausedPriority {
			q = 0xffff
		}
		b = binary.BigEndian.AppendUint16(b, q)
	}
	return append(b, make([]byte, 60-len(b))...)
}

func runPFC(ctx context.Context, t *Trial) error {
	vid, err := t.carried(ctx)
	if err != nil {
		return err
	}
	vlan := VLAN(0x8100, pausedPriority<<13|vid)
	tag := VLAN(t.Profile.TPID, pausedPriority<<13|0xf7e)
	paused := func(tags []byte) (bool, error) {
		stop, ended := make(chan struct{}), make(chan error, 1)
		pause := pauseFrame(t.Ports[1].MAC)
		go func() {
			for range pauses {
				if err := t.Ports[1].card.Send(pause); err != nil {
					ended <- err
					return
				}
				select {
				case <-stop:
					ended <- nil
					return
				case <-time.After(pauseEvery):
				}
			}
			ended <- nil
		}()
		l := t.Listen()
		defer l.Close()
		time.Sleep(3 * pauseEvery) // the first of them acts
		seq, frame, err := t.Build(0, Frame{To: 1, Tags: tags})
		if err == nil {
			err = t.Send(0, frame)
		}
		if err == nil {
			err = t.Sync(ctx, 0, 1)
		}
		came := slices.ContainsFunc(l.Take(), func(a Arrival) bool { return a.Seq == seq })
		close(stop)
		if e := <-ended; err == nil {
			err = e
		}
		return !came, err
	}
	for _, row := range []struct {
		name string
		tags []byte
	}{{fmt.Sprintf("a frame of VLAN %d with priority 3", vid), vlan}, {"the tag", tag}} {
		held, err := paused(row.tags)
		switch {
		case err != nil:
			return err
		case row.name != "the tag" && !held:
			return Cannot("%s is not paused: switch PFC on for priority %d at %s", row.name, pausedPriority, t.Ports[1].Name)
		case row.name != "the tag":
			if err := t.Negative("PFC pauses a frame with a VLAN tag of this priority", true, ""); err != nil {
				return err
			}
		case !held:
			t.Fault("pfc-ignored", "PFC for priority %d pauses a frame with a VLAN tag of that priority, and not one with the tag", pausedPriority)
		}
	}
	t.Found("PFC pauses a frame with the tag as one with a VLAN tag")
	return nil
}
