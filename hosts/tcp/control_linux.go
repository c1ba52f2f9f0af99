package tcp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

const (
	controlStops = time.Second // without a signal a connection is given back
	caNameSize   = 16          // TCP_CA_NAME_MAX
)

// control is csig's congestion control in the kernel.
type control struct {
	controlMaps
	headroom headroom
	shares   [2]uint32        // N of 1/N, of a jump and of a ramp
	name     [caNameSize]byte // of the network namespace's own: all of them share the kernel's list
	link     link.Link        // nil: not registered
}

// controlAfter is the congestion control of programs before where it does the same, else one that no connection is under yet.
// Connections that are under the former stay so until their signals stop: what is known of them is in maps that both have.
func (cfg *Config) controlAfter(before *programs) (*control, error) {
	room, err := cfg.headroom()
	if err != nil {
		return nil, err
	}
	jump, ramp := cfg.Host.TCP.Shares()
	if before != nil && before.control != nil && before.control.headroom.age == room.age && before.control.shares == [2]uint32{jump, ramp} {
		return before.control, nil
	}
	return cfg.loadControl(room, before)
}

// loadControl loads the congestion control, with maps of programs before.
func (cfg *Config) loadControl(room *headroom, before *programs) (*control, error) {
	spec, err := loadControl()
	if err != nil {
		return nil, err
	}
	cookie, err := netnsCookie()
	if err != nil {
		return nil, err
	}
	jump, ramp := cfg.Host.TCP.Shares()
	c := &control{headroom: *room, shares: [2]uint32{jump, ramp}}
	copy(c.name[:], fmt.Sprintf("csig%x", cookie&(1<<44-1)))
	value, ok := spec.Maps[controlMapCsigControl].Contents[0].Value.([]byte)
	if !ok || len(value) < caNameSize {
		return nil, errors.New("the object has no congestion control")
	}
	copy(value[len(value)-caNameSize:], c.name[:])
	for name, v := range map[string]any{
		controlVarAge: uint64(room.age), controlVarCurrent: uint64(fresh), controlVarStops: uint64(controlStops), controlVarJumpShare: jump, controlVarRampShare: ramp,
	} {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("constant %s: %w", name, err)
		}
	}
	opts := ebpf.CollectionOptions{}
	if kept := before.kept(); kept != nil {
		opts.MapReplacements = map[string]*ebpf.Map{controlMapControls: kept[tcpMapControls], controlMapControlCounters: kept[tcpMapControlCounters]}
	}
	if err := forThisKernel(spec); err != nil {
		return nil, err
	}
	loaded, err := ebpf.NewCollectionWithOptions(spec, opts)
	if err != nil {
		return nil, fmt.Errorf("load the congestion control: %w", err)
	}
	defer loaded.Close() // of the programs: the control has them
	return c, loaded.Assign(&c.controlMaps)
}

// forThisKernel leaves out the callback that kernels before Linux 7.1 do not have.
func forThisKernel(spec *ebpf.CollectionSpec) error {
	var ops *btf.Struct
	kernel, err := btf.LoadKernelSpec()
	if err == nil {
		err = kernel.TypeByName("tcp_congestion_ops", &ops)
	}
	if err != nil {
		return fmt.Errorf("find what congestion controls of this kernel have: %w", err)
	}
	if !slices.ContainsFunc(ops.Members, func(m btf.Member) bool { return m.Name == "cwnd_event_tx_start" }) {
		delete(spec.Programs, controlProgCsigTxStart)
	}
	return nil
}

// share has the programs of TCP hand connections over, by maps that both have.
func (c *control) share(cfg *Config, spec *ebpf.CollectionSpec, opts *ebpf.CollectionOptions) error {
	room, err := cfg.headroom()
	if err != nil {
		return err
	}
	for name, v := range map[string]any{
		tcpVarControlName: c.name, tcpVarRoom: room.room, tcpVarControlSignal: uint32(room.signal),
	} {
		if err := spec.Variables[name].Set(v); err != nil {
			return fmt.Errorf("constant %s: %w", name, err)
		}
	}
	if opts.MapReplacements == nil {
		opts.MapReplacements = make(map[string]*ebpf.Map)
	}
	opts.MapReplacements[tcpMapControls], opts.MapReplacements[tcpMapControlCounters] = c.Controls, c.ControlCounters
	return nil
}

