package snmp

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/snmp/snmptest"
	"github.com/csig-agent/csig/protocol/memnet"
)

// fakeAgent is an SNMPv2c agent in memory whose answers a test may spoil.
// It is as strict as an agent may be: wrong communities are not answered, and
// requests it cannot decode fail the test.
type fakeAgent struct {
	t    testing.TB
	net  memnet.Packets
	conn net.PacketConn

	mu       sync.Mutex
	vars     map[string]*variable // by dotted name
	order    []*variable          // nil when out of date
	requests int
	most     int // bindings of the largest request

	// Faults; all of them called with mu held.
	status func(req *gosnmp.SnmpPacket) (gosnmp.SNMPError, uint8)
	before func(n int, req *gosnmp.SnmpPacket) // n counts requests from 1
	send   func(n int, req *gosnmp.SnmpPacket, answer []byte) [][]byte
	edit   func(req, answer *gosnmp.SnmpPacket)
}

// oneWay is how long a datagram takes.
const oneWay = 50 * time.Microsecond

// bubble is a subtest on virtual time.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func newAgent(t testing.TB) *fakeAgent {
	t.Helper()
	a := &fakeAgent{t: t, vars: map[string]*variable{}}
	a.net.Path = func(_, _ netip.AddrPort, _ []byte) (time.Duration, bool) { return oneWay, false }
	var err error
	if a.conn, err = a.net.Listen("192.0.2.1:161"); err != nil {
		t.Fatal(err)
	}
	a.put(sysDescr.at(0), gosnmp.OctetString, []byte("Fake Switch OS 1.0"))
	a.put(sysObjectID.at(0), gosnmp.ObjectIdentifier, ".1.3.6.1.4.1.99999.1")
	a.put(sysUpTime.at(0), gosnmp.TimeTicks, uint32(100_000))
	a.put(ifTableLastChange.at(0), gosnmp.TimeTicks, uint32(5))
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.serve()
	}()
	t.Cleanup(func() {
		a.conn.Close()
		<-done
	})
	return a
}

// variable is one object of the agent's MIB.
type variable struct {
	oid oid
	pdu gosnmp.SnmpPDU
}

func (a *fakeAgent) put(o oid, kind gosnmp.Asn1BER, value any) {
	name := o.dotted()
	if v, have := a.vars[name]; have {
		v.pdu.Type, v.pdu.Value = kind, value
		return
	}
	a.order = nil
	a.vars[name] = &variable{o, gosnmp.SnmpPDU{Name: name, Type: kind, Value: value}}
}

func (a *fakeAgent) drop(o oid) {
	delete(a.vars, o.dotted())
	a.order = nil
}

// fakePort is what the agent says about one interface.
type fakePort struct {
	name                   string
	octets                 uint64
	ucast, mcast, bcast    uint64
	discards, errors       uint32
	mbps                   uint32
	oper                   int
	discontinuity          uint32
	narrow, narrowPkts, v1 bool // 32-bit octets; 32-bit packets; no ifXTable but the name
}

// set writes a whole row, as the agent's MIB module would.
func (a *fakeAgent) set(index uint32, p fakePort) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.setLocked(index, p)
}

func (a *fakeAgent) setLocked(index uint32, p fakePort) {
	a.removeLocked(index)
	if p.oper == 0 {
		p.oper = operUp
	}
	speed := uint(p.mbps) * 1e6
	if p.mbps > 4294 {
		speed = speedMax
	}
	put := func(c column, value any) { a.put(c.oid().at(index), columns[c].kind, value) }
	put(ifDescr, []byte(p.name))
	put(ifOperStatus, p.oper)
	put(ifSpeed, speed)
	put(ifOutOctets, uint(uint32(p.octets)))
	put(ifOutUcastPkts, uint(uint32(p.ucast)))
	put(ifOutNUcastPkts, uint(uint32(p.mcast+p.bcast)))
	put(ifOutDiscards, uint(p.discards))
	put(ifOutErrors, uint(p.errors))
	if p.v1 {
		return
	}
	put(ifName, []byte(p.name))
	put(ifOutMulticastPkts, uint(uint32(p.mcast)))
	put(ifOutBroadcastPkts, uint(uint32(p.bcast)))
	put(ifHighSpeed, uint(p.mbps))
	put(ifCounterDiscontinuityTime, p.discontinuity)
	if !p.narrow {
		put(ifHCOutOctets, p.octets)
	}
	if !p.narrow && !p.narrowPkts {
		put(ifHCOutUcastPkts, p.ucast)
		put(ifHCOutMulticastPkts, p.mcast)
		put(ifHCOutBroadcastPkts, p.bcast)
	}
}

func (a *fakeAgent) remove(index uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.removeLocked(index)
}

func (a *fakeAgent) removeLocked(index uint32) {
	for c := range nColumns {
		delete(a.vars, c.oid().at(index).dotted())
	}
	a.order = nil
}

// scalar sets sysUpTime or ifTableLastChange.
func (a *fakeAgent) scalar(o oid, ticks uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.put(o.at(0), gosnmp.TimeTicks, ticks)
}

// with runs f while the agent is idle.
func (a *fakeAgent) with(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *fakeAgent) serve() {
	buf := make([]byte, 1<<16)
	decoder := &gosnmp.GoSNMP{}
	for {
		n, from, err := a.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		req, err := decoder.SnmpDecodePacket(slices.Clone(buf[:n]))
		if err != nil {
			a.t.Errorf("agent: request of %d bytes: %v", n, err)
			continue
		}
		for _, datagram := range a.handle(req) {
			if _, err := a.conn.WriteTo(datagram, from); err != nil {
				return
			}
		}
	}
}

