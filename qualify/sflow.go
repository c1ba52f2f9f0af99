package qualify

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// samplesWanted is how many samples of frames without a tag show that those with one, which
// are as many, are sampled, too; sampling is how long they may take.
const (
	samplesWanted = 24
	sampling      = time.Minute
	sflowBatch    = 64                      // frames of each kind at a time
	sflowFlush    = 1200 * time.Millisecond // agents send what they have each second

	fewer = 8 // times as many of the one kind as of the other are no chance
)

func runSFlow(ctx context.Context, t *Trial) error {
	if t.SFlow == nil {
		return Cannot("csig has to be the collector: --sflow ADDRESS:6343, an address of this machine; configure at the switch sFlow version 5 to it, and for %s to sample one frame in 100 or more, with headers of 128 bytes", t.Ports[0].Name)
	}
	c := collector{run: t.Bench.run, sent: map[uint64]*Seen{}}
	stop := c.listen(t.SFlow)
	defer stop()
	if err := t.passing(ctx); err != nil {
		return err
	}
	t.waits("waiting up to %v for %d sFlow samples at %v", sampling, samplesWanted, t.SFlow.LocalAddr())
	for began := time.Now(); time.Since(began) < sampling; {
		var frames []Frame
		for i := range sflowBatch {
			frames = append(frames, Frame{To: 1}, Frame{To: 1, Tags: VLAN(t.Profile.TPID, 0x2000|sampled[i%len(sampled)])})
		}
		seen, err := t.Exchange(ctx, 0, frames)
		if err != nil {
			return err
		}
		if c.know(seen) >= samplesWanted {
			break
		}
	}
	if err := vendors.Wait(ctx, sflowFlush); err != nil {
		return err
	}
	stop()
	t.Measured("sflow_datagrams", float64(c.datagrams))
	t.Measured("samples_without_tag", float64(c.plain))
	t.Measured("samples_with_tag", float64(c.tagged))
	switch {
	case c.err != nil:
		return c.err
	case c.plain == 0 && c.altered == "":
		return Cannot("no sample of a frame without the tag from %s came to %v within %v, and %d sFlow datagrams did, %d of which could not be read: configure sFlow version 5 for %s, one frame in 100 or more, with headers of 128 bytes",
			t.Ports[0].Name, t.SFlow.LocalAddr(), sampling, c.datagrams, c.broken, t.Ports[0].Name)
	}
	if err := t.Positive("samples of frames without the tag are as these were sent", c.altered == "", "%s", c.altered); err != nil {
		return err
	}
	switch {
	case c.without != "":
		t.Fault("sflow-tag-missing", "samples lack the tag: %s", c.without)
	case c.other != "":
		t.Fault("sflow-altered", "samples are not as the frame was: %s", c.other)
	case c.plain >= samplesWanted && c.tagged*fewer < c.plain:
		t.Fault("sflow-lost", "frames with the tag are not sampled as others: %d samples came of them, and %d of as many frames without it", c.tagged, c.plain)
	case c.tagged == 0:
		return Cannot("%d samples came within %v, and %d are needed: have %s sample one frame in 100 or more", c.plain, sampling, samplesWanted, t.Ports[0].Name)
	}
	t.Found("%d samples of frames with the tag have it, and %d of others are as these were sent", c.tagged, c.plain)
	return nil
}

// collector counts the samples of the bench's frames.
type collector struct {
	run uint64

	mu                      sync.Mutex
	sent                    map[uint64]*Seen
	datagrams, broken       int
	plain, tagged           int
	altered, without, other string   // an example each
	early                   [][]byte // of frames that are not known yet
	err                     error
}

// unmatched is how many samples may come before it is known what was sent.
const unmatched = 4096

// know has the collector know what was sent, and returns how many samples there are of
// frames without a tag.
func (c *collector) know(seen []Seen) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range seen {
		c.sent[seen[i].Seq] = &seen[i]
	}
	early := c.early
	c.early = nil
	for _, header := range early {
		c.sample(header)
	}
	return c.plain
}

