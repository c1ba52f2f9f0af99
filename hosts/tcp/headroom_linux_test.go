package tcp

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csig-agent/csig/cc"
)

// TestHeadroomIsSimulated has the simulator's head-room do what the hosts' programs do, over many connections by chance: the same
// C file as a program of this machine, and package cc, are told the same and have to make the same of it. It needs a C compiler, as
// the race detector does.
func TestHeadroomIsSimulated(t *testing.T) {
	t.Parallel()
	const inf = 0x7fffffff
	r := rand.New(rand.NewPCG(1, 2))
	jumps, ramps, failed, capped := 0, 0, 0, 0
	for _, x := range []struct{ age, current, jump, ramp uint64 }{{1_000_000, 3_000_000, 1, 1}, {100_000_000, 300_000_000, 2, 4}, {2_000_000_000, 3_000_000_000, 1, 8}} {
		program := filepath.Join(t.TempDir(), "headroom")
		build := exec.Command("cc", "-O1", "-w", "-I../../vendors/ebpf", "-o", program, "testdata/headroom.c",
			fmt.Sprintf("-DAGE=%dULL", x.age), fmt.Sprintf("-DCURRENT=%dULL", x.current), fmt.Sprintf("-DJUMP=%d", x.jump), fmt.Sprintf("-DRAMP=%d", x.ramp))
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var lines, want strings.Builder
		var h *cc.Headroom
		var p cc.Path
		now, at, room := uint64(5_000_000_000), uint64(0), uint64(0)
		for n := range 20_000 {
			what := [...]string{"acked", "take", "take", "acked", "take", "slow"}[r.IntN(6)]
			if what == "slow" && r.IntN(20) > 0 {
				what = "acked"
			}
			if n%500 == 0 { // another connection
				what = "init"
				p = cc.Path{MSS: 1448, SRTT: (50 + r.Uint64N(20_000)) * 1000, Window: 10, Threshold: inf, Unlimited: true}
				p.MinRTT = p.SRTT / 1000 * (50 + r.Uint64N(60)) / 100 * 1000
				h = cc.NewHeadroom(x.age, x.current, x.jump, x.ramp)
			}
			now += r.Uint64N(x.age/2 + 1)
			if r.IntN(3) > 0 {
				at, room = now, r.Uint64N(1<<(20+r.IntN(14)))
			}
			p.Delivered += r.Uint64N(p.Window + 1)
			p.MostSent = p.Window * (50 + r.Uint64N(51)) / 100
			if r.IntN(30) == 0 {
				p.Threshold, p.Window = max(p.Window/2, 2), max(p.Window/2, 2)
				p.Unlimited = false
			}
			fmt.Fprintln(&lines, what, now, at, room, p.SRTT/1000, p.MinRTT/1000, p.Window, p.Threshold, p.MSS, p.Delivered, p.MostSent)
			h.At, h.Room = at, room
			switch what {
			case "init":
				h.Begin(&p, now)
			case "slow":
				h.Slow(&p, now)
			case "acked":
				h.Acked(&p, now)
			default:
				h.Take(&p, now)
			}
			jumps, ramps, failed = jumps+h.Jumps, ramps+h.Ramps, failed+h.Failed
			if h.Cap > 0 {
				capped++
			}
			fmt.Fprintln(&want, p.Window, p.Threshold, h.Jumps, h.Ramps, h.Failed, h.Cap)
			if p.Window > 100_000 {
				p.Window = 100
			}
		}
		host := exec.Command(program)
		host.Stdin = strings.NewReader(lines.String())
		host.Stderr = os.Stderr
		out, err := host.Output()
		if err != nil {
			t.Fatal(err)
		}
		said, got, told := strings.Split(want.String(), "\n"), strings.Split(string(out), "\n"), strings.Split(lines.String(), "\n")
		for i := range said {
			if i >= len(got) || said[i] != got[i] {
				t.Fatalf("age %d, line %d: %s: hosts have %q (window, threshold, jumps, ramps, failed, cap), the simulator %q", x.age, i, told[i], got[min(i, len(got)-1)], said[i])
			}
		}
	}
	if jumps == 0 || ramps == 0 || failed == 0 || capped == 0 {
		t.Errorf("nothing was tested: %d jumps, %d ramps, %d failed, %d capped", jumps, ramps, failed, capped)
	}
}
