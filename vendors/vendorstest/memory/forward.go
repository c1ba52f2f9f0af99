package memory

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// native is the VLAN of untagged frames.
const native = 1

// linkLocal are the group addresses that no bridge forwards, less their last bits.
var linkLocal = []byte{0x01, 0x80, 0xc2, 0x00, 0x00}

// Receive takes a frame in at the port: when it returns, what becomes of it has been sent.
func (p *Port) Receive(frame []byte) {
	s := p.s
	if len(frame) < header {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received++
	now := time.Now()
	s.settle(now)
	if p.down || now.Before(s.down) {
		return
	}
	if s.cfg.Pipeline == nil {
		s.bridge(p, frame, now)
		return
	}
	at := parse(frame, s.cfg.TPID)
	for range s.copies(&at) {
		s.cfg.Pipeline(&Packet{In: p, Bytes: slices.Clone(frame), s: s, now: now})
	}
}

// copies is how many copies of a frame are forwarded, by the faults that lose and double frames.
func (s *Switch) copies(p *parsed) int {
	f := &s.cfg.Faults
	if p.csig == 0 && p.vlans == 0 {
		return 1
	}
	s.tagged++
	switch {
	case f.LosesOneIn > 0 && s.tagged%f.LosesOneIn == 0, p.csig != 0 && f.PassesOneIn > 0 && s.tagged%f.PassesOneIn != 0:
		return 0
	case p.csig != 0 && f.DoublesOneIn > 0 && s.tagged%f.DoublesOneIn == 0:
		return 2
	}
	return 1
}

// bridge forwards a frame by the addresses that were learned.
func (s *Switch) bridge(in *Port, frame []byte, now time.Time) {
	if bytes.Equal(frame[:5], linkLocal) && frame[5] < 0x10 {
		return
	}
	f := &s.cfg.Faults
	p := parse(frame, in.hw.tpid)
	vlan := p.vlan(frame)
	if vlan == 0 {
		vlan = native
	}
	table := vlan // in which addresses are learned
	copies := s.copies(&p)
	if p.csig != 0 {
		vid := tciAt(frame, p.csig) & 0xfff
		if slices.ContainsFunc(f.DropsVIDs, func(r vlanrules.VIDRange) bool { return r.First <= vid && vid <= r.Last }) {
			return
		}
		if f.BridgesByVID {
			vlan, table = max(vid, native), max(vid, native)
		}
		if f.LearnsByVID {
			table = vid
		}
	}
	if copies == 0 || vlan > s.cfg.VLANs || len(frame) > s.longest(&p) {
		return
	}
	if frame[6]&1 == 0 {
		s.stations[station{table, [6]byte(frame[6:12])}] = in
	}
	out := s.stations[station{table, [6]byte(frame[:6])}]
	denied := s.cfg.Denies != [6]byte{} && s.cfg.Denies == [6]byte(frame[:6])
	for _, to := range s.ports {
		if denied && !(f.ShadowsACL && p.csig != 0 && to.hw.action == vlanrules.Update) {
			continue
		}
		if to != in && (out == nil || out == to) {
			for range copies {
				to.emit(s, frame, vlan, now)
			}
		}
	}
}

// longest is the length of the longest frame with these tags that is forwarded.
func (s *Switch) longest(p *parsed) int {
	n := header + s.cfg.MTU + p.size
	if s.cfg.Faults.TightMTU && p.csig != 0 {
		n -= tagSize
	}
	return n
}

// faultsOf are the faults that a port's rules have.
func (s *Switch) faultsOf(p *Port) *Faults {
	f := s.cfg.Faults
	if f.RulesOf != "" && f.RulesOf != p.name {
		f.MatchesBridgingVLAN, f.RulesTakeVLANs, f.IgnoresPCP, f.RewriteClearsDEI, f.StripsPayload = false, false, false, false, false
		f.Gap, f.AckEarly, f.ForgetsOnLinkDown, f.LeaseForever, f.NoFallback = 0, 0, false, false, false
	}
	return &f
}

// emit sends a copy of a frame out of a port, through its rules.
func (p *Port) emit(s *Switch, frame []byte, vlan uint16, now time.Time) {
	f, hw := s.faultsOf(p), &p.hw
	frame = slices.Clone(frame)
	at := parse(frame, hw.tpid)
	switch {
	case hw.action == vlanrules.Strip && at.csig != 0:
		n := tagSize
		if f.StripsPayload {
			n += tagSize
		}
		frame = cut(frame, at.csig, n)
		at = parse(frame, 0)
	case at.csig != 0:
		p.rewrite(s, frame, at.csig, vlan, now)
		tci := tciAt(frame, at.csig)
		if f.LosesDEI {
			tci &^= 0x1000
		}
		if f.RemarksPCP {
			tci &= 0x1fff
		}
		setTCI(frame, at.csig, tci)
		if f.ReordersTags && at.vlans > 0 {
			tag := slices.Clone(frame[at.csig : at.csig+tagSize])
			frame = slices.Insert(cut(frame, at.csig, tagSize), macs, tag...)
		}
	case at.vlans > 0 && f.RulesTakeVLANs:
		p.rewrite(s, frame, macs, vlan, now)
	case at.vlans == 0 && f.TagsUntagged:
		frame = slices.Insert(frame, macs, cTag>>8, cTag&0xff, 0, native)
	}
	frame = hw.stripOthers(frame)
	if p.down {
		return
	}
	p.count.frame(f, frame, at.csig != 0)
	p.send(frame)
}

// stripOthers removes a tag of another TPID behind VLAN tags, or a wide one.
func (hw *hardware) stripOthers(frame []byte) []byte {
	for _, o := range hw.others {
		if at := parse(frame, o.TPID); at.csig != 0 {
			n := quantize.CompactSize
			if o.Wide {
				n = quantize.WideSize
			}
			frame = cut(frame, at.csig, n)
		}
	}
	return frame
}

// rewrite looks a tag up in the port's rules.
func (p *Port) rewrite(s *Switch, frame []byte, at int, vlan uint16, now time.Time) {
	f, hw := s.faultsOf(p), &p.hw
	if hw.action != vlanrules.Update {
		return
	}
	rules := hw.live
	over := !now.Before(s.lease) && (s.lease.IsZero() || !f.LeaseForever)
	if hw.fallsBack || over {
		if rules = hw.stale; f.NoFallback {
			rules = nil
		}
	}
	tci := binary.BigEndian.Uint16(frame[at+2:])
	key := tci
	if f.MatchesBridgingVLAN {
		key = tci&0xf000 | vlan
	}
	for i := range rules {
		m := rules[i].Match
		if f.IgnoresPCP {
			m.PCP = vlanrules.Field{}
		}
		if !m.Matches(quantize.TCI(key)) {
			continue
		}
		if rules[i].Type == vlanrules.RewriteVID {
			if tci = tci&0xf000 | rules[i].VID; f.RewriteClearsDEI {
				tci &^= 0x1000
			}
			setTCI(frame, at, tci)
		}
		return
	}
}
