//go:build !linux

package linux

import (
	"context"
	"errors"

	"github.com/csig-agent/csig/counters"
)

var errNotLinux = errors.New("linux counters: the kernel's counters can be read on Linux only; run this on the switch, or poll it from here through SNMP or gNMI")

// Source reads interface counters; on this operating system there are none.
type Source struct{}

var (
	_ counters.Source = (*Source)(nil)
	_ counters.LAGs   = (*Source)(nil)
)

// New returns an error: this is not Linux.
func New(Config) (*Source, error) { return nil, errNotLinux }

// Read returns an error: this is not Linux.
func (*Source) Read(context.Context, []counters.Sample) ([]counters.Sample, error) {
	return nil, errNotLinux
}

// Members returns an error: this is not Linux.
func (*Source) Members(context.Context) (map[string][]string, error) { return nil, errNotLinux }

// Facts returns nothing: this is not Linux.
func (*Source) Facts() []Facts { return nil }

// Close does nothing.
func (*Source) Close() error { return nil }
