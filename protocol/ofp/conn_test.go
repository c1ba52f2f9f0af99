package ofp

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/protocol/memnet"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

// fake is a bridge that says hello, answers barriers and bundles, and leaves the
// rest to a test.
type fake struct {
	ends   []uint16                                              // how bundles ended
	refuse map[uint8]Error                                       // changes of flows in a table, of none (0): the commit, and afterChanges
	answer func(f *fake, typ byte, xid uint32, body []byte) bool // true: it has dealt with it
	hello  Version                                               // its version; 0: the one that is spoken
	c      net.Conn
}

// afterChanges is what fake refuses for the first barrier after changes.
const afterChanges = 0xff

func (f *fake) write(b []byte) bool {
	_, err := f.c.Write(b)
	return err == nil
}

func (f *fake) error(xid uint32, e Error) bool {
	return f.write(message(byte(version), typeError, xid, byte(e.Type>>8), byte(e.Type), byte(e.Code>>8), byte(e.Code)))
}

func (f *fake) serve() {
	defer f.c.Close()
	f.write(message(byte(cmp.Or(f.hello, version)), typeHello, 1))
	for {
		head := make([]byte, headerLen)
		if _, err := io.ReadFull(f.c, head); err != nil {
			return
		}
		body := make([]byte, int(order.Uint16(head[2:]))-headerLen)
		if _, err := io.ReadFull(f.c, body); err != nil {
			return
		}
		typ, xid := head[1], order.Uint32(head[4:])
		if (typ == typeBundleControl || typ == typeBundleAdd) && order.Uint16(body[6:]) != 3 { // atomic and ordered (§7.3.9.3)
			f.error(xid, Error{Type: errBundle, Code: 7}) // OFPBFC_BAD_FLAGS
			continue
		}
		switch {
		case f.answer != nil && f.answer(f, typ, xid, body):
		case typ == typeFeaturesReq:
			f.write(message(byte(version), typeFeaturesRep, xid, make([]byte, 24)...))
		case typ == typeBarrierReq:
			if e, refused := f.refuse[afterChanges]; refused && slices.Equal(f.ends, []uint16{bundleOpen}) {
				f.error(xid, e)
				continue
			}
			f.write(message(byte(version), typeBarrierRep, xid))
		case typ == typeBundleControl:
			kind := order.Uint16(body[4:])
			f.ends = append(f.ends, kind)
			if e, refused := f.refuse[0]; kind == bundleCommit && refused {
				f.error(xid, e)
				continue
			}
			f.write(message(byte(version), typeBundleControl, xid, body...))
		case typ == typeBundleAdd:
			table := body[8+headerLen+16]
			if e, refused := f.refuse[table]; refused {
				f.error(xid, e)
			}
		}
	}
}

func connect(t *testing.T, f *fake) *Conn {
	t.Helper()
	return dial(t, func(c net.Conn) {
		f.c = c
		f.serve()
	})
}

// dial connects with a bridge that serves the other end.
func dial(t *testing.T, serve func(net.Conn)) *Conn {
	t.Helper()
	here, there := memnet.Pipe("127.0.0.1:40000", "127.0.0.1:6653")
	served := make(chan struct{})
	go func() {
		defer close(served)
		serve(there)
	}()
	t.Cleanup(func() { here.Close(); <-served })
	o, err := newConn(t.Context(), here, time.Minute, version)
	if err != nil {
		t.Fatal(err)
	}
	o.run()
	return o
}

// part answers a multipart request.
func part(typ uint16, more byte, xid uint32, body ...byte) []byte {
	b := order.AppendUint16(nil, typ)
	return message(byte(version), typeMultipartRep, xid, append(append(b, 0, more, 0, 0, 0, 0), body...)...)
}

