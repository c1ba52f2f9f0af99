package sonic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/protocol/sonicmq"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// lab is a driver at a fake switch, whose every operation is looked at: each tag
// leaves as it did before an update or as it is to after it.
type lab struct {
	*Driver
	t  *testing.T
	sw *sonictest.Switch

	patience time.Duration
	layout   quantize.Layout
	tags     []quantize.TCI

	mu       sync.Mutex
	was, now map[string][]vlanrules.Intent // of ports, around an update
	loose    bool                          // not to be looked at
	models   map[string][]quantize.TCI     // what intents make of the tags that are looked at
	last     map[string][]quantize.TCI     // how each of the 65,536 tags left last, where all are looked at; nil: those of tags are
	broken   string
}

func newLab(t *testing.T, release sonictest.Release, ports ...string) *lab {
	t.Helper()
	r := sonictest.StartRedis(t)
	l := &lab{t: t, sw: sonictest.NewSwitch(t, r, release, ports...), was: map[string][]vlanrules.Intent{}, now: map[string][]vlanrules.Intent{}, models: map[string][]quantize.TCI{}}
	l.sw.OnOp, l.patience = l.look, time.Minute
	l.tags = someTags
	l.open()
	return l
}

// open makes a driver that knows nothing.
func (l *lab) open() {
	l.t.Helper()
	if l.Driver != nil { // two at once would not be let
		others := l.sessions()
		if l.session != nil || l.parked != nil {
			others--
		}
		_ = l.Driver.Close()
		sonictest.Await(l.t, "Redis does not notice that a session has ended", func() bool { return l.sessions() <= others })
	}
	l.Driver = Open(Config{Redis: clientOf(l.sw.Redis), Patience: l.patience, Endpoint: l.sw.Endpoint()})
	d := l.Driver
	l.t.Cleanup(func() { _ = d.Close() })
}

// elapse has all that the driver noted the time of be so much older.
func (l *lab) elapse(by time.Duration) {
	l.checked, l.recounted = l.checked.Add(-by), l.recounted.Add(-by)
}

// sessions is how many drivers wait for answers, as Redis has it.
func (l *lab) sessions() int {
	list, _ := l.sw.Redis.Do(0, "CLIENT", "LIST", "TYPE", "pubsub").([]byte)
	return strings.Count(string(list), " name="+sonicdb.ClientName+" ")
}

func clientOf(r *sonictest.Redis) *sonicdb.Client {
	return sonicdb.New(sonicdb.Options{Dial: sonictest.Dial, File: r.File,
		ReadFile: func(_ context.Context, path string) ([]byte, error) { return os.ReadFile(path) }})
}

// asOther has orchagent carry out a row that another process sends.
func (l *lab) asOther(op rowOp) {
	l.t.Helper()
	if l.sw.Release >= sonictest.R202605 {
		mq := dialMQ(l.t, l.sw)
		defer mq.Close()
		if err := (mqWire{mq}).send(l.t.Context(), []rowOp{op}); err != nil {
			l.t.Fatal(err)
		}
		if _, ok := <-mq.C; !ok {
			l.t.Fatal(mq.Err())
		}
	} else if _, err := l.db.All(l.t.Context(), setRows(channelOf(0), []rowOp{op})...); err != nil {
		l.t.Fatal(err)
	}
	sonictest.Await(l.t, "orchagent does not take it", func() bool { return len(l.sw.Redis.Keys(0, waiting+"*"))+len(l.sw.Redis.Keys(0, keySet)) == 0 })
	l.sw.Settle()
}

