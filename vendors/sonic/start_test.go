package sonic

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// slowly restarts the swss container, up to where orchagent fetches rows and does
// not look at them.
func (l *lab) slowly() {
	l.t.Helper()
	l.sw.SlowStart = true
	l.sw.Restart()
}

// TestStarting: an orchagent that fetches rows and has not made its ports is waited
// for, and nothing is changed and nothing noted before it has.
func TestStarting(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		l := newLab(t, release, "Ethernet0")
		l.slowly()
		s := setupOf(quantize.Draft00, "Ethernet0")
		f, err := l.Probe(t.Context())
		if err != nil || f.Update.Level == vlanrules.Refused || !strings.Contains(strings.Join(f.Notes, "\n"), "PortInitDone") {
			t.Errorf("Probe: %+v, %v", f.Update, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*orchPause)
		defer cancel()
		var perm *vendors.PermanentError
		if err := l.Apply(ctx, s); !errors.Is(err, ErrSilent) || errors.As(err, &perm) || !strings.Contains(err.Error(), "starting") {
			t.Errorf("Apply: %v", err)
		}
		if left := l.sw.Redis.Keys(6, "*CSIG*"); len(left) > 0 || l.sw.Redis.Hash(4, "PORT|Ethernet0")["tpid"] != "" || len(l.sw.Redis.Keys(0, "*CSIG*")) > 0 {
			t.Errorf("before it has made its ports: %v, %v", left, l.sw.Redis.Hash(4, "PORT|Ethernet0"))
		}
		// The patience is time, however long each look takes.
		l.starting = orchPause / 2
		if err := l.Apply(t.Context(), s); !errors.Is(err, errStarting) {
			t.Errorf("Apply after %v: %v", l.starting, err)
		}
		l.starting = startPatience
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.sw.InitDone()
		}()
		l.apply(s)
		<-done
		u := vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}
		l.update(u)
		l.clean()
		// A cycle does not wait: the fallback is behind it.
		l.sw.Stop()
		l.sw.Redis.Do(0, "DEL", portInit)
		l.sw.Start()
		if _, err := l.Update(t.Context(), []vendors.PortUpdate{u}, time.Second); !errors.Is(err, ErrSilent) || errors.As(err, &perm) {
			t.Errorf("Update: %v", err)
		}
	})
}

// fetched has an orchagent that starts fetch a row.
func (l *lab) fetched(op rowOp) {
	l.t.Helper()
	there := func() bool { return len(l.sw.Redis.Keys(0, keySet)) == 0 }
	if l.sw.Release >= sonictest.R202605 {
		mq := dialMQ(l.t, l.sw)
		l.t.Cleanup(mq.Close)
		there = func() bool { return l.sw.Waiting() == 1 }
		if err := (mqWire{mq}).send(l.t.Context(), []rowOp{op}); err != nil {
			l.t.Fatal(err)
		}
	} else if _, err := l.db.All(l.t.Context(), setRows(channelOf(0), []rowOp{op})...); err != nil {
		l.t.Fatal(err)
	}
	sonictest.Await(l.t, "orchagent does not fetch it", there)
}

