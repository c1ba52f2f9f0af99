package mesh

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
)

const (
	// Ports are the source ports that a pair is probed with, in turn: a network with several
	// paths spreads them.
	Ports = 4

	// MostPeers is how many peers a host probes in an interval: of more hosts as many, chosen anew.
	MostPeers = 63

	lostAfter  = time.Second     // a probe without an answer until then is lost
	lostInARow = 3               // tagged probes whose twins both arrived: the path drops tags, where it loses nothing else
	tryAgain   = 1 * time.Minute // tags of a pair after they were dropped
)

// TrialBits is what a host and a peer send each other in an interval, in bits of one direction of a link: a trial's
// probes and the answers to the peer's, over IPv6, with preamble, tag, FCS and gap.
const TrialBits = 3 * 8 * (2*(18+headIPv6+headUDP+24) + probeSize + longestAnswer)

// Interval is how often each peer is probed, so that probes and answers stay below a rate in bit/s.
func Interval(want time.Duration, peers int, rate uint64) time.Duration {
	return max(want, time.Duration(float64(min(peers, MostPeers)*TrialBits)/float64(max(rate, 1))*float64(time.Second)))
}

// What a pair's probes found out (draft-00 §6.3.3).
const (
	StateUnknown     = "unknown"     // nothing has come back yet
	StateUnreachable = "unreachable" // untagged probes are lost, too
	StateUntagged    = "untagged"    // the fleet file has the other host without csig: true: no tags are sent
	StateNotCapable  = "not capable" // tags are taken off on the way
	StateDropsTags   = "drops tags"  // tagged probes are lost whose untagged twins arrive: none are sent for a minute
	StateCapable     = "capable"     // tags arrive
)

// Peer is another host of the mesh.
type Peer struct {
	Name string
	Addr netip.Addr
	CSIG bool // tags may be sent to it
}

// Config is what one host of a mesh does.
type Config struct {
	Addr     netip.Addr
	CSIG     bool   // it may send tags
	Peers    []Peer // without this host
	Profile  *quantize.Profile
	Signals  []quantize.Signal // asked for in turn
	Key      []byte
	Interval time.Duration // between two trials of a peer
	Packets  Packets
}

// Packets is the network as a Prober needs it. A probe that cannot be sent is no loss, but nothing comes back.
type Packets interface {
	// Send sends a probe to the mesh's port of a peer from the source port of a number below Ports; with
	// no TPID the tag is none.
	Send(to netip.Addr, port int, tag quantize.Tag, payload []byte) error

	// Answer sends a datagram from the mesh's port.
	Answer(to netip.Addr, payload []byte) error
}

// Counts are of what arrived and was of no use, since the start.
type Counts struct {
	Forged     uint64 `json:"forged"`      // not signed with the mesh's key
	Replayed   uint64 `json:"replayed"`    // probes that had arrived before
	OtherRun   uint64 `json:"other_run"`   // of another sender, or of one before this
	Duplicate  uint64 `json:"duplicate"`   // the second answer of a probe
	Late       uint64 `json:"late"`        // of a probe that counted as lost
	OtherHost  uint64 `json:"other_host"`  // answered by a host that was not asked
	Malformed  uint64 `json:"malformed"`   // neither probe nor answer of this version
	Strangers  uint64 `json:"strangers"`   // probes from a host that is not of the mesh
	OverLimit  uint64 `json:"over_limit"`  // probes beyond what is answered
	SendErrors uint64 `json:"send_errors"` // probes that could not be sent
}

// byName is the counts by their names in JSON.
func (c *Counts) byName() map[string]uint64 {
	return map[string]uint64{
		"forged": c.Forged, "replayed": c.Replayed, "other_run": c.OtherRun, "duplicate": c.Duplicate, "late": c.Late, "other_host": c.OtherHost,
		"malformed": c.Malformed, "strangers": c.Strangers, "over_limit": c.OverLimit, "send_errors": c.SendErrors,
	}
}

