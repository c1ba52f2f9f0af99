package linux

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ssh"
	"github.com/csig-agent/csig/vendors/ssh/sshtest"
	"github.com/csig-agent/csig/vlanrules"
)

// openSSH starts a real sshd inside the namespace and returns a driver that
// logs in there. sshd changes users, which only the machine's own root can:
// inside a user namespace the commands run without SSH.
func openSSH(t testing.TB, n *netns) *Afar {
	t.Helper()
	d, _ := openSSHAs(t, n, nil)
	return d
}

// openSSHAs is openSSH for an account that becomes root by sudo, unless that is
// nil. cut ends the connection there is.
func openSSHAs(t testing.TB, n *netns, account *sshtest.Account) (d *Afar, cut func()) {
	t.Helper()
	if !realRoot(t) {
		d = openAfar(t, n)
		return d, func() { d.run.(*shellRunner).closed = true }
	}
	n.ip("link set lo up")
	s := sshtest.Start(t, sshtest.Options{Account: account, Start: func(c *exec.Cmd) error { return n.do(c.Start) }})
	var last net.Conn
	dial := func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = n.do(func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			last = conn
			return err
		})
		return conn, err
	}
	cfg := ssh.Config{Address: s.Address, Login: s.Login, Dial: dial}
	if account != nil {
		path := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(path, []byte(sshtest.Password), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg.Login.Sudo = &inventory.Sudo{Password: inventory.Secret{File: path}}
	}
	return openAfarBy(t, func(ctx context.Context) (Runner, error) {
		if account != nil {
			r, err := ssh.DialRoot(ctx, cfg)
			if err != nil {
				return nil, err
			}
			return r, nil
		}
		c, err := ssh.Dial(ctx, cfg)
		if err != nil {
			return nil, err
		}
		return c, nil
	}), func() { last.Close() }
}

// admin becomes root by sudo, on a terminal of sudo's own, with a password.
var admin = sshtest.Account{Name: "admin", Sudoers: "Defaults !fqdn, use_pty\nadmin ALL=(root) ALL\n"}

// TestSSH drives 64 ports of a switch behind sshd through a life: what is
// there is what the netlink driver would have left.
func TestSSH(t *testing.T) {
	t.Run("root", func(t *testing.T) { testLife(t, nil) })
	t.Run("sudo", func(t *testing.T) { testLife(t, &admin) })
}

