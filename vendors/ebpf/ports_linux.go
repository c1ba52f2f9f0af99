package ebpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A port's entry is replaced whole, while frames are on their way: it has two elements of
// csig_ports, of which csig_places names the live one. The other one is written and then made
// live. A frame may still be at one that was live a moment ago: before that is written again,
// every frame that was on its way then has left the program.

// element is the one of csig_ports that a place makes live, or the other one.
func (p planePlace) element() uint32 { return 2*uint32(p.Slot) + uint32(p.Live) - 1 }

// other is the place with the other element live, the first where none was.
func (p planePlace) other() planePlace {
	if p.Live == 1 {
		p.Live = 2
	} else {
		p.Live = 1
	}
	return p
}

// lookup reads a device's entry; ebpf.ErrKeyNotExist is that it has none.
func (p *plane) lookup(index uint32, e *planePort) error {
	var at planePlace
	if err := p.CsigPlaces.Lookup(index, &at); err != nil {
		return err
	}
	return p.entry(at, e)
}

// entry reads that of a place. Its slot is the place's, whatever it says itself.
func (p *plane) entry(at planePlace, e *planePort) error {
	if at.Live != 1 && at.Live != 2 || at.Slot >= maxDevices {
		return ebpf.ErrKeyNotExist
	}
	err := p.CsigPorts.Lookup(at.element(), e)
	e.Slot = uint32(at.Slot)
	return err
}

// put gives a device an entry, in the slot that it names.
func (p *plane) put(index uint32, e *planePort) error {
	var at planePlace
	if err := p.CsigPlaces.Lookup(index, &at); errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("its interface index is %d, and the data plane has room for those below %d", index, p.CsigPlaces.MaxEntries())
	} else if err != nil {
		return err
	}
	if at.Live != 1 && at.Live != 2 || uint32(at.Slot) != e.Slot { // none, or another process's
		at = planePlace{Slot: uint16(e.Slot)}
		if err := p.CsigPlaces.Put(index, at); err != nil { // before it is live
			return err
		}
	}
	next := at.other()
	if p.wasLive == nil || p.wasLive[next.element()] {
		if err := grace(); err != nil {
			return err
		}
		p.wasLive = map[uint32]bool{}
	}
	e.Version = version()
	if err := p.CsigPorts.Put(next.element(), e); err != nil {
		return err
	}
	if err := p.CsigPlaces.Put(index, next); err != nil {
		return err
	}
	if at.Live != 0 {
		p.wasLive[at.element()] = true
	}
	return nil
}

// version is another one for each entry that is written: the program keeps what it computed by an
// entry until the interval ends.
func version() uint32 { return uint32(monotonic() >> 8) }

// remove takes a device's entry away.
func (p *plane) remove(index uint32) error {
	var at planePlace
	if err := p.CsigPlaces.Lookup(index, &at); err != nil || at.Live == 0 {
		return err
	}
	element := at.element()
	at.Live = 0
	if err := p.CsigPlaces.Put(index, at); err != nil {
		return err
	}
	if p.wasLive != nil {
		p.wasLive[element] = true
	}
	return nil
}

// entries are those of all devices.
func (p *plane) entries() (map[uint32]planePort, error) {
	const chunk = 1 << 13
	out := make(map[uint32]planePort)
	keys, places := make([]uint32, chunk), make([]planePlace, chunk)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := p.CsigPlaces.BatchLookup(&cursor, keys, places, nil)
		done := errors.Is(err, ebpf.ErrKeyNotExist) // behind the last
		if err != nil && !done {
			return nil, err
		}
		for i, at := range places[:n] {
			var e planePort
			switch err := p.entry(at, &e); {
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

// forget takes away the entries of devices that are gone.
func (p *plane) forget(entries map[uint32]planePort, used map[uint32]bool, devices map[string]int) error {
	there := make(map[uint32]bool, len(devices))
	for _, index := range devices {
		there[uint32(index)] = true
	}
	for index, e := range entries {
		if there[index] {
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

// grace waits until every program that runs now has ended: this is an RCU grace period.
func grace() error {
	const global = 1 // MEMBARRIER_CMD_GLOBAL
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); errno != 0 {
		return fmt.Errorf("membarrier: %w", errno)
	}
	return nil
}
