package srlinux

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/gnmi/oc"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/gnmiset"
	"github.com/csig-agent/csig/vendors/openconfig/octest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

var ports = []string{"ethernet-1/1", "ethernet-1/2", "lag1"}

func setup(tpid uint16, names ...string) vendors.Setup {
	s := vendors.Setup{TPID: tpid, Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative, Profile: strings.Repeat("5", 64)}
	for _, p := range names {
		s.Ports = append(s.Ports, vendors.PortSetup{Port: p, Action: vlanrules.Passthrough})
	}
	return s
}

// lab is a target whose operator has configured a port, and its driver.
func lab(t testing.TB) (*octest.Target, *gnmiset.Driver) {
	t.Helper()
	target := octest.New(append([]string{"mgmt0"}, ports...)...)
	target.Native, target.Most = true, 9500
	target.ServeMemory(t)
	target.Configure(func(d *oc.Device) {
		mtu, text := uint16(9000), "uplink"
		d.Interface["ethernet-1/2"].Tpid, d.Interface["ethernet-1/2"].Mtu = oc.VlanTypes_TPID_TYPES_TPID_0X9100, &mtu
		d.Interface["ethernet-1/1"].Description = &text
	})
	return target, driver(t, target, gnmiset.Config{})
}

func driver(t testing.TB, target *octest.Target, cfg gnmiset.Config) *gnmiset.Driver {
	t.Helper()
	cfg.Connect = func(context.Context) (*gnmi.Target, error) {
		return gnmi.Connect(gnmi.Config{Device: "leaf1", Address: target.Address, Dial: target.Dial, Plaintext: true, Timeout: time.Minute})
	}
	d := Open(cfg)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// tpids are those of the ports, in their order.
func tpids(c *octest.Target) (out string) {
	c.Configure(func(d *oc.Device) {
		for _, p := range ports {
			out += " " + strings.TrimPrefix(oc.ΛEnum["E_VlanTypes_TPID_TYPES"][int64(d.Interface[p].Tpid)].Name, "TPID_0X")
		}
	})
	return out
}

// TestAnyOrder: setups in any order leave what the last one says, and csig off what there was.
func TestAnyOrder(t *testing.T) {
	vendorstest.AnyOrder(t, []vendorstest.Row{
		{Name: "nothing", Want: "  9100 "},
		{Name: "a port", Setup: setup(0x88a8, "ethernet-1/1"), Want: " 88A8 9100 "},
		{Name: "all", Setup: setup(0x88a8, ports...), Want: " 88A8 88A8 88A8"},
		{Name: "the TPID that a port had", Setup: setup(0x9100, "ethernet-1/2", "lag1"), Want: "  9100 9100"},
	}, 12, func(t *testing.T) vendorstest.Lab {
		target, d := lab(t)
		return vendorstest.Lab{
			Driver: d, State: func(testing.TB) string { return target.Config() },
			Writes: func(testing.TB) int { n, _ := target.Sets(); return n },
			Frames: func(testing.TB, vendors.Setup) string { return tpids(target) },
		}
	})
}

// TestSRLinux: ports and aggregates have TPIDs, other interfaces do not; MTUs and the record
// come and go with csig.
func TestSRLinux(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target, d := lab(t)
		before := target.Config()
		f, err := d.Probe(t.Context())
		if err != nil || strings.Join(f.Ports, " ") != strings.Join(ports, " ") || !f.SetupOnly {
			t.Errorf("%v, %v", f.Ports, err)
		}
		if want := (vendors.Identity{Maker: "Nokia", Model: octest.Model, Version: octest.Version, Serial: octest.Serial}); f.Identity != want {
			t.Errorf("it is %+v", f.Identity)
		}
		if err := d.Apply(t.Context(), setup(0x88a8, ports...)); err != nil {
			t.Fatal(err)
		}
		if err := d.SetMTU(t.Context(), "ethernet-1/1", 9400); err != nil {
			t.Error(err)
		}
		if mtus, err := d.MTUs(t.Context()); err != nil || mtus["ethernet-1/1"] != 9400 || mtus["ethernet-1/2"] != 8986 || mtus["lag1"] != 9218 || !strings.Contains(target.Config(), `"mtu": 9414`) {
			t.Errorf("%v, %v: %s", mtus, err, target.Config())
		}
		target.Configure(func(dev *oc.Device) { dev.Interface["lag1"].Tpid = 0 })
		time.Sleep(time.Minute) // until the configuration is read again
		if res, err := d.Update(t.Context(), nil, time.Minute); err != nil || !strings.Contains(res.Repaired.String(), "lag1") || tpids(target) != " 88A8 88A8 88A8" {
			t.Errorf("%+v, %v: %s", res, err, tpids(target))
		}
		for name, tc := range map[string]struct {
			err  error
			want string
		}{
			"TPID":      {d.Apply(t.Context(), setup(0x9900, ports...)), "the domain's TPID is 0x9900"},
			"interface": {d.Apply(t.Context(), setup(0x88a8, "mgmt0")), "no such port"},
			"MTU":       {d.SetMTU(t.Context(), "lag1", 1400), "out of its range"},
		} {
			if !errors.As(tc.err, new(*vendors.PermanentError)) || !strings.Contains(tc.err.Error(), tc.want) {
				t.Errorf("%s: %v, want %s", name, tc.err, tc.want)
			}
		}
		if err := d.Remove(t.Context()); err != nil || target.Config() != before {
			t.Errorf("%v: csig off leaves %s", err, target.Config())
		}
	})
}

// TestOnTrial: a change that a killed csig left unconfirmed is not built on, and goes back by
// itself.
func TestOnTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target, d := lab(t)
		before := target.Config()
		target.Fault = func(rpc string) error {
			if rpc == "Set done" || rpc == "Cancel" {
				return status.Error(codes.Unavailable, "the connection is cut")
			}
			return nil
		}
		if err := d.Apply(t.Context(), setup(0x88a8, ports...)); err == nil || target.Config() == before {
			t.Fatal(err)
		}
		vendorstest.OnTrial(t, driver(t, target, gnmiset.Config{}), setup(0x88a8, ports...))
		if target.Expire(); target.Config() != before {
			t.Errorf("it has %s", target.Config())
		}
	})
}

// TestTimeout: csig changes nothing where a server takes each change back.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target, d := lab(t)
		before := target.Config()
		target.Timeout = 60
		if err := d.Apply(t.Context(), setup(0x88a8, ports...)); !errors.As(err, new(*vendors.PermanentError)) || !strings.Contains(err.Error(), "server mgmt has a commit-confirmed-timeout of 60 s") || target.Config() != before {
			t.Error(err)
		}
		if f, err := d.Probe(t.Context()); err != nil || !strings.Contains(strings.Join(f.Notes, "\n"), "timeout of 60 s") {
			t.Errorf("%v, %v", f.Notes, err)
		}
	})
}
