package ofp

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/protocol/memnet"
)

// with connects with a peer of OpenFlow 1.3.
func with(t *testing.T, p *peer) *Conn {
	t.Helper()
	here, there := memnet.Pipe("127.0.0.1:40000", "127.0.0.1:6653")
	served := make(chan struct{})
	go func() { defer close(served); p.serve(there) }()
	t.Cleanup(func() { here.Close(); <-served })
	o, err := NewConn(t.Context(), here, Version13, Version14)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	if o.Version != Version13 {
		t.Fatalf("OpenFlow %s", o.Version)
	}
	return o
}

// adds are changes of the tables, each named after its own.
func adds(tables ...uint8) []Mod {
	var mods []Mod
	for _, table := range tables {
		mods = append(mods, Mod{Kind: Add, Flow: &Flow{Table: table, Actions: Actions(nil).Output(1)}, Name: fmt.Sprint("swp", table)})
	}
	return mods
}

// tableOf is the table that a flow_mod is about.
func tableOf(body []byte) byte { return body[16] }

// TestApply carries out steps: what is refused ends them, and each step's changes are
// confirmed before the next is sent.
func TestApply(t *testing.T) {
	steps := [][]Mod{adds(1, 2), nil, adds(3, 4, 5), adds(6)}
	for _, tc := range []struct {
		name   string
		refuse []byte // tables; 0: the second barrier
		done   int
		first  string
		also   int
		sent   string
	}{
		{"nothing is refused", nil, 4, "", 0, "12|345|6|"},
		{"the first", []byte{1}, 0, "swp1", 0, "12|"},
		{"two of one step", []byte{5, 3}, 2, "swp3", 1, "12|345|"},
		{"the last", []byte{6}, 3, "swp6", 0, "12|345|6|"},
		{"a barrier", []byte{0}, 2, "", 0, "12|345|"},
	} {
		run(t, tc.name, func(t *testing.T, _ *network) {
			var mu sync.Mutex
			var sent strings.Builder
			barriers := 0
			o := with(t, &peer{hook: func(p *peer, typ byte, xid uint32, body []byte) bool {
				mu.Lock()
				defer mu.Unlock()
				switch typ {
				case typeFlowMod:
					fmt.Fprint(&sent, tableOf(body))
					if slices.Contains(tc.refuse, tableOf(body)) {
						return p.refuse(xid, errFlowMod, 1)
					}
				case typeBarrierReq:
					sent.WriteByte('|')
					if barriers++; barriers == 2 && slices.Contains(tc.refuse, 0) {
						return p.refuse(xid, errBadRequest, 5)
					}
				}
				return false
			}})
			done, err := o.Apply(t.Context(), steps...)
			var refused *Error
			switch {
			case done != tc.done:
				t.Errorf("%d steps are done, want %d", done, tc.done)
			case errors.As(err, &refused) != (tc.refuse != nil), refused == nil && err != nil:
				t.Errorf("%v", err)
			case refused != nil && (refused.Name != tc.first || len(refused.Also) != tc.also || refused.Late):
				t.Errorf("%+v", refused)
			case tc.also == 1 && (refused.Also[0].Name != "swp5" || !strings.Contains(err.Error(), "and 1 more")):
				t.Errorf("also: %+v in %v", refused.Also[0], err)
			}
			if sent.String() != tc.sent {
				t.Errorf("%s was sent, want %s", sent.String(), tc.sent)
			}
			if err := o.Barrier(t.Context()); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestLateErrors has changes refused after the barrier that follows them was answered:
// the next changes are not sent, and both ways of asking have the name.
func TestLateErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var late []uint32 // to be refused before the next answer to an echo
		mods := 0
		o := with(t, &peer{hook: func(p *peer, typ byte, xid uint32, body []byte) bool {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case typ == typeFlowMod && tableOf(body) >= 8:
				late = append(late, xid)
			case typ == typeEchoRequest:
				for _, xid := range late {
					p.refuse(xid, errFlowMod, 1)
				}
				late = nil
			}
			if typ == typeFlowMod {
				mods++
			}
			return false
		}})
		apply := func(mods []Mod) error { _, err := o.Apply(t.Context(), mods); return err }
		echo := func() {
			t.Helper()
			if err := o.Echo(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := apply(adds(1, 8, 2)); err != nil {
			t.Fatal(err)
		}
		echo()
		if late := o.LateErrors(); len(late) != 1 || late[0].Name != "swp8" || !late[0].TableFull() {
			t.Errorf("%+v", late)
		}
		if late := o.LateErrors(); late != nil {
			t.Errorf("a second time: %+v", late)
		}
		if err := apply(adds(8, 9)); err != nil {
			t.Fatal(err)
		}
		echo()
		mu.Lock()
		before := mods
		mu.Unlock()
		err := apply(adds(3))
		var refused *Error
		if !errors.As(err, &refused) || refused.Name != "swp8" || !refused.Late || len(refused.Also) != 1 || refused.Also[0].Name != "swp9" || !strings.Contains(err.Error(), "after it has answered the barrier") {
			t.Errorf("%+v", refused)
		}
		mu.Lock()
		if mods != before {
			t.Error("changes were sent although earlier ones were refused")
		}
		mu.Unlock()
		// The names of the newest changes are kept.
		if err := apply(adds(8)); err != nil {
			t.Fatal(err)
		}
		for range keptNames/250 + 1 {
			if err := apply(adds(make([]uint8, 250)...)); err != nil {
				t.Fatal(err)
			}
		}
		echo()
		if late := o.LateErrors(); len(late) != 1 || late[0].Name != "" {
			t.Errorf("%+v", late)
		}
		const many = 640
		if err := apply(adds(slices.Repeat([]uint8{8}, many)...)); err != nil {
			t.Fatal(err)
		}
		echo()
		if late := o.LateErrors(); len(late) != many {
			t.Errorf("%d late errors are kept", len(late))
		}
	})
}

// TestFloodOfRefusals has more refusals than there were changes, after their barrier and
// before it: there is no connection then, and not a step that seems to be carried out.
func TestFloodOfRefusals(t *testing.T) {
	for name, before := range map[string]bool{"before the barrier": true, "after it": false} {
		run(t, name, func(t *testing.T, _ *network) {
			o := with(t, &peer{hook: func(p *peer, typ byte, xid uint32, _ []byte) bool {
				for range keptNames + 1 {
					if typ == typeFlowMod && before || typ == typeEchoRequest {
						p.refuse(xid-1, errFlowMod, 1)
						p.refuse(xid, errFlowMod, 1)
					}
				}
				return false
			}})
			_, err := o.Apply(t.Context(), adds(1, 2, 3))
			if before != (err != nil) || isRefusal(err) {
				t.Errorf("%v", err)
			}
			_ = o.Echo(t.Context()) // it is refused, or the connection has ended
			<-o.Done()
			if err := o.Err(); err == nil || !strings.Contains(err.Error(), "more refusals than changes") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestGivenUp has callers that do not wait any longer: the connection stays, for others
// and for them, and an answer that comes in the end is dropped.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		o := with(t, &peer{hook: func(p *peer, typ byte, xid uint32, body []byte) bool {
			if typ == typeMultipartReq {
				go func() {
					<-hold
					p.send(typeMultipartRep, xid, append([]byte{0, partTableFeatures, 0, 0, 0, 0, 0, 0}, broken(nil)...)...)
					p.send(typeEchoRequest, 0)
				}()
			}
			return typ == typeMultipartReq
		}})
		why := errors.New("time is over")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancelled := make(chan struct{})
		go func() { defer close(cancelled); <-time.After(20 * time.Millisecond); cancel(why) }()
		if tables, err := o.TableFeatures(ctx); !errors.Is(err, why) {
			t.Errorf("%v, %v", tables, err)
		}
		<-cancelled
		if _, err := o.Apply(ctx, adds(1)); !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
		close(hold)
		if err := o.Barrier(t.Context()); err != nil || o.Err() != nil {
			t.Errorf("%v, %v", err, o.Err())
		}
		if tables, err := o.TableFeatures(t.Context()); err != nil || len(tables) != 1 {
			t.Errorf("%+v, %v", tables, err)
		}
	})
}

