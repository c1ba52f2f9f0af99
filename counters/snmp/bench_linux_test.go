package snmp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/csig-agent/csig/counters"
)

// contest runs its entrants in turn, so that the machine's moods hit all alike,
// and reports the median of each in microseconds.
type contest struct {
	names []string
	runs  []func()
	took  [][]time.Duration
}

func (c *contest) add(name string, run func()) {
	c.names, c.runs, c.took = append(c.names, name), append(c.runs, run), append(c.took, nil)
}

func (c *contest) median(name string) time.Duration {
	list := c.took[slices.Index(c.names, name)]
	slices.Sort(list)
	return list[len(list)/2]
}

func (c *contest) run(b *testing.B) {
	for b.Loop() {
		for i, run := range c.runs {
			start := time.Now()
			run()
			c.took[i] = append(c.took[i], time.Since(start))
		}
	}
	for _, name := range c.names {
		b.ReportMetric(float64(c.median(name).Nanoseconds())/1e3, name+"-µs")
	}
}

// rack starts snmpd beside 512 veth ports, with a cache that lasts, and returns
// the ports that are read.
func rack(b *testing.B) (*daemon, []string) {
	var ports []string
	for i := range 256 {
		name, peer := fmt.Sprintf("tor%d", i), fmt.Sprintf("host%d", i)
		addVeth(b, name, peer)
		ports = append(ports, name, peer)
	}
	d := startDaemon(b)
	d.cache(b, 1000)
	return d, ports
}

// bulkwalk runs net-snmp's own snmpbulkwalk over columns, one after the other.
func bulkwalk(b *testing.B, d *daemon, cols mask) func() {
	path := command(b, "snmpbulkwalk")
	return func() {
		for c := range nColumns {
			if !cols.has(c) {
				continue
			}
			cmd := exec.Command(path, "-v2c", "-c", "public", "-On", "127.0.0.1:"+strconv.Itoa(int(d.port)), c.oid().dotted())
			cmd.Stdout = io.Discard
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// bareGet reads columns of all ports with a bare gosnmp client, 128 OIDs a PDU.
func bareGet(b *testing.B, d *daemon, s *Source, cols mask) func() {
	g := d.client(b)
	var all []string
	for i := range s.ports {
		for c := range nColumns {
			if cols.has(c) {
				all = append(all, c.oid().at(s.ports[i].index).dotted())
			}
		}
	}
	return func() {
		for part := range slices.Chunk(all, 128) {
			packet, err := g.Get(part)
			if err != nil || packet.Error != gosnmp.NoError || len(packet.Variables) != len(part) {
				b.Fatal(err)
			}
		}
	}
}

// libraryDecoder is a session of SNMPv2c whose answers gosnmp decodes.
type libraryDecoder struct {
	*v2c
	library gosnmp.GoSNMP
	convert v3
}

func (l *libraryDecoder) exchange(ctx context.Context, p *pdu, a *answer) error {
	id := randomID()
	binary.BigEndian.PutUint32(p.msg[p.idAt:], uint32(id))
	if err := errors.Join(l.conn.SetReadDeadline(time.Now().Add(l.cfg.Timeout)), ctx.Err()); err != nil {
		return err
	}
	a.sent = time.Now()
	if _, err := l.conn.Write(p.msg); err != nil {
		return err
	}
	n, err := l.conn.Read(l.buf)
	if err != nil {
		return err
	}
	a.received = time.Now()
	packet, err := l.library.SnmpDecodePacket(l.buf[:n])
	if err != nil || packet.RequestID != uint32(id) || packet.Community != string(l.cfg.Community) || packet.PDUType != gosnmp.GetResponse {
		return errors.Join(ErrMalformed, err)
	}
	l.convert.take(packet, &a.reply)
	return nil
}

// decodedByLibrary has s read through a libraryDecoder.
func decodedByLibrary(b *testing.B, s *Source) {
	b.Helper()
	mustRead(b, s)
	s.sess = &libraryDecoder{v2c: s.sess.(*v2c), library: gosnmp.GoSNMP{Version: gosnmp.Version2c}}
}

// BenchmarkColumn512 reads one column, ifHCOutOctets, of 512 ports of a real
// snmpd: the engine of this package, a bare gosnmp Get, and snmpbulkwalk.
func BenchmarkColumn512(b *testing.B) {
	d, ports := rack(b)
	s := open(b, d.config(ports...))
	mustRead(b, s)
	one := of(ifHCOutOctets)
	plan, err := s.requests(func(*port) mask { return one })
	if err != nil {
		b.Fatal(err)
	}
	column := func(s *Source) func() {
		return func() {
			for _, p := range plan {
				if err := s.ask(b.Context(), p); err != nil || !s.store(p) {
					b.Fatal(err)
				}
			}
		}
	}
	library := open(b, d.config(ports...))
	decodedByLibrary(b, library)
	var c contest
	c.add("source", column(s))
	c.add("library", column(library))
	c.add("get128", bareGet(b, d, s, one))
	c.add("bulkwalk", bulkwalk(b, d, one))
	b.ReportAllocs()
	c.run(b)
	b.ReportMetric(float64(c.median("bulkwalk"))/float64(c.median("source")), "x-faster-than-bulkwalk")
	b.ReportMetric(float64(c.median("source"))/float64(c.median("get128")), "of-get128")
	b.ReportMetric(float64(c.median("library"))/float64(c.median("get128")), "library-of-get128")
}

// BenchmarkReading512 takes whole readings of 512 ports of a real snmpd, against
// the same columns by a bare gosnmp Get and by snmpbulkwalk.
func BenchmarkReading512(b *testing.B) {
	d, ports := rack(b)
	full := open(b, d.config(ports...))
	cfg := d.config(ports...)
	cfg.Recheck = time.Hour
	lean := open(b, cfg)
	var dst []counters.Sample
	read := func(s *Source) func() {
		return func() {
			var err error
			if dst, err = s.Read(b.Context(), dst); err != nil || dst[0].Err != nil {
				b.Fatal(err, dst[0].Err)
			}
		}
	}
	library := open(b, d.config(ports...))
	decodedByLibrary(b, library)
	for _, s := range []*Source{full, library} {
		read(s)()
	}
	read(lean)()
	cols := full.ports[0].need
	var c contest
	c.add("reading", read(full))
	c.add("library", read(library))
	c.add("lean", read(lean))
	c.add("get128", bareGet(b, d, full, cols))
	c.add("bulkwalk", bulkwalk(b, d, cols))
	b.ReportAllocs()
	c.run(b)
	b.ReportMetric(float64(c.median("bulkwalk"))/float64(c.median("reading")), "x-faster-than-bulkwalk")
	b.ReportMetric(float64(c.median("reading"))/float64(c.median("get128")), "of-get128")
	b.ReportMetric(float64(c.median("library"))/float64(c.median("get128")), "library-of-get128")
	b.Logf("%d columns a port", cols.size())
}

// BenchmarkRead is what a reading costs this side, without socket and agent.
func BenchmarkRead(b *testing.B) {
	for _, n := range []int{64, 512} {
		b.Run(fmt.Sprint(n, "ports"), func(b *testing.B) {
			a := newAgent(b)
			s := open(b, a.config(a.many(n)...))
			var dst []counters.Sample
			dst = mustRead(b, s)
			record(b, s)
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if dst, err = s.Read(b.Context(), dst); err != nil || dst[0].Err != nil {
					b.Fatal(err, dst[0].Err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/port")
		})
	}
}