func testLife(t *testing.T, account *sshtest.Account) {
	const ports = 64
	ctx := t.Context()
	n, s := newPorts(t, ports)
	by, _ := newPorts(t, ports)
	d, cut := openSSHAs(t, n, account)
	reference, direct := openDriver(t, by), openDriver(t, n)
	f, err := d.Probe(ctx)
	if err != nil || f.Update.Level != vlanrules.Full {
		t.Fatal(f, err)
	}
	t.Log(strings.Join(f.Notes[len(f.Notes)-2:], "\n"))
	timed := func(what string, f func() error) {
		t.Helper()
		start := time.Now()
		if err := f(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Logf("%s: %v", what, time.Since(start).Round(100*time.Microsecond))
	}
	apply(t, reference, s)
	timed("Apply", func() error { return d.Apply(ctx, s) })
	timed("Apply again", func() error { return d.Apply(ctx, s) })
	for cycle := range 4 {
		u := walk(nil, s, cycle)
		update(t, reference, time.Minute, u...)
		timed("Update of every port", func() error {
			res, err := d.Update(ctx, u, time.Minute)
			if err == nil && (!res.Leased || res.Ports != ports || res.Repaired != "") {
				t.Errorf("%+v", res)
			}
			return err
		})
	}
	timed("Update of nothing", func() error { _, err := d.Update(ctx, walk(nil, s, 3), time.Minute); return err })
	if got, want := n.listing(), by.listing(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	want, err := direct.Observe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	timed("Observe", func() error {
		got, err := d.Observe(ctx)
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		return err
	})
	timed("Health", func() error {
		got, err := d.Health(ctx)
		if err == nil && len(got) < ports {
			t.Errorf("the health of %d ports", len(got))
		}
		return err
	})
	if err := d.SetMTU(ctx, s.Ports[0].Port, 1400); err != nil {
		t.Error(err)
	}
	if mtus, err := d.MTUs(ctx); err != nil || mtus[s.Ports[0].Port] != 1400 {
		t.Error(mtus, err)
	}
	// A connection that is lost comes back.
	cut()
	if _, err := d.Observe(ctx); err == nil {
		t.Error("the connection was not lost")
	}
	timed("Observe after logging in again", func() error {
		got, err := d.Observe(ctx)
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		return err
	})
	// The agent of the switch itself takes over without a change.
	start := generation(t, direct)
	apply(t, direct, s)
	if now := generation(t, direct); now != start {
		t.Errorf("the driver on the switch made %d transactions", now-start)
	}
	timed("Release", func() error { return d.Release(ctx) })
	timed("Remove", func() error { return d.Remove(ctx) })
	if left := n.run("nft", "list", "ruleset"); left != "" {
		t.Errorf("left behind:\n%s", left)
	}
}

// TestSSHLongScript has a setup whose script is about a megabyte.
func TestSSHLongScript(t *testing.T) {
	ctx := t.Context()
	n, s := newPorts(t, 512)
	d, _ := openSSHAs(t, n, &admin)
	script, err := Script(vendors.Setup{}, s)
	if err != nil {
		t.Fatal(err)
	}
	if len(script) < 900_000 {
		t.Errorf("a script of %d bytes is not long", len(script))
	}
	start := time.Now()
	if err := d.Apply(ctx, s); err != nil {
		t.Fatal(err)
	}
	t.Logf("Apply of 512 ports, %d bytes: %v", len(script), time.Since(start))
	start = time.Now()
	res, err := d.Update(ctx, walk(nil, s, 0), time.Minute)
	if err != nil || res.Ports != 512 {
		t.Fatal(res, err)
	}
	t.Logf("Update of 512 ports: %v", time.Since(start))
}

// TestAfarFlips changes a bucket from afar under a flood: every frame leaves
// with the old or the new value, and none without one.
func TestAfarFlips(t *testing.T) {
	ctx := t.Context()
	w := newWire(t)
	d := openSSH(t, w.netns)
	if err := d.Apply(ctx, setupFor(updatePort)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Update(ctx, []vendors.PortUpdate{one(3, 1)}, time.Minute); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		for i := range 20 {
			if _, err := d.Update(ctx, []vendors.PortUpdate{one(3+uint8(i%2)*6, 1+uint16(i%2))}, time.Minute); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	seen := map[uint16]int{}
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			t.Log(seen)
			if len(seen) != 2 || seen[3<<7|1] == 0 || seen[9<<7|2] == 0 {
				t.Errorf("frames left with %v", seen)
			}
			return
		default:
			seen[w.value(initial)]++
		}
	}
}

// BenchmarkAfarUpdate is one update over SSH in which every port's two buckets
// change, and one in which none does: the shortest interval there is.
func BenchmarkAfarUpdate(b *testing.B) {
	for _, row := range []struct {
		who     string
		ports   int
		account *sshtest.Account
	}{{"root", 1, nil}, {"root", 64, nil}, {"sudo", 1, &admin}, {"sudo", 64, &admin}} {
		n, s := newPorts(b, row.ports)
		d, _ := openSSHAs(b, n, row.account)
		if err := d.Apply(b.Context(), s); err != nil {
			b.Fatal(err)
		}
		for name, step := range map[string]int{"every": 1, "none": 0} {
			b.Run(fmt.Sprintf("%s/%s/%d", row.who, name, row.ports), func(b *testing.B) {
				b.ReportAllocs()
				var took []time.Duration
				cycle := 0
				for b.Loop() {
					cycle += step
					start := time.Now()
					if _, err := d.Update(b.Context(), walk(nil, s, cycle), time.Minute); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(start))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
			})
		}
	}
}

func TestOffline(t *testing.T) {
	d := openDriver(t, newNetNS(t))
	probed, err := d.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, afar := range []bool{false, true} {
		f := Offline(afar)
		if !reflect.DeepEqual(f.Rules, probed.Rules) || f.Update != probed.Update || f.Wide != probed.Wide || f.Lease != probed.Lease || !slices.Equal(f.Depths, probed.Depths) || f.Slack != probed.Slack {
			t.Errorf("promised %+v\nprobed %+v", f, probed)
		}
		if want := afar; (f.Strip.Level == vlanrules.Refused) != want {
			t.Errorf("afar %v: strip %+v", afar, f.Strip)
		}
	}
	setup := vendors.Setup{TPID: 0x9900, Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative, Ports: []vendors.PortSetup{updatePort}}
	changes, err := Diff(vendors.Setup{}, setup)
	if err != nil || len(changes) != 2 {
		t.Errorf("%v, %v", changes, err)
	}
}
