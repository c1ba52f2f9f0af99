package snmptest

import (
	"slices"

	"github.com/gosnmp/gosnmp"
)

// Text gives the agent one more object.
func (a *Agent) Text(text string, arcs ...int) {
	a.put(gosnmp.OctetString, []byte(text), arcs...)
}

// Name gives the agent its sysName.
func (a *Agent) Name(text string) { a.Text(text, 1, 3, 6, 1, 2, 1, 1, 5, 0) }

// Alias gives port n, from 1, its ifAlias.
func (a *Agent) Alias(n int, text string) { a.Text(text, 1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 18, n) }

// Neighbor is what LLDP brought to port n, from 1: a system and an interface of it.
func (a *Agent) Neighbor(n int, system, port string) {
	a.Text(a.Ports[n-1], 1, 0, 8802, 1, 1, 2, 1, 3, 7, 1, 3, n)
	rem := func(column int) []int { return []int{1, 0, 8802, 1, 1, 2, 1, 4, 1, 1, column, 0, n, 1} }
	a.put(gosnmp.Integer, 4, rem(4)...) // a MAC address
	a.Text("\x02\x00\x00\x00\x00"+string(rune(n)), rem(5)...)
	a.put(gosnmp.Integer, 5, rem(6)...) // the name of an interface
	a.Text(port, rem(7)...)
	a.Text("to "+a.Ports[n-1], rem(8)...)
	a.Text(system, rem(9)...)
}

func (a *Agent) put(kind gosnmp.Asn1BER, value any, arcs ...int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := object{dotted(arcs), arcs, func(*Agent) (gosnmp.Asn1BER, any) { return kind, value }}
	at, found := slices.BinarySearchFunc(a.mib, arcs, func(o object, arcs []int) int { return slices.Compare(o.arcs, arcs) })
	if found {
		a.mib[at] = o
		return
	}
	a.mib = slices.Insert(a.mib, at, o)
}