// dialMQ connects to orchagent's ZeroMQ socket, as p4rt_app does.
func dialMQ(t *testing.T, sw *sonictest.Switch) *sonicmq.Conn {
	t.Helper()
	c, err := net.Dial("unix", sw.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	mq, err := sonicmq.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return mq
}

// someTags are of every S, of the signals and of one that is none.
var someTags = func() (tags []quantize.TCI) {
	for tci := range 1 << 16 {
		t, r, lm := tci>>13, tci>>12&1, tci&0x7f
		if (t < 4 || t == 6) && (r == 0 && (lm == 0 || lm == 127) || r == 1 && lm == 6) {
			tags = append(tags, quantize.TCI(tci))
		}
	}
	return tags
}()

// look is called by the fake after each operation.
func (l *lab) look(port string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loose || l.broken != "" {
		return
	}
	if _, there := l.now[port]; !there {
		return
	}
	tags, got := l.tags, []quantize.TCI(nil)
	last := l.last[port]
	if l.last == nil {
		got = l.sw.EgressAll(port, tags)
	} else {
		tags, got = allTags, l.sw.EveryTag(port)
		l.last[port] = got
	}
	was, now := l.model(tags, l.was[port]), l.model(tags, l.now[port])
	for i, got := range got {
		if last != nil && last[i] == got { // that has been looked at
			continue
		}
		if got != was[i] && got != now[i] {
			l.broken = fmt.Sprintf("port %s: tag %04x leaves as %04x: neither old (%+v) nor new (%+v)", port, tags[i], got, l.was[port], l.now[port])
			return
		}
	}
}

// model is what a port with these intents makes of tags, of which there are always the same.
func (l *lab) model(tags []quantize.TCI, intents []vlanrules.Intent) []quantize.TCI {
	key := fmt.Sprint(l.layout, len(tags), intents)
	out := l.models[key]
	if out == nil {
		for _, tci := range tags {
			out = append(out, vendorstest.Model(l.layout, intents, tci))
		}
		l.models[key] = out
	}
	return out
}

// exact wants every port to do what it was told last.
func (l *lab) exact() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != "" {
		l.t.Fatal(l.broken)
	}
	for port, intents := range l.now {
		tags, got := l.tags, []quantize.TCI(nil)
		if l.last == nil {
			got = l.sw.EgressAll(port, tags)
		} else {
			tags, got = allTags, l.sw.EveryTag(port)
		}
		for i, want := range l.model(tags, intents) {
			if got[i] != want {
				l.t.Fatalf("port %s: tag %04x leaves as %04x, want %04x (%+v)", port, tags[i], got[i], want, intents)
			}
		}
		if p := l.byName[port]; p != nil && p.away == "" && l.sw.TPID(port) != l.setup.TPID {
			l.t.Fatalf("port %s takes TPID 0x%04x, and not 0x%04x, for a tag's", port, l.sw.TPID(port), l.setup.TPID)
		}
	}
}

func (l *lab) apply(s vendors.Setup) {
	l.t.Helper()
	l.mu.Lock()
	l.loose, l.layout = true, s.Layout
	l.mu.Unlock()
	if err := l.Apply(l.t.Context(), s); err != nil {
		l.t.Fatalf("apply: %v\nrefused: %v", err, l.sw.Refusals())
	}
	l.mu.Lock()
	l.loose = false
	clear(l.was)
	clear(l.now)
	for _, p := range s.Ports {
		if p.Action == vlanrules.Update {
			l.was[p.Port], l.now[p.Port] = s.Fallback(), s.Fallback()
		}
	}
	l.mu.Unlock()
	l.exact()
}

// expect says what an update is to do.
func (l *lab) expect(updates []vendors.PortUpdate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range updates {
		l.was[u.Port], l.now[u.Port] = l.now[u.Port], append([]vlanrules.Intent(nil), u.Intents...)
	}
}

// keeps says that a port does what it did before the last expect.
func (l *lab) keeps(port string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now[port] = l.was[port]
}

func (l *lab) update(updates ...vendors.PortUpdate) vendors.UpdateResult {
	l.t.Helper()
	l.expect(updates)
	res, err := l.Update(l.t.Context(), updates, time.Second)
	if err != nil || !res.Leased {
		l.t.Fatalf("update %+v: %+v, %v\nrefused: %v", updates, res, err, l.sw.Refusals())
	}
	l.exact()
	entries := 0
	for port := range l.byName {
		_, n := l.sw.Entries(port)
		entries += n
	}
	if res.Entries != entries {
		l.t.Errorf("the driver counts %d entries, the switch has %d", res.Entries, entries)
	}
	return res
}

