package eostest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Flow is a flow of DirectFlow.
type Flow struct {
	Name       string
	Priority   int
	Input      string // interface, "" for any
	Dst        string // MAC address, and its mask behind a blank; "" for any
	IP         string // destination, "" for any
	VLAN, Mask uint16
	CoS        int // -1: any
	SetVLAN    int // -1: as it is
	Output     string
	Drop       bool
	TPID       uint16 // of tags at its input, which are VLAN tags
}

// meaning are the flows, those with the highest priority first.
func (c *config) meaning() (flows []Flow) {
	if !c.on {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.flows)) {
		l := c.flows[name].lines
		number := func(key string, none int) int {
			if l[key] == "" {
				return none
			}
			n, _ := strconv.Atoi(strings.Fields(l[key])[0])
			return n
		}
		_, drop := l["action drop"]
		f := Flow{
			Name: name, Priority: number("priority", 0), Input: l["match input interface"], Dst: l["match destination mac"], IP: l["match destination ip"],
			CoS: number("match cos", -1), SetVLAN: number("action set vlan", -1), Output: l["action output interface"], Drop: drop,
		}
		if w := strings.Fields(l["match vlan"]); len(w) > 0 {
			f.VLAN, f.Mask = uint16(number("match vlan", 0)), 0xfff
			if len(w) == 2 {
				n, _ := strconv.ParseUint(w[1], 0, 16)
				f.Mask = uint16(n)
			}
		}
		if i := c.iface(f.Input); i != nil {
			f.TPID = i.tpid()
		}
		flows = append(flows, f)
	}
	slices.SortStableFunc(flows, func(a, b Flow) int { return cmp.Compare(b.Priority, a.Priority) })
	return flows
}

func (i *iface) tpid() uint16 {
	n, err := strconv.ParseUint(i.lines["switchport dot1q ethertype"], 0, 16)
	if err != nil {
		return 0x8100
	}
	return uint16(n)
}

// diff is the difference of two texts, with the lines around it (the longest common
// subsequence, as diff -u).
func diff(from, to, session string) string {
	a, b := strings.Split(from, "\n"), strings.Split(to, "\n")
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	if len(x)+len(y) == 0 {
		return ""
	}
	same := make([][]int, len(x)+1)
	for i := range same {
		same[i] = make([]int, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if same[i][j] = max(same[i+1][j], same[i][j+1]); x[i] == y[j] {
				same[i][j] = same[i+1][j+1] + 1
			}
		}
	}
	out := []string{"--- system:/running-config", fmt.Sprintf("+++ session:/%s-session-config", session), fmt.Sprintf("@@ -%d,%d +%d,%d @@", head+1, len(x), head+1, len(y))}
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			out = append(out, " "+x[i])
			i, j = i+1, j+1
		case i < len(x) && (j == len(y) || same[i+1][j] >= same[i][j+1]):
			out = append(out, "-"+x[i])
			i++
		default:
			out = append(out, "+"+y[j])
			j++
		}
	}
	return strings.Join(out, "\n") + "\n"
}