// TestUntrueNote: a note that orchagent was sent the table and did not answer goes by
// itself where it did not end: it was starting, and has looked at the table since.
func TestUntrueNote(t *testing.T) {
	t.Parallel()
	for name, refuses := range map[string]bool{"table made": false, "table refused": true} {
		t.Run(name, func(t *testing.T) {
			eachRelease(t, func(t *testing.T, release sonictest.Release) {
				l := newLab(t, release, "Ethernet0")
				l.slowly()
				s := setupOf(quantize.Draft00, "Ethernet0")
				// As a csig did that did not wait, and ended.
				l.sw.Redis.Do(6, "HSET", firstKey, firstSent, "2026-01-01T00:00:00Z")
				want := definition{size: tableSize(&s), priority: tablePriority}
				l.fetched(rowOp{key: definedTable, to: want.row()})
				sent := 0
				l.sw.Refuse = func(key string, del bool) string {
					if refuses && strings.HasPrefix(key, definitions) && !del {
						sent++
						return "SWSS_RC_UNIMPLEMENTED"
					}
					return ""
				}
				if refuses && (release == sonictest.R202311 || release == sonictest.R202605) {
					return // its rows are those that it has, and it has none
				}
				l.sw.InitDone()
				l.sw.Settle()
				err := l.Apply(t.Context(), s)
				if !refuses {
					if err != nil || l.sw.Tables() != 1 {
						t.Fatalf("%v; %d tables", err, l.sw.Tables())
					}
					if row := l.sw.Redis.Hash(6, firstKey); row[firstAnswered] == "" || len(row) != 1 {
						t.Errorf("the note is %v", row)
					}
				} else if err == nil || !strings.Contains(err.Error(), "SWSS_RC_UNIMPLEMENTED") || sent != 2 {
					t.Errorf("%v, sent %d times", err, sent)
				}
				if err := l.Remove(t.Context()); err != nil {
					t.Fatal(err)
				}
				if left := l.sw.Redis.Keys(6, "*CSIG*"); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
		})
	}
}

// TestNoteLeft: who takes back its own start, over which orchagent has ended, does not
// say that the switch is as it was.
func TestNoteLeft(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202405, "Ethernet0")
	l.patience = 200 * time.Millisecond
	l.open()
	l.sw.Mute = func(key string) bool { return strings.HasPrefix(key, definitions) }
	if err := l.Apply(t.Context(), setupOf(quantize.Draft00, "Ethernet0")); !errors.Is(err, ErrSilent) {
		t.Fatal(err)
	}
	l.sw.Restart()
	for _, want := range []string{firstKey, ""} {
		err := l.Remove(t.Context())
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		f, err := l.Probe(t.Context())
		if err != nil || !strings.Contains(strings.Join(f.Off, "\n"), firstKey) {
			t.Errorf("%q, %v", f.Off, err)
		}
		l.open() // another csig only says that it is there
	}
}

// TestOneTableAtATime: an orchagent that is being started subscribes PORT_TABLE first,
// and is not one of SONiC 202605 for that.
func TestOneTableAtATime(t *testing.T) {
	t.Parallel()
	r := sonictest.StartRedis(t)
	c, err := redis.Dial("unix", r.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ps := redis.PubSubConn{Conn: c}
	subscribe := func(channel string) {
		if err := ps.Subscribe(channel); err != nil {
			t.Error(err)
		}
		if err, bad := ps.Receive().(error); bad {
			t.Error(err)
		}
	}
	subscribe("PORT_TABLE_CHANNEL@0")
	d := Open(Config{Redis: clientOf(r), Patience: 300 * time.Millisecond})
	defer d.Close()
	var perm *vendors.PermanentError
	if _, err := d.checkListeners(t.Context()); !errors.Is(err, ErrSilent) || errors.As(err, &perm) {
		t.Errorf("before its ports: %v", err)
	}
	r.Do(0, "HSET", portInit, "lanes", "0") // those of before a warm restart
	if _, err := d.checkListeners(t.Context()); !errors.As(err, &perm) || !strings.Contains(err.Error(), "202605") {
		t.Errorf("where it does not come: %v", err)
	}
	d.cfg.Patience = time.Minute
	done := make(chan struct{})
	go func() {
		defer close(done)
		subscribe("P4RT_TABLE_CHANNEL@0")
	}()
	if _, err := d.checkListeners(t.Context()); err != nil {
		t.Errorf("where it does: %v", err)
	}
	<-done
}

// TestTPIDEnds: a TPID over which orchagent ends is given to one port, taken out of
// CONFIG_DB while orchagent is gone, and not tried again.
func TestTPIDEnds(t *testing.T) {
	t.Parallel()
	for _, release := range []sonictest.Release{sonictest.R202311, sonictest.R202405} {
		l := newLab(t, release, "Ethernet0", "Ethernet4")
		r := l.sw.Redis
		r.Do(4, "HSET", "PORT|Ethernet4", "tpid", "0x9200")
		tpids := func() string {
			return r.Hash(4, "PORT|Ethernet0")["tpid"] + " " + r.Hash(4, "PORT|Ethernet4")["tpid"]
		}
		asked := map[string]bool{}
		l.sw.Kept("") // and orchagent has that
		l.sw.RefuseTPID = func(port string) bool {
			bad := r.Hash(4, "PORT|"+port)["tpid"] == "0x88a8"
			asked[port] = asked[port] || bad
			return bad
		}
		l.sw.TPIDEnds = true
		s := setupOf(quantize.Draft00, "Ethernet0", "Ethernet4")
		var perm *vendors.PermanentError
		err := l.Apply(t.Context(), s)
		if !errors.As(err, &perm) || !strings.Contains(err.Error(), "orchagent exited after Ethernet0 got TPID 0x88a8") || !strings.Contains(err.Error(), tpidKey) {
			t.Fatalf("%v", err)
		}
		if got := tpids(); got != "0x8100 0x9200" || l.sw.Ends() != 1 || len(asked) != 1 {
			t.Errorf("TPIDs %s; it ended %d times, over %v", got, l.sw.Ends(), asked)
		}
		if left := r.Keys(6, "CSIG*"); len(left) != 1 || left[0] != tpidKey {
			t.Errorf("left: %v", left)
		}
		l.sw.Restart()
		for range 2 {
			l.open()
			have, err := l.Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err = l.Diff(have, s); !errors.As(err, &perm) {
				t.Errorf("the plan: %v", err)
			}
			if err := l.Apply(t.Context(), s); !errors.As(err, &perm) || !strings.Contains(err.Error(), tpidKey) {
				t.Errorf("again: %v", err)
			}
			f, err := l.Probe(t.Context())
			if err != nil || !strings.Contains(strings.Join(f.Off, "\n"), tpidKey) || f.Update.Level == vlanrules.Refused {
				t.Errorf("%q, %+v, %v", f.Off, f.Update, err)
			}
		}
		// Another TPID may do.
		s.TPID = 0x9100
		l.apply(s)
		l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)})
		// One that is killed in the middle leaves 0x88a8 behind, in a crash loop.
		l.loose = true
		r.Do(4, "HSET", "PORT|Ethernet0", "tpid", "0x88a8")
		sonictest.Await(t, "it does not end", func() bool { return l.sw.Ends() == 2 })
		l.sw.Stop()
		text := strings.ReplaceAll(r.Hash(6, recordKey)[recordSetup], "37120", "34984") // 0x9100, 0x88a8
		r.Do(6, "HSET", recordKey, recordSetup, text)
		l.open()
		// Rows remain, and no process listens: the TPIDs are restored all the same.
		if err := l.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "TPIDs back") || !errors.Is(err, ErrSilent) {
			t.Errorf("%v", err)
		}
		if got := r.Hash(4, "PORT|Ethernet0")["tpid"]; got != "0x8100" {
			t.Errorf("Ethernet0 has TPID %s", got)
		}
		l.sw.Restart()
		if err := l.Remove(t.Context()); err != nil || l.sw.Ends() != 2 {
			t.Errorf("%v; it ended %d times", err, l.sw.Ends())
		}
	}
}