func (a *fakeAgent) handle(req *gosnmp.SnmpPacket) [][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if req.Version != gosnmp.Version2c || req.Community != "public" {
		return nil
	}
	a.requests++
	a.most = max(a.most, len(req.Variables))
	if a.before != nil {
		a.before(a.requests, req)
	}
	answer := &gosnmp.SnmpPacket{
		Version: gosnmp.Version2c, Community: req.Community,
		PDUType: gosnmp.GetResponse, RequestID: req.RequestID,
	}
	if a.status != nil {
		answer.Error, answer.ErrorIndex = a.status(req)
	}
	switch {
	case answer.Error != gosnmp.NoError:
		answer.Variables = req.Variables
	case req.PDUType == gosnmp.GetRequest:
		for _, v := range req.Variables {
			answer.Variables = append(answer.Variables, a.get(v.Name))
		}
	case req.PDUType == gosnmp.GetBulkRequest:
		answer.Variables = a.bulk(req)
	default:
		a.t.Errorf("agent: unexpected %v", req.PDUType)
		return nil
	}
	if a.edit != nil {
		a.edit(req, answer)
	}
	msg, err := answer.MarshalMsg()
	if err != nil {
		a.t.Errorf("agent: %v", err)
		return nil
	}
	if a.send != nil {
		return a.send(a.requests, req, msg)
	}
	return [][]byte{msg}
}

func (a *fakeAgent) get(name string) gosnmp.SnmpPDU {
	if v, ok := a.vars[name]; ok {
		return v.pdu
	}
	return gosnmp.SnmpPDU{Name: name, Type: gosnmp.NoSuchInstance}
}

func (a *fakeAgent) next(name string) gosnmp.SnmpPDU {
	if a.order == nil {
		for _, v := range a.vars {
			a.order = append(a.order, v)
		}
		slices.SortFunc(a.order, func(x, y *variable) int { return slices.Compare(x.oid, y.oid) })
	}
	o, _ := parseDotted(name)
	at, found := slices.BinarySearchFunc(a.order, o, func(x *variable, o oid) int { return slices.Compare(x.oid, o) })
	if found {
		at++
	}
	if at == len(a.order) {
		return gosnmp.SnmpPDU{Name: name, Type: gosnmp.EndOfMibView}
	}
	return a.order[at].pdu
}

func (a *fakeAgent) bulk(req *gosnmp.SnmpPacket) (list []gosnmp.SnmpPDU) {
	repeat := slices.Clone(req.Variables[req.NonRepeaters:])
	for _, v := range req.Variables[:req.NonRepeaters] {
		list = append(list, a.next(v.Name))
	}
	for range req.MaxRepetitions {
		for i := range repeat {
			repeat[i] = a.next(repeat[i].Name)
			list = append(list, repeat[i])
		}
	}
	return list
}

// config is a Source's for this agent.
func (a *fakeAgent) config(ports ...string) Config {
	return Config{
		Device: "leaf1", Address: "192.0.2.1", Dial: a.net.Dial, Community: "public",
		Timeout: 500 * time.Millisecond, Ports: ports,
	}
}

// inMemory serves an agent of snmptest, and returns it with a Source's configuration for it.
func inMemory(t testing.TB, n int, do snmptest.Behaviour) (*snmptest.Agent, Config) {
	t.Helper()
	network := memnet.Packets{Path: func(_, _ netip.AddrPort, _ []byte) (time.Duration, bool) { return 2 * time.Millisecond, false }}
	conn, err := network.Listen("192.0.2.1:161")
	if err != nil {
		t.Fatal(err)
	}
	a := snmptest.Serve(t, conn, n, do)
	return a, Config{Device: "leaf1", Address: "192.0.2.1", Dial: network.Dial, Community: snmptest.Community, Ports: a.Ports}
}

func open(t testing.TB, cfg Config) *Source {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// mustRead reads and fails the test where the device or a port fails.
func mustRead(t testing.TB, s *Source) []counters.Sample {
	t.Helper()
	list := read(t, s)
	for _, smp := range list {
		if smp.Err != nil {
			t.Fatalf("%v", smp.Err)
		}
	}
	return list
}

// read reads and fails the test where the device fails.
func read(t testing.TB, s *Source) []counters.Sample {
	t.Helper()
	list, err := s.Read(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != len(s.cfg.Ports) {
		t.Fatalf("%d samples for %d ports", len(list), len(s.cfg.Ports))
	}
	for i, smp := range list {
		if smp.Port != s.cfg.Ports[i] {
			t.Fatalf("sample %d is of %s, want %s", i, smp.Port, s.cfg.Ports[i])
		}
		if smp.At.IsZero() {
			t.Fatalf("port %s: no timestamp", smp.Port)
		}
	}
	return list
}

// many gives the agent n ports and returns their names. Their octets are
// 1000·ifIndex.
func (a *fakeAgent) many(n int) (ports []string) {
	for i := range n {
		index := uint32(i + 1)
		name := fmt.Sprintf("swp%d", index)
		a.set(index, numbered(index))
		ports = append(ports, name)
	}
	return ports
}

// numbered is a port whose counters give it away.
func numbered(index uint32) fakePort {
	return fakePort{name: fmt.Sprintf("swp%d", index), octets: 1000 * uint64(index), ucast: uint64(index), mcast: 2, bcast: 3, mbps: 25_000}
}
