package linux

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ssh"
	"github.com/csig-agent/csig/vlanrules"
)

// shellRunner runs commands inside a namespace, without SSH in between.
type shellRunner struct {
	n      *netns
	closed bool
	before func(command string) error // may change the world, or break the connection
}

func (r *shellRunner) Run(ctx context.Context, command string, stdin []byte) ([]byte, error) {
	if r.closed {
		return nil, errors.New("this connection is closed")
	}
	if r.before != nil {
		if err := r.before(command); err != nil {
			return nil, err
		}
	}
	var out, why bytes.Buffer
	err := r.n.do(func() error {
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &why
		return cmd.Run()
	})
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, &ssh.ExitError{Host: "here", Command: command, Status: exit.ExitCode(), Stderr: why.String()}
	}
	return out.Bytes(), err
}

func (r *shellRunner) Close() error { r.closed = true; return nil }

// openAfar is a driver that runs commands in the namespace.
func openAfar(t testing.TB, n *netns) *Afar {
	return openAfarBy(t, func(context.Context) (Runner, error) { return &shellRunner{n: n}, nil })
}

func openAfarBy(t testing.TB, connect func(context.Context) (Runner, error)) *Afar {
	t.Helper()
	d := OpenAfar(AfarConfig{Connect: connect})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// listing is all of nftables, as its two listings have it, without handles and
// what is left of timeouts.
func (n *netns) listing() string {
	n.t.Helper()
	var list struct {
		Objects []json.RawMessage `json:"nftables"`
	}
	if err := json.Unmarshal([]byte(n.run("nft", "-j", "list", "ruleset")), &list); err != nil {
		n.t.Fatal(err)
	}
	var lines []string
	for _, o := range list.Objects {
		text := string(o)
		for _, cut := range []string{`"handle": `, `"expires": `} {
			for {
				i := strings.Index(text, cut)
				if i < 0 {
					break
				}
				text = text[:i] + strings.TrimLeft(text[i+len(cut):], "0123456789")
			}
		}
		lines = append(lines, text)
	}
	// The order of rules within a chain is in the text, which is compared too.
	sort.Strings(lines)
	return strings.Join(lines, "\n") + "\n" + sorted(withoutTime(n.run("nft", "list", "ruleset")))
}

func afarRows() []vendors.Setup {
	abw, both := []quantize.Signal{quantize.MinABW}, []quantize.Signal{quantize.MinABW, quantize.MinABWC}
	ports := func(a, b vlanrules.Action) []vendors.PortSetup {
		return []vendors.PortSetup{{Port: "sw0", Action: b}, {Port: "swp1", Action: a}}
	}
	const update, pass = vlanrules.Update, vlanrules.Passthrough
	return []vendors.Setup{
		{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(update, pass)},
		{TPID: 0x9900, Signals: abw, OnStale: inventory.Conservative, Ports: ports(update, update)},
		{TPID: 0x9900, Signals: quantize.Signals[:], OnStale: inventory.Conservative, Ports: ports(update, update)},
		{TPID: 0x9900, Layout: quantize.UEC, Signals: both, OnStale: inventory.Conservative, Ports: ports(update, pass)},
		{TPID: 0x9900, Layout: quantize.UEC, Signals: quantize.Signals[:], OnStale: inventory.StalePassthrough, Ports: ports(update, update)},
		{TPID: 0x9aa0, Signals: both, OnStale: inventory.Conservative, Ports: ports(update, pass)},
		{TPID: 0x9900, WideTPID: 0x9901, Signals: both, OnStale: inventory.Conservative, Ports: ports(update, pass)},
		{TPID: 0x88a8, Signals: both, OnStale: inventory.Conservative, Ports: ports(update, pass)},
		{TPID: 0x88a8, Layout: quantize.UEC, Signals: abw, OnStale: inventory.Conservative, Ports: ports(update, update)},
		{TPID: 0x9900, Signals: both, OnStale: inventory.StalePassthrough, Ports: ports(update, pass)},
		{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(pass, pass)},
		{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: ports(pass, update)[:1]},
		{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative},
		{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Ports: append(ports(update, pass),
			vendors.PortSetup{Port: "not_here.5-1", Action: update}, vendors.PortSetup{Port: "nor+this", Action: pass})},
		{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Profile: profileA, Ports: ports(update, pass)},
		{TPID: 0x9900, Signals: both, OnStale: inventory.Conservative, Profile: profileB, Ports: ports(update, update)},
		{TPID: 0x88a8, Signals: abw, OnStale: inventory.Conservative, Profile: profileB, Ports: ports(update, pass),
			Others: []vendors.OtherTPID{{TPID: 0x9900}, {TPID: 0x9901, Wide: true}, {TPID: 0x9902}, {TPID: 0xffff, Wide: true}}},
	}
}

// randomUpdates are intents for the ports of a setup that update; some ports
// are left out, and some signals.
func randomUpdates(r *rand.Rand, s vendors.Setup) []vendors.PortUpdate {
	var out []vendors.PortUpdate
	for _, p := range s.Ports {
		if p.Action != vlanrules.Update || r.IntN(4) == 0 {
			continue
		}
		u := vendors.PortUpdate{Port: p.Port}
		for _, sig := range s.Signals {
			if r.IntN(5) > 0 {
				u.Intents = append(u.Intents, bucket(sig, uint8(r.IntN(32)), uint16(1+r.IntN(60))))
			}
		}
		out = append(out, u)
	}
	return out
}

// onlyMissing fails unless err is nil or about devices that are not there.
func onlyMissing(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	n := 0
	vendors.EachPort(err, func(port string, err error) {
		n++
		if !strings.Contains(err.Error(), "no such network device") || !strings.HasPrefix(port, "no") {
			t.Fatalf("port %s: %v", port, err)
		}
	})
	if n == 0 {
		t.Fatal(err)
	}
}

// TestTwoWriters carries the same setups and signals, in random order, to one
// switch by netlink, to one by scripts for nft, and to one by either in turns:
// nft lists the same on each, and both readers read the same.
func TestTwoWriters(t *testing.T) {
	ctx := t.Context()
	a, b, c := newWire(t).netns, newWire(t).netns, newWire(t).netns
	netlinkA, afarB := openDriver(t, a), openAfar(t, b)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	rows := afarRows()
	order := r.Perm(len(rows))
	for range 25 {
		order = append(order, r.IntN(len(rows)))
	}
	have := vendors.Setup{}
	for step, i := range order {
		s := rows[i]
		updates := [][]vendors.PortUpdate{randomUpdates(r, s), randomUpdates(r, s)}
		mixed := []vendors.Driver{openDriver(t, c), openAfar(t, c)}
		if r.IntN(2) == 0 {
			slices.Reverse(mixed)
		}
		for k, d := range []vendors.Driver{netlinkA, afarB, mixed[0]} {
			onlyMissing(t, d.Apply(ctx, s))
			if step == 0 && k == 1 {
				// The second time there is nothing left to do.
				onlyMissing(t, d.Apply(ctx, s))
			}
		}
		for j, u := range updates {
			for _, d := range []vendors.Driver{netlinkA, afarB, mixed[j]} {
				res, err := d.Update(ctx, u, time.Minute)
				onlyMissing(t, err)
				if !res.Leased || d != mixed[1] && res.Repaired != "" {
					t.Errorf("%+v", res)
				}
			}
		}
		want := a.listing()
		for name, n := range map[string]*netns{"afar": b, "mixed": c} {
			// A driver that takes over knows nothing of ports that the update
			// does not mention, and leaves them; so does the one that was there.
			if got := n.listing(); got != want {
				t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
			}
		}
		var setups []vendors.Setup
		for _, d := range []vendors.Driver{netlinkA, openAfar(t, a), openDriver(t, b), afarB, mixed[0], mixed[1]} {
			o, err := d.Observe(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if left, err := d.Diff(o, s); err != nil || len(left) != 0 {
				t.Errorf("%v is left, %v; observed %+v", left, err, o)
			}
			setups = append(setups, o)
		}
		for _, o := range setups[1:] {
			if !reflect.DeepEqual(o, setups[0]) {
				t.Errorf("observed %+v, by another %+v", o, setups[0])
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d, step %d: %+v after %+v", seed, step, s, have)
		}
		have = s
		for _, d := range mixed {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if d, ok := d.(*Driver); ok { // the test's end closes it again
				*d = *openDriverQuietly(t, c)
			}
		}
	}
	for _, d := range []vendors.Driver{netlinkA, afarB, openAfar(t, c)} {
		for range 2 {
			if err := d.Remove(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, n := range []*netns{a, b, c} {
		if left := n.run("nft", "list", "ruleset"); left != "" {
			t.Errorf("left behind:\n%s", left)
		}
	}
}

func openDriverQuietly(t *testing.T, n *netns) *Driver {
	t.Helper()
	d, err := Open(Config{NetNS: n.fd})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestScript loads, in any order, the scripts that Script makes without a
// device: the result is what Apply would have left, and Script(have, have) is
// empty.
func TestScript(t *testing.T) {
	ctx := t.Context()
	n, by := newWire(t).netns, newWire(t).netns
	d, reference := openAfar(t, n), openAfar(t, by)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	rows := slices.DeleteFunc(afarRows(), func(s vendors.Setup) bool { return len(s.Ports) > 2 }) // all ports are there
	have := vendors.Setup{}
	for range 40 {
		want := rows[r.IntN(len(rows))]
		text, err := Script(have, want)
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range []string{"-c -f -", "-f -"} {
			if _, err := d.nft(ctx, args, text); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, text)
			}
		}
		if err := reference.Apply(ctx, want); err != nil {
			t.Fatal(err)
		}
		if got, want := n.listing(), by.listing(); got != want {
			t.Fatalf("seed %d, the script\n%sleaves\n%s\nwant\n%s", seed, text, got, want)
		}
		if again, err := Script(want, want); err != nil || len(again) != 0 {
			t.Fatalf("nothing differs, and yet, %v:\n%s", err, again)
		}
		have = want
	}
}

// TestGoldenScripts loads the golden files, one after the other.
func TestGoldenScripts(t *testing.T) {
	n := newWire(t).netns
	d := openAfar(t, n)
	for _, row := range scriptRows() {
		file := "testdata/" + row.name + ".nft.golden"
		n.run("nft", "-c", "-f", file)
		n.run("nft", "-f", file)
		have, err := d.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if left, err := d.Diff(have, row.want); err != nil || len(left) != 0 {
			t.Errorf("%s: %v is left, %v", row.name, left, err)
		}
	}
}

// TestApplySendsScript holds what Apply sends against what Script shows.
func TestApplySendsScript(t *testing.T) {
	ctx := t.Context()
	n := newWire(t).netns
	rows := afarRows()
	have := vendors.Setup{}
	for _, i := range []int{0, 1, 10, 3, 0} {
		d := openAfar(t, n)
		rec := &recorder{Runner: &shellRunner{n: n}}
		d.cfg.Connect = func(context.Context) (Runner, error) { return rec, nil }
		if err := d.Apply(ctx, rows[i]); err != nil {
			t.Fatal(err)
		}
		want, err := Script(have, rows[i])
		if err != nil {
			t.Fatal(err)
		}
		var sent []byte
		for _, s := range rec.sent {
			sent = append(sent, s...)
		}
		var lines []string
		for l := range strings.Lines(string(want)) {
			if !strings.HasPrefix(l, "# while an agent") {
				lines = append(lines, l)
			}
		}
		if got, want := string(sent), strings.Join(lines, ""); got != want {
			t.Errorf("row %d: Apply sent\n%s\nScript says\n%s", i, got, want)
		}
		var u []vendors.PortUpdate
		for _, p := range rows[i].Ports {
			u = append(u, vendors.PortUpdate{Port: p.Port})
			if p.Action == vlanrules.Update {
				u[len(u)-1].Intents = []vlanrules.Intent{bucket(quantize.MinABW, 9, 4)}
			}
		}
		if _, err := d.Update(ctx, u, time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := d.Release(ctx); err != nil {
			t.Fatal(err)
		}
		have = rows[i]
	}
}

// recorder keeps the scripts.
type recorder struct {
	Runner
	sent [][]byte
}

func (r *recorder) Run(ctx context.Context, command string, stdin []byte) ([]byte, error) {
	if strings.Contains(command, "nft -f -") {
		r.sent = append(r.sent, stdin)
	}
	return r.Runner.Run(ctx, command, stdin)
}

func TestAfarLease(t *testing.T) {
	w := newWire(t)
	d := openAfar(t, w.netns)
	ctx := t.Context()
	if err := d.Apply(ctx, setupFor(updatePort)); err != nil {
		t.Fatal(err)
	}
	if got := w.value(initial); got != stale {
		t.Errorf("before the first update: 0x%04x, want the stale value 0x%04x", got, stale)
	}
	const lease = 300 * time.Millisecond
	start := time.Now()
	if res, err := d.Update(ctx, []vendors.PortUpdate{one(9, 4)}, lease); err != nil || !res.Leased || res.Ports != 1 {
		t.Fatal(res, err)
	}
	w.leaseEnds(lease, start, 9<<7|4)
	if got := w.value(initial); got != stale {
		t.Errorf("after the lease: 0x%04x", got)
	}
	if _, err := d.Update(ctx, []vendors.PortUpdate{one(7, 4)}, time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := w.value(initial); got != 7<<7|4 {
		t.Errorf("after a new lease: 0x%04x", got)
	}
	for range 2 {
		if err := d.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if got := w.value(initial); got != stale {
			t.Errorf("after the release: 0x%04x", got)
		}
	}
}

// TestAfarRepairs damages the table in many ways: Observe says so as Driver
// does, Apply mends it, and so does an Update that looks again.
func TestAfarRepairs(t *testing.T) {
	ctx := t.Context()
	for _, row := range []struct{ name, script string }{
		{"a rule more", `insert rule netdev csig p_swp1 counter drop`},
		{"a rule less", `flush chain netdev csig p_swp1`},
		{"the chain is gone", `flush chain netdev csig p_swp1; delete chain netdev csig p_swp1`},
		{"the chain is elsewhere", `flush chain netdev csig p_swp1; delete chain netdev csig p_swp1; add chain netdev csig p_swp1 { type filter hook egress device "sw0" priority 0; }`},
		{"another priority", `flush chain netdev csig p_swp1; delete chain netdev csig p_swp1; add chain netdev csig p_swp1 { type filter hook egress device "swp1" priority -5; }`},
		{"another policy", `flush chain netdev csig p_swp1; delete chain netdev csig p_swp1; add chain netdev csig p_swp1 { type filter hook egress device "swp1" priority 0; policy drop; }`},
		{"the fallback's values", `flush map netdev csig stale; add element netdev csig stale { 0x80-0xfff : 0x7e }`},
		{"the fallback's rules", `flush chain netdev csig stale`},
		{"a set more", `add set netdev csig other { typeof meta protocol; }`},
		{"a chain more", `add chain netdev csig other { counter; }`},
		{"another key in the lease", `flush set netdev csig lease; add element netdev csig lease { 0x9900 timeout 50s }`},
		{"everything", `delete table netdev csig`},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWire(t)
			d, direct := openAfar(t, w.netns), openDriver(t, w.netns)
			now := time.Now()
			d.cfg.Now = func() time.Time { return now }
			s := setupFor(vendors.PortSetup{Port: "sw0"}, updatePort)
			if err := d.Apply(ctx, s); err != nil {
				t.Fatal(err)
			}
			u := []vendors.PortUpdate{one(9, 4)}
			if _, err := d.Update(ctx, u, time.Minute); err != nil {
				t.Fatal(err)
			}
			right := w.listing()
			harm := func() {
				w.run("nft", strings.NewReplacer("\n", " ").Replace(row.script))
				mine, err := d.Observe(ctx)
				if err != nil {
					t.Fatal(err)
				}
				other, err := direct.Observe(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(mine, other) {
					t.Errorf("from afar %+v\non the switch %+v", mine, other)
				}
				if left, err := d.Diff(mine, s); err != nil || len(left) == 0 {
					t.Errorf("nothing is damaged, %v: %+v", err, mine)
				}
			}
			harm()
			if err := d.Apply(ctx, s); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Update(ctx, u, time.Minute); err != nil {
				t.Fatal(err)
			}
			if got := w.listing(); got != right {
				t.Errorf("Apply leaves\n%s\nwant\n%s", got, right)
			}
			harm()
			now = now.Add(recheck)
			res, err := d.Update(ctx, u, time.Minute)
			if err != nil || res.Repaired == "" || !res.Leased {
				t.Errorf("%+v, %v", res, err)
			}
			if got := w.listing(); got != right {
				t.Errorf("Update leaves\n%s\nwant\n%s", got, right)
			}
			if res, err := d.Update(ctx, u, time.Minute); err != nil || res.Repaired != "" || res.Ports != 0 {
				t.Errorf("once more: %+v, %v", res, err)
			}
		})
	}
}

// TestAfarRefused lists what cannot be done; nothing is written.
func TestAfarRefused(t *testing.T) {
	ctx := t.Context()
	w := newWire(t)
	d := openAfar(t, w.netns)
	const foreignTable = "table netdev csig {\n}\n"
	strip := vendors.PortSetup{Port: "swp1", Action: vlanrules.Strip}
	permanent(t, d.Apply(ctx, setupFor(strip)), "swp1", "run csig agent on the switch")
	if _, err := d.Diff(vendors.Setup{}, setupFor(strip)); err == nil {
		t.Error("Diff takes a strip port")
	}
	for _, name := range []string{`a"b`, `a;b`, "sw*", `a\b`, "ä"} {
		err := d.Apply(ctx, setupFor(vendors.PortSetup{Port: name, Action: vlanrules.Update}))
		if name == "a;b" { // nothing that would end a quoted string
			continue
		}
		permanent(t, err, name, "rename")
		if _, err := Script(vendors.Setup{}, setupFor(vendors.PortSetup{Port: name})); err == nil {
			t.Errorf("Script takes %s", name)
		}
	}
	if err := d.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	if got := w.run("nft", "list", "ruleset"); got != "" {
		t.Errorf("something was written:\n%s", got)
	}
	if _, err := d.Update(ctx, nil, time.Minute); err == nil {
		t.Error("an Update without a setup")
	} else {
		permanent(t, err, "", "call Apply first")
	}
	w.run("nft", "add table netdev csig")
	for name, f := range map[string]func() error{
		"Observe": func() error { _, err := d.Observe(ctx); return err },
		"Apply":   func() error { return d.Apply(ctx, setupFor(updatePort)) },
		"Update":  func() error { _, err := d.Update(ctx, nil, time.Minute); return err },
	} {
		var theirs *vendors.ForeignError
		if err := f(); !errors.As(err, &theirs) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(d.Release(ctx), d.Remove(ctx)); err != nil {
		t.Error(err)
	}
	if got := w.run("nft", "list", "ruleset"); got != foreignTable {
		t.Errorf("somebody else's table is now\n%s", got)
	}
}

// TestAfarConnection loses the connection at every command in turn: the error
// says so, and the next call connects anew and goes on.
func TestAfarConnection(t *testing.T) {
	ctx := t.Context()
	w := newWire(t)
	broken := errors.New("the cable is cut")
	countdown, connects := -1, 0
	d := openAfarBy(t, func(context.Context) (Runner, error) {
		connects++
		return &shellRunner{n: w.netns, before: func(string) error {
			countdown--
			if countdown == 0 {
				return broken
			}
			return nil
		}}, nil
	})
	s := setupFor(updatePort)
	for k := 1; k < 30; k++ {
		countdown = k
		err := d.Apply(ctx, s)
		var res vendors.UpdateResult
		if err == nil {
			res, err = d.Update(ctx, []vendors.PortUpdate{one(uint8(k), 4)}, time.Minute)
		}
		hit := countdown <= 0
		if err != nil && (!errors.Is(err, broken) || !hit) {
			t.Fatalf("at command %d: %v", k, err)
		}
		countdown = -1
		if err == nil && !res.Leased {
			t.Errorf("at command %d: %+v", k, res)
		}
		if err := d.Apply(ctx, s); err != nil {
			t.Fatalf("after command %d: %v", k, err)
		}
		if res, err := d.Update(ctx, []vendors.PortUpdate{one(uint8(k), 4)}, time.Minute); err != nil || !res.Leased {
			t.Fatalf("after command %d: %+v, %v", k, res, err)
		}
		if got := w.value(initial); got != uint16(k)<<7|4 {
			t.Errorf("after command %d: 0x%04x", k, got)
		}
		if !hit {
			if k < 6 || connects < k {
				t.Errorf("%d commands, %d connections", k, connects)
			}
			return
		}
	}
	t.Error("there is no end of commands")
}

func TestAfarLinks(t *testing.T) {
	ctx := t.Context()
	w := newWire(t)
	d, direct := openAfar(t, w.netns), openDriver(t, w.netns)
	// Frames for a host that drops them, so that something is counted.
	w.ip("link set host0 down")
	w.port.send(frame(0))
	got, err := d.Health(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want, err := direct.Health(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if err := d.SetMTU(ctx, "swp1", 2345); err != nil {
		t.Fatal(err)
	}
	mtus, err := d.MTUs(ctx)
	if err != nil || mtus["swp1"] != 2345 || mtus["sw0"] != 9000 {
		t.Errorf("%v, %v", mtus, err)
	}
	var port *vendors.PortError
	if err := d.SetMTU(ctx, "swp9", 2345); !errors.As(err, &port) || port.Port != "swp9" {
		t.Errorf("no such port: %v", err)
	}
	permanent(t, d.SetMTU(ctx, "$(id)", 2345), "$(id)", "rename")
}

func TestAfarProbe(t *testing.T) {
	w := newWire(t)
	d := openAfar(t, w.netns)
	f, err := d.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f.Update.Level != vlanrules.Full || f.Lease.Level != vlanrules.Full || f.Strip.Level != vlanrules.Refused || f.Wide.Level != vlanrules.Refused || len(f.Depths) != 5 {
		t.Errorf("%+v", f)
	}
	t.Log(strings.Join(f.Notes, "\n"))
	if got := w.run("nft", "list", "ruleset"); got != "" {
		t.Errorf("the probe changed something:\n%s", got)
	}
	for name, text := range map[string]string{"egress": "not take the rules", "uname": "Linux was expected"} {
		d := openAfarBy(t, func(context.Context) (Runner, error) { return oldSwitch{&shellRunner{n: w.netns}, name}, nil })
		f, err := d.Probe(t.Context())
		if got := fmt.Sprint(f.Update.Reason, f.Lease.Reason, err); !strings.Contains(got, text) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

// oldSwitch lacks something.
type oldSwitch struct {
	Runner
	lacks string
}

func (o oldSwitch) Run(ctx context.Context, command string, stdin []byte) ([]byte, error) {
	if o.lacks == "uname" && strings.Contains(command, "uname") {
		return []byte("% Invalid command\n"), nil
	}
	if strings.Contains(string(stdin), o.lacks) {
		return nil, &ssh.ExitError{Host: "here", Command: command, Status: 1, Stderr: "Error: unknown hook"}
	}
	return o.Runner.Run(ctx, command, stdin)
}
