package ovs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

func (s *sandwich) missed(t testing.TB) (n int) {
	t.Helper()
	for line := range strings.Lines(s.Appctl("dpctl/show")) {
		if _, after, ok := strings.Cut(line, "missed:"); ok {
			if _, err := fmt.Sscan(after, &n); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			return n
		}
	}
	t.Fatal("no missed")
	return 0
}

func TestScratch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	tags := allTags()
	rng.Shuffle(len(tags), func(i, j int) { tags[i], tags[j] = tags[j], tags[i] })
	tags = tags[:400]
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	for _, b := range []uint8{31, 15, 0} {
		for _, shape := range shapes {
			update(t, s.driver, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, b, 5), bucket(quantize.MinABWC, b, 5)}})
			s.settle()
			before := s.missed(t)
			start := time.Now()
			s.exchange(t, tags, shape.before)
			t.Logf("%d %s: %.2f misses, %v", b, shape.name, float64(s.missed(t)-before)/float64(len(tags)), time.Since(start))
			os.WriteFile(fmt.Sprintf("/tmp/mf-%d-%s", b, strings.ReplaceAll(shape.name, " ", "_")), []byte(s.Appctl("dpctl/dump-flows", "-m")), 0o600)
		}
	}
}
