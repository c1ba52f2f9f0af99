package main

import (
	"errors"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/csig-agent/csig/fabric"
)

// What the receiver's stack got, of data.
const (
	batches = iota
	segments
	tagged // batches
	countCount
)

// Offsets in struct __sk_buff.
const (
	skbLen         = 0
	skbVLANPresent = 20
	skbGSOSegs     = 164
)

// counter has the maps of the bed's own programs.
type counter struct {
	counts *ebpf.Map // of uint64
	tci    *ebpf.Map // one uint32: what tags have
}

func newCounter() (c *counter, err error) {
	c = &counter{}
	if c.counts, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: countCount}); err != nil {
		return c, err
	}
	c.tci, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	return c, err
}

func (c *counter) close() error {
	if c == nil {
		return nil
	}
	return errors.Join(c.counts.Close(), c.tci.Close())
}

func (c *counter) read() (v [countCount]uint64, err error) {
	for i := range v {
		err = errors.Join(err, c.counts.Lookup(uint32(i), &v[i]))
	}
	return v, err
}

// next is TCX_NEXT.
const next = -1

func program(name string, body ...asm.Instructions) (*ebpf.Program, error) {
	var all asm.Instructions
	for _, part := range body {
		all = append(all, part...)
	}
	return ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SchedCLS, License: "GPL", Instructions: append(all,
		asm.Mov.Imm(asm.R0, next).WithSymbol("out"), asm.Return())})
}

// lookup has R0 point to an element of an array, or ends.
func lookup(m *ebpf.Map, at int32) asm.Instructions {
	return asm.Instructions{
		asm.StoreImm(asm.RFP, -4, int64(at), asm.Word), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, m.FD()), asm.FnMapLookupElem.Call(), asm.JEq.Imm(asm.R0, 0, "out"),
	}
}

// add counts what R7 has.
func (c *counter) add(at int32) asm.Instructions {
	return append(lookup(c.counts, at), asm.StoreXAdd(asm.R0, asm.R7, asm.DWord))
}

// counting counts data in front of csig's programs.
func (c *counter) counting() (*ebpf.Program, error) {
	return program("count",
		asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1), asm.LoadMem(asm.R7, asm.R6, skbLen, asm.Word), asm.JLT.Imm(asm.R7, 1000, "out"),
			asm.LoadMem(asm.R7, asm.R6, skbGSOSegs, asm.Word), asm.JNE.Imm(asm.R7, 0, "merged"), asm.Mov.Imm(asm.R7, 1), asm.Mov.Reg(asm.R7, asm.R7).WithSymbol("merged"),
		}, c.add(segments), asm.Instructions{asm.Mov.Imm(asm.R7, 1)}, c.add(batches),
		asm.Instructions{asm.LoadMem(asm.R7, asm.R6, skbVLANPresent, asm.Word), asm.JEq.Imm(asm.R7, 0, "out"), asm.Mov.Imm(asm.R7, 1)}, c.add(tagged))
}

// pushing gives what leaves a tag: of an arm with csig another one where there is one.
func (c *counter) pushing(arm int) (*ebpf.Program, error) {
	begin := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	if arm == tagsReflected {
		begin = append(begin, asm.LoadMem(asm.R7, asm.R6, skbVLANPresent, asm.Word), asm.JEq.Imm(asm.R7, 0, "out"),
			asm.Mov.Reg(asm.R1, asm.R6), asm.FnSkbVlanPop.Call())
	}
	const tpid = 0xa888 // 0x88a8 as on the wire
	tag := asm.Instructions{asm.LoadMem(asm.R3, asm.R0, 0, asm.Word)}
	if arm == tagsDiffer {
		tag = append(tag, asm.Add.Imm(asm.R3, 1<<7), asm.And.Imm(asm.R3, 0xfff), asm.StoreMem(asm.R0, 0, asm.R3, asm.Word))
	}
	return program("push", begin, lookup(c.tci, 0), tag, asm.Instructions{
		asm.Mov.Imm(asm.R2, tpid), asm.Mov.Reg(asm.R1, asm.R6), asm.FnSkbVlanPush.Call(),
	})
}

func popping() (*ebpf.Program, error) {
	return program("pop", asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1), asm.LoadMem(asm.R7, asm.R6, skbVLANPresent, asm.Word), asm.JEq.Imm(asm.R7, 0, "out"),
		asm.Mov.Reg(asm.R1, asm.R6), asm.FnSkbVlanPop.Call(),
	})
}

// prepare has the hosts be as an arm wants them, until stop. S is another one every 100 ms.
func (b *bed) prepare(arm int) (stop func() error, err error) {
	var stops []func() error
	stop = func() (err error) {
		for i := len(stops) - 1; i >= 0; i-- {
			err = errors.Join(err, stops[i]())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	if arm == tagsReflected {
		for i := range b.hosts {
			end, err := b.startCSIG(i)
			if err != nil {
				return stop, err
			}
			stops = append(stops, end)
		}
	}
	if arm == tagsDiffer {
		segments := func(most string) error {
			return b.hosts[0].Command("ip", "link", "set", "dev", "eth0", "gso_max_segs", most).Run()
		}
		if err := segments("1"); err != nil {
			return stop, err
		}
		stops = append(stops, func() error { return segments("65535") })
	}
	attach := func(nic *fabric.Port, at ebpf.AttachType, anchor link.Anchor, make func() (*ebpf.Program, error)) {
		if err != nil {
			return
		}
		var prog *ebpf.Program
		if prog, err = make(); err != nil {
			return
		}
		defer prog.Close()
		var l link.Link
		if err = nic.Node().Do(func() (err error) {
			l, err = link.AttachTCX(link.TCXOptions{Interface: nic.Index(), Program: prog, Attach: at, Anchor: anchor})
			return err
		}); err == nil {
			stops = append(stops, l.Close)
		}
	}
	attach(b.nics[1], ebpf.AttachTCXIngress, link.Head(), b.counts.counting)
	if arm >= tagsAlone {
		attach(b.nics[0], ebpf.AttachTCXEgress, link.Tail(), func() (*ebpf.Program, error) { return b.counts.pushing(arm) })
	}
	if arm == tagsAlone || arm == tagsDiffer {
		attach(b.nics[1], ebpf.AttachTCXIngress, link.Tail(), popping)
	}
	if err != nil || arm < tagsAlone || arm == tagsDiffer {
		return stop, err
	}
	quit := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for tci := uint32(1); ; tci++ {
			_ = b.counts.tci.Put(uint32(0), tci%30<<7|1) // an array takes it
			select {
			case <-tick.C:
			case <-quit:
				return
			}
		}
	})
	stops = append(stops, func() error {
		close(quit)
		all.Wait()
		return nil
	})
	return stop, nil
}
