// Package snmptest has SNMPv2c agents for tests, on the loopback or in memory: one that answers
// as it should, and every kind of hostile one.
package snmptest

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gosnmp/gosnmp"
)

// Community is what the agents answer to.
const Community = "public"

// Agent is an agent with some ports, swp1 and so on, each of which sends 1,000 frames of
// 1,000 octets a second on a link of 1 Gbit/s.
type Agent struct {
	Port  uint16 // UDP
	Ports []string

	t     testing.TB
	conn  net.PacketConn
	began time.Time
	do    Behaviour
	mib   []object // in lexicographic order

	mu       sync.Mutex
	requests int
	late     []byte
	done     sync.WaitGroup
	stop     chan struct{}
}

type object struct {
	name  string
	arcs  []int
	value func(a *Agent) (gosnmp.Asn1BER, any)
}

// Start serves an agent of n ports on the loopback until the test ends. do may be nil.
func Start(t testing.TB, n int, do Behaviour) *Agent {
	t.Helper()
	return StartPorts(t, do, names(n)...)
}

func names(n int) (ports []string) {
	for i := range n {
		ports = append(ports, fmt.Sprintf("swp%d", i+1))
	}
	return ports
}

// StartPorts is Start with ports of these names.
func StartPorts(t testing.TB, do Behaviour, ports ...string) *Agent {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, conn, do, ports)
}

// Serve is Start on a socket of the caller's, also one in memory.
func Serve(t testing.TB, conn net.PacketConn, n int, do Behaviour) *Agent {
	t.Helper()
	return serve(t, conn, do, names(n))
}

func serve(t testing.TB, conn net.PacketConn, do Behaviour, ports []string) *Agent {
	a := &Agent{
		Port: uint16(conn.LocalAddr().(*net.UDPAddr).Port), t: t, conn: conn, do: do,
		began: time.Now().Add(-time.Hour), stop: make(chan struct{}),
	}
	a.fill(ports)
	a.done.Add(1)
	go func() {
		defer a.done.Done()
		a.serve()
	}()
	t.Cleanup(func() {
		close(a.stop)
		conn.Close()
		a.done.Wait()
	})
	return a
}

// Requests is how many requests have come.
func (a *Agent) Requests() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests
}

func (a *Agent) fill(ports []string) {
	add := func(kind gosnmp.Asn1BER, value func(a *Agent) any, arcs ...int) {
		a.mib = append(a.mib, object{dotted(arcs), arcs, func(a *Agent) (gosnmp.Asn1BER, any) { return kind, value(a) }})
	}
	constant := func(v any) func(*Agent) any { return func(*Agent) any { return v } }
	add(gosnmp.OctetString, constant([]byte("test switch")), 1, 3, 6, 1, 2, 1, 1, 1, 0)
	add(gosnmp.ObjectIdentifier, constant(".1.3.6.1.4.1.99999.1"), 1, 3, 6, 1, 2, 1, 1, 2, 0)
	add(gosnmp.TimeTicks, func(a *Agent) any { return uint32(time.Since(a.began) / (10 * time.Millisecond)) }, 1, 3, 6, 1, 2, 1, 1, 3, 0)
	add(gosnmp.TimeTicks, constant(uint32(1)), 1, 3, 6, 1, 2, 1, 31, 1, 5, 0)
	a.Ports = ports
	for n, name := range ports {
		i := n + 1
		frames := func(a *Agent) uint64 { return uint64(time.Since(a.began) / time.Millisecond) }
		in := func(sub int) []int { return []int{1, 3, 6, 1, 2, 1, 2, 2, 1, sub, i} }
		x := func(sub int) []int { return []int{1, 3, 6, 1, 2, 1, 31, 1, 1, 1, sub, i} }
		add(gosnmp.OctetString, constant([]byte(name)), in(2)...)
		add(gosnmp.Gauge32, constant(uint(1e9)), in(5)...)
		add(gosnmp.Integer, constant(1), in(8)...)
		add(gosnmp.Counter32, func(a *Agent) any { return uint(uint32(1000 * frames(a))) }, in(16)...)
		add(gosnmp.Counter32, func(a *Agent) any { return uint(uint32(frames(a))) }, in(17)...)
		add(gosnmp.Counter32, constant(uint(0)), in(18)...)
		add(gosnmp.Counter32, constant(uint(0)), in(19)...)
		add(gosnmp.Counter32, constant(uint(0)), in(20)...)
		add(gosnmp.OctetString, constant([]byte(name)), x(1)...)
		add(gosnmp.Counter32, constant(uint(0)), x(4)...)
		add(gosnmp.Counter32, constant(uint(0)), x(5)...)
		add(gosnmp.Counter64, func(a *Agent) any { return 1000 * frames(a) }, x(10)...)
		add(gosnmp.Counter64, func(a *Agent) any { return frames(a) }, x(11)...)
		add(gosnmp.Counter64, constant(uint64(0)), x(12)...)
		add(gosnmp.Counter64, constant(uint64(0)), x(13)...)
		add(gosnmp.Gauge32, constant(uint(1000)), x(15)...)
		add(gosnmp.TimeTicks, constant(uint32(0)), x(19)...)
	}
	slices.SortFunc(a.mib, func(p, q object) int { return slices.Compare(p.arcs, q.arcs) })
}

