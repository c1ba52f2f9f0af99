package vrptest

import "github.com/csig-agent/csig/vendors/cli/clitest/plane"

// Program hands what a configuration means to a data plane, and returns how many rules of
// each port are in it.
func Program(p plane.Hardware, list []Port) ([]int, error) {
	var out []plane.Port
	for _, port := range list {
		hw := plane.Port{Outer: port.TPID, Inner: 0x8100, Longest: list[0].In} // frames come in at the first
		if port.Out > 0 {
			hw.Longest = min(hw.Longest, port.Out)
		}
		for _, r := range port.Outbound {
			rule := plane.Any()
			rule.OuterPCP, rule.SetOuter = r.PCP, r.Mark
			for _, v := range r.VIDs {
				rule.Outer = append(rule.Outer, plane.Range(v))
			}
			hw.Rules = append(hw.Rules, rule)
		}
		out = append(out, hw)
	}
	return p.Program(out)
}
