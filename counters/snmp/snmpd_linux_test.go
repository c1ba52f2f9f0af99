package snmp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gosnmp/gosnmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/secret"
)

// ifTableCache is net-snmp's cache of the interface table, in seconds. Only a SET
// at run time changes it.
const ifTableCache = ".1.3.6.1.4.1.8072.1.5.3.1.2.1.3.6.1.2.1.2.2"

// daemon is a net-snmp snmpd on the loopback.
type daemon struct {
	dir  string
	port uint16
	cmd  *exec.Cmd
}

const snmpdConf = `
rwcommunity public
createUser plain
createUser md5des MD5 "auth-pass-phrase" DES "priv-pass-phrase"
createUser sha SHA "auth-pass-phrase"
createUser sha224 SHA-224 "auth-pass-phrase" AES "priv-pass-phrase"
createUser sha256 SHA-256 "auth-pass-phrase" AES "priv-pass-phrase"
createUser sha384 SHA-384 "auth-pass-phrase" AES-192 "priv-pass-phrase"
createUser sha512 SHA-512 "auth-pass-phrase" AES-256 "priv-pass-phrase"
createUser cisco SHA-256 "auth-pass-phrase" AES-256-C "priv-pass-phrase"
rouser plain noauth
rouser md5des priv
rouser sha auth
rouser sha224 priv
rouser sha256 priv
rouser sha384 priv
rouser sha512 priv
rouser cisco priv
`

func command(t testing.TB, name string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/bin") {
		if p := filepath.Join(dir, name); unix.Access(p, unix.X_OK) == nil {
			return p
		}
	}
	t.Fatalf("%s is missing: apt-get install snmpd snmp", name)
	return ""
}

func startDaemon(t testing.TB) *daemon {
	t.Helper()
	free, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{dir: t.TempDir(), port: uint16(free.LocalAddr().(*net.UDPAddr).Port)}
	free.Close()
	conf := fmt.Sprintf("agentaddress udp:127.0.0.1:%d\n%s", d.port, snmpdConf)
	if err := os.WriteFile(filepath.Join(d.dir, "test.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	d.start(t)
	t.Cleanup(func() { d.stop() })
	return d
}

func (d *daemon) start(t testing.TB) {
	t.Helper()
	d.cmd = exec.Command(command(t, "snmpd"), "-f", "-C", "-c", filepath.Join(d.dir, "test.conf"), "-Lf", filepath.Join(d.dir, "log"))
	d.cmd.Env = append(os.Environ(), "SNMP_PERSISTENT_DIR="+filepath.Join(d.dir, "persistent"))
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g := d.client(t)
	for deadline := time.Now().Add(time.Minute); ; {
		if _, err := g.Get([]string{sysUpTime.at(0).dotted()}); err == nil {
			return
		} else if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(d.dir, "log"))
			t.Fatalf("snmpd does not answer: %v\n%s", err, log)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// stop ends snmpd in the orderly way, which saves its engine boots.
func (d *daemon) stop() {
	if d.cmd.ProcessState == nil {
		_ = d.cmd.Process.Signal(syscall.SIGTERM)
		_ = d.cmd.Wait()
	}
}

// client is a bare gosnmp client.
func (d *daemon) client(t testing.TB) *gosnmp.GoSNMP {
	t.Helper()
	g := &gosnmp.GoSNMP{
		Target: "127.0.0.1", Port: d.port, Version: gosnmp.Version2c, Community: "public",
		Timeout: patience, MaxOids: 1 << 16, Context: context.Background(),
	}
	if err := g.Connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// cache sets how long snmpd keeps the interface table.
func (d *daemon) cache(t testing.TB, seconds int) {
	t.Helper()
	r, err := d.client(t).Set([]gosnmp.SnmpPDU{{Name: ifTableCache, Type: gosnmp.Integer, Value: seconds}})
	if err != nil || r.Error != gosnmp.NoError {
		t.Fatalf("set snmpd's cache: %v, %v", err, r)
	}
}

// patience is how long snmpd may take for an answer on a machine that does much else.
const patience = 30 * time.Second

func (d *daemon) config(ports ...string) Config {
	return Config{Device: "lab", Address: "127.0.0.1", Port: d.port, Community: "public", Ports: ports, Timeout: patience}
}

func (d *daemon) user(user, auth, priv string, ports ...string) Config {
	c := Config{Device: "lab", Address: "127.0.0.1", Port: d.port, Version: V3, User: user, Auth: auth, Priv: priv, Ports: ports, Timeout: patience}
	if auth != "" {
		c.AuthPassphrase = "auth-pass-phrase"
	}
	if priv != "" {
		c.PrivPassphrase = "priv-pass-phrase"
	}
	return c
}

// addVeth makes a veth pair, up, which the test removes.
func addVeth(t testing.TB, name, peer string) netlink.Link {
	t.Helper()
	for _, n := range []string{"all", "default"} { // no frames but the test's own
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+n+"/disable_ipv6", []byte("1"), 0)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: peer}); err != nil {
		t.Fatalf("veth %s: %v", name, err)
	}
	for _, n := range []string{peer, name} {
		l, err := netlink.LinkByName(n)
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err != nil {
			t.Fatalf("veth %s: %v", n, err)
		}
	}
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if l, err := netlink.LinkByName(name); err == nil {
			_ = netlink.LinkDel(l)
		}
	})
	return l
}

