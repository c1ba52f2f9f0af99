package ebpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A port's entry is replaced whole, while frames are on their way: its slot has two elements of
// csig_ports, of which csig_live names the live one. The other one is written and then made
// live. A frame may still be at one that was live a moment ago: before that is written again,
// every frame that was on its way then has left the program.

// place is where a device's entry is.
type place struct {
	slot uint32
	live uint8 // which of the slot's elements: 1 or 2; another: none
}

// element is the one of csig_ports that is live.
func (p place) element() uint32 { return 2*p.slot + uint32(p.live) - 1 }

// other is the place with the other element live, the first where none was.
func (p place) other() place {
	if p.live == 1 {
		p.live = 2
	} else {
		p.live = 1
	}
	return p
}

func (p place) there() bool { return p.live == 1 || p.live == 2 }

// at is the place of a slot.
func (p *plane) at(slot uint32) (place, error) {
	at := place{slot: slot}
	if slot >= maxDevices {
		return at, ebpf.ErrKeyNotExist
	}
	return at, p.CsigLive.Lookup(slot, &at.live)
}

// lookup reads a device's entry; ebpf.ErrKeyNotExist is that it has none.
func (p *plane) lookup(index uint32, e *planePort) error {
	var slot uint32
	if err := p.CsigPlaces.Lookup(index, &slot); err != nil {
		return err
	}
	return p.entry(slot, e)
}

// entry reads that of a slot, whatever slot it says itself.
func (p *plane) entry(slot uint32, e *planePort) error {
	at, err := p.at(slot)
	if err != nil {
		return err
	}
	if !at.there() {
		return ebpf.ErrKeyNotExist
	}
	err = p.CsigPorts.Lookup(at.element(), e)
	e.Slot = slot
	return err
}

// put gives a device an entry, in the slot that it names.
func (p *plane) put(index uint32, e *planePort) error {
	at, err := p.at(e.Slot)
	if err != nil {
		return err
	}
	var slot uint32
	err = p.CsigPlaces.Lookup(index, &slot)
	placed := err == nil && slot == e.Slot
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	next := at.other()
	if p.wasLive == nil || p.wasLive[next.element()] {
		if err := p.settle(); err != nil {
			return err
		}
	}
	e.Version = version()
	if err := p.CsigPorts.Put(next.element(), e); err != nil {
		return err
	}
	if err := p.CsigLive.Put(next.slot, next.live); err != nil {
		return err
	}
	if at.there() {
		p.wasLive[at.element()] = true
	}
	if placed {
		return nil
	}
	if err := p.CsigPlaces.Put(index, e.Slot); err != nil {
		return err
	}
	if err == nil { // another process's: see remove
		p.wasLive = nil
	}
	return nil
}

// version is another one for each entry that is written: the program keeps what it computed by an
// entry until the interval ends.
func version() uint32 { return uint32(monotonic() >> 8) }

// remove takes a device's entry away. The kernel gives its element of csig_places to the next
// device, and a frame may still be at it: the next put waits for that.
func (p *plane) remove(index uint32) error {
	var slot uint32
	switch err := p.CsigPlaces.Lookup(index, &slot); {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		return nil
	case err != nil:
		return err
	}
	p.wasLive = nil
	return p.CsigPlaces.Delete(index)
}

// entries are those of all devices that have one.
func (p *plane) entries() (map[uint32]planePort, error) {
	out := make(map[uint32]planePort)
	keys, slots := make([]uint32, maxDevices), make([]uint32, maxDevices)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := p.CsigPlaces.BatchLookup(&cursor, keys, slots, nil)
		done := errors.Is(err, ebpf.ErrKeyNotExist) // behind the last
		if err != nil && !done {
			return nil, err
		}
		for i, slot := range slots[:n] {
			var e planePort
			switch err := p.entry(slot, &e); {
			case errors.Is(err, ebpf.ErrKeyNotExist):
			case err != nil:
				return nil, err
			default:
				out[keys[i]] = e
			}
		}
		if done {
			return out, nil
		}
	}
}

// forget takes away the entries of devices that are gone: there are those in names.
func (p *plane) forget(entries map[uint32]planePort, used map[uint32]bool, names map[int]string) error {
	for index, e := range entries {
		if names[int(index)] != "" {
			continue
		}
		if err := p.remove(index); err != nil {
			return err
		}
		delete(entries, index)
		delete(used, e.Slot)
	}
	return nil
}

// settle waits until no frame is at an element that is not live any more.
func (p *plane) settle() error {
	if err := grace(); err != nil {
		return err
	}
	p.wasLive = map[uint32]bool{}
	return nil
}

// grace waits until every program that runs now has ended: this is an RCU grace period.
func grace() error {
	const global = 1 // MEMBARRIER_CMD_GLOBAL
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); errno != 0 {
		return fmt.Errorf("membarrier: %w", errno)
	}
	return nil
}