// register has connections be given to the control, in place of the one that a csig host run has left under a name; "": of none.
func (c *control) register(pin string) (err error) {
	if pin != "" {
		switch c.link, err = link.LoadPinnedLink(pin, nil); {
		case err == nil:
			if err = replaceStructOps(c.link, c.CsigControl); err == nil {
				return nil
			}
			err = errors.Join(c.link.Unpin(), c.link.Close()) // that of another build
			if c.link = nil; err != nil {
				return fmt.Errorf("%s: %w", pin, err)
			}
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s: %w", pin, err)
		}
	}
	c.link, err = link.AttachStructOps(link.StructOpsOptions{Map: c.CsigControl})
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("another csig host run of this network namespace has a congestion control: it runs, has ended a moment ago, or has left it with --pin (rm -r of its directory ends that): %w", err)
	}
	if err != nil {
		return fmt.Errorf("register the congestion control: %w", err)
	}
	if pin != "" {
		if err := c.link.Pin(pin); err != nil {
			err = errors.Join(err, c.link.Close())
			c.link = nil
			return fmt.Errorf("--pin: %w", err)
		}
	}
	return nil
}

// replaceStructOps is BPF_LINK_UPDATE with a map, which cilium/ebpf has for programs alone.
func replaceStructOps(l link.Link, m *ebpf.Map) error {
	has, ok := l.(interface{ FD() int })
	if !ok {
		return errors.New("the link has no file")
	}
	attr := struct{ link, to, flags, from uint32 }{link: uint32(has.FD()), to: uint32(m.FD())}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_LINK_UPDATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return os.NewSyscallError("bpf", errno)
	}
	return nil
}

// close ends the control for connections to come, unless it has a name. Those that are under it are given back as soon as no signals come.
func (c *control) close() error {
	if c == nil {
		return nil
	}
	var err error
	if c.link != nil {
		err = c.link.Close()
	}
	return errors.Join(err, c.controlMaps.Close())
}

// tryControl is whether the kernel takes the congestion control.
func tryControl(cfg *Config) error {
	c, err := cfg.controlAfter(nil)
	if err != nil {
		return err
	}
	return c.close()
}

// control is what csig's congestion control does, or why it does nothing.
func (r *running) control() (Control, error) {
	out := Control{Wanted: ControlNative, Trouble: r.native}
	if !r.cfg.wantsControl() {
		return out, nil
	}
	out.Wanted = ControlCSIG
	jump, ramp := r.cfg.Host.TCP.Shares()
	out.Jump, out.Ramp = "1/"+strconv.Itoa(int(jump)), "1/"+strconv.Itoa(int(ramp))
	c := r.programs.control
	if c == nil {
		return out, nil
	}
	out.Name, out.AgeNS = unix.ByteSliceToString(c.name[:]), c.headroom.age.Nanoseconds()
	var each []tcpControlCounts
	if err := c.ControlCounters.Lookup(uint32(0), &each); err != nil {
		return out, fmt.Errorf("read the counters of the congestion control: %w", err)
	}
	for i := range each {
		out.Counts.Given += each[i].Given
		out.Counts.Stopped += each[i].Stopped
		out.Counts.Stale += each[i].Stale
		out.Counts.Refused += each[i].Refused
		out.Counts.Jumps += each[i].Jumps
		out.Counts.Ramps += each[i].Ramps
		out.Counts.Undelivered += each[i].Failed
	}
	return out, nil
}

// The reasons of control.h.
const (
	whyNone = iota
	whyStopped
	whyStale
	whyRefused
	whyChosen
)

// by is which control a connection is under, and why.
func (e *tcpEntry) by(c *Control) (name, why string) {
	under := make([]byte, len(e.Under))
	for i, b := range e.Under {
		under[i] = byte(b)
	}
	name = unix.ByteSliceToString(under)
	switch {
	case e.Control.Mine != 0:
		return ControlCSIG, "the signal comes"
	case c.Wanted == ControlNative:
		return name, "the fleet file has no control: csig"
	case c.Trouble != "":
		return name, c.Trouble
	}
	switch e.Control.Why {
	case whyStopped:
		return name, "signals have stopped"
	case whyStale:
		return name, "the port's agent is gone"
	case whyRefused:
		return name, "the kernel refused the change: its route may lock the control"
	case whyChosen:
		return name, "the application has chosen it"
	}
	return name, "no signal has come"
}