// TestConcurrent has a driver and a source of counters on one connection, whose switch
// answers in any order.
func TestConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := with(t, &peer{hook: func(p *peer, typ byte, xid uint32, body []byte) bool {
			switch {
			case typ == typeFlowMod && tableOf(body) >= 100:
				p.refuse(xid, errFlowMod, 1)
			case typ == typeMultipartReq && order.Uint16(body) == partPortStats:
				stats := make([]byte, portStatsLen13)
				order.PutUint64(stats[32:], uint64(xid)) // bytes sent
				go p.send(typeMultipartRep, xid, append([]byte{0, partPortStats, 0, 0, 0, 0, 0, 0}, stats...)...)
				return true
			case typ == typeMultipartReq:
				flow := flowStats(&Flow{Table: body[8]})
				p.send(typeMultipartRep, xid, append([]byte{0, partFlow, 0, 1, 0, 0, 0, 0}, flow...)...)
				go p.send(typeMultipartRep, xid, append([]byte{0, partFlow, 0, 0, 0, 0, 0, 0}, flow...)...)
				return true
			}
			return false
		}})
		const rounds = 100
		var all sync.WaitGroup
		for worker := range uint8(4) {
			all.Go(func() {
				for round := range uint8(rounds) {
					mods := adds(worker, worker)
					if round%10 == 0 {
						mods = adds(worker, 100+worker)
					}
					_, err := o.Apply(t.Context(), mods)
					var refused *Error
					if errors.As(err, &refused) != (round%10 == 0) || refused != nil && (refused.Name != fmt.Sprint("swp", 100+worker) || len(refused.Also) > 0) {
						t.Errorf("%v", err)
						return
					}
				}
			})
			all.Go(func() {
				for range rounds {
					flows, err := o.Flows(t.Context(), Filter{Table: worker})
					if err != nil || len(flows) != 2 || flows[0].Table != worker || flows[1].Table != worker {
						t.Errorf("%+v, %v", flows, err)
						return
					}
				}
			})
		}
		all.Go(func() {
			var stats []PortStats
			for range rounds {
				var err error
				if stats, err = o.PortStats(t.Context(), stats[:0]); err != nil || len(stats) != 1 || stats[0].TxBytes == 0 {
					t.Errorf("%+v, %v", stats, err)
					return
				}
			}
		})
		all.Wait()
		if late := o.LateErrors(); late != nil {
			t.Errorf("%+v", late)
		}
	})
}

