package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

// Daemon runs the agent of one device and replaces it when it is given another
// configuration. It is an api.Manager.
type Daemon struct {
	cfg     Config
	started time.Time

	change  sync.Mutex // held while what runs is changed
	ready   bool       // Start is over
	again   bool       // its own file could not be run, which may pass
	failed  string     // and why
	closed  bool
	bare    bool           // of LeaveBare, until a user decides
	pending *pendingRevert // nil: no auto-revert is pending

	operators changeLock
	users     userFile // d.change is held

	turns, changes *progress // of Run, and of a change of what runs

	mu       sync.Mutex  // guards what Status reads
	run      *running    // nil while it waits
	waiting  string      // what for, and why
	reloaded *api.Reload // nil: the file was not reloaded yet
	drift    *api.Drift  // of the configuration that runs; nil: not checked yet
}

var _ api.Manager = (*Daemon)(nil)

// running is one configuration that is in force.
type running struct {
	fleet  *inventory.Fleet
	dev    *inventory.Device
	own    *inventory.Fleet // what of it concerns the device
	config string           // own, written down
	hash   string           // of own: the configuration's name
	agent  *Agent
	source counters.Source
	driver vendors.Driver

	stop  context.CancelFunc // of the loop; nil while it stands still
	ended chan struct{}
}

// NewDaemon returns a daemon that has not touched the device yet.
func NewDaemon(cfg Config) *Daemon {
	if cfg.Load == nil {
		cfg.Load = inventory.Load
	}
	return &Daemon{cfg: cfg, started: time.Now(), waiting: "starting", bare: cfg.LeaveBare, turns: newProgress(), changes: newProgress(), operators: changeLock{store: cfg.Store}}
}

// Open reads the daemon's file and opens what it needs, without touching the
// device: from then on Status says what the start is about. Where the daemon
// may wait, a file that is missing or cannot be run is no error, unless ctx
// ends.
func (d *Daemon) Open(ctx context.Context) error {
	d.change.Lock()
	defer d.change.Unlock()
	d.users.watch.Note(d.cfg.File, nil, nil) // also where it is not read
	err := d.checkOffMarker()
	if err == nil {
		err = d.revertAfterRestart()
	}
	var r *running
	if err == nil {
		r, err = d.load(ctx)
	}
	if err != nil {
		return d.orWait(ctx, err, false)
	}
	d.show(r)
	return nil
}

// Start finishes a removal that was cut off, and runs the configuration that
// Open found. Where the daemon may wait, one that cannot be run is no error,
// unless ctx ends or the device is not as it was.
func (d *Daemon) Start(ctx context.Context) error {
	d.change.Lock()
	defer d.change.Unlock()
	d.ready = true
	if d.may() == nil {
		if err := d.finishRemoval(ctx); err != nil {
			return d.orWait(ctx, err, false)
		}
	}
	if r := d.current(); r != nil {
		return d.begin(ctx, r)
	}
	return nil
}

// load reads the daemon's own file and opens what it needs.
func (d *Daemon) load(ctx context.Context) (*running, error) {
	fleet, err := d.read()
	if err != nil {
		return nil, err
	}
	return d.prepare(ctx, fleet, nil)
}

// begin has a configuration take effect that the daemon's own file holds.
func (d *Daemon) begin(ctx context.Context, r *running) error {
	// Again, now that csig off finds us at our socket: it may have marked the
	// device since we opened it.
	err := d.checkOffMarker()
	passes := err == nil
	if err == nil {
		err = d.checkBare(ctx, r)
		passes = !errors.Is(err, errBare)
	}
	if err == nil {
		if err = r.agent.Start(ctx); err == nil {
			d.launch(r)
			return nil
		}
		passes = vendors.Passes(err)
	}
	d.wait("for another configuration: " + err.Error())
	return d.orWait(ctx, errors.Join(err, r.close(nil)), passes)
}

