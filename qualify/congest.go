package qualify

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// A port is congested by bursts of frames of so many bytes, which it sends more slowly than
// they come.
const (
	congesting = 1000
	drained    = 300 * time.Millisecond // without a frame: the queue is empty
	draining   = 20 * time.Second       // at most
)

// slower is what congests a port, for people.
func (t *Trial) slower() string {
	return fmt.Sprintf("limit %s to 5 to 20 Mbit/s with a queue of 200 KB or more", t.Ports[1].Name)
}

// burst sends frames from port 0 to port 1 as fast as the card takes them. It returns what
// became of each, and their indexes in the order in which they arrived.
func (t *Trial) burst(ctx context.Context, frames []Frame) (seen []Seen, order []int, err error) {
	if _, err := t.drops(); err != nil {
		return nil, nil, err
	}
	l := t.Listen()
	defer l.Close()
	seen, index := make([]Seen, len(frames)), map[uint64]int{}
	for i, f := range frames {
		seq, bytes, err := t.Build(0, f)
		if err != nil {
			return nil, nil, err
		}
		seen[i], index[seq] = Seen{Frame: f, Seq: seq, Sent: bytes}, i
	}
	held, _, err := t.Build(0, Frame{To: 1})
	if err != nil {
		return nil, nil, err
	}
	for i := range seen {
		seen[i].Left = time.Now()
		if err := t.Send(0, seen[i].Sent); err != nil {
			return nil, nil, err
		}
	}
	sent := time.Now()
	if len(seen) > 0 {
		t.sending += sent.Sub(seen[0].Left)
	}
	for n, since := l.count(), sent; n < len(frames) && time.Since(since) < drained && time.Since(sent) < draining; {
		if err := vendors.Wait(ctx, time.Millisecond); err != nil {
			return nil, nil, err
		}
		if now := l.count(); now > n {
			n, since = now, time.Now()
		}
	}
	if err := t.Sync(ctx, 0, 1); err != nil {
		return nil, nil, t.Positive(untagged, false, "%v", err)
	}
	if err := t.Positive(untagged, true, ""); err != nil {
		return nil, nil, err
	}
	missed := true
	for _, a := range l.Take() {
		missed = missed && a.Seq != held
		if i, ok := index[a.Seq]; ok && a.Port == 1 {
			if len(seen[i].Where) == 0 {
				order = append(order, i)
				t.Frames.Arrived++
			}
			seen[i].Where = append(seen[i].Where, a)
		}
	}
	t.Frames.Sent += len(frames)
	t.Frames.Listened = time.Since(sent)
	if t.sending > 0 {
		t.Frames.PerSecond = float64(t.Frames.Sent) / t.sending.Seconds()
	}
	if n, err := t.drops(); err != nil || n > 0 {
		return nil, nil, Cannot("this machine itself lost %d frames (%v): a quieter machine is needed", n, err)
	}
	return seen, order, t.Negative("a frame that is kept back is missed", missed, "it arrived")
}

// ECN (RFC 3168).
const (
	ect0 = 2
	ce   = 3

	ecnBurst  = 200
	ecnRounds = 2
	ecnPace   = 20 * time.Millisecond
)

// marked are packets of bursts, and what became of them.
type marked struct {
	sent, arrived, ce int
	altered           string // beyond ECN and the header's checksum
}

func (m *marked) add(seen []Seen) {
	for i := range seen {
		s := &seen[i]
		m.sent++
		got := s.At(1)
		if got == nil {
			continue
		}
		m.arrived++
		if lastTOS(s)&3 == ce && s.Sent[14+len(s.Tags)+1]&3 != ce {
			m.ce++
		}
		want, ip := slices.Clone(s.Sent), 14+len(s.Tags)
		if len(got) == len(want) {
			want[ip+1] |= got[ip+1] & 3
			copy(want[ip+10:ip+12], got[ip+10:])
		}
		if !bytes.Equal(got, want) && m.altered == "" {
			m.altered = Difference(want, got)
		}
	}
}

