package agent

import (
	"testing"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/vendors"
)

type closedSource struct {
	counters.Source
	closed int
}

func (c *closedSource) Close() error { c.closed++; return nil }

type closedDriver struct {
	vendors.Driver
	closed int
}

func (c *closedDriver) Close() error { c.closed++; return nil }

// A configuration that ends closes what the next one does not take over.
func TestCloseKeepsWhatIsTakenOver(t *testing.T) {
	for name, tc := range map[string]struct{ keep, source, driver bool }{
		"the last":   {false, false, false},
		"nothing":    {true, false, false},
		"the source": {true, true, false},
		"the driver": {true, false, true},
		"both":       {true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			source, driver := &closedSource{}, &closedDriver{}
			old := &running{source: source, driver: driver}
			var next *running
			if tc.keep {
				if next = (&running{source: &closedSource{}, driver: &closedDriver{}}); tc.source {
					next.source = source
				}
				if tc.driver {
					next.driver = driver
				}
			}
			if err := old.close(next); err != nil || (source.closed == 1) == tc.source || (driver.closed == 1) == tc.driver {
				t.Errorf("%v, closed the source %d and the driver %d times", err, source.closed, driver.closed)
			}
		})
	}
	if err := new(running).close(nil); err != nil { // of a start that failed
		t.Error(err)
	}
}
