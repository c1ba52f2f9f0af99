package sonic

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vendors/vendorstest/freeport"
)

// TestRemote drives a switch through a real sshd: its database_config.json, its
// Redis behind a unix socket or a TCP port, and a cable that is cut.
func TestRemote(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, sshtest.Options{Port: freeport.TCP(t)})

	l := newLab(t, sonictest.R202311, "Ethernet0")
	_ = l.Driver.Close()
	var mu sync.Mutex
	var conns []net.Conn
	cut := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			c.Close()
		}
	}
	cfg := vendors.Config{
		Device: inventory.Device{Name: "leaf", Platform: "sonic", Address: s.Address, Management: inventory.Management{SSH: &s.Login, Own: map[string]inventory.PlatformKeys{"redis": &Keys{Databases: l.sw.Redis.File}}}},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, c)
			return c, err
		},
	}
	open := func() *Driver {
		t.Helper()
		db, err := Redis(cfg)
		if err != nil {
			t.Fatal(err)
		}
		d := Open(Config{Redis: db})
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	l.Driver = open()
	want := setupOf(quantize.Draft00, "Ethernet0")
	l.apply(want)
	u := vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)}
	l.update(u)

	cut()
	u.Intents = intents(5, 3, 3, 3)
	l.expect([]vendors.PortUpdate{u})
	if res, err := l.Update(t.Context(), []vendors.PortUpdate{u}, time.Second); err == nil || res.Leased {
		t.Errorf("with the cable cut: %+v, %v", res, err)
	}
	// The server at the other end sees it a moment later, and the old listener
	// goes with it.
	for end := time.Now().Add(time.Minute); ; {
		res, err := l.Update(t.Context(), []vendors.PortUpdate{u}, time.Second)
		if err == nil && res.Leased {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the cable is back: %+v, %v", res, err)
		}
	}
	l.exact()
	if err := l.Close(); err != nil {
		t.Error(err)
	}

	// A file that is asked for and is not there; a password that is not wanted.
	cfg.Device.Management.Own = map[string]inventory.PlatformKeys{"redis": &Keys{Databases: filepath.Join(t.TempDir(), "none.json")}}
	if _, err := open().Observe(t.Context()); err == nil || !strings.Contains(err.Error(), "none.json") {
		t.Errorf("no map: %v", err)
	}
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("hunter22"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Device.Management.Own = map[string]inventory.PlatformKeys{"redis": &Keys{Databases: l.sw.Redis.File, Password: inventory.Secret{File: secret}}}
	if _, err := open().Observe(t.Context()); err == nil || strings.Contains(err.Error(), "hunter22") || !strings.Contains(err.Error(), "its password") {
		t.Errorf("a password that is not wanted: %v", err)
	}
	l.sw.Redis.Do(0, "CONFIG", "SET", "requirepass", "hunter22")
	have, err := open().Observe(t.Context())
	if err != nil || have.TPID != want.TPID {
		t.Errorf("with its password: %+v, %v", have, err)
	}
	cfg.Device.Management.Own = map[string]inventory.PlatformKeys{"redis": &Keys{Databases: l.sw.Redis.File}}
	if _, err := open().Observe(t.Context()); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without its password: %v", err)
	}
	// TCP, which SONiC's Redis has at the switch's own 127.0.0.1.
	cfg.Device.Management.Own = map[string]inventory.PlatformKeys{"redis": &Keys{Port: listenTCP(t, l.sw.Redis, "hunter22"), Password: inventory.Secret{File: secret}}}
	if have, err := open().Observe(t.Context()); err != nil || have.TPID != want.TPID {
		t.Errorf("by TCP: %+v, %v", have, err)
	}
}

// TestRemoteSudo drives a switch as an account that may not open Redis' socket, and
// becomes root by sudo.
func TestRemoteSudo(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("an ordinary user's sshd has no other accounts: protocol/ssh says what can be tried without")
		return
	}
	l := newLab(t, sonictest.R202405, "Ethernet0")
	_ = l.Driver.Close()
	for _, name := range []string{l.sw.Redis.File, l.sw.Redis.Socket} {
		if err := os.Chmod(name, 0o600); err != nil { // only root
			t.Fatal(err)
		}
	}
	s := sshtest.Start(t, sshtest.Options{Port: freeport.TCP(t), Account: &sshtest.Account{Name: "netops", Sudoers: "Defaults !fqdn\nnetops ALL=(root) ALL\n"}})
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte(sshtest.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(sudo *inventory.Sudo) *Driver {
		t.Helper()
		login := s.Login
		login.Sudo = sudo
		db, err := Redis(vendors.Config{Device: inventory.Device{Name: "leaf", Platform: "sonic", Address: s.Address,
			Management: inventory.Management{SSH: &login, Own: map[string]inventory.PlatformKeys{"redis": &Keys{Databases: l.sw.Redis.File}}}}})
		if err != nil {
			t.Fatal(err)
		}
		d := Open(Config{Redis: db})
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	if _, err := open(nil).Observe(t.Context()); err == nil || !strings.Contains(err.Error(), "Permission denied") {
		t.Errorf("without sudo: %v", err)
	}
	if _, err := open(&inventory.Sudo{}).Observe(t.Context()); !vendors.IsPermanent(err) || !strings.Contains(err.Error(), "the fleet file has none") {
		t.Errorf("without the password: %v", err)
	}
	l.Driver = open(&inventory.Sudo{Password: inventory.Secret{File: secret}})
	l.apply(setupOf(quantize.Draft00, "Ethernet0"))
	l.update(vendors.PortUpdate{Port: "Ethernet0", Intents: intents(5, 21, 10, 11)})
	l.clean()
}

// TestReach: how a device is reached that cannot be.
func TestReach(t *testing.T) {
	t.Parallel()
	for _, dev := range []inventory.Device{{Name: "a"}, {Name: "a", Management: inventory.Management{SSH: &inventory.SSH{User: "x"}}}} {
		if _, err := Redis(vendors.Config{Device: dev}); err == nil {
			t.Errorf("%+v is reached", dev)
		}
	}
}

// listenTCP makes the server listen at a TCP port, too; password is its own.
func listenTCP(t *testing.T, r *sonictest.Redis, password string) uint16 {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	c, err := redis.Dial("unix", r.Socket)
	if err == nil {
		_, err = c.Do("AUTH", password)
	}
	if err == nil {
		_, err = c.Do("CONFIG", "SET", "port", port)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	return uint16(port)
}
