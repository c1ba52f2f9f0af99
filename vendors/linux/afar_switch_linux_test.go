package linux

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ssh"
	"github.com/csig-agent/csig/vlanrules"
)

func TestIntervalText(t *testing.T) {
	w := newScript(tableName)
	w.addIntervals("p_a", []interval{{0, 0, 1}, {2, 3, 4}, {0x80, 0xffff, 0xfffe}})
	if got, want := w.String(), "add element netdev csig p_a { 0x0000 : 0x0001, 0x0002-0x0003 : 0x0004, 0x0080-0xffff : 0xfffe }\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}
}

// TestSteps reads back what the netlink writer makes of every rule, and knows
// a rule that ends too early.
func TestSteps(t *testing.T) {
	encode := func(list []expr.Any) []byte {
		b := &batch{}
		for _, e := range list {
			m, err := expr.Marshal(netdevFamily, e)
			if err != nil {
				t.Fatal(err)
			}
			b.bytes(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, m)
		}
		return b.b
	}
	for _, s := range afarRows() {
		r, err := rulesetOf(&s, everywhere, maxDepth)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range r.chains {
			for _, rule := range c.rules {
				exprs := exprsOf(rule.steps)
				got, err := stepsOf(encode(exprs))
				if err != nil || !c.sameRules(&observedChain{rules: chainSteps(c, rule, got)}) {
					t.Fatalf("%s: %+v, %v, want %+v", rule.comment, got, err, rule.steps)
				}
				if last := rule.steps[len(rule.steps)-1]; last.op == rewrite {
					got, err := stepsOf(encode(exprs[:len(exprs)-1]))
					if err != nil || len(got) == 0 || got[len(got)-1].op != foreignStep {
						t.Fatalf("%s without its write: %+v, %v", rule.comment, got, err)
					}
				}
			}
		}
	}
}

// chainSteps are the rules of a chain with one of them as it was read.
func chainSteps(c chainSpec, read ruleSpec, as []step) (out [][]step) {
	for _, r := range c.rules {
		if r.comment == read.comment {
			out = append(out, as)
		} else {
			out = append(out, r.steps)
		}
	}
	return out
}

// TestAfarStripsAlready finds a port that strips: nothing is written, except by
// Remove, which says what is left.
func TestAfarStripsAlready(t *testing.T) {
	ctx := t.Context()
	w := newWire(t)
	d := openAfar(t, w.netns)
	if err := d.Apply(ctx, setupFor(vendors.PortSetup{Port: "swp1"})); err != nil {
		t.Fatal(err)
	}
	w.run("nft", `delete set netdev csig p_swp1; add set netdev csig p_swp1 { typeof @ll,112,16; comment "strip swp1"; }`)
	have, err := d.Observe(ctx)
	if err != nil || len(have.Ports) != 1 || have.Ports[0].Action != vlanrules.Strip || !strings.Contains(have.Ports[0].Damaged, "from afar") {
		t.Fatalf("%+v, %v", have, err)
	}
	before := w.listing()
	permanent(t, d.Apply(ctx, setupFor(updatePort)), "swp1", "cannot be taken away from afar")
	permanent(t, d.Apply(ctx, have), "swp1", "strip from afar")
	if _, err := d.Diff(have, setupFor(updatePort)); err == nil {
		t.Error("Diff promises to take the program away")
	}
	if after := w.listing(); after != before {
		t.Errorf("something was written:\n%s", after)
	}
	permanent(t, d.Remove(ctx), "swp1", "cannot be taken away from afar")
	if got := w.run("nft", "list", "ruleset"); got != "" {
		t.Errorf("left behind:\n%s", got)
	}
}

// TestAfarLeaseTaken has somebody flush the lease: Update gives a new one at
// once, and says so at its next look.
func TestAfarLeaseTaken(t *testing.T) {
	ctx := t.Context()
	w := newWire(t)
	d := openAfar(t, w.netns)
	now := time.Now()
	d.cfg.Now = func() time.Time { return now }
	if err := d.Apply(ctx, setupFor(updatePort)); err != nil {
		t.Fatal(err)
	}
	u := []vendors.PortUpdate{one(9, 4)}
	for _, row := range []struct {
		name         string
		later        time.Duration
		flush, tells bool
	}{
		{"the first", 0, false, false},
		{"a look at what is right", recheck, false, false},
		{"flushed", recheck, true, true},
		{"flushed after its end", 2 * time.Minute, true, false},
	} {
		if row.flush {
			w.run("nft", "flush set netdev csig lease")
		}
		now = now.Add(row.later)
		res, err := d.Update(ctx, u, time.Minute)
		if err != nil || !res.Leased || strings.Contains(res.Repaired, "lease was gone") != row.tells {
			t.Errorf("%s: %+v, %v", row.name, res, err)
		}
		if got := w.value(initial); got != 9<<7|4 {
			t.Errorf("%s: 0x%04x", row.name, got)
		}
	}
}