// TestHostileBridge has bridges that flood, and such as never come to an end: an
// error that comes soon, after which there is no connection. Where the caller does not
// wait any longer the connection stays.
func TestHostileBridge(t *testing.T) {
	for _, tc := range ovstest.HostileBridges() {
		test := func(t *testing.T) {
			var sent atomic.Int64
			o := dial(t, func(c net.Conn) { tc.Serve(tally{c, &sent}) })
			ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, errors.New(ovstest.Slow))
			defer cancel()
			_, err := o.Flows(ctx, Filter{Table: AllTables})
			if err == nil || !strings.Contains(err.Error(), tc.Want) {
				t.Errorf("%v, want %s", err, tc.Want)
			}
			if tc.Name == "parts for ever" && !strings.Contains(err.Error(), "of flows csig takes 131072") {
				t.Errorf("%v", err)
			}
			if tc.Want == ovstest.Slow {
				return
			}
			if sent.Load() > maxStray+1<<20 { // a little of which was on its way
				t.Errorf("%d bytes were read", sent.Load())
			}
			if again := o.Barrier(t.Context()); again == nil {
				t.Error("the connection is used again")
			}
		}
		t.Run(tc.Name, func(t *testing.T) {
			if tc.Want == ovstest.Slow { // what sends all the time has no virtual time pass
				test(t)
			} else {
				synctest.Test(t, test)
			}
		})
	}
}

// tally counts what is sent.
type tally struct {
	net.Conn
	n *atomic.Int64
}

func (c tally) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.n.Add(int64(n))
	return n, err
}

// TestParts joins an answer of several messages, among others'.
func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flows := sample()[:2]
		echoed := make(chan []byte, 1)
		f := &fake{answer: func(f *fake, typ byte, xid uint32, body []byte) bool {
			switch typ {
			case typeEchoReply:
				echoed <- slices.Clone(body)
			case typeMultipartReq:
				if order.Uint16(body) != partFlow || body[8] != AllTables {
					t.Errorf("asked %x", body)
				}
				f.write(message(byte(version), typeEchoRequest, 7, 1, 2))
				f.write(part(partFlow, 1, xid, flowStats(&flows[0])...))
				f.write(part(partFlow, 0, xid+5, flowStats(&flows[0])...))
				f.write(part(partFlow, 0, xid, flowStats(&flows[1])...))
			default:
				return false
			}
			return true
		}}
		o := connect(t, f)
		got, err := o.Flows(t.Context(), Filter{Table: AllTables})
		if err != nil || !reflect.DeepEqual(got, flows) {
			t.Errorf("%+v, %v", got, err)
		}
		if b := <-echoed; !slices.Equal(b, []byte{1, 2}) {
			t.Errorf("echoed %x", b)
		}
	})
}

// TestPartsThatComeSlowly has parts that come one after the other, each within the patience: the answer may take
// longer, but not for ever. One that does not come ends the connection.
func TestPartsThatComeSlowly(t *testing.T) {
	const patience = 5 * time.Second
	for _, tc := range []struct {
		name  string
		pause time.Duration
		parts int
		want  string // in the error
		after time.Duration
	}{
		{"slow parts", patience - time.Second, 8, "", 8 * (patience - time.Second)},
		{"a part that does not come", patience + time.Second, 2, "no answer for 5s", patience},
		{"no end", patience - time.Second, 1000, "no answer for 1m0s", longAnswer * patience},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				ended := make(chan struct{})
				defer func() { here.Close(); <-ended }()
				go func() {
					defer close(ended)
					next := func() (xid uint32) {
						head := make([]byte, headerLen)
						_, _ = io.ReadFull(there, head)
						_, _ = io.CopyN(io.Discard, there, int64(order.Uint16(head[2:]))-headerLen)
						return order.Uint32(head[4:])
					}
					next() // its hello: nothing lies between the two, so that one has to be first
					_, _ = there.Write(message(byte(version), typeHello, 1))
					_, _ = there.Write(message(byte(version), typeFeaturesRep, next(), make([]byte, 24)...))
					xid := next()
					for i := range tc.parts {
						time.Sleep(tc.pause) // virtual: how late a part comes is what is tried
						more := byte(1)
						if i == tc.parts-1 {
							more = 0
						}
						if _, err := there.Write(part(partFlow, more, xid)); err != nil {
							return
						}
					}
				}()
				o, err := NewConn(t.Context(), here, version)
				if err != nil {
					t.Fatal(err)
				}
				defer o.Close()
				began := time.Now()
				_, err = o.Flows(t.Context(), Filter{})
				if took := time.Since(began); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) || took != tc.after {
					t.Errorf("%v after %v, want %q after %v", err, took, tc.want, tc.after)
				}
				if (o.Err() == nil) != (tc.want == "") {
					t.Errorf("the connection: %v", o.Err())
				}
			})
		})
	}
}

