package qualifytest

import (
	"fmt"
	"time"

	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/vendors/vendorstest/memory"
)

// MemoryCards adds ports p1, p2 … to a switch, and returns them with cards in memory.
func MemoryCards(s *memory.Switch, ports int) (out []*qualify.Port) {
	for i := range ports {
		name := fmt.Sprint("p", i+1)
		c := s.Cable(name)
		c.Latency = 10 * time.Microsecond
		p := qualify.Cabled(name, fmt.Sprint("c", i+1), qualify.MAC{2, 0, 0, 0, 1, byte(i + 1)}, 1600, c)
		p.Link, p.Carrier = c.Link, c.Carrier
		out = append(out, p)
	}
	return out
}
