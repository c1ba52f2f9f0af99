package vendors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// As finds an optional capability of a driver: T is an interface beside Driver, such
// as MTUSetter. A wrapper passes on what its driver can do by a method Unwrap, which
// returns that driver, and forwards nothing by hand.
func As[T any](driver any) (T, bool) {
	for {
		if t, ok := driver.(T); ok {
			return t, true
		}
		w, ok := driver.(interface{ Unwrap() any })
		if !ok {
			var none T
			return none, false
		}
		driver = w.Unwrap()
	}
}

// MTUs are those of a driver's ports, in bytes; none where it cannot read them.
func MTUs(ctx context.Context, driver any) (map[string]int, error) {
	if m, ok := As[MTUSetter](driver); ok {
		return m.MTUs(ctx)
	}
	return nil, nil
}

// Health is that of a driver's ports; none where it does not count.
func Health(ctx context.Context, driver any) ([]PortHealth, error) {
	if h, ok := As[HealthReader](driver); ok {
		return h.Health(ctx)
	}
	return nil, nil
}

// Links is what tries the links of a driver; the error wraps errors.ErrUnsupported
// where it cannot.
func Links(driver any) (LinkProber, error) {
	if p, ok := As[LinkProber](driver); ok {
		return p, nil
	}
	return nil, fmt.Errorf("its platform's driver sends no test frames: %w", errors.ErrUnsupported)
}

// SelfTester is a driver that can try its data plane before it is trusted,
// without touching the device's ports.
type SelfTester interface {
	// SelfTest reports Full when every frame saw the old or the new value
	// while rules changed under traffic. The error is for a test that could
	// not be carried out in a way that no verdict covers. Unlike a driver's
	// other methods it may run beside any of them.
	SelfTest(ctx context.Context) (vlanrules.Verdict, error)
}

// PortHealth counts frames of one port that did not get through, since the
// counters began.
type PortHealth struct {
	Port     string `json:"port"`
	Errors   uint64 `json:"errors"`   // damaged or otherwise faulty, in both directions
	Discards uint64 `json:"discards"` // good ones that were thrown away, in both directions
}

// HealthReader is a driver that can count the frames that its ports lose.
type HealthReader interface {
	Health(ctx context.Context) ([]PortHealth, error)
}

// SignalReader is a device's agent, which knows what its ports advertise.
type SignalReader interface {
	// NoSignal is why ports that update have no live signal, by their names. A port whose link is down is not among them.
	NoSignal(ctx context.Context) (map[string]string, error)
}

// MTUSetter is a driver that can read and set the MTU of its ports, in bytes as
// the device counts them.
type MTUSetter interface {
	MTUs(ctx context.Context) (map[string]int, error)
	SetMTU(ctx context.Context, port string, mtu int) error
}

// TableFiller is a driver that can try how many entries the table of its rules takes.
type TableFiller interface {
	// Fill adds entries that no frame matches until the table has so many of ours, rules
	// included, or the device refuses one: then it is full. It returns how many there are,
	// also with a *BusyError.
	Fill(ctx context.Context, most int) (entries int, full bool, err error)

	// Drain removes what Fill added; idempotent.
	Drain(ctx context.Context) error
}

// BusyError is why Fill ended early: more entries could leave the device unusable.
type BusyError struct{ Took time.Duration }

func (e *BusyError) Error() string {
	return fmt.Sprintf("the device takes %v to answer", e.Took.Round(time.Millisecond))
}

// Measurement is what a data plane that measures by itself has of one port.
type Measurement struct {
	Port  string
	Bytes uint64 // all that it has counted, on the wire; restarts with the data plane
	Live  bool   // the port writes what follows, and not its fallback
	S     [len(quantize.Signals)]uint8

	Before string // which program of another owner may keep frames from it; "" none
	Coarse string // why its intervals are too short for the frames that the port may send; "" where they are not
}

// Measurer is a driver of a data plane that measures by itself (Facts.Native).
type Measurer interface {
	// Measurements appends those of the setup's ports that are there.
	Measurements(ctx context.Context, dst []Measurement) ([]Measurement, error)
}