// TestNoAllocationPerChange: what is allocated does not grow with the changes.
func TestNoAllocationPerChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := with(t, &peer{hook: func(p *peer, typ byte, _ uint32, _ []byte) bool {
			if typ != typeFeaturesReq {
				return false
			}
			p.send(typeFeaturesRep, 2, make([]byte, 24)...)
			in, body := bufio.NewReader(p.c), make([]byte, 1<<16) // from here on nothing is allocated
			reply := message(byte(Version13), typeBarrierRep, 0)
			for {
				if _, err := io.ReadFull(in, body[:headerLen]); err != nil {
					return true
				}
				copy(reply[4:], body[4:headerLen])
				typ := body[1]
				if _, err := io.ReadFull(in, body[:order.Uint16(body[2:])-headerLen]); err != nil {
					return true
				}
				if typ == typeBarrierReq {
					if _, err := p.c.Write(reply); err != nil {
						return true
					}
				}
			}
		}})
		cost := func(mods []Mod) float64 {
			return testing.AllocsPerRun(20, func() {
				if _, err := o.Apply(t.Context(), mods); err != nil {
					t.Fatal(err)
				}
			})
		}
		few, many := cost(adds(make([]uint8, 10)...)), cost(adds(make([]uint8, 400)...))
		if many-few > 5 {
			t.Errorf("%.1f allocations for 10 changes, %.1f for 400", few, many)
		}
	})
}

// TestNoBundles: OpenFlow 1.3 has none.
func TestNoBundles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := with(t, &peer{}).Commit(t.Context(), adds(1)); err == nil || !strings.Contains(err.Error(), "OpenFlow 1.3 has no bundles") {
			t.Error(err)
		}
	})
}

