package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
)

// way is how csig drives a switch of a row.
type way int

const (
	byRow       way = iota // csig agent that the row starts, at a unix socket of this machine
	byDaemon               // csig agent that the test starts, at such a socket
	byDaemonSSH            // csig agent, at a unix socket that SSH forwards
	byDaemonTLS            // csig agent, at a TCP port with certificates of both ends
)

// row is switches in a row between two hosts, h1 ── s1 ── … ── sN ── h2, and
// the fleet file that describes them. csig runs in a namespace of its own, from
// which a link apart from the row leads to each switch that is driven remotely.
type row struct {
	fabric.Fabric
	t        testing.TB
	ways     []way
	switches []*fabric.Node
	h1, h2   *fabric.Port
	dir      string
	fleet    string       // path
	from     *fabric.Node // where csig runs
	ca       *tlstest.Authority
	net      byte // of the management links
}

// nets makes the addresses of rows differ: csig locks devices by them on this machine.
var nets atomic.Uint32

func init() { nets.Store(rand.Uint32()) }

// loopbackPort is one for the sshd of a switch at 127.0.0.1, by which csig locks such a device on this machine.
func loopbackPort() uint16 { return uint16(2300 + loopbackPorts.Add(1)%500) }

var loopbackPorts atomic.Uint32

func newRow(t testing.TB, n int) *row {
	t.Helper()
	return newMixedRow(t, make([]way, n)...)
}

func newMixedRow(t testing.TB, ways ...way) *row {
	t.Helper()
	r := &row{t: t, dir: t.TempDir(), ways: ways, net: byte(nets.Add(1))}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var text strings.Builder
	text.WriteString(`format: csig.fleet/v1
profile:
  name: row
  tpid: 0x9900
  layout: draft-00
  interval: 100ms
  signals: {abw: {buckets: log-100M}, abwc: {buckets: log}}
policy: {on_stale: conservative}
defaults: {platform: linux, port: {speed: 50M}}
hosts:
  - {name: h1, csig: true}
  - {name: h2, csig: true}
devices:
`)
	var err error
	r.from, err = r.AddHost("operator")
	check(err)
	a, err := r.AddHost("h1")
	check(err)
	near := fabric.End{Node: a, Port: "eth0"}
	var cables [][2]*fabric.Port
	for i, way := range ways {
		s, err := r.AddSwitch(fmt.Sprintf("s%d", i+1))
		check(err)
		p, q, err := r.Connect(near, fabric.End{Node: s, Port: "west"}, 0)
		check(err)
		cables = append(cables, [2]*fabric.Port{p, q})
		r.switches = append(r.switches, s)
		near = fabric.End{Node: s, Port: "east"}
		fmt.Fprintf(&text, "  - {name: %s, %s}\n", s.Name(), r.reached(i, way))
	}
	b, err := r.AddHost("h2")
	check(err)
	p, q, err := r.Connect(near, fabric.End{Node: b, Port: "eth0"}, 0)
	check(err)
	cables = append(cables, [2]*fabric.Port{p, q})
	r.h1, r.h2 = cables[0][0], q
	for i, s := range r.switches {
		check(s.Forward(r.h2.MAC, cables[i+1][0]))
		check(s.Forward(r.h1.MAC, cables[i][1]))
	}
	text.WriteString("links:\n  - h1 - s1:west\n")
	for i := 1; i < len(ways); i++ {
		fmt.Fprintf(&text, "  - s%d:east - s%d:west\n", i, i+1)
	}
	fmt.Fprintf(&text, "  - s%d:east - h2\n", len(ways))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	check(r.WaitUp(ctx))
	r.fleet = filepath.Join(r.dir, "row.yaml")
	check(os.WriteFile(r.fleet, []byte(text.String()), 0o600))
	for i, way := range ways {
		if way == byRow {
			r.daemon(i)
		}
	}
	return r
}