// TestRefusals has changes refused: nothing is committed, and the error names the
// change and what to do about it.
func TestRefusals(t *testing.T) {
	flow := func(table uint8) *Flow { return &Flow{Table: table, Actions: Actions(nil).Output(1)} }
	mods := []Mod{{Kind: Add, Flow: flow(60), Name: "swp1"}, {Kind: Add, Flow: flow(61), Name: "swp2"}, {Kind: Delete, Flow: flow(62), Name: "swp3"}}
	full, bad := Error{Type: errFlowMod, Code: 1}, Error{Type: errBadAction, Code: 10}
	for _, tc := range []struct {
		name   string
		refuse map[uint8]Error
		port   string
		full   bool
		ends   []uint16
		says   string
	}{
		{"none", nil, "", false, []uint16{bundleOpen, bundleCommit}, ""},
		{"a full table", map[uint8]Error{61: full}, "swp2", true, []uint16{bundleOpen, bundleDiscard}, "the table is full"},
		{"the first of two", map[uint8]Error{60: bad, 62: full}, "swp1", false, []uint16{bundleOpen, bundleDiscard}, "do not agree with the match"},
		{"the commit", map[uint8]Error{0: {Type: errBundle, Code: 13}}, "", false, []uint16{bundleOpen, bundleCommit}, "a change in the bundle was refused"},
		{"something new", map[uint8]Error{62: {Type: 99, Code: 1}}, "swp3", false, []uint16{bundleOpen, bundleDiscard}, "type 99, code 1"},
		{"what follows the changes", map[uint8]Error{afterChanges: {Type: 1, Code: 5}}, "", false, []uint16{bundleOpen, bundleDiscard}, "no right to"},
		{"another code", map[uint8]Error{62: {Type: errFlowMod, Code: 2}}, "swp3", false, []uint16{bundleOpen, bundleDiscard}, "no such table"},
	} {
		run(t, tc.name, func(t *testing.T, _ *network) {
			f := &fake{refuse: tc.refuse}
			o := connect(t, f)
			err := o.Commit(t.Context(), mods)
			var refused *Error
			if errors.As(err, &refused) != (tc.says != "") || refused != nil && (refused.Name != tc.port || refused.TableFull() != tc.full || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("%+v", err)
			}
			if err := o.Barrier(t.Context()); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			if !slices.Equal(f.ends, tc.ends) {
				t.Errorf("bundles: %v, want %v", f.ends, tc.ends)
			}
		})
	}
}

// TestNewestHello: a bridge that speaks a newer OpenFlow, too, says so in its hello.
func TestNewestHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := connect(t, &fake{hello: newest}).Barrier(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestDiscardFails: what was refused stays the error where the bundle's end is refused,
// too, and is none where the connection is lost before that is known.
func TestDiscardFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := Error{Type: errBadAction, Code: 10}
		for name, lost := range map[string]bool{"refused, too": false, "the connection is lost": true} {
			f := &fake{refuse: map[uint8]Error{60: bad}}
			f.answer = func(f *fake, typ byte, xid uint32, body []byte) bool {
				switch {
				case typ != typeBundleControl || order.Uint16(body[4:]) != bundleDiscard:
					return false
				case lost:
					f.c.Close()
					return true
				}
				return f.error(xid, Error{Type: errBundle, Code: 13})
			}
			err := connect(t, f).Commit(t.Context(), []Mod{{Kind: Add, Flow: &Flow{Table: 60, Actions: Actions(nil).Output(1)}, Name: "swp1"}})
			var refused *Error
			if err == nil || errors.As(err, &refused) == lost || refused != nil && (refused.Name != "swp1" || refused.Type != errBadAction) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestAnswersOfOthers waits for its own answer: that to another question is none.
func TestAnswersOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		o := connect(t, &fake{answer: func(f *fake, typ byte, xid uint32, _ []byte) bool {
			if asked++; asked <= 2 { // the hello and the features
				return false
			}
			f.write(message(byte(version), typeBarrierRep, xid-1))
			f.write(message(byte(version), typeBundleControl, xid))
			return f.error(xid, Error{Type: 1, Code: 1})
		}})
		if err := o.Barrier(t.Context()); err == nil || !strings.Contains(err.Error(), "OFPBRC_BAD_TYPE") {
			t.Errorf("%v", err)
		}
	})
}