// TestGivenUpInWrite gives a question up while it is written: the switch takes the rest, and the connection, which
// others share, stays.
func TestGivenUpInWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe() // which has no buffer
		defer there.Close()
		taken := make(chan struct{})
		go func() {
			defer close(taken)
			head := make([]byte, 16)
			_, _ = there.Read(head)
			_, _ = there.Write(message(byte(Version13), typeHello, 1))
			_, _ = there.Read(head)
			_, _ = there.Write(message(byte(Version13), typeFeaturesRep, 2, make([]byte, 24)...))
			time.Sleep(100 * time.Millisecond)
			for range 2 { // a question that nobody waits for any more, and one of another
				if _, err := io.ReadFull(there, head[:8]); err != nil {
					t.Error(err)
				}
				_, _ = there.Write(message(byte(Version13), typeBarrierRep, order.Uint32(head[4:])))
			}
		}()
		o, err := NewConn(t.Context(), here, Version13)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("no time any more"))
		defer cancel()
		if err := o.Barrier(ctx); err == nil || !strings.Contains(err.Error(), "no time any more") {
			t.Error(err)
		}
		if err := o.Barrier(t.Context()); err != nil {
			t.Errorf("another question: %v", err)
		}
		<-taken
	})
}

// TestNotReading has a switch that reads nothing any more: what is half written ends the
// connection, and with it those who wait to write.
func TestNotReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe() // which has no buffer
		defer there.Close()
		hello := make(chan struct{})
		go func() {
			defer close(hello)
			head := make([]byte, 16)
			_, _ = there.Read(head)
			_, _ = there.Write(message(byte(Version13), typeHello, 1))
			_, _ = there.Read(head)
			_, _ = there.Write(message(byte(Version13), typeFeaturesRep, 2, make([]byte, 24)...))
		}()
		o, err := NewConn(t.Context(), here, Version13)
		if err != nil {
			t.Fatal(err)
		}
		<-hello
		others := make(chan error)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("time is over"))
		defer cancel()
		go func() { _, err := o.Apply(ctx, adds(1)); others <- err }()
		go func() { others <- o.Barrier(ctx) }()
		for range 2 {
			if err := <-others; err == nil || !strings.Contains(err.Error(), "time is over") {
				t.Error(err)
			}
		}
		if o.Err() == nil {
			t.Error("the connection stays")
		}
	})
}

// TestMasks14 are properties there (1.4 §7.3.10).
func TestMasks14(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const want = "0000000800000000" + "0001000800000000" + "0002000800000000" + "0003000800000000" + "0004000800000000" + "0005000800000000"
		got := make(chan string, 1)
		o := connect(t, &fake{answer: func(_ *fake, typ byte, _ uint32, body []byte) bool {
			if typ == typeSetAsync {
				got <- hex.EncodeToString(body)
			}
			return typ == typeSetAsync
		}})
		if err := o.MaskAsync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b := <-got; b != want {
			t.Errorf("%s, want %s", b, want)
		}
	})
}

// TestNumbers are those of the specification (1.3.5 §7.2.3.7, §7.3.4.1).
func TestNumbers(t *testing.T) {
	for want, got := range map[uint32]Field{0x80000004: FieldInPort, 0x80000408: FieldMetadata, 0x80000a02: FieldEthType, 0x80000c02: FieldVLANVID, 0x80000e01: FieldVLANPCP, 0x00014204: FieldPktMark, 0x00011e04: Reg(15)} {
		if uint32(got) != want {
			t.Errorf("%#x, want %#x", uint32(got), want)
		}
	}
	if FlagSendRemoved != 1 || FlagCheckOverlap != 2 || FlagResetCounts != 4 {
		t.Error("flags")
	}
}

// TestPanic has the parser of an answer panic: the connection ends, and not the process.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := with(t, &peer{})
		err := o.ask(t.Context(), typeEchoRequest, typeEchoReply, nil, func([]byte) error { panic("index out of range") })
		if err == nil || !strings.Contains(err.Error(), "index out of range") || o.Err() == nil {
			t.Errorf("%v", err)
		}
	})
}