func setupOf(layout quantize.Layout, ports ...string) vendors.Setup {
	s := vendors.Setup{TPID: 0x88a8, Layout: layout, Signals: []quantize.Signal{quantize.MinABW, quantize.MinABWC, quantize.MaxPD}, OnStale: inventory.Conservative,
		Profile: strings.Repeat("0123456789abcdef", 4)}
	for _, p := range ports {
		s.Ports = append(s.Ports, vendors.PortSetup{Port: p, Action: vlanrules.Update})
	}
	return s
}

func intents(lm uint16, s ...uint8) []vlanrules.Intent {
	var out []vlanrules.Intent
	for i, v := range s {
		out = append(out, vlanrules.Intent{Signal: quantize.Signals[i], Action: vlanrules.Update, S: v, LM: lm})
	}
	return out
}

// TestEveryRow programs buckets of every signal, and then random ones, in every layout:
// after every single operation of the switch each tag leaves with its old or its new value,
// and after the update with the new one. In TestLongWhole it is every bucket, and each of
// the 65,536 tags.
func TestEveryRow(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		for _, layout := range []quantize.Layout{quantize.Draft00, quantize.UEC} {
			t.Run(layout.String(), func(t *testing.T) {
				t.Parallel()
				everyRow(t, release, layout)
			})
		}
	})
}

func everyRow(t *testing.T, release sonictest.Release, layout quantize.Layout) {
	l := newLab(t, release, "Ethernet0", "Ethernet4")
	setup := setupOf(layout, "Ethernet0", "Ethernet4")
	some := []uint8{0, 0, 0}
	if layout == quantize.UEC { // which has one more
		setup.Signals, some = append(setup.Signals, quantize.MaxNQD), append(some, 0)
	}
	l.apply(setup)
	buckets := sized(t, 4, 32)
	if buckets == 32 {
		l.last = map[string][]quantize.TCI{}
	}
	for i := range buckets {
		s := uint8(i * 31 / (buckets - 1))
		l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, []uint8{s, 31 - s, s, 31 - s}[:len(some)]...)})
	}
	rnd := rand.New(rand.NewPCG(1, uint64(release)<<8|uint64(layout)))
	for range sized(t, 2, 5) {
		var us []vendors.PortUpdate
		for _, p := range []string{"Ethernet0", "Ethernet4"} {
			for i := range some {
				some[i] = uint8(rnd.IntN(32))
			}
			us = append(us, vendors.PortUpdate{Port: p, Intents: intents(uint16(1+rnd.IntN(40)), some...)})
		}
		l.update(us...)
	}
	l.didAll()
}

// didAll wants orchagent to have refused nothing but the table again, which is how it says that it has it.
func (l *lab) didAll() {
	l.t.Helper()
	for _, b := range l.sw.Refusals() {
		if !(&StatusError{Status: rcUnimplemented, Message: b}).tableThere() {
			l.t.Errorf("orchagent refused %v", b)
		}
	}
}

// allTags are the 65,536 tags.
var allTags = func() (tags []quantize.TCI) {
	for tci := range 1 << 16 {
		tags = append(tags, quantize.TCI(tci))
	}
	return tags
}()

// TestIdempotent: nothing that is there already is written.
func TestIdempotent(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202311, "Ethernet0")
	s := setupOf(quantize.Draft00, "Ethernet0")
	l.apply(s)
	u := vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 7, 9, 11)}
	if res := l.update(u); res.Ports != 1 || res.Ops == 0 {
		t.Errorf("%+v", res)
	}
	ops := l.sw.Ops()
	if res := l.update(u); res.Ops != 0 || l.sw.Ops() != ops {
		t.Errorf("the same intents again: %+v, %d operations", res, l.sw.Ops()-ops)
	}
	have, err := l.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if changes, err := l.Diff(have, s); err != nil || len(changes) > 0 {
		t.Errorf("%+v, %v after Apply", changes, err)
	}
	if have.Profile != s.Profile || len(have.Signals) != 3 {
		t.Errorf("observed %+v", have)
	}
	if err := l.Apply(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	l.exact() // Apply does not disturb the signal
	// A driver that knows nothing takes over what is there, without a change.
	l.open()
	ops = l.sw.Ops()
	if res := l.update(u); res.Ops != 0 || l.sw.Ops() != ops {
		t.Errorf("taken over: %+v, %d operations", res, l.sw.Ops()-ops)
	}
}

