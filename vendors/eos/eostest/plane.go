package eostest

import (
	"fmt"
	"slices"

	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
)

// Program hands flows on tags with a TPID to a data plane, which does not know by which port
// frames came in, and forwards by the last byte of the MAC address, as the flows are to. It
// returns how many of them, in their order, are in it.
func Program(p plane.Hardware, tpid uint16, ports []string, flows []Flow) (int, error) {
	out := make([]plane.Port, len(ports))
	for i := range out {
		out[i] = plane.Port{Outer: tpid, Inner: 0x8100}
	}
	var owner []int
	for _, f := range flows {
		to := slices.Index(ports, f.Output)
		if to < 0 || !slices.Contains(ports, f.Input) || f.TPID != tpid || f.Dst != fmt.Sprintf("02:00:00:00:00:%02x", to+1) && f.Dst != "" {
			owner = append(owner, -1) // no frame of a test meets it
			continue
		}
		r := plane.Any()
		r.Outer, r.OuterPCP, r.SetOuter = vids(f.VLAN, f.Mask), f.CoS, f.SetVLAN
		out[to].Rules = append(out[to].Rules, r)
		owner = append(owner, to)
	}
	in, err := p.Program(out)
	if err != nil {
		return 0, err
	}
	for i, to := range owner { // the first that there is no space for
		if to >= 0 {
			if in[to] == 0 {
				return i, nil
			}
			in[to]--
		}
	}
	return len(flows), nil
}

// vids are the VIDs that a mask takes, as ranges.
func vids(value, mask uint16) (list []plane.Range) {
	if mask == 0 {
		return nil
	}
	for v := range uint16(4096) {
		switch n := len(list); {
		case v&mask != value&mask:
		case n > 0 && list[n-1].Last == v-1:
			list[n-1].Last = v
		default:
			list = append(list, plane.Range{First: v, Last: v})
		}
	}
	return list
}
