package all

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

func TestRegistry(t *testing.T) {
	r := Default()
	if got := r.Platforms(); len(got) != 1 || got[0] != "linux" {
		t.Errorf("platforms %v", got)
	}
	_, err := Open("plan9", vendors.Config{})
	var p *vendors.PermanentError
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "linux") {
		t.Errorf("unknown platform: %v", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a second registration does not panic")
			}
		}()
		r.Register("linux", Platform{Open: openLinux})
	}()
	d, err := r.Open("linux", vendors.Config{})
	switch {
	case runtime.GOOS != "linux" && (d != nil || err == nil):
		t.Errorf("on %s: %v, %v", runtime.GOOS, d, err)
	case err == nil:
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	case d != nil:
		t.Errorf("a driver beside the error %v", err)
	}
}

// TestAfar opens devices behind SSH, which connects only when it is used, and
// not those that are this machine.
func TestAfar(t *testing.T) {
	p, err := Default().Platform("linux")
	if err != nil {
		t.Fatal(err)
	}
	cut := errors.New("the cable is cut")
	asked := ""
	cfg := vendors.Config{
		Device: inventory.Device{Address: "192.0.2.1", Management: inventory.Management{SSH: &inventory.SSH{
			User: "root", Port: 2200, Key: "/nowhere", KnownHosts: filepath.Join(t.TempDir(), "known_hosts")}}},
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			asked = address
			return nil, cut
		},
	}
	if err := os.WriteFile(cfg.Device.Management.SSH.KnownHosts, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := p.Open(cfg)
	if err != nil || asked != "" {
		t.Fatal(err, asked)
	}
	if _, err := d.Observe(t.Context()); !errors.Is(err, cut) || asked != "192.0.2.1:2200" {
		t.Errorf("%v, connected to %q", err, asked)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	cfg.Device.Address = ""
	if _, err := p.Open(cfg); err == nil || !strings.Contains(err.Error(), "no address") {
		t.Errorf("without an address: %v", err)
	}
	for _, here := range []vendors.Config{{}, {NetNS: 3, Device: cfg.Device}, {Device: inventory.Device{Local: true, Management: cfg.Device.Management}}} {
		if here.Afar() {
			t.Errorf("%+v is driven from afar", here)
		}
	}
	if p.Offline(true).Strip.Level == p.Offline(false).Strip.Level {
		t.Error("strip is promised from afar, or nowhere")
	}
	if _, err := p.Diff(vendors.Setup{}, vendors.Setup{}); err == nil {
		t.Error("Diff takes a setup of nothing")
	}
	if _, err := p.Commands(vendors.Setup{}, vendors.Setup{}); err == nil {
		t.Error("Commands takes a setup of nothing")
	}
}