// Prober probes the peers of one host, and answers theirs. All methods are safe beside each other.
type Prober struct {
	cfg     Config
	run     uint64        // by the clock at its start: a later one is greater
	silence time.Duration // of a peer, after which its run may have begun again with a smaller number

	mu     sync.Mutex
	pairs  []*pair // as cfg.Peers
	byAddr map[netip.Addr]int
	counts Counts
	first  uint64   // number of trials[0]
	trials []*trial // sent, and not over, the oldest first
	next   int      // the pair whose rows are the next
	buf    []byte
}

// trial is what is sent to a peer at once from one port: an untagged probe, or a tagged one between
// two untagged ones, which tell what happens to the tagged one alone.
type trial struct {
	peer, port int
	signal     int // of cfg.Signals
	n          int // 1 or 3 probes
	began      time.Time
	at         [3]time.Time // zero: it could not be sent
	answered   [3]time.Time // zero: not yet
	received   [3]time.Time // by the peer's clock
	tag        Answer       // of the tagged one
}

const tagged = 1 // the place of the tagged probe of a trial

// pair is what is known of the way to a peer.
type pair struct {
	tags    bool           // tagged probes are sent
	retry   time.Time      // when they are sent again, after they were dropped
	trials  int            // so far
	inARow  [Ports + 1]int // tagged probes lost whose twins both arrived, by source port and of all
	loss    loss           // of untagged probes
	silence int            // trials in a row without an answer
	newest  newest         // of the peer's probes
	limit   limit          // of answers to the peer: what others send, or forge, takes none of them
	paths   []*path        // by port and signal
}

// path is what is known of a pair by one source port and one signal, since its last row was taken.
type path struct {
	row   Row
	read  time.Time // of the row's S and LM; zero: there is none
	extra []time.Duration
	fresh bool // there is news
}

// lastExtras is how many delays of tagged probes their median is taken of.
const lastExtras = 15

// NewProber returns a prober that has sent nothing yet.
func NewProber(cfg Config) (*Prober, error) {
	if len(cfg.Key) < MinKey {
		return nil, fmt.Errorf("the mesh's key has %d bytes, want %d or more: make one with: head -c 32 /dev/urandom | base64", len(cfg.Key), MinKey)
	}
	p := &Prober{cfg: cfg, run: uint64(time.Now().UnixNano()), byAddr: make(map[netip.Addr]int)}
	p.silence = 10 * cfg.Interval * time.Duration(1+len(cfg.Peers)/MostPeers)
	for i, peer := range cfg.Peers {
		p.byAddr[peer.Addr] = i
		one := &pair{}
		for port := range Ports {
			for _, sig := range cfg.Signals {
				one.paths = append(one.paths, &path{row: Row{To: peer.Name, Port: port, Signal: sig.String(), State: StateUnknown}})
			}
		}
		p.pairs = append(p.pairs, one)
	}
	return p, nil
}