// listen reads datagrams until stop is called.
func (c *collector) listen(conn net.PacketConn) (stop func()) {
	_ = conn.SetReadDeadline(time.Time{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 1<<16)
		for {
			n, _, err := conn.ReadFrom(buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
			c.mu.Lock()
			if err != nil {
				c.err = fmt.Errorf("receiving sFlow: %w", err)
				c.mu.Unlock()
				return
			}
			c.datagrams++
			if !sampledHeaders(buf[:n], c.sample) {
				c.broken++
			}
			c.mu.Unlock()
		}
	}()
	return sync.OnceFunc(func() {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
		<-ended
	})
}

// sample takes the header of a frame; what is not the bench's is left out.
func (c *collector) sample(header []byte) {
	p, ok := find(header, c.run)
	s := c.sent[p.seq]
	if !ok || s == nil {
		if ok && p.kind == kindData && len(c.early) < unmatched {
			c.early = append(c.early, slices.Clone(header[:min(len(header), searched)]))
		}
		return
	}
	is := func(frame []byte) bool { return bytes.HasPrefix(frame, header[:min(len(header), len(frame))]) }
	switch plain := slices.Delete(slices.Clone(s.Sent), 12, 12+len(s.Tags)); {
	case is(s.Sent) && len(s.Tags) > 0:
		c.tagged++
	case is(s.Sent):
		c.plain++
	case len(s.Tags) == 0:
		c.altered = fmt.Sprintf("%x became %x", head(s.Sent), head(header))
	case is(plain):
		c.without = fmt.Sprintf("%x became %x", head(s.Sent), head(header))
	default:
		c.other = fmt.Sprintf("%x became %x", head(s.Sent), head(header))
	}
}

// sFlow version 5 (sflow.org/sflow_version_5.txt): formats of samples and of records.
const (
	sflowVersion  = 5
	flowSample    = 1
	flowExpanded  = 3
	rawHeader     = 1
	ethernetFrame = 1
)

// sampledHeaders calls f with the header of each Ethernet frame in a datagram; false: it is
// not as the format has it.
func sampledHeaders(datagram []byte, f func(header []byte)) bool {
	d := xdr{b: datagram}
	if d.word() != sflowVersion {
		return false
	}
	switch d.word() { // the agent's address
	case 1:
		d.take(4)
	case 2:
		d.take(16)
	default:
		return false
	}
	d.take(3 * 4) // sub-agent, number, uptime
	for n := d.word(); n > 0 && !d.short; n-- {
		format, sample := d.word(), xdr{b: d.opaque()}
		switch format {
		case flowSample:
			sample.take(7 * 4) // number, source, rate, pool, drops, input, output
		case flowExpanded:
			sample.take(10 * 4)
		default:
			continue
		}
		for n := sample.word(); n > 0 && !sample.short; n-- {
			format, record := sample.word(), xdr{b: sample.opaque()}
			if format != rawHeader || record.word() != ethernetFrame {
				continue
			}
			record.take(2 * 4) // length of the frame, bytes removed from its end
			if header := record.opaque(); !record.short {
				f(header)
			}
		}
		d.short = d.short || sample.short
	}
	return !d.short
}

// xdr reads what RFC 4506 encodes; short: there was less than asked for.
type xdr struct {
	b     []byte
	short bool
}

func (x *xdr) take(n int) []byte {
	if n > len(x.b) {
		x.b, x.short = nil, true
		return nil
	}
	out := x.b[:n]
	x.b = x.b[n:]
	return out
}

func (x *xdr) word() uint32 {
	if w := x.take(4); w != nil {
		return binary.BigEndian.Uint32(w)
	}
	return 0
}

// opaque is a length with so many bytes, filled up to words.
func (x *xdr) opaque() []byte {
	n := x.word()
	if uint64(n) > uint64(len(x.b)) {
		x.take(len(x.b) + 1)
		return nil
	}
	out := x.take(int(n))
	x.take(min(len(x.b), int(-n&3)))
	return out
}
