package fabric

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/protocol/packets"
)

// Relay is a long cable: what comes to one port of a host leaves the other a time later. Hosts whose packets pass it
// need Whole.
type Relay struct {
	in  []*packets.Socket
	all sync.WaitGroup
}

// relayQueue is how many frames are on the cable at most; others are lost.
const relayQueue = 10_000

// StartRelay has frames go both ways between two ports of a host.
func StartRelay(a, b *Port, delay time.Duration) (_ *Relay, err error) {
	r := &Relay{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("relay between %s and %s: %w", a, b, err), r.Stop())
		}
	}()
	for _, way := range [][2]*Port{{a, b}, {b, a}} {
		var in, out *packets.Socket
		if err := way[0].node.Do(func() (err error) {
			if in, err = packets.Open(way[0].index, nil); err == nil {
				r.in = append(r.in, in)
				out, err = packets.OpenSender(way[1].index)
			}
			return err
		}); err != nil {
			return nil, err
		}
		r.pass(in, out, delay)
	}
	return r, nil
}

func (r *Relay) pass(in, out *packets.Socket, delay time.Duration) {
	type passing struct {
		frame []byte
		due   time.Time
	}
	cable := make(chan passing, relayQueue)
	r.all.Go(func() {
		defer close(cable)
		for {
			f, _, err := in.Receive()
			if err != nil {
				return // Stop has closed it
			}
			if f == nil {
				continue
			}
			select {
			case cable <- passing{slices.Clone(f), time.Now().Add(delay)}:
			default:
			}
		}
	})
	r.all.Go(func() {
		defer out.Close()
		for f := range cable {
			time.Sleep(time.Until(f.due)) // the cable is that long
			_ = out.Send(f.frame)         // at the end the other host may be gone
		}
	})
}

// Stop ends it; what is on the cable leaves it.
func (r *Relay) Stop() error {
	var errs []error
	for _, in := range r.in {
		errs = append(errs, in.Close())
	}
	r.all.Wait()
	return errors.Join(errs...)
}

// Whole has packets leave the port with their checksums, as a network card would send them: a relay passes on what it gets.
func (p *Port) Whole() error {
	if err := p.node.Do(func() error { return off(p.Name, feature{"checksum offload", unix.ETHTOOL_STXCSUM}) }); err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	return nil
}
