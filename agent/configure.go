package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/vendors"
)

// changeLimit bounds a change of configuration, once it has begun: what these configurations,
// some of which may be nil, need to be written.
func changeLimit(rs ...*running) time.Duration {
	limit := 30 * time.Second
	for _, r := range rs {
		if r != nil {
			limit = max(limit, r.agent.writeLimit())
		}
	}
	return limit
}

// changing bounds a change of these configurations, which goes on when the client goes away,
// and is progress meanwhile.
func (d *Daemon) changing(ctx context.Context, rs ...*running) (context.Context, context.CancelFunc) {
	limit := changeLimit(rs...)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	d.changes.expect(limit + idleLimit)
	return ctx, func() {
		d.changes.expect(0)
		cancel()
	}
}

// refuse makes an error one that nothing has changed with.
func refuse(err error) error {
	if err == nil || vendors.IsPermanent(err) {
		return err
	}
	return &vendors.PermanentError{Err: err}
}

// may reports whether the configuration is this daemon's to change.
func (d *Daemon) may() error {
	switch {
	case d.closed:
		return refuse(errors.New("this daemon is stopping"))
	case !d.ready:
		return errors.New("this daemon is starting: try again in a moment")
	case d.cfg.Shadow:
		return refuse(errors.New("this daemon runs with --dry-run and programs nothing: start it without"))
	}
	return nil
}

// lockChanges waits for its turn to change something, and is to be released. A client that
// has gone away by then no longer wants the change: it may have waited behind
// another one.
func (d *Daemon) lockChanges(ctx context.Context) (release func(), err error) {
	d.change.Lock()
	if err = ctx.Err(); err != nil {
		err = refuse(fmt.Errorf("the client has gone away: %w", err))
	} else {
		err = d.may()
	}
	if err != nil {
		d.change.Unlock()
		return nil, err
	}
	return d.change.Unlock, nil
}

// Configure checks a fleet file with one local device, as far as it can be
// checked without changing anything; then it keeps it as the daemon's own file
// and puts it in force. What was measured goes on where it means the same, and
// the lease runs through. A *vendors.PermanentError has changed nothing; after
// another error the configuration is in force and what is missing is tried
// again. token is that of StartRevert, where the daemon is to revert unless this is
// confirmed; one that it does not wait for any more is an error that wraps
// vendors.ErrReverted.
func (d *Daemon) Configure(ctx context.Context, text []byte, token string) error {
	release, err := d.beginChange(ctx, token)
	if err != nil {
		return err
	}
	defer release()
	d.bypassed()
	before, _ := os.ReadFile(d.cfg.File)
	err = d.configure(ctx, text)
	if after, e := os.ReadFile(d.cfg.File); err != nil && e == nil && bytes.Equal(before, after) {
		return err // refused: nothing was applied
	}
	return errors.Join(err, d.keepConfig(ctx))
}

// keepTime is how long keeping a configuration may take.
const keepTime = 10 * time.Second