// reached prepares a switch to be driven in some way, and is what the fleet
// file has for that.
func (r *row) reached(i int, w way) string {
	r.t.Helper()
	socket := "daemon: {socket: " + r.socket(i) + "}"
	if w == byRow || w == byDaemon {
		return fmt.Sprintf("management: {netns: /proc/%d/fd/%d, %s}", os.Getpid(), r.switches[i].FD(), socket)
	}
	address := r.manage(i)
	if w == byDaemonTLS {
		if r.ca == nil {
			r.ca = tlstest.New(r.t)
			r.ca.Certify("operator")
		}
		name := r.switches[i].Name()
		r.ca.Certify(name)
		cert, key := r.ca.Files("operator")
		return fmt.Sprintf("address: %s, management: {daemon: {port: 7443, tls: {ca: %s, cert: %s, key: %s, server_name: %s}}}", address, r.ca.CA, cert, key, name)
	}
	s := r.switches[i]
	d := sshtest.Start(r.t, sshtest.Options{Address: address, Start: func(cmd *exec.Cmd) error { return s.Do(cmd.Start) }})
	ssh := fmt.Sprintf("ssh: {user: %s, port: %d, key: %s, known_hosts: %s}", d.Login.User, d.Login.Port, d.Login.Key, d.Login.KnownHosts)
	return "address: " + address + ", management: {" + ssh + ", " + socket + "}"
}

// manage lays the management link of a switch, and returns its address there.
func (r *row) manage(i int) string {
	r.t.Helper()
	s := r.switches[i]
	name := "to-" + s.Name()
	up := func(name, address string) error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(address)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(l, addr); err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	}
	err := r.from.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = name
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "mgmt", PeerNamespace: netlink.NsFd(s.FD())}); err != nil {
			return err
		}
		return up(name, fmt.Sprintf("10.%d.%d.1/24", r.net, i+1))
	})
	if err == nil {
		err = s.Do(func() error { return up("mgmt", r.address(i)+"/24") })
	}
	if err != nil {
		r.t.Fatalf("management link of %s: %v", s.Name(), err)
	}
	return r.address(i)
}

// address is a switch's on its management link.
func (r *row) address(i int) string { return fmt.Sprintf("10.%d.%d.2", r.net, i+1) }

// socket is where the daemon of a switch listens.
func (r *row) socket(i int) string { return r.path(r.switches[i].Name() + ".sock") }

// file is the configuration of a switch's daemon.
func (r *row) file(i int) string { return r.path(r.switches[i].Name() + ".yaml") }

// daemon starts the daemon of a switch.
func (r *row) daemon(i int) *agent {
	r.t.Helper()
	name := r.switches[i].Name()
	args := []string{"agent", "-i", r.file(i), "--socket", r.socket(i), "--wait", "--no-self-test"}
	if r.ways[i] == byDaemonTLS {
		cert, key := r.ca.Files(name)
		args = append(args, "--listen", r.address(i)+":7443", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", r.ca.CA, "--tls-change", "operator")
	}
	a := launchIn(r.t, r.switches[i].Command(csig, args...), r.socket(i))
	a.await("that it is there", func(s *api.Status) bool { return s.Waiting != "starting" })
	return a
}

// daemons starts the daemon of every switch whose daemon the row did not start.
func (r *row) daemons() []*agent {
	r.t.Helper()
	var out []*agent
	for i, w := range r.ways {
		if w != byRow {
			out = append(out, r.daemon(i))
		}
	}
	return out
}

// edit replaces a part of the fleet file, and returns a function that restores it.
func (r *row) edit(old, with string) (restore func()) {
	r.t.Helper()
	text := readFile(r.t, r.fleet)
	write := func(text string) {
		writeFile(r.t, r.fleet, []byte(text))
	}
	changed := strings.ReplaceAll(string(text), old, with)
	if changed == string(text) {
		r.t.Fatalf("no %q in\n%s", old, text)
	}
	write(changed)
	return func() { write(string(text)) }
}

// mtus is the MTU of every port of the row.
func (r *row) mtus() map[string]int {
	r.t.Helper()
	out := map[string]int{}
	for _, s := range r.switches {
		for _, name := range []string{"west", "east"} {
			err := s.Do(func() error {
				l, err := netlink.LinkByName(name)
				if err == nil {
					out[s.Name()+":"+name] = l.Attrs().MTU
				}
				return err
			})
			if err != nil {
				r.t.Fatal(err)
			}
		}
	}
	return out
}

// setMTU sets the MTU of one port, behind csig's back.
func (r *row) setMTU(i int, port string, mtu int) {
	r.t.Helper()
	err := r.switches[i].Do(func() error {
		l, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(l, mtu)
	})
	if err != nil {
		r.t.Fatal(err)
	}
}
