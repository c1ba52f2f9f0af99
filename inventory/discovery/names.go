package discovery

import (
	"slices"
	"strings"
)

// called is switches by what LLDP may call them: their names as they are, and without the domain.
type called[T comparable] struct {
	by     map[string][]T
	domain map[T]bool // switches of which a name with its domain is known
}

func newCalled[T comparable]() *called[T] {
	return &called[T]{by: make(map[string][]T), domain: make(map[T]bool)}
}

func (c *called[T]) learn(name string, of T) {
	full, short := strings.ToLower(name), canonical(name)
	for _, key := range [...]string{full, short} {
		if key != "" && !slices.Contains(c.by[key], of) {
			c.by[key] = append(c.by[key], of)
		}
	}
	c.domain[of] = c.domain[of] || full != short
}

// find is the switch with that name. It is not ok where there is none, and where several may be it.
// Names of two domains are never one switch's.
func (c *called[T]) find(name string) (of T, ok, several bool) {
	full, short := strings.ToLower(name), canonical(name)
	if full == "" {
		return of, false, false
	}
	if one := c.by[full]; len(one) == 1 {
		return one[0], true, false
	} else if len(one) > 1 {
		several = true
	}
	one := c.by[short]
	switch {
	case len(one) > 1:
		several = true
	case len(one) == 1 && !(full != short && c.domain[one[0]]):
		return one[0], true, false
	}
	return of, false, several
}

// canonical is a name to compare by: DNS names do not differ by case, and a system name may have
// its domain.
func canonical(name string) string {
	short, _, _ := strings.Cut(strings.ToLower(name), ".")
	return short
}