// awaitUp waits until the kernel reports devices as up.
func awaitUp(t testing.TB, ports []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, name := range ports {
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = fabric.AwaitUp(ctx, l.Attrs().Index)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// send puts n frames of size bytes on the link.
func send(t testing.TB, l netlink.Link, n, size int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	frame := make([]byte, size)
	copy(frame, "\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x88\xb5")
	to := &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index, Protocol: 0xb588}
	for range n {
		if err := unix.Sendto(fd, frame, 0, to); err != nil {
			t.Fatal(err)
		}
	}
}

func kernel(t testing.TB, name string) *netlink.LinkStatistics {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return l.Attrs().Statistics
}

// The real agent, every security level: what it says is what the kernel counts.
func TestSnmpd(t *testing.T) {
	d := startDaemon(t)
	var ports []string
	links := map[string]netlink.Link{}
	for i := range 12 { // more than one request reads
		name := fmt.Sprintf("tor%d", i)
		links[name] = addVeth(t, name, fmt.Sprintf("host%d", i))
		ports = append(ports, name, fmt.Sprintf("host%d", i))
	}
	awaitUp(t, ports)
	d.cache(t, 0)
	tests := []struct {
		name string
		cfg  Config
	}{
		{"v2c", d.config(ports...)},
		{"noAuthNoPriv", d.user("plain", "", "", ports...)},
		{"authNoPriv SHA", d.user("sha", "SHA", "", ports...)},
		{"authPriv MD5 DES", d.user("md5des", "MD5", "DES", ports...)},
		{"authPriv SHA-224 AES", d.user("sha224", "SHA224", "AES", ports...)},
		{"authPriv SHA-256 AES", d.user("sha256", "SHA256", "AES", ports...)},
		{"authPriv SHA-384 AES-192 Blumenthal", d.user("sha384", "SHA384", "AES192", ports...)},
		{"authPriv SHA-512 AES-256 Blumenthal", d.user("sha512", "SHA512", "AES256", ports...)},
		{"authPriv SHA-256 AES-256 Reeder", d.user("cisco", "SHA256", "AES256C", ports...)},
	}
	for k, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, tt.cfg)
			for round := range 4 { // one for each shape
				for i, name := range ports {
					if l := links[name]; l != nil {
						send(t, l, 10*(k+1)+i, 64+100*round)
					}
				}
				for _, smp := range mustRead(t, s) {
					want := kernel(t, smp.Port)
					if smp.Octets != want.TxBytes || smp.Packets != want.TxPackets {
						t.Fatalf("%s: %d octets %d packets, kernel %d %d", smp.Port, smp.Octets, smp.Packets, want.TxBytes, want.TxPackets)
					}
					if !smp.Up || smp.Speed != 10e9 || smp.Overhead != 24 || smp.Bits != 64 || smp.Degraded != "" || smp.Cache != 3*time.Second {
						t.Fatalf("%+v", smp)
					}
				}
			}
			if details, limits := s.Details(); s.discards() != DiscardsExcluded || !s.hasLastChange || len(limits) != 0 || !strings.HasPrefix(details[0], "Linux ") {
				t.Errorf("%q, %q", details, limits)
			}
		})
	}
}