// TestRelease: without a lease the driver itself writes the fallback.
func TestRelease(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202311, "Ethernet0")
	s := setupOf(quantize.Draft00, "Ethernet0")
	l.apply(s)
	l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 31, 20, 0)})
	l.expect([]vendors.PortUpdate{{Port: "Ethernet0", Intents: s.Fallback()}})
	l.open() // even one that was just started
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.exact()
	s.OnStale = inventory.StalePassthrough
	l.apply(s)
	l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 3, 20, 0)})
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, _ := l.sw.Entries(""); n != 0 {
		t.Errorf("%d entries after Release to passthrough", n)
	}
}

// TestRemove gives the switch back as it was, other people's rows included. A port
// that had the TPID already gets the default: after a reboot that is csig's own.
func TestRemove(t *testing.T) {
	t.Parallel()
	l := newLab(t, sonictest.R202405, "Ethernet0", "Ethernet4", "Ethernet8")
	r := l.sw.Redis
	r.Do(4, "HSET", "PORT|Ethernet4", "tpid", "0x9100")
	r.Do(4, "HSET", "PORT|Ethernet8", "tpid", "0x88A8")
	r.Do(0, "HSET", "P4RT_TABLE:ACL_ACL_INGRESS_TABLE:{\"priority\":1}", "action", "x")
	r.Do(6, "HSET", "OTHER|x", "a", "b")
	l.apply(setupOf(quantize.Draft00, "Ethernet0", "Ethernet4", "Ethernet8"))
	for port, want := range map[string]string{"Ethernet0": "0x88a8", "Ethernet4": "0x88a8", "Ethernet8": "0x88A8"} {
		if got := r.Hash(4, "PORT|"+port)["tpid"]; got != want {
			t.Errorf("%s: TPID %q, want %q", port, got, want)
		}
	}
	l.open()
	for range 2 {
		if err := l.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for port, want := range map[string]string{"Ethernet0": "0x8100", "Ethernet4": "0x9100", "Ethernet8": "0x8100"} {
		if got := r.Hash(4, "PORT|"+port)["tpid"]; got != want {
			t.Errorf("%s: TPID %q after Remove, want %q", port, got, want)
		}
	}
	if n, _ := l.sw.Entries(""); n != 0 || l.sw.Tables() != 0 {
		t.Errorf("%d entries, %d tables left", n, l.sw.Tables())
	}
	if keys := r.Keys(0, "*CSIG*"); len(keys) > 0 {
		t.Errorf("left in APPL_DB: %v", keys)
	}
	if keys := r.Keys(6, "*CSIG*"); len(keys) > 0 {
		t.Errorf("left in STATE_DB: %v", keys)
	}
	if len(r.Keys(0, "P4RT_TABLE:ACL_ACL*")) != 1 || len(r.Keys(6, "OTHER*")) != 1 {
		t.Error("other people's rows are gone")
	}
	have, err := l.Observe(t.Context())
	if err != nil || have.TPID != 0 || have.Damaged != "" || len(have.Ports) != 0 {
		t.Errorf("observed %+v, %v", have, err)
	}
}

// TestLayoutChange: entries of one layout do not stand in the way of another's.
func TestLayoutChange(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release sonictest.Release) {
		l := newLab(t, release, "Ethernet0", "Ethernet4")
		s := setupOf(quantize.Draft00, "Ethernet0", "Ethernet4")
		for i := range sized(t, 2, 6) {
			l.apply(s)
			l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, uint8(i), 11)}, vendors.PortUpdate{Port: "Ethernet4", Intents: intents(5, 7, 9, uint8(i))})
			l.clean()
			s.Layout ^= 1
		}
	})
}
