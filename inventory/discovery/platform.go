package discovery

import (
	"regexp"
	"strings"
	"sync"
)

// platforms are csig's platforms by what others call them, in the order in which they are
// looked for: a SONiC switch is a Linux machine, too. Only those that need nothing else in the
// fleet file are here. They are made when they are needed: an agent never does.
var platforms = sync.OnceValue(func() []platform {
	return []platform{
		{words(`sonic`), "sonic"},
		{words(`arista|\beos\b`), "eos"},
		{words(`nx-?_?os|nexus operating system`), "nxos"},
		{words(`ios[ _-]?xr`), "iosxr"},
		{words(`junos|juniper`, `\bqfx\d`), "junos-qfx"},
		{words(`junos|juniper`, `\bex\d`), "junos-ex"},
		{words(`junos|juniper`, `\bmx\d`), "junos-mx"},
		{words(`cloudengine|huawei.*\bce\d`), "cloudengine"},
		{words(`\bvrp\b|versatile routing platform`), "vrp"},
		{words(`comware`), "comware"},
		{words(`sr[ _-]?linux`), "srlinux"},
		{words(`linux|cumulus`), "linux"},
	}
})

type platform struct {
	all  []*regexp.Regexp
	name string
}

func words(list ...string) (all []*regexp.Regexp) {
	for _, w := range list {
		all = append(all, regexp.MustCompile(w))
	}
	return all
}

// Platform is csig's name of what others describe in words; "" where it is not clear.
func Platform(texts ...string) string {
	text := strings.ToLower(strings.Join(texts, " "))
next:
	for _, p := range platforms() {
		for _, word := range p.all {
			if !word.MatchString(text) {
				continue next
			}
		}
		return p.name
	}
	return ""
}
