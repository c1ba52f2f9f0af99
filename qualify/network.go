package qualify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// ipHeader is an IPv4 header and a UDP header for a frame of ipFrame bytes with this tag
// in front, from a test network (RFC 5737).
func ipHeader(tos uint8, tags []byte, source uint16) []byte {
	n := ipFrame - 14 - len(tags)
	h := []byte{0x45, tos, 0, 0, 0x12, 0x34, 0, 0, 64, 17, 0, 0}
	binary.BigEndian.PutUint16(h[2:], uint16(n))
	from, to := netip.MustParseAddr("192.0.2.1").As4(), netip.MustParseAddr("192.0.2.2").As4()
	h = append(append(h, from[:]...), to[:]...)
	sumIP(h)
	h = binary.BigEndian.AppendUint16(h, source)
	h = binary.BigEndian.AppendUint16(h, 9) // discard
	h = binary.BigEndian.AppendUint16(h, uint16(n-20))
	return append(h, 0, 0) // no checksum
}

// sumIP writes the checksum of an IPv4 header without options.
func sumIP(h []byte) {
	sum := uint32(0)
	h[10], h[11] = 0, 0
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum))
}

const (
	ipFrame = 100
	ipv4    = 0x0800
)

func ipFrameWith(to int, tos uint8, tags []byte, source uint16) Frame {
	return Frame{To: to, Tags: tags, Type: ipv4, Header: ipHeader(tos, tags, source), Size: ipFrame}
}