// TestChanges reads the changes of flows as they are on the wire (OpenFlow 1.3.5 and
// 1.4 §7.3.4.1).
func TestChanges(t *testing.T) {
	for _, f := range sample() {
		for kind, command := range map[ModKind]byte{Add: 0, ModifyAll: 1, Modify: 2, DeleteAll: 3, Delete: 4} {
			b := appendMod(nil, version, &Mod{Kind: kind, Flow: &f, CookieMask: 0xff00}, 9)
			if int(order.Uint16(b[2:])) != len(b) || len(b)%8 != 0 || b[1] != typeFlowMod || order.Uint32(b[4:]) != 9 || order.Uint64(b[8:]) != f.Cookie || order.Uint64(b[16:]) != 0xff00 ||
				b[24] != f.Table || b[25] != command || order.Uint16(b[26:]) != f.IdleTimeout || order.Uint16(b[28:]) != f.HardTimeout || order.Uint16(b[30:]) != f.Priority ||
				order.Uint32(b[32:]) != 0xffffffff || order.Uint32(b[36:]) != PortAny || order.Uint32(b[40:]) != 0xffffffff || order.Uint16(b[44:]) != f.Flags || order.Uint16(b[46:]) != 0 {
				t.Errorf("%d: %x", kind, b[:48])
			}
			m, rest, err := parseMatch(b[48:])
			if err != nil || m != f.Match {
				t.Errorf("%d: %+v, %v", kind, m, err)
			}
			writes := kind == Add || kind == Modify || kind == ModifyAll
			var got Flow
			if err := got.instructions(rest); err != nil || writes && !got.SameInstructions(&f) || !writes && len(rest) > 0 {
				t.Errorf("%d: %x, %v", kind, rest, err)
			}
		}
	}
}

// TestInstructionBytes has the instructions' bytes (OpenFlow 1.3.5 §7.2.4).
func TestInstructionBytes(t *testing.T) {
	f := Flow{Actions: Actions(nil).SetVID(0x105), Clear: true, Write: Actions(nil).Output(3), Metadata: Masked64{7, 0xfff}, Goto: 9, Goes: true}
	const want = "0004001800000000" + "00190010" + "80000c02" + "1105000000000000" + // apply_actions(set_field(OXM_OF_VLAN_VID))
		"0005000800000000" + "0003001800000000" + "00000010" + "00000003" + "ffff000000000000" + // clear_actions, write_actions(output)
		"0002001800000000" + "0000000000000007" + "0000000000000fff" + "0001000809000000" // write_metadata, goto_table
	if got := hex.EncodeToString(f.appendInstructions(nil)); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
}

// TestGroupChanges writes groups (OpenFlow 1.4 §7.3.4.2): those that go have no buckets.
func TestGroupChanges(t *testing.T) {
	g := Group{ID: 7, Type: GroupIndirect, Buckets: []Actions{Actions(nil).Output(4)}}
	for kind, want := range map[ModKind]struct {
		command uint16
		buckets []Actions
	}{Add: {0, g.Buckets}, Modify: {1, g.Buckets}, AddOrModify: {0x8000, g.Buckets}, Delete: {2, nil}} {
		b := appendMod(nil, version, &Mod{Kind: kind, Group: &g}, 9)
		if b[1] != typeGroupMod || int(order.Uint16(b[2:])) != len(b) || order.Uint32(b[4:]) != 9 || order.Uint16(b[8:]) != want.command || b[10] != GroupIndirect || order.Uint32(b[12:]) != 7 {
			t.Fatalf("%d: %x", kind, b)
		}
		body := append([]byte{0, byte(len(b) - headerLen), GroupIndirect, 0, 0, 0, 0, 7}, b[headerLen+8:]...)
		got, err := parseGroups(nil, body)
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0].Buckets, want.buckets) {
			t.Errorf("%d: %+v, %v", kind, got, err)
		}
	}
}

