package agent

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// halfway is a device that seems damaged to who reads it while it is updated.
type halfway struct {
	vendors.Driver
	*device
}

type device struct {
	updating, broken atomic.Bool
	half, read       atomic.Int64 // readings that met an update, and all
}

func (h halfway) Observe(ctx context.Context) (vendors.Setup, error) {
	half := h.updating.Load()
	time.Sleep(5 * time.Millisecond)
	s, err := h.Driver.Observe(ctx)
	h.read.Add(1)
	if half = half || h.updating.Load(); half {
		h.half.Add(1)
	}
	if half || h.broken.Load() {
		s.Ports = []vendors.PortSetup{{Port: "swp1", Damaged: "a flow is gone"}}
	}
	return s, err
}

func (h halfway) Update(ctx context.Context, u []vendors.PortUpdate, lease time.Duration) (vendors.UpdateResult, error) {
	h.updating.Store(true)
	defer h.updating.Store(false)
	time.Sleep(30 * time.Millisecond)
	return h.Driver.Update(ctx, u, lease)
}

// TestUpdatesAreNoDamage: who reads a device beside its cycles does not take half an update for damage. What is
// damaged is found at the first reading that meets none.
func TestUpdatesAreNoDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dev device
		k := newKeeper(t, &recorder{}, func(cfg *Config) {
			open := cfg.OpenDriver
			cfg.OpenDriver = func(d *inventory.Device) (vendors.Driver, error) {
				driver, err := open(d)
				return halfway{driver, &dev}, err
			}
		})
		k.begin(t)
		defer k.close(t)
		k.configure(t, deviceText)
		time.Sleep(5 * interval)
		dev.half.Store(0)
		for range 50 {
			time.Sleep(17 * time.Millisecond)
			if s, err := k.Setup(t.Context(), onTest); err != nil || s.IsDamaged() {
				t.Fatalf("%+v, %v", s, err)
			}
		}
		if dev.half.Load() == 0 {
			t.Error("no reading met an update")
		}
		dev.broken.Store(true)
		time.Sleep(interval/2 - time.Duration(time.Now().UnixNano())%interval + interval) // between two cycles
		before := dev.read.Load()
		if s, err := k.Setup(t.Context(), onTest); err != nil || !s.IsDamaged() {
			t.Errorf("damaged: %+v, %v", s, err)
		}
		if n := dev.read.Load() - before; n > 2 {
			t.Errorf("read %d times", n)
		}
	})
}