// Run probes until ctx ends: each peer once in an interval, or MostPeers of them, at times that two hosts do
// not share.
func (p *Prober) Run(ctx context.Context) error {
	var order []int
	for {
		if len(order) == 0 {
			order = rand.Perm(len(p.cfg.Peers))
		}
		now := order[:min(len(order), MostPeers)]
		order = order[len(now):]
		start, each := time.Now(), p.cfg.Interval/time.Duration(max(1, len(now)))
		for i, peer := range now {
			if err := wait(ctx, time.Until(start.Add(time.Duration(i)*each+rand.N(each)))); err != nil {
				return err
			}
			p.try(peer)
		}
		if err := wait(ctx, time.Until(start.Add(p.cfg.Interval))); err != nil {
			return err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// try sends the probes of a trial.
func (p *Prober) try(peer int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(time.Now())
	one, signals := p.pairs[peer], len(p.cfg.Signals)
	t := &trial{peer: peer, port: one.trials / signals % Ports, signal: one.trials % signals, n: 1, began: time.Now()}
	one.trials++
	if !one.retry.IsZero() && time.Now().After(one.retry) {
		one.tags, one.retry = true, time.Time{}
	}
	if one.tags {
		t.n = 3
	}
	number := p.first + uint64(len(p.trials))
	p.trials = append(p.trials, t)
	for k := range t.n {
		at := time.Now()
		var tag quantize.Tag
		if k == tagged {
			tag = probe.InitialTag(p.cfg.Profile, false, p.cfg.Signals[t.signal])
		}
		to := p.cfg.Peers[peer].Addr
		p.buf = appendProbe(p.buf[:0], probe.Payload{Signal: p.cfg.Signals[t.signal], Run: p.run, Seq: number*4 + uint64(k), Sent: at}, p.cfg.Key, p.cfg.Addr, to)
		if err := p.cfg.Packets.Send(to, t.port, tag, p.buf); err != nil {
			p.counts.SendErrors++
			continue
		}
		t.at[k] = at
	}
}

// expire ends the trials that are over: all have an answer, or lostAfter has passed.
func (p *Prober) expire(now time.Time) {
	for len(p.trials) > 0 {
		t := p.trials[0]
		if now.Sub(t.began) < lostAfter && !t.complete() {
			return
		}
		p.trials, p.first = p.trials[1:], p.first+1
		p.judge(t, now)
	}
}

func (t *trial) complete() bool {
	for k := range t.n {
		if t.answered[k].IsZero() {
			return false
		}
	}
	return true
}

// judge draws the conclusions of a trial that is over.
func (p *Prober) judge(t *trial, now time.Time) {
	one := p.pairs[t.peer]
	to := one.paths[t.port*len(p.cfg.Signals)+t.signal]
	row := &to.row
	to.fresh = true
	back := false // an untagged one
	for k := range t.n {
		if k == tagged || t.at[k].IsZero() {
			continue
		}
		row.Sent++
		one.loss.add(t.answered[k].IsZero())
		if t.answered[k].IsZero() {
			row.Lost++
			continue
		}
		if rtt := t.answered[k].Sub(t.at[k]).Nanoseconds(); !back || rtt < row.RTTNS {
			row.RTTNS = rtt
		}
		back = true
	}
	if !back {
		if one.silence++; one.silence >= lostInARow {
			one.tags, one.retry, one.inARow = false, time.Time{}, [Ports + 1]int{}
			for _, other := range one.paths {
				other.row.State, other.read = StateUnreachable, time.Time{}
			}
		}
		return
	}
	if one.silence >= lostInARow {
		for _, other := range one.paths {
			other.row.State = StateUnknown
		}
	}
	one.silence = 0
	switch {
	case !p.cfg.CSIG || !p.cfg.Peers[t.peer].CSIG:
		row.State = StateUntagged
	case t.n == 1 || t.at[tagged].IsZero():
		one.tags = one.tags || one.retry.IsZero()
	default:
		p.judgeTagged(t, one, to, now)
	}
}

// judgeTagged is judge of the tagged probe, at least one of whose twins arrived.
func (p *Prober) judgeTagged(t *trial, one *pair, to *path, now time.Time) {
	row := &to.row
	row.Tagged++
	if t.answered[tagged].IsZero() {
		row.TaggedLost++
		if t.answered[0].IsZero() || t.answered[2].IsZero() {
			return // it went with a twin
		}
		one.inARow[t.port]++
		one.inARow[Ports]++
		if n := slices.Max(one.inARow[:]); n >= lostInARow && one.loss.of(n) <= byChance && one.tags {
			one.tags, one.retry, one.inARow = false, now.Add(tryAgain), [Ports + 1]int{}
			for _, other := range one.paths {
				other.row.State, other.read, other.fresh = StateDropsTags, time.Time{}, true
			}
		}
		return
	}
	one.inARow[t.port], one.inARow[Ports] = 0, 0
	to.compare(t)
	if !t.tag.Valid {
		row.State, to.read = StateNotCapable, time.Time{}
		return
	}
	tag := p.cfg.Profile.Layout.Unpack(quantize.TCI(binary.BigEndian.Uint16(t.tag.Fields[:])))
	if t.tag.Wide || tag.T != p.cfg.Signals[t.signal] {
		p.counts.Malformed++ // no switch makes that of what was sent
		return
	}
	row.State, row.S, row.LM = StateCapable, uint8(tag.S), tag.LM
	to.read = t.answered[tagged]
}

// byChance is how likely it may be that ordinary loss took all the tagged probes by which a path counts as one that drops
// tags: a thousand hosts send 63,000 a second.
const byChance = 1e-9

// loss is the share of untagged probes that are lost, of the last 512 or so.
type loss struct{ sent, lost float64 }

func (l *loss) add(lost bool) {
	const keeps = 1 - 1.0/512
	if l.sent, l.lost = l.sent*keeps+1, l.lost*keeps; lost {
		l.lost++
	}
}

// of is how likely it is that n probes in a row are lost; of a path that loses none, a thousandth for each.
func (l *loss) of(n int) float64 { return math.Pow(max(l.lost/max(l.sent, 1), 1e-3), float64(n)) }

// compare takes note of what the network did to the tagged probe and not to its twins: the peer's clock
// alone tells how they followed each other.
func (to *path) compare(t *trial) {
	var extra time.Duration
	twins := 0
	for _, k := range []int{0, 2} {
		if t.answered[k].IsZero() {
			continue
		}
		gap := t.received[tagged].Sub(t.received[k])
		if gap > lostAfter || gap < -lostAfter {
			return // its clock was set in between
		}
		if (gap < 0) == (k == 0) && gap != 0 {
			to.row.Reordered++
		}
		extra += gap - t.at[tagged].Sub(t.at[k])
		twins++
	}
	if twins == 2 && t.received[2].Before(t.received[0]) {
		to.row.TwinsReordered++
	}
	to.extra = append(to.extra[max(0, len(to.extra)-lastExtras+1):], extra/time.Duration(twins))
	sorted := slices.Sorted(slices.Values(to.extra))
	to.row.ExtraNS = sorted[len(sorted)/2].Nanoseconds()
}

// Answered takes in what arrived at the mesh's port from a host.
func (p *Prober) Answered(from netip.Addr, payload []byte) {
	now := time.Now()
	a, err := ParseAnswer(payload, p.cfg.Key)
	p.mu.Lock()
	defer p.mu.Unlock()
	number := a.Seq / 4
	k := int(a.Seq % 4)
	switch {
	case errors.Is(err, ErrForged):
		p.counts.Forged++
	case err != nil:
		p.counts.Malformed++
	case a.Run != p.run:
		p.counts.OtherRun++
	case number < p.first:
		p.counts.Late++
	case number-p.first >= uint64(len(p.trials)) || k >= p.trials[number-p.first].n || p.trials[number-p.first].at[k].IsZero():
		p.counts.Malformed++ // of what was never sent
	default:
		t := p.trials[number-p.first]
		switch {
		case p.cfg.Peers[t.peer].Addr != from:
			p.counts.OtherHost++
		case !t.answered[k].IsZero():
			p.counts.Duplicate++
		default:
			t.answered[k], t.received[k] = now, a.Received
			if k == tagged {
				t.tag = a
			}
			p.expire(now)
		}
	}
}

// Asked takes in a probe that arrived, and answers it: fields are those of its tag, none without.
func (p *Prober) Asked(from netip.Addr, at time.Time, fields, payload []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer, known := p.byAddr[from]
	if !known {
		p.counts.Strangers++
		return
	}
	asked, err := parseProbe(payload, p.cfg.Key, from, p.cfg.Addr)
	switch {
	case errors.Is(err, ErrForged):
		p.counts.Forged++
		return
	case err != nil:
		p.counts.Malformed++
		return
	case !p.pairs[peer].newest.take(time.Now(), asked.Run, asked.Seq, p.silence):
		p.counts.Replayed++
		return
	case !p.pairs[peer].limit.take(time.Now(), asked.Seq/4):
		p.counts.OverLimit++
		return
	}
	a := Answer{Run: asked.Run, Seq: asked.Seq, Valid: fields != nil, Wide: len(fields) == wideFields, Received: at}
	copy(a.Fields[:], fields)
	p.buf = a.AppendTo(p.buf[:0], p.cfg.Key)
	if err := p.cfg.Packets.Answer(from, p.buf); err != nil {
		p.counts.SendErrors++
	}
}

// Datagram takes in a datagram without a tag that arrived at the mesh's port.
func (p *Prober) Datagram(from netip.Addr, at time.Time, payload []byte) {
	if len(payload) >= 4 && binary.BigEndian.Uint32(payload) == answerMagic {
		p.Answered(from, payload)
	} else {
		p.Asked(from, at, nil, payload)
	}
}

// A peer's trials are answered as fast as the shortest interval of a fleet file has them, and so many at once.
const (
	shortest  = 100 * time.Millisecond
	mostAsked = 4
)

// limit lets whole trials through: one whose tagged probe alone is not answered would be a path that drops tags.
type limit struct {
	left  float64
	at    time.Time // zero: nothing was asked yet
	trial uint64    // the last one
	let   bool      // it is let through
}

func (l *limit) take(now time.Time, trial uint64) bool {
	if trial == l.trial && !l.at.IsZero() {
		return l.let
	}
	if l.left += now.Sub(l.at).Seconds() / shortest.Seconds(); l.at.IsZero() || l.left > mostAsked {
		l.left = mostAsked
	}
	if l.at, l.trial, l.let = now, trial, l.left >= 1; l.let {
		l.left--
	}
	return l.let
}

// Rows takes the news of up to so many paths, with what they found since they were last taken.
func (p *Prober) Rows(most int) []Row {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.expire(now)
	var out []Row
	for range p.pairs {
		one := p.pairs[p.next]
		for _, to := range one.paths {
			if !to.fresh {
				continue
			}
			if len(out) == most {
				return out
			}
			row := to.row
			if row.Read = !to.read.IsZero(); row.Read {
				row.AgeNS = now.Sub(to.read).Nanoseconds()
			}
			out = append(out, row)
			to.fresh = false
			row = to.row
			to.row = Row{To: row.To, Port: row.Port, Signal: row.Signal, State: row.State, S: row.S, LM: row.LM, RTTNS: row.RTTNS, ExtraNS: row.ExtraNS}
		}
		p.next = (p.next + 1) % len(p.pairs)
	}
	return out
}

// Untaken gives back rows of this prober that the collector did not take: what was counted since the row before counts in the next.
func (p *Prober) Untaken(rows []Row) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range rows {
		was := &rows[i]
		peer := slices.IndexFunc(p.cfg.Peers, func(q Peer) bool { return q.Name == was.To })
		for _, to := range p.pairs[peer].paths {
			r := &to.row
			if r.Port != was.Port || r.Signal != was.Signal {
				continue
			}
			to.fresh = true
			if r.Sent+was.Sent <= mostCounted && r.Tagged+was.Tagged <= mostCounted {
				r.Sent, r.Lost, r.Tagged, r.TaggedLost = r.Sent+was.Sent, r.Lost+was.Lost, r.Tagged+was.Tagged, r.TaggedLost+was.TaggedLost
				r.Reordered, r.TwinsReordered = r.Reordered+was.Reordered, r.TwinsReordered+was.TwinsReordered
			}
		}
	}
}

// Counts are of what arrived and was of no use, since the start.
func (p *Prober) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}
