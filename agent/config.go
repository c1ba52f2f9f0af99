package agent

import (
	"context"
	"net"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

// Config is what the agent of one device is told, from the command line to its loop: a Process uses all of it, a Daemon
// what is not about sockets, and an Agent what is about one configuration and the loop.
type Config struct {
	File       string // the fleet file that it runs; a new configuration replaces it
	Wait       bool   // without a file that can be run, wait for one
	Shadow     bool   // nothing is programmed, and what a real run would refuse is only reported
	SelfTest   bool   // try the data plane at the start, where the driver can
	NoCommands bool   // refuse configurations from the socket that name programs
	Version    string
	Log        *logrus.Entry

	// Of a Process: where it answers.
	Socket   string // unix socket
	Group    string // its members may read the status; "": none
	Listen   string // TCP address, too; "": none
	TLS      api.TLSFiles
	Access   api.TLSAccess
	Metrics  string       // TCP address of api.NewObserver, with TLS and Access; "": none
	Also     net.Listener // of other controllers, which answer for their clients (api.Trusted); nil: none
	Journals api.Journals // that it keeps for operators; nil: none
	OnReady  func()       // called when the start is over; nil for none

	// Interrupted is the cause of a context whose end is to remove everything from the
	// device; any other end gives up the lease alone.
	Interrupted error

	// OffMarker is where csig off marks a device whose daemon does not answer; "" for nowhere. A Process has that of its socket.
	OffMarker string

	// LeaveBare is of a daemon elsewhere, which no off-marker may reach: it starts with its
	// file only where the device still has something of csig.
	LeaveBare bool

	Store  Store // nil: what the next agent has to find is in this machine's files alone
	Beside int   // agents that the process runs beside this one, which are not to poll all at once

	// Load reads File; nil: inventory.Load. Reload has something in it when a user wants it
	// read again; nil: it is read at the start alone, and changes of it are not looked for.
	Load   func(path string) (*inventory.Fleet, error)
	Reload <-chan struct{}
	// Reloading is called when the file is to be read again, and what it returns when that is
	// done; nil for none.
	Reloading func() (done func())

	// OpenSource opens the counters of a device of a fleet, OpenDriver its
	// driver; a device that only has a platform is there to be looked at. The
	// daemon closes what they return.
	OpenSource func(ctx context.Context, f *inventory.Fleet, d *inventory.Device) (counters.Source, error)
	OpenDriver func(d *inventory.Device) (vendors.Driver, error)

	// KnowsPlatform is the error of a platform's name that a client made up; nil: OpenDriver has it.
	KnowsPlatform func(name string) error

	OnLaunch func()      // called when a configuration begins to run; nil for none
	OnCycle  func()      // called after each cycle, and when the daemon begins to wait; nil for none
	Records  *RecordFile // also has what the ports remember; nil: it is in memory alone

	// Of the configuration that runs: a Daemon sets them. Source and Driver stay the caller's to close.
	Profile quantize.Profile
	Policy  inventory.Policy
	Device  inventory.Device
	Source  counters.Source
	Driver  vendors.Driver
	Off     func() error // asked before each cycle: after an error nothing is programmed; nil: always on
}