func TestSnmpdInterfaceEvents(t *testing.T) {
	d := startDaemon(t)
	d.cache(t, 0)
	for _, cfg := range []Config{d.config("tor0", "tor1"), d.user("sha256", "SHA256", "AES", "tor0", "tor1")} {
		t.Run(string(cfg.Version), func(t *testing.T) {
			addVeth(t, "tor0", "host0")
			other := addVeth(t, "tor1", "host1")
			s := open(t, cfg)
			first := mustRead(t, s)

			host, err := netlink.LinkByName("host0")
			if err != nil {
				t.Fatal(err)
			}
			if err := netlink.LinkSetDown(host); err != nil {
				t.Fatal(err)
			}
			// The kernel reports a lost carrier a little later.
			deadline := time.Now().Add(time.Minute)
			for got := mustRead(t, s); got[0].Up; got = mustRead(t, s) {
				if !got[1].Up || time.Now().After(deadline) {
					t.Fatalf("link down: up %v %v", got[0].Up, got[1].Up)
				}
			}

			// The interface is made again: same name, another ifIndex. net-snmp
			// keeps the old row.
			l, err := netlink.LinkByName("tor0")
			if err != nil {
				t.Fatal(err)
			}
			if err := netlink.LinkDel(l); err != nil {
				t.Fatal(err)
			}
			second := addVeth(t, "tor0", "host0")
			send(t, second, 5, 100)
			send(t, other, 5, 100)
			s.surveyed = s.surveyed.Add(-lookAgain) // let time pass
			for got := mustRead(t, s); ; got = mustRead(t, s) {
				if got[0].Up {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("made again and never up: %+v", got[0])
				}
				s.surveyed = s.surveyed.Add(-lookAgain)
			}
			got := mustRead(t, s)
			if got[0].Octets != 500 || got[0].Epoch == first[0].Epoch || s.ports[0].index != uint32(second.Attrs().Index) {
				t.Errorf("made again: %+v, %+v", got[0], s.ports[0].index)
			}
			if want := kernel(t, "tor1"); got[1].Octets != want.TxBytes || got[1].Epoch != first[1].Epoch {
				t.Errorf("the other port: %+v", got[1])
			}
		})
	}
}

// net-snmp keeps the old name of an interface that was renamed, and with the
// counters of that instant: zero traffic, if it were believed.
func TestSnmpdRenamedInterface(t *testing.T) {
	d := startDaemon(t)
	d.cache(t, 0)
	link := addVeth(t, "tor0", "host0")
	t.Cleanup(func() { _ = netlink.LinkDel(link) }) // under whichever name
	addVeth(t, "tor1", "host1")
	s := open(t, d.config("tor0", "tor1"))
	if got := mustRead(t, s); got[0].Err != nil || got[1].Err != nil {
		t.Fatalf("%+v", got)
	}
	if err := netlink.LinkSetDown(link); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetName(link, "spine0"); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		got := read(t, s)
		if got[1].Err != nil {
			t.Fatalf("the other port: %v", got[1].Err)
		}
		if err := got[0].Err; err != nil {
			if !errors.Is(err, ErrRenamed) || !strings.Contains(err.Error(), "spine0") || !strings.Contains(err.Error(), "restart snmpd") {
				t.Fatal(err)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("never noticed")
		}
	}
	// One that csig meets like that for the first time, too.
	if got := read(t, open(t, d.config("tor0", "tor1"))); !errors.Is(got[0].Err, ErrRenamed) || got[1].Err != nil {
		t.Errorf("%v, %v", got[0].Err, got[1].Err)
	}
	d.stop()
	d.start(t)
	if got := mustRead(t, open(t, d.config("spine0", "tor1"))); got[0].Err != nil || got[1].Err != nil {
		t.Errorf("under the new name: %v, %v", got[0].Err, got[1].Err)
	}
}

func TestLinkNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"eth0": true, "swp1.100": true, "": false, "Intel Corporation I350": false, "Device 1d0f:ec20": false, "abcdefghijklmnop": false} {
		if isLinkName([]byte(text)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func TestSnmpdCredentials(t *testing.T) {
	t.Parallel()
	d := startDaemon(t)
	tests := []struct {
		name string
		edit func(c *Config)
	}{
		{"unknown user", func(c *Config) { c.User = "other" }},
		{"wrong auth passphrase", func(c *Config) { c.AuthPassphrase = "wrong-secret-1" }},
		{"wrong auth protocol", func(c *Config) { c.Auth = "SHA512" }},
		{"wrong priv passphrase", func(c *Config) { c.PrivPassphrase = "wrong-secret-2" }},
		{"wrong priv protocol", func(c *Config) { c.Priv = "AES256" }},
		{"level too low", func(c *Config) { c.Priv, c.PrivPassphrase = "", "" }},
		{"level too high", func(c *Config) { c.User = "plain" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := d.user("sha256", "SHA256", "AES", "lo")
			cfg.Retries = -1
			if strings.HasPrefix(tt.name, "wrong priv") {
				cfg.Timeout = 500 * time.Millisecond // an answer need not come
			}
			tt.edit(&cfg)
			_, err := open(t, cfg).Read(t.Context(), nil)
			if err == nil {
				t.Fatal("the agent let it pass")
			}
			var status *StatusError
			switch {
			case errors.Is(err, ErrCredentials), errors.As(err, &status):
			case strings.HasPrefix(tt.name, "wrong priv") && (errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrMalformed)):
				// What garbage decrypts to decides whether the agent can say so.
			default:
				t.Errorf("%v", err)
			}
			for _, secret := range []string{"wrong-secret", "pass-phrase", "goroutine"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q is in %v", secret, err)
				}
			}
			if !strings.Contains(err.Error(), "device lab") {
				t.Errorf("%v names no device", err)
			}
		})
	}
}

// An agent that restarts, with and without its memory of engine boots and
// engine ID, is read again by the next reading.
func TestSnmpdRestart(t *testing.T) {
	addVeth(t, "tor0", "host0")
	d := startDaemon(t)
	sources := []*Source{
		open(t, d.config("tor0")),
		open(t, d.user("plain", "", "", "tor0")),
		open(t, d.user("sha", "SHA", "", "tor0")),
		open(t, d.user("sha512", "SHA512", "AES256", "tor0")),
	}
	for round, restart := range []bool{false, false, true, false} {
		for _, s := range sources {
			mustRead(t, s)
		}
		d.stop()
		for _, s := range sources {
			if _, err := s.Read(t.Context(), nil); !errors.Is(err, ErrNoAnswer) {
				t.Errorf("round %d: stopped agent: %v", round, err)
			}
		}
		if restart {
			if err := os.RemoveAll(filepath.Join(d.dir, "persistent")); err != nil {
				t.Fatal(err)
			}
		}
		d.start(t)
		for _, s := range sources {
			list, err := s.Read(t.Context(), nil)
			if err != nil || list[0].Err != nil {
				t.Fatalf("round %d, restart %v: %v %v", round, restart, s.cfg.User, err)
			}
		}
	}
}

// A clock that is wrong on either side is put right within the reading.
func TestSnmpdTimeWindow(t *testing.T) {
	t.Parallel()
	d := startDaemon(t)
	s := open(t, d.user("sha512", "SHA512", "AES256", "lo"))
	mustRead(t, s)
	for _, boots := range []uint32{5, 0} {
		usm := s.sess.(*v3).g.SecurityParameters.(*gosnmp.UsmSecurityParameters)
		usm.AuthoritativeEngineBoots += boots
		usm.AuthoritativeEngineTime += 100_000
		mustRead(t, s)
	}
}