// lostConn loses its connection when csig writes a port's first TPID.
type lostConn struct {
	net.Conn
	after bool // CONFIG_DB took it
	once  *atomic.Bool
}

func (c lostConn) Write(b []byte) (int, error) {
	if !bytes.Contains(b, []byte("PORT|Ethernet0\r\n$4\r\ntpid")) || !c.once.CompareAndSwap(false, true) {
		return c.Conn.Write(b)
	}
	if c.after {
		_, _ = c.Conn.Write(b)
		_, _ = c.Read(make([]byte, 1)) // Redis has answered, so it has done that
	}
	c.Close()
	return 0, net.ErrClosed
}

// TestTPIDLost: a connection that is lost over a port's TPID is not taken for a SAI
// that refuses it; where orchagent did end over that, it is.
func TestTPIDLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ after, refuses bool }{
		"before CONFIG_DB took it":         {false, false},
		"after that":                       {true, false},
		"after that, and orchagent ended":  {true, true},
		"before, of a SAI that refuses it": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, sonictest.R202405, "Ethernet0", "Ethernet4")
			l.sw.Kept("")
			r := l.sw.Redis
			l.sw.RefuseTPID = func(port string) bool { return test.refuses && r.Hash(4, "PORT|"+port)["tpid"] == "0x88a8" }
			l.sw.TPIDEnds = true
			var once atomic.Bool
			l.Driver.db = sonicdb.New(sonicdb.Options{File: r.File, ReadFile: func(_ context.Context, path string) ([]byte, error) { return os.ReadFile(path) },
				Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					c, err := sonictest.Dial(ctx, network, address)
					return lostConn{c, test.after, &once}, err
				}})
			s := setupOf(quantize.Draft00, "Ethernet0", "Ethernet4")
			if err := l.Apply(t.Context(), s); err == nil || !once.Load() {
				t.Fatalf("%v; the connection was lost: %v", err, once.Load())
			}
			if note := r.Hash(6, tpidKey); note[tpidAbout] == "" || note[tpidSent] != "" {
				t.Errorf("the note: %v", note)
			}
			if test.after && test.refuses {
				sonictest.Await(t, "it does not end", func() bool { return l.sw.Ends() > 0 })
				l.sw.Stop()
			}
			if !test.refuses {
				l.apply(s) // by the same driver, which connects again
				if left := r.Keys(6, tpidKey); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
				return
			}
			l.open()
			var perm *vendors.PermanentError
			if test.after {
				have, err := l.Observe(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := l.Diff(have, s); !errors.As(err, &perm) || !strings.Contains(err.Error(), "may have crashed") {
					t.Errorf("the plan: %v", err)
				}
				if err := l.Remove(t.Context()); err != nil {
					t.Errorf("removed: %v", err)
				}
				l.sw.Restart()
				l.open()
			}
			// CONFIG_DB does not show it any more: the note alone does.
			if err := l.Apply(t.Context(), s); !errors.As(err, &perm) || !strings.Contains(err.Error(), tpidKey) {
				t.Errorf("again: %v", err)
			}
			if note, got := r.Hash(6, tpidKey), r.Hash(4, "PORT|Ethernet0")["tpid"]; note[tpidSent] == "" || got == "0x88a8" || l.sw.Ends() != 1 {
				t.Errorf("the note %v, TPID %q; it ended %d times", note, got, l.sw.Ends())
			}
		})
	}
}

