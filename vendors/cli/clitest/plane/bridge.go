package plane

// Trunk is a port of a switch that bridges by the VID of tags with the port's TPID.
type Trunk struct {
	TPIDs  []uint16 // the first is that of frames that leave
	VLANs  []Range  // that it carries
	Native bool     // it carries frames that have no tag with its TPIDs
}

// Bridge is what a switch does with frames that come in at one trunk and leave at another,
// for tags with these TPIDs: those that the port knows are VLAN tags, which keep their TCI and
// get the TPID of the port where they leave; any other is part of an untagged frame.
func Bridge(in, out *Trunk, tpids ...uint16) Port {
	p := Port{Outer: tpids[0], Inner: tpids[0]}
	for _, tpid := range tpids {
		known := false
		for _, t := range in.TPIDs {
			known = known || t == tpid
		}
		r := Any()
		r.TPID = tpid
		switch {
		case !known && in.Native && out.Native:
			p.Rules = append(p.Rules, r)
			continue
		case known:
			r.Outer, r.SetTPID = common(in.VLANs, out.VLANs), out.TPIDs[0]
			if len(r.Outer) > 0 {
				p.Rules = append(p.Rules, r)
			}
		}
		drop := Any()
		drop.TPID, drop.Drop = tpid, true
		p.Rules = append(p.Rules, drop)
	}
	return p
}

// common are the VIDs of both lists.
func common(a, b []Range) (out []Range) {
	for _, x := range a {
		for _, y := range b {
			if r := (Range{max(x.First, y.First), min(x.Last, y.Last)}); r.First <= r.Last {
				out = append(out, r)
			}
		}
	}
	return out
}
