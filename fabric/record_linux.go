package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
)

// RecordHead is how many bytes of each frame a Recorder keeps.
const RecordHead = 64

// Passed is one frame that a port was given to send, before its queue.
type Passed struct {
	At    uint64           // CLOCK_MONOTONIC, ns: before all programs of the port
	Until uint64           // and behind them: whatever they read of the clock and counted lies between
	Bytes uint32           // from the destination address, without FCS and an offloaded VLAN tag
	Head  [RecordHead]byte // in front of all programs
}

// L1Bits is what the frame occupies of the wire, in bits.
func (f *Passed) L1Bits() uint64 { return 8 * (uint64(f.Bytes) + L1Overhead) }

// Recorder keeps the time of every frame that leaves a port: a BPF program in front of all
// others at tcx egress notes the time, one behind them writes a record. They share no code
// with a data plane, and so can serve as the truth about one. Frames that a program between
// them drops or redirects have no record. Methods are for one goroutine at a time.
type Recorder struct {
	port  *Port
	ring  *ringbuf.Reader
	lost  *ebpf.Map
	maps  []*ebpf.Map
	progs []*ebpf.Program
	at    []link.Link
	rec   ringbuf.Record
}

const (
	recordSize  = 24 + RecordHead
	recordRing  = 16 << 20 // a second of 180,000 frames
	recordSlack = 2 * time.Millisecond
	noWakeup    = 1 // BPF_RB_NO_WAKEUP: who reads looks every recordSlack
)

// Record starts a recorder, which needs the right to load BPF programs outside any user
// namespace; close it after use.
func (p *Port) Record() (_ *Recorder, err error) {
	r := &Recorder{port: p}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: record frames: %w", p, err), r.Close())
		}
	}()
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Name: "recorded", Type: ebpf.RingBuf, MaxEntries: recordRing})
	if err != nil {
		return nil, err
	}
	r.maps = append(r.maps, ring)
	if r.lost, err = ebpf.NewMap(&ebpf.MapSpec{Name: "lost", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}); err != nil {
		return nil, err
	}
	r.maps = append(r.maps, r.lost)
	// A processor is at one frame of the port at a time from the first program to the last.
	open, err := ebpf.NewMap(&ebpf.MapSpec{Name: "open", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: recordSize, MaxEntries: 1})
	if err != nil {
		return nil, err
	}
	r.maps = append(r.maps, open)
	if r.ring, err = ringbuf.NewReader(ring); err != nil {
		return nil, err
	}
	// The last one first: it writes nothing before the other has begun.
	for _, p := range []struct {
		name   string
		code   asm.Instructions
		anchor link.Anchor
	}{{"record", recording(ring.FD(), r.lost.FD(), open.FD()), link.Tail()}, {"begin", beginning(open.FD()), link.Head()}} {
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: p.name, Type: ebpf.SchedCLS, License: "GPL", Instructions: p.code})
		if err != nil {
			return nil, err
		}
		r.progs = append(r.progs, prog)
		err = r.port.node.Do(func() error {
			at, err := link.AttachTCX(link.TCXOptions{Interface: r.port.index, Program: prog, Attach: ebpf.AttachTCXEgress, Anchor: p.anchor})
			if err == nil {
				r.at = append(r.at, at)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// key is where programs have the only key of their maps, 0, on the stack.
const key = -8

// place looks up that key of a map: a pointer to its value in R0, or a jump to "next".
func place(fd int) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.RFP, key, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, fd), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, key),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "next"),
	}
}

// next has the frame go to the next program.
var next = asm.Instructions{asm.Mov.Imm(asm.R0, -1).WithSymbol("next"), asm.Return()} // TCX_NEXT

// beginning is the first program: the time, and the frame's head, to the processor's record.
func beginning(open int) asm.Instructions {
	return slices.Concat(asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(asm.R7, asm.R0),
	}, place(open), asm.Instructions{
		asm.StoreMem(asm.R0, 0, asm.R7, asm.DWord),
		asm.Mov.Reg(asm.R3, asm.R0), asm.Add.Imm(asm.R3, 24), asm.Mov.Imm(asm.R4, RecordHead),
		asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, 0),
		asm.FnSkbLoadBytes.Call(), // zeros where the frame is shorter
	}, next)
}

// recording is the last program: the other time and the length to the record, that to the ring,
// and a count of those that did not fit.
func recording(ring, lost, open int) asm.Instructions {
	return slices.Concat(asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(asm.R7, asm.R0),
	}, place(open), asm.Instructions{
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "next"), // the first program is not there yet
		asm.StoreMem(asm.R0, 8, asm.R7, asm.DWord),
		asm.LoadMem(asm.R1, asm.R6, 0, asm.Word), // __sk_buff.len
		asm.StoreMem(asm.R0, 16, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, ring),
		asm.Mov.Reg(asm.R2, asm.R0), asm.Mov.Imm(asm.R3, recordSize), asm.Mov.Imm(asm.R4, noWakeup),
		asm.FnRingbufOutput.Call(),
		asm.JEq.Imm(asm.R0, 0, "next"),
	}, place(lost), asm.Instructions{
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
	}, next)
}

// Read appends the frames that have passed since the last call, nearly in order: frames of two
// processors may change places. It waits a little for the next ones.
func (r *Recorder) Read(dst []Passed) ([]Passed, error) {
	r.ring.SetDeadline(time.Now().Add(recordSlack))
	for {
		err := r.ring.ReadInto(&r.rec)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return dst, nil
		}
		if err == nil && len(r.rec.RawSample) != recordSize {
			err = fmt.Errorf("a record of %d bytes", len(r.rec.RawSample))
		}
		if err != nil {
			return dst, fmt.Errorf("%s: read recorded frames: %w", r.port, err)
		}
		b := r.rec.RawSample
		f := Passed{At: binary.NativeEndian.Uint64(b), Until: binary.NativeEndian.Uint64(b[8:]), Bytes: uint32(binary.NativeEndian.Uint64(b[16:]))}
		copy(f.Head[:], b[24:])
		dst = append(dst, f)
	}
}

// Lost is how many frames passed since the beginning that nothing could be kept of.
func (r *Recorder) Lost() (n uint64, err error) {
	if err := r.lost.Lookup(uint32(0), &n); err != nil {
		return 0, fmt.Errorf("%s: count lost records: %w", r.port, err)
	}
	return n, nil
}

// Close ends the recorder.
func (r *Recorder) Close() error {
	var errs []error
	for _, l := range r.at {
		errs = append(errs, l.Close())
	}
	if r.ring != nil {
		errs = append(errs, r.ring.Close())
	}
	for _, p := range r.progs {
		errs = append(errs, p.Close())
	}
	for _, m := range r.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