// cutConn loses its connection at what it is asked.
type cutConn struct {
	net.Conn
	cut func(b []byte) bool
}

func (c cutConn) Write(b []byte) (int, error) {
	if !c.cut(b) {
		return c.Conn.Write(b)
	}
	c.Close()
	return 0, net.ErrClosed
}

// TestTPIDRefusedAndLost: an orchagent that goes on with a TPID that SAI refuses bans
// none, also where the connection is lost before csig has seen that.
func TestTPIDRefusedAndLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ off, dumps bool }{
		"applied again":                   {false, false},
		"taken off":                       {true, false},
		"applied again, as it dumps core": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, sonictest.R202405, "Ethernet0", "Ethernet4")
			r := l.sw.Redis
			var refuses, lost atomic.Bool
			refuses.Store(true)
			l.sw.RefuseTPID = func(port string) bool { return refuses.Load() && r.Hash(4, "PORT|"+port)["tpid"] == "0x88a8" }
			l.Driver.db = sonicdb.New(sonicdb.Options{File: r.File, ReadFile: func(_ context.Context, path string) ([]byte, error) { return os.ReadFile(path) },
				Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					c, err := sonictest.Dial(ctx, network, address)
					return cutConn{c, func(b []byte) bool {
						// While csig waits for the first port, and from then on.
						if bytes.Contains(b, []byte("PORT_TABLE:Ethernet0")) && r.Hash(6, tpidKey)[tpidSent] != "" {
							lost.Store(true)
						}
						return lost.Load()
					}}, err
				}})
			l.sw.TPIDEnds, l.sw.Dumps = test.dumps, test.dumps
			l.patience = time.Second
			s := setupOf(quantize.Draft00, "Ethernet0", "Ethernet4")
			var perm *vendors.PermanentError
			if err := l.Apply(t.Context(), s); err == nil || errors.As(err, &perm) || !lost.Load() {
				t.Fatalf("%v; the connection was lost: %v", err, lost.Load())
			}
			if note := r.Hash(6, tpidKey); note[tpidSent] == "" {
				t.Fatalf("the note: %v", note)
			}
			sonictest.Await(t, "portmgrd does nothing", func() bool { return r.Hash(0, "PORT_TABLE:Ethernet0")["tpid"] == "0x88a8" })
			l.loose = true
			_ = l.Driver.Close()
			sonictest.Await(t, "Redis does not notice that the connection was lost", func() bool { return l.sessions() == 0 })
			l.open()
			if test.dumps {
				if err := l.Apply(t.Context(), s); !errors.Is(err, errGone) {
					t.Errorf("again: %v", err)
				}
				l.sw.Restart()
				if err := l.Apply(t.Context(), s); !errors.As(err, &perm) || !strings.Contains(err.Error(), tpidKey) || r.Hash(4, "PORT|Ethernet0")["tpid"] == "0x88a8" {
					t.Errorf("once it is back: %v", err)
				}
				return
			}
			if test.off {
				if err := l.Remove(t.Context()); err != nil {
					t.Error(err)
				}
			} else {
				have, err := l.Observe(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := l.Diff(have, s); err != nil {
					t.Errorf("the plan: %v", err)
				}
				if err := l.Apply(t.Context(), s); err == nil || errors.As(err, &perm) || !strings.Contains(err.Error(), "SAI does not take it") {
					t.Errorf("again: %v", err)
				}
			}
			if note := r.Hash(6, tpidKey); len(note) > 0 || l.sw.Ends() > 0 {
				t.Errorf("the note: %v; it ended %d times", note, l.sw.Ends())
			}
			refuses.Store(false)
			if !test.off {
				s.TPID = 0x9100
			}
			l.apply(s)
		})
	}
}

