package tcp

import (
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
)

// TestHeadroom has S leave what its bucket leaves at least, and nothing where the fleet file does not say how much that is.
func TestHeadroom(t *testing.T) {
	const abwc = "signals: {abwc: {buckets: log}}"
	both := "signals: {abw: {buckets: log-10G}, abwc: {buckets: log}}"
	for _, row := range []struct {
		name     string
		old, new string
		want     string
		check    func(h *headroom) bool
	}{
		{"abw", "", "", "", func(h *headroom) bool {
			return h.signal == quantize.MinABW && h.age == 2*time.Second && h.room[31] == 9_000_000_000/8 && h.room[0] == 0 && h.room[5] < h.room[6]
		}},
		{"no more than the port that faces the host", "{name: host, speed: 10G, lm: 6, peer: h1}", "{name: host, speed: 1G, lm: 6, peer: h1}", "", func(h *headroom) bool {
			return h.room[31] == 1_000_000_000/8 && h.room[0] == 0
		}},
		{"abwc of the slowest port", both + "}|speed: 10G, lm: 8", abwc + "}|speed: 1G, lm: 8", "", func(h *headroom) bool {
			return h.signal == quantize.MinABWC && h.room[31] == 900_000_000/8 && h.room[0] == 0
		}},
		{"a longer interval of a device", "{name: s1, platform: linux,", "{name: s1, platform: linux, interval: 3s,", "", func(h *headroom) bool { return h.age == 6*time.Second }},
		{"a port without its speed, of abw", "speed: 10G, lm: 8", "lm: 8", "", func(h *headroom) bool { return h.room[31] == 9_000_000_000/8 }},
		{"a port without its speed, of abwc", both + "}|speed: 10G, lm: 8", abwc + "}|lm: 8", "the speed of s2:side is not in the fleet file", nil},
		{"another signal", "", "", "neither abw nor abwc", nil},
	} {
		text := fleetText
		olds, news := strings.Split(row.old, "|"), strings.Split(row.new, "|")
		for i := range olds {
			if !strings.Contains(text, olds[i]) {
				t.Fatalf("%s: no %q", row.name, olds[i])
			}
			text = strings.Replace(text, olds[i], news[i], 1)
		}
		var cfg *Config
		if strings.Contains(row.want, "neither") { // a profile that no switch serves is refused before
			cfg = local(t)
			cfg.Fleet.Profile.Signals = nil
		} else {
			var err error
			if cfg, err = Local(parse(t, text)); err != nil {
				t.Fatalf("%s: %v", row.name, err)
			}
		}
		h, err := cfg.headroom()
		switch {
		case row.want != "":
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s: %v, want %q", row.name, err, row.want)
			}
		case err != nil:
			t.Errorf("%s: %v", row.name, err)
		case !row.check(h):
			t.Errorf("%s: %+v", row.name, h)
		}
	}
}