// TestInstructions reads what flows of others do beside actions.
func TestInstructions(t *testing.T) {
	out := Actions(nil).Output(4)
	act := append([]byte{0, instApply, 0, byte(8 + len(out)), 0, 0, 0, 0}, out...)
	next := []byte{0, instGoto, 0, 8, 62, 0, 0, 0}
	meter := []byte{0, 6, 0, 8, 0, 0, 0, 1}
	for _, tc := range []struct {
		name string
		b    []byte
		want Flow
	}{
		{"none", nil, Flow{}},
		{"actions", act, Flow{Actions: out}},
		{"on to a table", next, Flow{Goto: 62, Goes: true}},
		{"on to table 0", []byte{0, instGoto, 0, 8, 0, 0, 0, 0}, Flow{Goes: true}},
		{"a meter", meter, Flow{Other: true}},
		{"all of them", slices.Concat(meter, act, next), Flow{Actions: out, Goto: 62, Goes: true, Other: true}},
		{"metadata that is cut short", []byte{0, instMetadata, 0, 8, 0, 0, 0, 0}, Flow{Other: true}},
		{"an empty action set", []byte{0, instClear, 0, 8, 0, 0, 0, 0}, Flow{Clear: true}},
	} {
		var got Flow
		if err := got.instructions(tc.b); err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, %v", tc.name, got, err)
		}
	}
	for _, b := range [][]byte{{0}, {0, 1, 0}, {0, 1, 0, 8}, {0, 1, 0, 7, 0, 0, 0, 0}, {0, 1, 0, 16, 0, 0, 0, 0}} {
		if err := (&Flow{}).instructions(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %v", b, err)
		}
	}
}

