package snmptest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gosnmp/gosnmp"
)

// Exchange is one request and what becomes of it.
type Exchange struct {
	Request *gosnmp.SnmpPacket
	Answer  *gosnmp.SnmpPacket // nil sends nothing
	N       int                // of the request, from 1
	Late    []byte             // the answer to the request before

	Before    [][]byte // is sent before the answer
	Datagrams [][]byte // is sent instead of it, where it is set
	Delay     time.Duration

	agent *Agent
	whole []byte
}

// Whole is the answer as it would be sent; nil where it is none.
func (e *Exchange) Whole() []byte {
	if e.Answer == nil {
		return nil
	}
	msg, err := e.Answer.MarshalMsg()
	if err != nil {
		return nil
	}
	return msg
}

func (e *Exchange) finish() {
	e.whole = e.Whole()
	if e.Datagrams == nil && e.whole != nil {
		e.Datagrams = [][]byte{e.whole}
	}
}

// Behaviour spoils an exchange.
type Behaviour func(e *Exchange)

// Nasty is a text that no terminal, log or page should get.
var Nasty = "\x1b]8;;http://evil.example\x07\x1b[2J\u202egpj.exe\r\n| fake | table |\xff\x00" + strings.Repeat("A", 50_000)

// Hostile returns hostile behaviours by name, new ones at each call. Each is for one
// Agent.
func Hostile() map[string]Behaviour {
	// One for each behaviour that uses it: agents run side by side.
	late, garbage, before, flood, flips, chance := source(1), source(2), source(3), source(4), source(5), source(6)
	instead := func(f func(msg []byte) [][]byte) Behaviour {
		return func(e *Exchange) { e.Datagrams = f(e.Whole()) }
	}
	each := func(f func(e *Exchange, v *gosnmp.SnmpPDU)) Behaviour {
		return func(e *Exchange) {
			for i := range e.Answer.Variables {
				f(e, &e.Answer.Variables[i])
			}
		}
	}
	walks := func(e *Exchange) bool {
		return e.Request.PDUType == gosnmp.GetBulkRequest && len(e.Request.Variables) == 1
	}
	endless := func(step int) Behaviour {
		return func(e *Exchange) {
			if !walks(e) {
				return
			}
			arcs := arcsOf(e.Request.Variables[0].Name)
			column, at := arcs, 0
			if len(arcs) > 11 || len(arcs) == 11 && arcs[6] == 2 {
				column, at = arcs[:len(arcs)-1], arcs[len(arcs)-1]
			}
			e.Answer.Variables = nil
			for range min(e.Request.MaxRepetitions, 255) {
				if at += step; at < 0 {
					at = 1 << 30
				}
				e.Answer.Variables = append(e.Answer.Variables, gosnmp.SnmpPDU{Name: dotted(append(column[:len(column):len(column)], at)), Type: gosnmp.OctetString, Value: []byte(fmt.Sprint("swp", at))})
			}
		}
	}
	status := func(s gosnmp.SNMPError, index uint8) Behaviour {
		return func(e *Exchange) { e.Answer.Error, e.Answer.ErrorIndex = s, index }
	}
	return map[string]Behaviour{
		"silent":           func(e *Exchange) { e.Answer = nil },
		"late":             func(e *Exchange) { e.Delay = time.Duration(late.IntN(int(800 * time.Millisecond))) },
		"later than a try": func(e *Exchange) { e.Delay = 3 * time.Second },
		"garbage":          instead(func([]byte) [][]byte { return [][]byte{noise(garbage, 1+garbage.IntN(3000))} }),
		"garbage before": func(e *Exchange) {
			e.Before = [][]byte{noise(before, 100), nil, noise(before, 60_000), {0x30, 0x84, 255, 255, 255, 255}}
		},
		"flood":              func(e *Exchange) { e.Before = slicesOf(noise(flood, 40), 3000) },
		"flood of answers":   instead(func(msg []byte) [][]byte { return slicesOf(msg, 1000) }),
		"halves":             instead(func(msg []byte) [][]byte { return [][]byte{msg[:len(msg)/2]} }),
		"one byte more":      instead(func(msg []byte) [][]byte { return [][]byte{append(msg, 0)} }),
		"flipped bits":       instead(func(msg []byte) [][]byte { msg[flips.IntN(len(msg))] ^= 1 << flips.IntN(8); return [][]byte{msg} }),
		"nested without end": instead(func([]byte) [][]byte { return [][]byte{bytes.Repeat([]byte{0x30, 0x80}, 30_000)} }),
		"huge length":        instead(func([]byte) [][]byte { return [][]byte{binary.BigEndian.AppendUint32([]byte{0x30, 0x84}, 1<<32-1)} }),
		"the answer before":  func(e *Exchange) { e.Datagrams = [][]byte{e.Late} },
		"the answer before, with this id": func(e *Exchange) {
			if old, err := (&gosnmp.GoSNMP{}).SnmpDecodePacket(e.Late); err == nil {
				e.Answer.Variables = old.Variables
			}
		},
		"another id":          func(e *Exchange) { e.Answer.RequestID++ },
		"another community":   func(e *Exchange) { e.Answer.Community = "Public" },
		"version 1":           func(e *Exchange) { e.Answer.Version = gosnmp.Version1 },
		"the request as such": func(e *Exchange) { e.Answer.PDUType = gosnmp.GetRequest },
		"tooBig":              status(gosnmp.TooBig, 0),
		"genErr":              status(gosnmp.GenErr, 200),
		"strange status":      status(gosnmp.SNMPError(99), 255),
		"no bindings":         func(e *Exchange) { e.Answer.Variables = nil },
		"bindings without end": func(e *Exchange) {
			for len(e.Answer.Variables) < 5000 {
				e.Answer.Variables = append(e.Answer.Variables, gosnmp.SnmpPDU{Name: ".1.3", Type: gosnmp.Null})
			}
		},
		"bindings doubled":    func(e *Exchange) { e.Answer.Variables = append(e.Answer.Variables, e.Answer.Variables...) },
		"nothing there":       each(func(_ *Exchange, v *gosnmp.SnmpPDU) { v.Type, v.Value = gosnmp.NoSuchInstance, nil }),
		"null":                each(func(_ *Exchange, v *gosnmp.SnmpPDU) { v.Type, v.Value = gosnmp.Null, nil }),
		"all texts":           each(func(_ *Exchange, v *gosnmp.SnmpPDU) { v.Type, v.Value = gosnmp.OctetString, []byte("1") }),
		"walk without end":    endless(1),
		"walk in large steps": endless(1 << 20),
		"walk backwards":      endless(-1),
		"walk that stands":    endless(0),
		"all of one name":     each(func(_ *Exchange, v *gosnmp.SnmpPDU) { name(v, "swp1") }),
		"nasty names":         each(func(_ *Exchange, v *gosnmp.SnmpPDU) { name(v, Nasty[:300]) }),
		"nasty and huge names": func(e *Exchange) {
			for i := range e.Answer.Variables {
				name(&e.Answer.Variables[i], "x")
			}
			if walks(e) {
				e.Answer.Variables = e.Answer.Variables[:1]
				name(&e.Answer.Variables[0], Nasty)
			}
		},
		"nasty description": each(func(_ *Exchange, v *gosnmp.SnmpPDU) {
			if v.Name == ".1.3.6.1.2.1.1.1.0" {
				v.Value = []byte(Nasty)
			}
		}),
		"always restarting": each(func(e *Exchange, v *gosnmp.SnmpPDU) {
			if v.Name == ".1.3.6.1.2.1.1.3.0" {
				v.Value = uint32(1<<31 - 1000*e.N)
			}
		}),
		"table always changing": each(func(e *Exchange, v *gosnmp.SnmpPDU) {
			if v.Name == ".1.3.6.1.2.1.31.1.5.0" {
				v.Value = uint32(e.N)
			}
		}),
		"names that move": each(func(e *Exchange, v *gosnmp.SnmpPDU) {
			if v.Type == gosnmp.OctetString {
				name(v, fmt.Sprint("swp", 1+(arcsOf(v.Name)[len(arcsOf(v.Name))-1]+e.N)%4))
			}
		}),
		"links that flap": each(func(e *Exchange, v *gosnmp.SnmpPDU) {
			if v.Type == gosnmp.Integer {
				v.Value = e.N % 9
			}
		}),
		"speeds that change": each(func(e *Exchange, v *gosnmp.SnmpPDU) {
			if v.Type == gosnmp.Gauge32 {
				v.Value = uint(1) << (e.N % 32)
			}
		}),
		"counters of chance": each(func(_ *Exchange, v *gosnmp.SnmpPDU) {
			if v.Type == gosnmp.Counter64 {
				v.Value = chance.Uint64()
			}
		}),
		"octets that stand": each(func(_ *Exchange, v *gosnmp.SnmpPDU) {
			if strings.HasPrefix(v.Name, ".1.3.6.1.2.1.31.1.1.1.10.") {
				v.Value = uint64(5)
			}
		}),
	}
}

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(1, seed)) }

func noise(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// name makes v an interface's name, where it is one.
func name(v *gosnmp.SnmpPDU, text string) {
	if strings.HasPrefix(v.Name, ".1.3.6.1.2.1.31.1.1.1.1.") || strings.HasPrefix(v.Name, ".1.3.6.1.2.1.2.2.1.2.") {
		v.Type, v.Value = gosnmp.OctetString, []byte(text)
	}
}

func slicesOf(b []byte, n int) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = b
	}
	return list
}
