package inventory

import (
	"cmp"
	"strings"
)

// CompareNames orders names of devices and ports as people do: swp2 before swp10,
// Ethernet1/9 before Ethernet1/10.
func CompareNames(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		xn, yn := digits(x), digits(y)
		if xn == 0 || yn == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		m, n := strings.TrimLeft(x[:xn], "0"), strings.TrimLeft(y[:yn], "0")
		if c := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n)); c != 0 {
			return c
		}
		x, y = x[xn:], y[yn:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// digits is the length of the number that a name begins with, in bytes.
func digits(name string) int {
	n := 0
	for n < len(name) && name[n] >= '0' && name[n] <= '9' {
		n++
	}
	return n
}