// TestTPIDEndsSlowly: an orchagent that writes its core listens, and does not answer.
func TestTPIDEndsSlowly(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202405, "Ethernet0", "Ethernet4")
	l.sw.RefuseTPID = func(string) bool { return true }
	l.sw.TPIDEnds, l.sw.Dumps = true, true
	l.patience = 300 * time.Millisecond
	l.open()
	var perm *vendors.PermanentError
	if err := l.Apply(t.Context(), setupOf(quantize.Draft00, "Ethernet0", "Ethernet4")); !errors.As(err, &perm) || !strings.Contains(err.Error(), tpidKey) {
		t.Fatal(err)
	}
	for _, p := range []string{"Ethernet0", "Ethernet4"} {
		if got := l.sw.Redis.Hash(4, "PORT|"+p)["tpid"]; got == "0x88a8" || p == "Ethernet4" && got != "" {
			t.Errorf("%s: TPID %s", p, got)
		}
	}
}

// TestTPIDFirst: a port has the TPID first, and no aggregate, of which ASIC_DB does not
// tell.
func TestTPIDFirst(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202405, "Ethernet0", "Ethernet8")
	l.sw.Join("PortChannel7", "Ethernet0")
	l.sw.RefuseTPID = func(string) bool { return true }
	l.sw.TPIDEnds = true
	if err := l.Apply(t.Context(), setupOf(quantize.Draft00, "Ethernet0", "Ethernet8")); err == nil {
		t.Fatal("it takes the TPID")
	}
	if note := l.sw.Redis.Hash(6, tpidKey); note[tpidPort] != "Ethernet8" || l.sw.Redis.Hash(4, "PORTCHANNEL|PortChannel7")["tpid"] != "" {
		t.Errorf("%v, %v", note, l.sw.Redis.Hash(4, "PORTCHANNEL|PortChannel7"))
	}
}