// SNMPv3, too, reads past what is no answer: garbage, halves, and answers to earlier
// requests.
func TestSnmpdStrayDatagrams(t *testing.T) {
	d := startDaemon(t)
	addVeth(t, "tor0", "host0")
	d.cache(t, 0)
	cfg := d.user("sha256", "SHA256", "AES", "tor0")
	cfg.Retries = -1
	var late []byte
	var ids []int32
	var mu sync.Mutex
	cfg.Port = meddler(t, cfg.Port, func(answer []byte) [][]byte {
		out := [][]byte{
			nil, {0x30}, []byte("HTTP/1.1 400"), {0x30, 0x03, 0x02, 0x01, 0x03},
			bytes.Repeat([]byte{0xff}, 60_000), answer[:len(answer)/2], append(bytes.Clone(answer), 0), late,
		}
		late = answer
		id, _ := msgID(answer)
		mu.Lock()
		ids = append(ids, id)
		mu.Unlock()
		return out
	})
	s := open(t, cfg)
	for range 6 {
		mustRead(t, s)
	}
	mu.Lock()
	defer mu.Unlock()
	near := 0
	for i := 1; i < len(ids); i++ {
		if d := ids[i] - ids[i-1]; d > 0 && d < 1<<10 {
			near++
		}
	}
	if near > len(ids)/3 { // the discovery of the engine is gosnmp's affair
		t.Errorf("msgIDs that can be foreseen: %d", ids)
	}
}

// TestAgentsAsSnmpd asks the agents in memory the same as a real one: kinds of values, names that follow, what is
// missing, and silence to another community.
func TestAgentsAsSnmpd(t *testing.T) {
	d := startDaemon(t)
	link := addVeth(t, "swp1", "far1")
	awaitUp(t, []string{"swp1"})
	d.cache(t, 0)
	fake := newAgent(t)
	ask := func(cfg Config, index uint32) (out string) {
		gets := []oid{sysDescr.at(0), sysObjectID.at(0), sysUpTime.at(0), ifTableLastChange.at(0), sysUpTime.at(9), {1, 3, 6, 1, 2, 1, 999, 0}}
		for c := range nColumns {
			gets = append(gets, c.oid().at(index), c.oid().at(99_999))
		}
		requests := []*pdu{
			{kind: gosnmp.GetBulkRequest, repetitions: 1, names: []string{ifName.oid().at(index - 1).dotted()}},
			{kind: gosnmp.GetBulkRequest, repetitions: 1, names: []string{oid{1, 3, 6, 1, 6, 99_999}.dotted()}},
		}
		for _, o := range gets {
			p := &pdu{kind: gosnmp.GetRequest}
			p.ask(o, noPort, nColumns)
			requests = append(requests, p)
		}
		for _, community := range []string{"public", "private"} {
			if cfg.Community = secret.Text(community); community == "private" {
				cfg.Timeout, cfg.Retries, requests = 100*time.Millisecond, -1, requests[:1]
				requests[0].msg = nil
			}
			s := open(t, cfg)
			done, err := s.arm(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			for i, p := range requests {
				out += fmt.Sprintf("%d: %v", i, s.ask(t.Context(), p))
				for _, b := range s.answer.binds {
					if b.kind == gosnmp.NoSuchObject {
						b.kind = gosnmp.NoSuchInstance // which csig takes for the same
					}
					same, _ := suffix(ifName.oid().encode(nil), b.oid)
					out += fmt.Sprintf(" %v %t", b.kind, same == index)
				}
				out += "\n"
				s.answer.binds = nil
			}
		}
		return out
	}
	_, other := inMemory(t, 1, nil)
	want := ask(d.config("swp1"), uint32(link.Attrs().Index))
	fake.many(1)
	for name, cfg := range map[string]Config{"the test's own": fake.config("swp1"), "snmptest's": other} {
		if got := ask(cfg, 1); got != want {
			t.Errorf("%s answers\n%swant\n%s", name, got, want)
		}
	}
}