// prepare makes an agent for a fleet, with what it can take over from the one
// that runs. It changes nothing.
func (d *Daemon) prepare(ctx context.Context, fleet *inventory.Fleet, old *running) (*running, error) {
	dev, err := fleet.LocalDevice()
	if err != nil {
		return nil, err
	}
	r := &running{fleet: fleet, dev: dev, own: fleet.DeviceView(dev)}
	text, err := inventory.Marshal(r.own)
	if err != nil {
		return nil, err
	}
	r.config, r.hash = string(text), r.own.Hash()
	if old != nil && sameSource(old, r) {
		r.source = old.source
	} else if r.source, err = d.cfg.OpenSource(ctx, fleet, dev); err != nil {
		return nil, fmt.Errorf("device %s: counters: %w", dev.Name, err)
	}
	if old != nil && old.dev.Platform == dev.Platform && old.dev.Address == dev.Address && reflect.DeepEqual(old.dev.Management.Own, dev.Management.Own) &&
		(!d.cfg.Shadow || old.fleet.Profile.Layout == fleet.Profile.Layout) { // a shadow has its layout
		// Also with another login, which holds from the next start on: two drivers
		// cannot own the device at a time.
		r.driver = old.driver
	} else if r.driver, err = d.openDriver(fleet, dev); err != nil {
		return nil, errors.Join(fmt.Errorf("device %s: %w", dev.Name, err), r.close(old))
	}
	cfg := d.cfg
	cfg.Profile, cfg.Policy, cfg.Device, cfg.Source, cfg.Driver, cfg.Off = fleet.Profile, fleet.Policy, *dev, r.source, r.driver, d.checkOffMarker
	cfg.SelfTest = d.cfg.SelfTest && old == nil
	r.agent, err = New(cfg)
	if err != nil {
		return nil, errors.Join(err, r.close(old))
	}
	r.agent.started = d.started
	return r, nil
}

func (d *Daemon) openDriver(fleet *inventory.Fleet, dev *inventory.Device) (vendors.Driver, error) {
	driver, err := d.cfg.OpenDriver(dev)
	if err == nil && d.cfg.Shadow {
		driver = NewShadow(driver, fleet.Profile.Layout, d.cfg.Log.WithField("device", dev.Name))
	}
	return driver, err
}

// close ends what is not the other's, too.
func (r *running) close(keep *running) error {
	var err error
	if r.source != nil && (keep == nil || keep.source != r.source) {
		err = r.source.Close()
	}
	if r.driver != nil && (keep == nil || keep.driver != r.driver) {
		err = errors.Join(err, r.driver.Close())
	}
	return err
}

// launch begins the cycles.
func (d *Daemon) launch(r *running) {
	ctx, stop := context.WithCancel(context.Background())
	r.stop, r.ended = stop, make(chan struct{})
	r.agent.turns.expect(idleLimit)
	go func() {
		defer close(r.ended)
		r.agent.loop(ctx)
	}()
	d.again = false
	d.show(r)
	if d.cfg.OnLaunch != nil {
		d.cfg.OnLaunch()
	}
	d.cfg.Log.WithFields(logrus.Fields{
		"device": r.dev.Name, "ports": len(r.dev.Ports), "schedule": r.dev.Schedule, "interval": r.dev.Interval.String(),
		"profile": r.agent.hash[:12], "config": r.hash[:12], "shadow": d.cfg.Shadow,
	}).Info("agent runs")
}

// halt ends the cycles; the lease goes on.
func (r *running) halt() {
	if r.stop != nil {
		r.stop()
		<-r.ended
		r.stop = nil
	}
}

// end is halt of one that does not run again.
func (r *running) end() {
	r.halt()
	r.agent.keepLast(nil)
}

func (d *Daemon) show(r *running) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.run, d.waiting, d.drift = r, "", nil
}

func (d *Daemon) wait(what string) {
	d.mu.Lock()
	d.run, d.waiting, d.drift = nil, what, nil
	d.mu.Unlock()
	if d.cfg.OnCycle != nil { // who is told the status is not to see the configuration's last one
		d.cfg.OnCycle()
	}
}