// keepConfig keeps the configuration in force for the device's next agent, also where the client that
// brought it has gone.
func (d *Daemon) keepConfig(ctx context.Context) error {
	if d.cfg.Store == nil {
		return nil
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer done()
	err := d.cfg.Store.KeepConfig(ctx)
	if err != nil {
		err = fmt.Errorf("the configuration is in force, and not kept for the device's next agent: %w; apply it again", err)
		d.cfg.Log.Error(err)
	}
	return err
}

func (d *Daemon) configure(ctx context.Context, text []byte) error {
	fleet, err := inventory.Parse("configuration", text)
	if err == nil && d.cfg.NoCommands {
		err = withoutCommands(fleet)
	}
	if err != nil {
		return refuse(err)
	}
	return d.putInForce(ctx, fleet, text)
}

// putInForce runs a fleet's local device in place of what runs. text is what the daemon's
// file is to hold then; nil: it does already.
func (d *Daemon) putInForce(ctx context.Context, fleet *inventory.Fleet, text []byte) error {
	old := d.current()
	r, err := d.prepare(ctx, fleet, old)
	if err != nil {
		return refuse(err)
	}
	if old != nil && old.config == r.config && old.stop != nil {
		// Nothing new; what is wrong in spite of it is said again.
		return errors.Join(d.saveFile(text, r.hash), r.close(old), d.decided(text), d.incomplete(ctx, old))
	}
	facts, seen, err := d.examine(ctx, r)
	if err != nil {
		return errors.Join(refuse(err), r.close(old))
	}
	// From here on it is carried through, also when the client goes away.
	r.agent.facts = facts
	if old != nil && old.driver == r.driver { // the lease does not wait for the same reading again
		r.agent.examined = seen
	}
	ctx, cancel := d.changing(ctx, r, old)
	defer cancel()
	before, had, err := d.file()
	if err == nil {
		err = d.saveHistory(old)
	}
	if err == nil {
		err = d.saveFile(text, r.hash)
	}
	if err != nil {
		return errors.Join(refuse(err), r.close(old))
	}
	if err := d.replace(ctx, old, r, facts); err != nil {
		back := d.restore(before, had)
		if back == nil {
			err = refuse(err)
		}
		return errors.Join(err, back, r.close(old))
	}
	return errors.Join(d.decided(text), d.incomplete(ctx, r))
}

// decided removes the off-marker, which a configuration from a client replaces; one that
// comes while the daemon reads its file (nil) is newer than that.
func (d *Daemon) decided(text []byte) error {
	if text == nil {
		return nil
	}
	return d.clearOffMarker()
}

// withoutCommands refuses a fleet that names programs for the daemon to run.
func withoutCommands(f *inventory.Fleet) error {
	return f.NoCommands("this daemon runs with --no-remote-commands: give the secret as a file or an environment variable of the machine that it runs on")
}

// replace puts a configuration in force in place of the one that runs. After an
// error that one runs again.
func (d *Daemon) replace(ctx context.Context, old, r *running, facts vendors.Facts) error {
	if old != nil {
		old.agent.reloads.Store(true)
		if old.agent.afterCycle(ctx) < reloadLease {
			old.agent.afterCycle(ctx) // the one that ran may have begun before
		}
		old.halt()
		old.agent.reloads.Store(false)
		r.agent.continueFrom(old.agent, old.source == r.source)
		r.agent.facts, r.agent.probed = facts, true
		if old.driver != r.driver {
			if err := old.driver.Remove(ctx); err != nil {
				d.launch(old)
				return fmt.Errorf("device %s: removing the setup of its old configuration: %w", old.dev.Name, err)
			}
		}
	}
	if err := r.agent.Start(ctx); err != nil {
		if old != nil {
			// Also after its start was undone: the driver forgets nothing.
			back := old.driver.Apply(ctx, old.agent.setup)
			old.agent.noteSetup(back)
			d.launch(old)
		}
		return err
	}
	if old != nil {
		old.agent.keepLast(r.agent)
		r.agent.keepRecords() // only now: what is taken over was the old one's as long as it could run again
	}
	d.launch(r)
	if old != nil {
		if err := old.close(r); err != nil {
			d.cfg.Log.WithError(err).Warn("closing what the old configuration used")
		}
	}
	return nil
}

// examine asks the device, over a connection of its own, whether it can have
// the setup.
func (d *Daemon) examine(ctx context.Context, r *running) (vendors.Facts, *examination, error) {
	driver, err := d.cfg.OpenDriver(r.dev)
	if err != nil {
		return vendors.Facts{}, nil, err
	}
	defer driver.Close()
	facts, err := driver.Probe(ctx)
	if err != nil {
		return facts, nil, fmt.Errorf("device %s: probe: %w", r.dev.Name, err)
	}
	seen, err := examineWith(ctx, driver, &r.agent.setup)
	if err = errors.Join(r.agent.unsupportedActions(&facts), err); err != nil {
		return facts, nil, fmt.Errorf("device %s: %w", r.dev.Name, err)
	}
	return facts, seen, nil
}

// incomplete is what a configuration in force still lacks on the device.
func (d *Daemon) incomplete(ctx context.Context, r *running) error {
	r.agent.awaitSetup(ctx)
	why := r.agent.setupProblem()
	err := d.open(r.dev, func(driver vendors.Driver) error {
		have, err := d.observe(ctx, driver)
		if err != nil {
			return err
		}
		left, err := driver.Diff(have, r.agent.setup)
		if len(left) > 0 && why == "" {
			why = left[0].What + ": " + left[0].Detail
			if left[0].Port != "" {
				why = "port " + left[0].Port + ": " + why
			}
		}
		return err
	})
	if err == nil && why == "" {
		return nil
	}
	if err != nil {
		why = err.Error()
	}
	return &incompleteError{r.dev.Name, why}
}

// incompleteError is of a configuration that is in force.
type incompleteError struct{ device, why string }

func (e *incompleteError) Error() string {
	return fmt.Sprintf("device %s: the configuration is in force, but its setup is not complete, and is tried again: %s", e.device, e.why)
}

// sameSource reports whether two configurations read the same counters of the
// same ports.
func sameSource(a, b *running) bool {
	if !sameCounting(a.agent, b.fleet.Profile.TPID, b.dev) || a.dev.Interval != b.dev.Interval || len(a.dev.Ports) != len(b.dev.Ports) {
		return false
	}
	for i := range a.dev.Ports {
		if p, q := &a.dev.Ports[i], &b.dev.Ports[i]; p.Name != q.Name || !p.SameSpeed(q) {
			return false
		}
	}
	return true
}

// sameCounting reports whether counters are read in the same way. The TPID may
// decide what they count: the kernel moves tags by 0x88a8 out of the frame, and no others.
func sameCounting(a *Agent, tpid uint16, b *inventory.Device) bool {
	d := &a.cfg.Device
	return (a.cfg.Profile.TPID == 0x88a8) == (tpid == 0x88a8) && d.Platform == b.Platform && d.Address == b.Address && reflect.DeepEqual(d.Counters, b.Counters)
}

// continueFrom takes over what another agent of the device has measured, port
// by port where that means the same here, and its bookkeeping. Both stand
// still.
func (a *Agent) continueFrom(old *Agent, sameSource bool) {
	a.started, a.tried, a.cycle, a.reloaded = old.started, old.tried, old.cycle, true
	if a.cfg.Driver == old.cfg.Driver { // else it is another device, or reached another way: its dead-man is not proved
		a.pacing, a.dead = old.pacing, old.dead
	} else {
		a.cycle.repairs, a.cycle.updateTimes = repairs{}, updateTimes{} // nor are these its own
	}
	a.cycle.LastError, a.cycle.seen = "", observation{at: old.cycle.seen.at, fallback: old.cycle.seen.fallback}
	if sameSource {
		a.pipe.ContinueRefresh(old.pipe)
	} else if !sameCounting(old, a.cfg.Profile.TPID, &a.cfg.Device) || !old.pipe.Refresh().Kind.EveryReading() {
		return // what a cached counter's instants were worked out to be is not known here
	}
	if !reflect.DeepEqual(a.cfg.Device.Estimator, old.cfg.Device.Estimator) {
		return
	}
	for i := range a.ports {
		for k := range old.ports {
			if p, q := &a.ports[i], &old.ports[k]; p.cfg.Name == q.cfg.Name && p.cfg.SameSpeed(&q.cfg) {
				p.continueFrom(q, a.hash == old.hash)
			}
		}
	}
}

// file is what the daemon's file holds, and whether there is one.
func (d *Daemon) file() (text []byte, there bool, err error) {
	text, err = os.ReadFile(d.cfg.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return text, err == nil, err
}

// restore makes the daemon's file what it was before saveFile. A user's is still that.
func (d *Daemon) restore(text []byte, there bool) error {
	theirs, err := foreign(d.cfg.File)
	switch {
	case err != nil || theirs:
		return err
	case !there:
		return os.Remove(d.cfg.File)
	}
	return writeFile(d.cfg.File, text)
}

// writeFile writes a file of mode 0600 in one step: after a crash it is the old
// one or the new one, never half of it. A configuration names no secret, but who
// may read it learns where they are.
func writeFile(path string, text []byte) error {
	if whole, err := filepath.Abs(path); err == nil { // who reads an error need not know where the agent was started
		path = whole
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".csig-config-*") // 0600
	if err != nil {
		return fmt.Errorf("keeping the configuration: %w", err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keeping the configuration: %w", err), os.Remove(f.Name()))
	}
	return outfile.SyncDir(dir)
}