// TestLabels: ports that share the 15 bytes of a name go by their numbers, and so does one
// whose name is such a number: each label is of one port.
func TestLabels(t *testing.T) {
	ports := []Port{{Number: 1, Name: "Ten-GigabitEthe"}, {Number: 2, Name: "Ten-GigabitEthe"}, {Number: 3, Name: "2"}, {Number: 4, Name: "swp4"}, {Number: 5}, {Number: 6, Name: "3"}, {Number: 7, Name: "8"}}
	share(ports)
	var got []string
	for i := range ports {
		got = append(got, ports[i].Label())
	}
	if want := []string{"1", "2", "3", "swp4", "5", "6", "8"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPorts reads ports and their counters.
func TestPorts(t *testing.T) {
	const kilo = 1000
	desc := func(number uint32, name string, config, state, speed uint32) []byte {
		b := make([]byte, portLen)
		order.PutUint32(b, number)
		copy(b[16:32], name)
		order.PutUint32(b[32:], config)
		order.PutUint32(b[36:], state)
		prop := make([]byte, ethernetLen)
		order.PutUint16(prop[2:], ethernetLen)
		order.PutUint32(prop[supportedFrom:], speed)
		order.PutUint32(prop[currSpeedFrom:], speed)
		b = append(b, 0xff, 0xff, 0, 8, 0, 0, 0, 0) // an experimenter's
		b = append(b, prop...)
		order.PutUint16(b[4:], uint16(len(b)))
		return b
	}
	const noReceive, live, blocked = 1 << 2, 1 << 2, 1 << 1
	b := slices.Concat(desc(1, "swp1", 0, 0, kilo), desc(2, "swp2", portDown, 0, 0), desc(3, "swp3", 0, linkDown, 0), desc(4, "swp4", noReceive, live|blocked, 7*kilo*kilo),
		desc(5, "swp5", portDown, linkDown, 0), desc(PortMax-1, "a\x1b[31m", 0, live, 0), desc(PortMax, "none", 0, 0, 0), desc(0xfffffffe, "br0", 0, 0, 0))
	want := []Port{{Number: 1, Name: "swp1", Up: true, Speed: kilo * kilo, Modes: true}, {Number: 2, Name: "swp2", Up: false, Speed: 0}, {Number: 3, Name: "swp3", Up: false, Speed: 0}, {Number: 4, Name: "swp4", Up: true, Speed: 7 * kilo * kilo * kilo, Modes: true}, {Number: 5, Name: "swp5", Up: false, Speed: 0}, {Number: PortMax - 1, Name: `a\x1b[31m`, Up: true, Speed: 0}}
	if got, err := parsePorts(nil, version, b); err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	bare := desc(1, "swp1", 0, 0, 0)[:portLen]
	order.PutUint16(bare[4:], portLen)
	if got, err := parsePorts(nil, version, bare); err != nil || !slices.Equal(got, []Port{{Number: 1, Name: "swp1", Up: true}}) {
		t.Errorf("without properties: %+v, %v", got, err)
	}
	if _, err := parsePorts(nil, version, b[:len(b)-1]); !errors.Is(err, ErrMalformed) {
		t.Errorf("cut short: %v", err)
	}
	stats := make([]byte, portStatsLen)
	order.PutUint16(stats, portStatsLen)
	order.PutUint32(stats[4:], 9)
	order.PutUint32(stats[8:], 77)
	for i, v := range []uint64{1, 2, 3, 4, 50, 600, 7000, 1<<64 - 1} { // rx and tx packets, bytes, dropped, errors
		order.PutUint64(stats[16+8*i:], v)
	}
	all := []PortStats{{Number: 9, Age: 77, TxPackets: 2, TxBytes: 4, Dropped: 650, Errors: 7000}}
	if got, err := parsePortStats(nil, version, stats); err != nil || !slices.Equal(got, all) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := parsePortStats(nil, version, stats[:portStatsLen-1]); !errors.Is(err, ErrMalformed) {
		t.Errorf("cut short: %v", err)
	}
}

// TestOutputReg: the whole register is the port (nicira-ext.h, struct nx_action_output_reg).
func TestOutputReg(t *testing.T) {
	const want = "ffff001800002320" + "000f001f" + "00011e04" + "ffff000000000000"
	if got := hex.EncodeToString(Actions(nil).OutputReg(15)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestEffects looks into what actions of others may do with a frame.
func TestEffects(t *testing.T) {
	vendor := func(subtype uint16) Actions { return zeros(Actions(nil).vendor(16, subtype), 6) }
	clone := func(inner Actions) Actions {
		return append(zeros(Actions(nil).vendor(16+len(inner), nxClone), 6), inner...)
	}
	for _, tc := range []struct {
		name string
		a    Actions
		want Effects
	}{
		{"none", nil, Effects{}},
		{"two ports", Actions(nil).Output(3).Output(PortNormal), Effects{Ports: []uint32{3, PortNormal}}},
		{"a table", Actions(nil).Load(15, 2).Resubmit(60), Effects{Resubmits: []uint8{60}}},
		{"a tag", Actions(nil).PushVLAN(0x8100).PopVLAN().PushMPLS(0x8847).PopMPLS(0x88a8), Effects{Pushes: []uint16{0x8100}}},
		{"a note", Actions(nil).Note([]byte("x")), Effects{}},
		{"moved bits", Actions(nil).Move(FieldVLANVID, 0, Reg(1), 0, 12), Effects{}},
		{"a group", Actions{0, actGroup, 0, 8, 0, 0, 0, 1}, Effects{Groups: []uint32{1}}},
		{"a register", Actions(nil).OutputReg(3), Effects{Opaque: true}},
		{"learn", vendor(16), Effects{Opaque: true}},
		{"a counter", vendor(99), Effects{}},
		{"within a clone", clone(clone(Actions(nil).Output(5).Resubmit(61))), Effects{Ports: []uint32{5}, Resubmits: []uint8{61}}},
		{"malformed", Actions{0, 0, 0, 7, 0, 0, 0, 0}, Effects{Opaque: true}},
		{"of another vendor", Actions{0xff, 0xff, 0, 16, 0, 0, 0x4f, 0x4e, 0, 15, 0, 0, 0, 0, 0, 0}, Effects{}},
	} {
		if got := tc.a.Effects(); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
}