func runDSCP(ctx context.Context, t *Trial) error {
	if err := t.passing(ctx); err != nil {
		return err
	}
	tag := VLAN(t.Profile.TPID, 0x2f7e)
	var frames []Frame
	for tos := range 256 {
		frames = append(frames, ipFrameWith(1, uint8(tos), nil, 4660), ipFrameWith(1, uint8(tos), tag, 4660))
	}
	seen, err := t.several(ctx, 0, frames)
	if err != nil {
		return err
	}
	remarked := 0
	for tos := range 256 {
		without, with := seen[2*tos].at(1), seen[2*tos+1].at(1)
		if without == nil {
			return t.Positive("IP packets without the tag arrive", false, "one with DSCP %d did not", tos>>2)
		}
		if with == nil {
			t.faultOnce("ip-lost", "an IP packet with DSCP %d behind the tag did not arrive", tos>>2)
			continue
		}
		a, b := without.At(1)[15], lastTOS(with)
		switch {
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
	allowed := t.Address(5)
	frames := []Frame{{To: 1, Dst: deniedAddress}, {To: 1, Dst: allowed}}
	for _, vid := range sampled {
		tag := VLAN(t.Profile.TPID, vid)
		frames = append(frames, Frame{To: 1, Dst: deniedAddress, Tags: tag}, Frame{To: 1, Dst: allowed, Tags: tag})
	}
	seen, err := t.several(ctx, 0, frames)
	if err != nil {
		return err
	}
	if err := t.Positive("a frame without the tag to another unknown address arrives", seen[1].reached(1), "it did not"); err != nil {
		return err
	}
	if seen[0].reached(1) {
		return Cannot("no ACL drops a frame without the tag: configure one at %s that drops destination %v", t.Ports[0].Name, deniedAddress)
	}
	if err := t.Negative("the ACL drops a frame without the tag", true, ""); err != nil {
		return err
	}
	passed, left := 0, []int{}
	for i, vid := range sampled {
		switch denied, other := seen[2+2*i], seen[3+2*i]; {
		case denied.reached(1):
			t.faultOnce("acl-bypassed", "a frame with VID %d passes an ACL that drops it without the tag", vid)
		case other.reached(1):
			passed++
		default:
			left = append(left, int(vid))
		}
	}
	if err := t.alike(passed, left, "frames with them arrive at no address", "the ACL drops frames with %d VIDs as those without the tag"); err != nil || len(t.Faults) > 0 {
		return err
	}
	return t.aclWithRules(ctx, allowed)
}

// aclWithRules tries whether csig's rules take frames before the ACL drops them.
func (t *Trial) aclWithRules(ctx context.Context, allowed MAC) error {
	tci, err := t.ruled(ctx)
	if why := (*notTested)(nil); errors.As(err, &why) {
		t.Note("not tried with rules: %s", why.why)
		return nil
	}
	if err != nil {
		return err
	}
	tag := VLAN(t.Profile.TPID, tci)
	seen, err := t.several(ctx, 0, []Frame{{To: 1, Dst: deniedAddress, Tags: tag}, {To: 1, Dst: allowed, Tags: tag}})
	switch {
	case err != nil:
		return err
	case seen[0].reached(1):
		t.Fault("acl-shadowed", "a frame with the tag passes, where csig's rules rewrite it, an ACL that drops it without them")
	case !seen[1].reached(1):
		t.Note("not tried with rules: with them frames with the tag arrive at no address")
		return nil
	}
	t.Found("%s, with csig's rules and without", t.Result.Found)
	return nil
}

// alike ends an experiment about the sampled VIDs: of those that are left out nothing is
// known, and why.
func (t *Trial) alike(n int, left []int, why, found string) error {
	if len(left) > 0 {
		t.Note("left out, as %s: VIDs %s", why, some(ranges(left)))
	}
	if n < 2 && len(t.Faults) == 0 {
		return Cannot("%d of %d VIDs could be tried, as %s: see the experiments tpid and vids", n, len(sampled), why)
	}
	t.Found(found, n)
	return nil
}

func runMirror(ctx context.Context, t *Trial) error {
	frames := []Frame{{To: 1}}
	for _, vid := range sampled {
		frames = append(frames, Frame{To: 1, Tags: VLAN(t.Profile.TPID, vid)})
	}
	seen, err := t.several(ctx, 0, frames)
	if err != nil {
		return err
	}
	if !seen[0].reached(2) {
		return Cannot("a frame from %s without the tag is not mirrored to %s: configure a mirror session", t.way(0, 1), t.Ports[2].Name)
	}
	fate := seen[0].changed(2)
	if err := t.Positive("a frame without the tag is mirrored untouched", fate == "", "%s", fate); err != nil {
		return err
	}
	passed, left := 0, []int{}
	for i, vid := range sampled {
		switch s := seen[1+i]; {
		case s.reached(2) && s.changed(2) == "":
			passed++
		case s.reached(2):
			t.faultOnce("mirror-altered", "a frame with VID %d is mirrored, and %s", vid, s.changed(2))
		case s.reached(1):
			t.faultOnce("mirror-lost", "a frame with VID %d is not mirrored", vid)
		default:
			left = append(left, int(vid))
		}
	}
	return t.alike(passed, left, "frames with them do not arrive", "frames with %d VIDs are mirrored untouched")
}

// flows is how many flows show whether ports are a LAG.
const flows = 64

// members are the ports at which flows arrived; one that is not the same each time is none
// of a LAG.
func members(seen []tried) (used []int, steady bool) {
	steady = true
	for _, s := range seen {
		ports := s.ports()
		steady = steady && len(ports) < 2
		used = append(used, ports...)
	}
	slices.Sort(used)
	return slices.Compact(used), steady
}

func runLAG(ctx context.Context, t *Trial) error {
	tag := VLAN(t.Profile.TPID, 0x2f7e)
	var frames []Frame
	for i := range flows {
		f := ipFrameWith(1, 0, nil, uint16(10000+i))
		f.Src, f.Dst = t.Address(uint8(100+i)), t.Address(9)
		frames = append(frames, f)
	}
	seen, err := t.several(ctx, 0, frames)
	if err != nil {
		return err
	}
	if used, steady := members(seen); !steady || len(used) < 2 {
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
		if seen, err = t.several(ctx, 0, frames); err != nil {
			return err
		}
		used, steady := members(seen)
		switch {
		case len(used) == 0:
			return Cannot("no frame with the tag arrives at a member: see the experiment tpid")
		case !steady:
			t.faultOnce("lag-sprays", "frames of one flow with one tag do not leave by one member")
		case len(used) > 1:
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
	if r.Has("lag-sprays") {
		return
	}
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
	rows := []struct {
		name string
		tags []byte
	}{
		{fmt.Sprintf("a frame of VLAN %d with priority %d", vid, pausedPriority), VLAN(0x8100, pausedPriority<<13|vid)},
		{"a frame with the tag", VLAN(t.Profile.TPID, pausedPriority<<13|0xf7e)},
	}
	for i, r := range rows { // one that is lost anyway would seem to be paused
		seen, err := t.several(ctx, 0, []Frame{{To: 1, Tags: r.tags}})
		switch {
		case err != nil:
			return err
		case i > 0 && !seen[0].reached(1):
			return Cannot("%s does not arrive, paused or not: see the experiment tpid", r.name)
		}
		if err := t.Positive(rows[0].name+" arrives when nothing is paused", seen[0].reached(1), "it did not"); err != nil {
			return err
		}
	}
	var held [2]int // in turns: a machine that is late to send PFC is so for both
	for range rounds {
		for i, r := range rows {
			one, err := t.paused(ctx, r.tags)
			if err != nil {
				return err
			}
			if one {
				held[i]++
			}
		}
	}
	if held[0] < rounds {
		return Cannot("%s is paused in %d of %d tries: switch PFC on for priority %d at %s", rows[0].name, held[0], rounds, pausedPriority, t.Ports[1].Name)
	}
	if err := t.Negative("PFC pauses a frame with a VLAN tag of this priority", true, ""); err != nil {
		return err
	}
	switch {
	case 2*held[1] < rounds: // one that is held may be one that is lost
		t.Fault("pfc-ignored", "PFC for priority %d pauses a frame with a VLAN tag of that priority, and not one with the tag", pausedPriority)
	case held[1] < rounds:
		return Cannot("PFC pauses %s in %d of %d tries, and %s in all: this machine may send it too late, or the pause is too short", rows[1].name, held[1], rounds, rows[0].name)
	}
	t.Found("PFC pauses a frame with the tag as one with a VLAN tag")
	return nil
}

// paused reports whether a frame with these tags does not arrive while port 1 is sent PFC.
func (t *Trial) paused(ctx context.Context, tags []byte) (bool, error) {
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
	err := vendors.Wait(ctx, 3*pauseEvery) // the first of them acts: nothing says that a port has paused
	var seq uint64
	if err == nil {
		var frame []byte
		if seq, frame, err = t.Build(0, Frame{To: 1, Tags: tags}); err == nil {
			err = t.Send(0, frame)
		}
	}
	if err == nil {
		err = t.Sync(ctx, 0, 1)
	}
	if err == nil {
		err = vendors.Wait(ctx, t.Settle) // a frame of another queue may be behind that
	}
	came := slices.ContainsFunc(l.Take(), func(a Arrival) bool { return a.Seq == seq })
	close(stop)
	if e := <-ended; err == nil {
		err = e
	}
	return !came, err
}