func dotted(arcs []int) string {
	s := make([]byte, 0, 4*len(arcs))
	for _, v := range arcs {
		s = strconv.AppendInt(append(s, '.'), int64(v), 10)
	}
	return string(s)
}

func arcsOf(name string) (arcs []int) {
	v, have := 0, false
	for _, c := range name + "." {
		switch {
		case c >= '0' && c <= '9' && v < math.MaxUint32:
			v, have = 10*v+int(c-'0'), true
		case have:
			arcs, v, have = append(arcs, v), 0, false
		}
	}
	return arcs
}

func (a *Agent) serve() {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := a.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		req, err := (&gosnmp.GoSNMP{}).SnmpDecodePacket(slices.Clone(buf[:n]))
		if err != nil || req.Community != Community || req.Version != gosnmp.Version2c {
			continue
		}
		a.mu.Lock()
		a.requests++
		e := &Exchange{Request: req, Answer: a.answer(req), N: a.requests, agent: a}
		late := a.late
		a.mu.Unlock()
		e.Late = late
		if a.do != nil {
			a.do(e)
		}
		e.finish()
		a.mu.Lock()
		a.late = e.whole
		a.mu.Unlock()
		send := func() {
			for _, b := range append(e.Before, e.Datagrams...) {
				if _, err := a.conn.WriteTo(b, from); err != nil {
					return
				}
			}
		}
		if e.Delay == 0 {
			send()
			continue
		}
		a.done.Add(1)
		go func() {
			defer a.done.Done()
			select {
			case <-time.After(e.Delay):
				send()
			case <-a.stop:
			}
		}()
	}
}

// answer is what is right.
func (a *Agent) answer(req *gosnmp.SnmpPacket) *gosnmp.SnmpPacket {
	out := &gosnmp.SnmpPacket{Version: gosnmp.Version2c, Community: req.Community, PDUType: gosnmp.GetResponse, RequestID: req.RequestID}
	bind := func(name string, at int, missing gosnmp.Asn1BER) {
		if at >= len(a.mib) {
			out.Variables = append(out.Variables, gosnmp.SnmpPDU{Name: name, Type: missing})
			return
		}
		kind, v := a.mib[at].value(a)
		out.Variables = append(out.Variables, gosnmp.SnmpPDU{Name: a.mib[at].name, Type: kind, Value: v})
	}
	find := func(name string) (int, bool) {
		return slices.BinarySearchFunc(a.mib, arcsOf(name), func(o object, arcs []int) int { return slices.Compare(o.arcs, arcs) })
	}
	next := func(name string) int {
		at, found := find(name)
		if found {
			at++
		}
		return at
	}
	switch req.PDUType {
	case gosnmp.GetRequest:
		for _, v := range req.Variables {
			at, found := find(v.Name)
			if !found {
				at = len(a.mib)
			}
			bind(v.Name, at, gosnmp.NoSuchInstance)
		}
	case gosnmp.GetBulkRequest:
		walk := slices.Clone(req.Variables)
		for range min(req.MaxRepetitions, 255) {
			for i := range walk {
				bind(walk[i].Name, next(walk[i].Name), gosnmp.EndOfMibView)
				walk[i].Name = out.Variables[len(out.Variables)-1].Name
			}
		}
	}
	return out
}