func runECN(ctx context.Context, t *Trial) error {
	tag := VLAN(t.Profile.TPID, 0x2f7e)
	packets := func(n int, tos uint8, tags []byte) []Frame {
		return slices.Repeat([]Frame{sizedIP(tos, tags, 4660, congesting)}, n)
	}
	t.pace = ecnPace
	calm, err := t.Exchange(ctx, 0, slices.Concat(packets(4, ect0, nil), packets(4, ect0, tag)))
	t.pace = 0
	if err != nil {
		return err
	}
	var quiet, without, with, notECT marked
	quiet.add(calm)
	for range ecnRounds {
		for _, one := range []struct {
			to   *marked
			tos  uint8
			tags []byte
		}{{&without, ect0, nil}, {&with, ect0, tag}, {&notECT, 0, nil}} {
			seen, _, err := t.burst(ctx, packets(ecnBurst, one.tos, one.tags))
			if err != nil {
				return err
			}
			one.to.add(seen)
		}
	}
	t.Measured("ecn_capable_packets", float64(without.sent))
	t.Measured("marked_without_tag", float64(without.ce))
	t.Measured("marked_with_tag", float64(with.ce))
	t.Measured("arrived_without_tag", float64(without.arrived))
	t.Measured("arrived_with_tag", float64(with.arrived))
	if 20*without.ce < without.sent {
		return Cannot("%d of %d ECN-capable packets without the tag, in bursts of %d, are marked CE, which is too few: %s, and have it mark ECN there well below that", without.ce, without.sent, ecnBurst, t.slower())
	}
	if err := t.Positive("ECN-capable packets without the tag are marked in congestion", true, ""); err != nil {
		return err
	}
	if err := t.Negative("packets that are not ECN-capable, or meet no queue, are not marked", notECT.ce+quiet.ce == 0, "%d and %d are", notECT.ce, quiet.ce); err != nil {
		return err
	}
	switch {
	case with.altered != "" && without.altered == "":
		t.Fault("ecn-altered", "in congestion, packets behind the tag are altered: %s", with.altered)
	case quiet.arrived < quiet.sent/2+1:
		return Cannot("packets with the tag do not arrive, in congestion or not: see the experiment tpid")
	case 4*with.ce < without.ce:
		t.Fault("ecn-not-marked", "of %d ECN-capable packets each, %d are marked CE without the tag and %d with it; %d and %d arrive", without.sent, without.ce, with.ce, without.arrived, with.arrived)
	}
	t.Found("of %d ECN-capable packets each, %d are marked CE without the tag and %d with it", without.sent, without.ce, with.ce)
	return nil
}

// Frames of one kind fill the queue, and those of another follow.
const (
	queued    = 120
	following = 12
	queueing  = 6 // times that a burst may have to be repeated until it finds a queue
)

// DSCP of expedited forwarding as a TOS, and the PCP that many switches put first with it.
const (
	expedited   = 46 << 2
	expeditedPC = 5
)

// overtakes reports whether frames that follow others leave before those that wait. It counts
// once half of the first were waiting.
func (t *Trial) overtakes(ctx context.Context, first, then Frame) (bool, error) {
	for range queueing {
		seen, order, err := t.burst(ctx, append(slices.Repeat([]Frame{first}, queued), slices.Repeat([]Frame{then}, following)...))
		if err != nil {
			return false, err
		}
		waiting, behind, last := 0, 0, -1
		for n, i := range order {
			if i >= queued {
				last = n
			}
		}
		for n, i := range order {
			if i >= queued {
				continue
			}
			if seen[i].Where[0].At.After(seen[queued].Left) {
				waiting++
			}
			if n > last {
				behind++
			}
		}
		if 2*waiting < queued || last < 0 {
			continue
		}
		return 4*behind > waiting, nil // behind the last that follows
	}
	return false, Cannot("no burst of %d frames waits at %s: %s", queued, t.Ports[1].Name, t.slower())
}

