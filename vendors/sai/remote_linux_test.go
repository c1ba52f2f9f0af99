package sai

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vendors/vendorstest/freeport"
)

// TestRemote drives a switch through a real sshd: Redis, orchagent's process, the names that its SAI has, and its SAI server.
func TestRemote(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{Port: freeport.TCP(t)})
	remote(t, s, s.Login, func() {})
}

// TestRemoteSudo is TestRemote by an account that becomes root by sudo.
func TestRemoteSudo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("an ordinary user's sshd has no other accounts: protocol/ssh says what can be tried without")
		return
	}
	s := sshtest.Start(t, sshtest.Options{Port: freeport.TCP(t), Account: &sshtest.Account{Name: "netops", Sudoers: "Defaults !fqdn\nnetops ALL=(root) ALL\n"}})
	secret := t.TempDir() + "/password"
	if err := os.WriteFile(secret, []byte(sshtest.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	login := s.Login
	host := Remote{ssh.NewTunnel(ssh.Config{Address: s.Address, Login: login})}
	defer host.Close()
	login.Sudo = &inventory.Sudo{Password: inventory.Secret{File: secret}}
	remote(t, s, login, func() {
		if _, err := host.Orchagent(t.Context()); err == nil || !strings.Contains(err.Error(), "by root alone") {
			t.Errorf("without sudo: %v", err)
		}
	})
}

// remote calls a function while orchagent runs.
func remote(t *testing.T, s *sshtest.Server, login inventory.SSH, runs func()) {
	t.Helper()
	in := inputs(t)[2]
	sw := newSwitch(t)
	if os.Geteuid() == 0 {
		for _, name := range []string{sw.Redis.File, sw.Redis.Socket} {
			if err := os.Chmod(name, 0o600); err != nil { // only root
				t.Fatal(err)
			}
		}
	}
	dev := inventory.Device{Name: "leaf1", Platform: "sai", Address: s.Address, Management: inventory.Management{SSH: &login,
		Own: map[string]inventory.PlatformKeys{"redis": &sonic.Keys{Databases: sw.Redis.File}}}}
	db, err := sonic.Redis(vendors.Config{Device: dev})
	if err != nil {
		t.Fatal(err)
	}
	host := Remote{ssh.NewTunnel(ssh.Config{Address: s.Address, Login: login})}
	if _, err := host.Orchagent(t.Context()); !errors.Is(err, ErrNoOrchagent) {
		t.Errorf("without one: %v", err)
	}
	orchagent := sw.RunProcess(attrDBit)
	sync := sw.Syncd
	sw.Syncd = []string{"-u", "-p", "/etc/sai.d/sai.profile"}
	syncd := sw.RunSyncd()
	if p, err := host.Orchagent(t.Context()); err != nil || !strings.HasPrefix(p.Unfit, fmt.Sprintf("syncd (process %d) runs asynchronously", syncd)) {
		t.Errorf("%+v, %v", p.Unfit, err)
	}
	sw.Syncd = sync
	sw.RunSyncd()
	p, err := host.Orchagent(t.Context())
	if err != nil || p.Unfit != "" || p.missing() != "" || p.Names[attrDBit] {
		t.Fatalf("%+v, %v", p, err)
	}
	sw.Redis.Do(6, "HSET", "SWITCH_CAPABILITY|switch", "SWITCH_TRIMMING_CAPABLE", "false")
	_, want := liveOf(t, sw, in)
	l := OpenLive(LiveConfig{Device: &dev, Redis: db, Host: host})
	if err := l.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	has(t, sw, l, want, in)
	if err := l.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	empty(t, sw)
	runs()
	kills(t, orchagent)
	if _, err := host.Orchagent(t.Context()); !errors.Is(err, ErrNoOrchagent) {
		t.Errorf("of one that has ended: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// kills ends a process, of which its number is left.
func kills(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	sonictest.Await(t, "it does not end", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return err != nil || strings.Contains(string(status), "State:\tZ")
	})
}

// shell answers as a switch would.
type shell string

func (s shell) Run(context.Context, string, []byte) ([]byte, error) { return []byte(s), nil }
func (s shell) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("no way there")
}
func (s shell) Close() error { return nil }

// TestHostileRemote has a switch answer other things than where orchagent is.
func TestHostileRemote(t *testing.T) {
	const boot = "01234567-89ab-cdef-0123-456789abcdef"
	stat := " " + boot + " S" + strings.Repeat(" 1", 40)
	for _, row := range []struct{ answers, says string }{
		{"", ErrNoOrchagent.Error()},
		{"elsewhere\nelsewhere\n", "2 run in other network namespaces"},
		{"unreadable syncd 17\n", "by root alone"},
		{"process 17" + stat + "\narguments orchagent 17 /usr/bin/orchagent -s\n", errNoSyncd.Error()},
		{"arguments syncd ../1 -s\n", "looking for orchagent"},
		{"arguments other 17 -s\n", "looking for orchagent"},
		{"process 17" + stat + "\nno library\n", "has no libsaimetadata"},
		{"process 17" + stat + "\n" + attrSignal + "\x1b[2J\n", "looking for orchagent"},
		{"process ../1" + stat + "\n", "looking for orchagent"},
		{"process 17 S\n", "looking for orchagent"},
		{"process 17 S" + strings.Repeat(" 1", 40) + "\n", "looking for orchagent"},
		{attrSignal + "\n", "looking for orchagent"},
		{"process 17" + stat + "\nprocess 18" + stat + "\n", "looking for orchagent"},
		{strings.Repeat("\x1b", 1<<16), "looking for orchagent"},
	} {
		p, err := Remote{shell(row.answers)}.Orchagent(t.Context())
		if err == nil || !strings.Contains(err.Error(), row.says) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%.60q: %+v, %v", row.answers, p, err)
		}
	}
	p, err := Remote{shell("arguments syncd 9 /usr/bin/syncd -u -s\nprocess 17" + stat + "\narguments orchagent 17 /usr/bin/orchagent -s\n" + attrSignal + "\n")}.Orchagent(t.Context())
	if err != nil || !p.Names[attrSignal] || len(p.Names) != 1 || p.Unfit != "" || p.ID != "17 1 "+boot {
		t.Errorf("%+v, %v", p, err)
	}
}
