package ebpf

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/csig-agent/csig/quantize"
)

// BenchmarkFrame is what the program takes for one frame, by the kernel's own test run
// (BPF_PROG_TEST_RUN): "prog-ns". Each row has one feature more than a row above, so that their
// difference is what the feature costs; "empty" is what the test run itself takes.
func BenchmarkFrame(b *testing.B) {
	o := loaded(b)
	full := newBench(b, o, quantize.Draft00, 0x9900, time.Millisecond)
	full.port.Interval = uint64(time.Hour) // the interval does not roll over
	with := func(change func(*planePort)) planePort {
		p := full.port
		change(&p)
		return p
	}
	// A frame stays as the run before left it: locators that set all bits of S have every run
	// find a tag to replace.
	always := with(func(p *planePort) {
		for i := range p.Signals {
			p.Signals[i].Lm, p.Signals[i].WideLm = 0x0f80, 0x1234
		}
	})
	frame := func(vlans int, tag ...uint16) []byte {
		f := make([]byte, 12, 64)
		for range vlans {
			f = binary.BigEndian.AppendUint32(f, 0x8100<<16|5)
		}
		for _, v := range append(tag, 0x0800) {
			f = binary.BigEndian.AppendUint16(f, v)
		}
		return f[:64]
	}
	const worst, best = 0x0005, 0x0fff // S 0, S 31
	for _, tc := range []struct {
		name string
		port *planePort // nil: none
		f    []byte
		once bool // the run changes the frame: one at a time, to compare with the empty one so
	}{
		{"no port", nil, frame(0), false},
		{"untagged: look up, clock, accounting", &planePort{Interval: full.port.Interval, Deadline: 1 << 63}, frame(0), false},
		{"untagged: look for a tag", &full.port, frame(0), false},
		{"tagged: compare, keep", &full.port, frame(0, 0x9900, worst), false},
		{"tagged: compare, replace", &always, frame(0, 0x9900, best), false},
		{"tagged behind 4 VLAN tags, replace", &always, frame(4, 0x9900, best), false},
		{"wide: divide, compare, keep", &full.port, frame(0, 0x9901, 5, 0, 0), false},
		{"strip", ptr(with(func(p *planePort) { p.Strip, p.Tags[0].Strip, p.Update = 1, 1, 0 })), frame(0, 0x9900, best), true},
	} {
		b.Run(tc.name, func(b *testing.B) {
			if err := o.CsigPlaces.Delete(loopback); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				b.Fatal(err)
			}
			if tc.port != nil {
				if err := o.poke(loopback, tc.port); err != nil {
					b.Fatal(err)
				}
				if err := o.CsigState.Put(uint32(0), &planeState{Start: monotonic(), Last: 1 << 40, Closed: 1}); err != nil {
					b.Fatal(err)
				}
			}
			empty, own := run1(b, emptyProgram(b), tc.f, tc.once), run1(b, o.CsigEgress, tc.f, tc.once)
			b.ReportMetric(own, "prog-ns")
			b.ReportMetric(empty, "empty-ns")
			b.ReportMetric(own-empty, "net-ns")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func ptr(p planePort) *planePort { return &p }

// run1 is how long one run of a program takes, in ns: the fastest of some series.
func run1(b *testing.B, prog *ebpf.Program, f []byte, once bool) float64 {
	b.Helper()
	const series = 9
	n := max(b.N, 20_000)
	best := 0.0
	for range series {
		var took time.Duration
		var err error
		if !once {
			_, took, err = prog.Benchmark(f, n, func() {}) // of one run
		} else {
			var one time.Duration
			for range 2000 {
				if _, one, err = prog.Benchmark(f, 1, func() {}); err != nil {
					break
				}
				took += one
			}
			took /= 2000
		}
		if err != nil {
			b.Fatal(err)
		}
		if ns := float64(took.Nanoseconds()); best == 0 || ns < best {
			best = ns
		}
	}
	return best
}

func emptyProgram(b *testing.B) *ebpf.Program {
	b.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close() })
	return p
}