// pcpOvertakes reports whether a VLAN tag's PCP chooses a queue; no VLAN, no queue.
func (t *Trial) pcpOvertakes(ctx context.Context) (bool, error) {
	vid, err := t.carried(ctx)
	if why := (*notTested)(nil); errors.As(err, &why) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	vlan := func(pcp uint16) Frame { return sizedIP(0, VLAN(0x8100, pcp<<13|vid), 4660, congesting) }
	return t.overtakes(ctx, vlan(0), vlan(expeditedPC))
}

func runQueue(ctx context.Context, t *Trial) error {
	plain := func(tos uint8) Frame { return sizedIP(tos, nil, 4660, congesting) }
	tag := func(tos uint8, pcp uint16) Frame {
		return sizedIP(tos, VLAN(t.Profile.TPID, pcp<<13|0xf7e), 4660, congesting)
	}
	dscp, err := t.overtakes(ctx, plain(0), plain(expedited))
	if err != nil {
		return err
	}
	same, err := t.overtakes(ctx, plain(0), plain(0))
	if err != nil {
		return err
	}
	if err := t.Negative("frames without the tag of one DSCP keep their order", !same, "some overtake others"); err != nil {
		return err
	}
	pcp := false
	if !dscp {
		if pcp, err = t.pcpOvertakes(ctx); err != nil {
			return err
		}
	}
	if !dscp && !pcp {
		return Cannot("no priority is seen without the tag: neither DSCP 46 nor, in a VLAN, PCP %d overtakes what waits at %s: %s, and another of strict priority there for one of them, which %s has to trust", expeditedPC, t.Ports[1].Name, t.slower(), t.Ports[0].Name)
	}
	if err := t.Positive("frames without the tag of a high priority overtake others", true, ""); err != nil {
		return err
	}
	if err := t.passing(ctx); err != nil {
		return err
	}
	for _, row := range []struct {
		asked       bool
		first, then Frame
		want        bool
		code, text  string
	}{
		{dscp, tag(0, 1), tag(expedited, 1), true, "queue-ignores-dscp", "DSCP 46 overtakes what waits without the tag, and not behind it"},
		{true, tag(0, 0), tag(0, expeditedPC), false, "queue-by-pcp", fmt.Sprintf("a tag with T=%d overtakes one with T=0: its PCP chooses the queue, and signals are reordered", expeditedPC)},
		{true, plain(0), tag(0, 1), false, "queue-differs", "frames with the tag overtake those without, of the same DSCP"},
		{true, tag(0, 1), plain(0), false, "queue-differs", "frames without the tag overtake those with it, of the same DSCP"},
	} {
		if !row.asked {
			continue
		}
		got, err := t.overtakes(ctx, row.first, row.then)
		if err != nil {
			return err
		}
		if got != row.want {
			t.faultOnce(row.code, "%s", row.text)
		}
	}
	if !dscp {
		t.Note("DSCP 46 has no priority here, with the tag or without: whether DSCP behind the tag chooses the queue was not tried")
	}
	t.Found("frames with the tag wait in the queue of those without: %s", map[bool]string{true: "DSCP 46 overtakes, with the tag and without, and T chooses no queue", false: "T chooses no queue"}[dscp])
	return nil
}

// sizedIP is an IP packet for port 1 in a frame of so many bytes.
func sizedIP(tos uint8, tags []byte, source uint16, size int) Frame {
	f := ipFrameWith(1, tos, tags, source)
	f.Size = size
	n := size - 14 - len(tags)
	binary.BigEndian.PutUint16(f.Header[2:], uint16(n))
	binary.BigEndian.PutUint16(f.Header[24:], uint16(n-20))
	sumIP(f.Header)
	return f
}
