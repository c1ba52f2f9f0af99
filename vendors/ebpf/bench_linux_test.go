package ebpf

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/csig-agent/csig/quantize"
)

func BenchmarkFrame(b *testing.B) {
	o := loaded(b)
	abw, _ := quantize.Preset(quantize.MinABW, "log-100G")
	g, _ := signalOf(quantize.MinABW, &quantize.SignalProfile{Buckets: abw}, 100e9, time.Millisecond)
	p := planePort{Deadline: 1 << 63, Interval: 1e6, Update: 1, Signals: [4]planeSignal{g}}
	p.Tags[0].Tpid, p.Tags[0].Size = 0x0099, 4
	if err := o.CsigPorts.Put(uint32(1), &p); err != nil {
		b.Fatal(err)
	}
	empty, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
	if err != nil {
		b.Fatal(err)
	}
	plain, tagged, replaced := make([]byte, 64), make([]byte, 64), make([]byte, 64)
	plain[12] = 8
	copy(tagged[12:], []byte{0x99, 0, 0, 0, 8, 0})
	copy(replaced[12:], []byte{0x99, 0, 0x0f, 0xff, 8, 0})
	for _, tc := range []struct {
		name string
		prog *ebpf.Program
		f    []byte
	}{{"empty", empty, plain}, {"untagged", o.CsigEgress, plain}, {"tagged", o.CsigEgress, tagged}, {"replaced", o.CsigEgress, replaced}} {
		b.Run(tc.name, func(b *testing.B) {
			_, d, err := tc.prog.Benchmark(tc.f, b.N, func() {})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(d.Nanoseconds()), "prog-ns")
		})
	}
}