// TestAfarAnotherSwitch finds another machine behind the address after a lost
// connection.
func TestAfarAnotherSwitch(t *testing.T) {
	ctx := t.Context()
	w := newWire(t)
	lost := errors.New("the cable is cut")
	var cut bool
	kernel := ""
	d := openAfarBy(t, func(context.Context) (Runner, error) {
		return &otherKernel{Runner: &shellRunner{n: w.netns, before: func(string) error {
			if cut {
				cut = false
				return lost
			}
			return nil
		}}, release: &kernel}, nil
	})
	for _, row := range []struct {
		kernel string
		depths int
	}{{"", maxDepth}, {"5.16.2", 0}, {"6.8.0-rc1", maxDepth}, {"6.7.9", 0}, {"4.4", 0}, {"10.0", maxDepth}} {
		kernel = row.kernel
		cut = true
		if _, err := d.Observe(ctx); !errors.Is(err, lost) {
			t.Fatal(err)
		}
		f, err := d.Probe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range f.Depths {
			if (v.Level == vlanrules.Full) != (k <= row.depths) {
				t.Errorf("Linux %s, behind %d VLAN tags: %+v", row.kernel, k, v)
			}
		}
	}
}

// otherKernel answers uname otherwise.
type otherKernel struct {
	Runner
	release *string
}

func (o *otherKernel) Run(ctx context.Context, command string, stdin []byte) ([]byte, error) {
	out, err := o.Runner.Run(ctx, command, stdin)
	if strings.Contains(command, "uname -r") && err == nil && *o.release != "" {
		lines := bytes.Split(out, []byte("\n"))
		lines[1] = []byte(*o.release)
		out = bytes.Join(lines, []byte("\n"))
	}
	return out, err
}

// TestAfarUsers logs in as somebody else than root, by commands that stand in
// for id, sudo and nft.
func TestAfarUsers(t *testing.T) {
	for _, row := range []struct{ name, sudo, says string }{
		{"sudo", `[ "$1" = -n ] && shift; AS_ROOT=yes exec "$@"`, ""},
		{"no sudo", `echo sudo: a password is required >&2; exit 1`, "permit it sudo nft without a password"},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx := t.Context()
			w := newWire(t)
			dir := t.TempDir()
			for name, text := range map[string]string{
				"id":   "echo 1000",
				"sudo": row.sudo,
				"nft":  `[ "$AS_ROOT" = yes ] || [ "$1" = --version ] || { echo Operation not permitted >&2; exit 1; }; exec ` + lookPath(t, "nft") + ` "$@"`,
				"ip":   `[ "$AS_ROOT" = yes ] || [ "$1" = -j ] || { echo Operation not permitted >&2; exit 1; }; exec ` + lookPath(t, "ip") + ` "$@"`,
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			d := openAfarBy(t, func(context.Context) (Runner, error) { return pathRunner{&shellRunner{n: w.netns}, dir}, nil })
			err := d.Apply(ctx, setupFor(updatePort))
			if row.says != "" {
				permanent(t, err, "", row.says)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if res, err := d.Update(ctx, []vendors.PortUpdate{one(9, 4)}, time.Minute); err != nil || !res.Leased {
				t.Errorf("%+v, %v", res, err)
			}
			if err := d.SetMTU(ctx, "swp1", 3000); err != nil {
				t.Error(err)
			}
		})
	}
}

func lookPath(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: install it (Debian: apt-get install iproute2 nftables)", err)
	}
	return path
}

// pathRunner looks for commands in a directory first.
type pathRunner struct {
	Runner
	dir string
}

func (p pathRunner) Run(ctx context.Context, command string, stdin []byte) ([]byte, error) {
	return p.Runner.Run(ctx, "PATH="+p.dir+":$PATH; export PATH; "+command, stdin)
}

var (
	_ Runner = (*ssh.Client)(nil)
	_ Runner = (*ssh.Root)(nil)
)