// TestInterruptedTPID: who is told to stop while one port has its TPID first leaves no
// note, which would be untrue.
func TestInterruptedTPID(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202405, "Ethernet0", "Ethernet4")
	ctx, cancel := context.WithCancel(t.Context())
	l.sw.RefuseTPID = func(string) bool { cancel(); return false }
	if err := l.Apply(ctx, setupOf(quantize.Draft00, "Ethernet0", "Ethernet4")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := l.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if left := l.sw.Redis.Keys(6, "CSIG*"); len(left) > 0 || l.sw.Redis.Hash(4, "PORT|Ethernet0")["tpid"] != "0x8100" {
		t.Errorf("left: %v, TPID %s", left, l.sw.Redis.Hash(4, "PORT|Ethernet0")["tpid"])
	}
}

// TestPortGoes: the entries of a port that CONFIG_DB deletes are deleted, so that
// orchagent lets go of it; when it comes back it is taken in again.
func TestPortGoes(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		l := newLab(t, release, "Ethernet0", "Ethernet4")
		l.apply(setupOf(quantize.Draft00, "Ethernet0", "Ethernet4"))
		us := []vendors.PortUpdate{{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}, {Port: "Ethernet4", Intents: intents(6, 21, 10, 11)}}
		l.update(us...)
		row := l.sw.Redis.Hash(4, "PORT|Ethernet4")
		l.sw.Redis.Do(4, "DEL", "PORT|Ethernet4")
		if !l.sw.Kept("Ethernet4") {
			t.Fatal("nothing keeps the port")
		}
		l.elapse(recheck)
		l.loose = true
		res, err := l.Update(t.Context(), us, time.Second)
		if got := portErrors(err); len(got) != 1 || got["Ethernet4"] == nil || !res.Leased {
			t.Fatalf("%+v, %v", res, err)
		}
		if _, n := l.sw.Entries("Ethernet4"); n != 0 || l.sw.Kept("Ethernet4") {
			t.Errorf("%d entries; kept %v", n, l.sw.Kept("Ethernet4"))
		}
		l.clean()
		delete(row, "tpid")
		for f, v := range row {
			l.sw.Redis.Do(4, "HSET", "PORT|Ethernet4", f, v)
		}
		l.elapse(recheck)
		l.update(us...)
		l.clean()
		if err := l.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.didAll()
	})
}

// TestDeletionRefused: an entry that SAI does not delete loses its row and stays. The
// next csig finds it, and removes it when SAI lets it.
func TestDeletionRefused(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		statuses := []string{"SWSS_RC_IN_USE", "SWSS_RC_UNKNOWN", "SWSS_RC_INVALID_PARAM", "SWSS_RC_NOT_FOUND"}
		if !vendorstest.Long(t) { // two of them by one release, and the others by the next one
			statuses = statuses[release%2*2:][:2]
		}
		for _, status := range statuses {
			l := newLab(t, release, "Ethernet0")
			l.apply(setupOf(quantize.Draft00, "Ethernet0"))
			l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)})
			all, _ := l.sw.Entries("")
			l.loose = true
			l.sw.Refuse = func(key string, del bool) string {
				if del && strings.Contains(key, `"priority":11}`) {
					return status
				}
				return ""
			}
			if err := l.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), status) {
				t.Fatalf("%s: %v", status, err)
			}
			l.sw.Settle()
			left, _ := l.sw.Entries("")
			if left == 0 || left == all {
				t.Fatalf("%s: %d of %d entries", status, left, all)
			}
			l.sw.Kept("") // CONFIG_DB has come through
			if got := l.sw.TPID("Ethernet0"); got != 0x88a8 {
				t.Errorf("%s: ordinary tags meet csig's entries: TPID %04x", status, got)
			}
			l.sw.Refuse = nil
			l.open()
			if err := l.Remove(t.Context()); err != nil {
				t.Fatalf("%s: %v", status, err)
			}
			l.sw.Kept("") // CONFIG_DB has come through
			if n, _ := l.sw.Entries(""); n != 0 || l.sw.Tables() != 0 || l.sw.TPID("Ethernet0") != 0x8100 {
				t.Errorf("%s: %d entries, %d tables, TPID %04x", status, n, l.sw.Tables(), l.sw.TPID("Ethernet0"))
			}
		}
	})
}