// bypassed ends the configuration where csig off has taken the device off past this
// daemon: nothing of it is in force, and the driver may have lost the device. d.change is
// held.
func (d *Daemon) bypassed() {
	r := d.current()
	off := (*OffError)(nil)
	if r == nil || !errors.As(d.checkOffMarker(), &off) {
		return
	}
	r.end()
	d.wait("for a configuration: " + off.Error())
	if err := r.close(nil); err != nil {
		d.cfg.Log.WithError(err).Warn("closing what the configuration used that csig off took off")
	}
}

func (d *Daemon) current() *running {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.run
}

// Run keeps the device's rules true until ctx ends. When it returns the lease
// has been given up, and no configuration is taken any more.
func (d *Daemon) Run(ctx context.Context) error {
	retries := time.NewTicker(startRetry)
	defer retries.Stop()
	looks := &time.Ticker{} // never
	if d.cfg.Reload != nil {
		looks = time.NewTicker(fileLook)
		defer looks.Stop()
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { d.keepDriftChecks(ctx) })
	for ctx.Err() == nil {
		d.turns.expect(idleLimit)
		var do func(context.Context)
		select {
		case <-ctx.Done():
			continue
		case <-retries.C:
			do = d.retry
		case <-looks.C:
			do = d.lookAtFile
		case <-d.cfg.Reload:
			do = d.reloadNow
		}
		d.turns.expect(changeUntil)
		do(ctx)
	}
	d.change.Lock()
	defer d.change.Unlock()
	d.stop()
	r := d.current()
	if r == nil {
		return nil
	}
	r.halt()
	return r.agent.release()
}

// stop has the daemon take no more changes. A pending auto-revert runs when it is
// started again.
func (d *Daemon) stop() {
	d.closed = true
	if d.pending != nil {
		d.pending.timer.Stop()
	}
}

// Remove deletes everything of ours from the device that ran last.
func (d *Daemon) Remove(ctx context.Context) error {
	r := d.current()
	if r == nil {
		return nil
	}
	if err := r.driver.Remove(ctx); err != nil {
		return fmt.Errorf("device %s: removing our rules: %w", r.dev.Name, err)
	}
	return nil
}

// WriteLimit is how long the end of an agent may take on its device: that of
// vendors.Facts.WriteTime.
func (d *Daemon) WriteLimit() time.Duration {
	if r := d.current(); r != nil {
		return r.agent.writeLimit()
	}
	return (&vendors.Facts{}).WriteTime(0)
}

// Waits reports whether the daemon runs no configuration.
func (d *Daemon) Waits() bool { return d.current() == nil }

// Left is what the daemon leaves on the device, as it was last seen there.
func (d *Daemon) Left() string {
	if r := d.current(); r != nil {
		return r.agent.Left()
	}
	return "this daemon waits: no configuration is in force"
}

// Close ends the daemon's connections. What is programmed stays, until its
// lease ends.
func (d *Daemon) Close() error {
	d.change.Lock()
	defer d.change.Unlock()
	d.stop()
	r := d.current()
	if r == nil {
		return nil
	}
	r.end()
	return r.close(nil)
}

// Status is that of the agent, or says what the daemon waits for. Safe for
// concurrent use.
func (d *Daemon) Status() *api.Status {
	d.mu.Lock()
	r, waiting, reloaded, drift := d.run, d.waiting, d.reloaded, d.drift
	d.mu.Unlock()
	recordsError := ""
	if d.cfg.Records != nil {
		if err := d.cfg.Records.Err(); err != nil {
			recordsError = err.Error()
		}
	}
	if r == nil {
		return &api.Status{
			Format: api.StatusFormat, Version: d.cfg.Version, Time: time.Now(), Started: d.started, Waiting: waiting, Reload: reloaded, RecordsError: recordsError,
			Shadow: d.cfg.Shadow, DataPlane: api.DataPlaneNone,
			SelfTest: api.Verdict{Code: findings.SelfTest, What: selfTest, Level: api.SelfTestNotRun}, Verdicts: []api.Verdict{}, Ports: []api.Port{},
		}
	}
	s := r.agent.Status()
	s.ConfigHash, s.Reload, s.Drift, s.RecordsError = r.hash, reloaded, drift, recordsError
	return s
}
