package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

const selfTest = "self-test"

// Start probes the device, tries its data plane where that is asked for, and
// brings its setup to the wanted state, keeping what is already right. A
// *vendors.PermanentError is a refusal; the device is then as it was before,
// and so it is when ctx ends meanwhile. Other errors of single ports are logged
// and tried again while the agent runs. In shadow mode a refusal is logged and
// shown by Status, and the agent goes on.
func (a *Agent) Start(ctx context.Context) error {
	if err := a.start(ctx); err != nil {
		return fmt.Errorf("device %s: %w", a.cfg.Device.Name, err)
	}
	return nil
}

func (a *Agent) start(ctx context.Context) error {
	if !a.probed {
		facts, err := a.cfg.Driver.Probe(ctx)
		if err != nil {
			return fmt.Errorf("probe: %w", err)
		}
		a.mu.Lock()
		a.facts = facts
		a.mu.Unlock()
	}
	for _, v := range a.limitations() {
		a.log.WithFields(logrus.Fields{"what": v.What, "verdict": v.Level}).Warn(v.Reason)
	}
	// Everything that can be refused, before anything is written.
	seen, err := a.examined, error(nil)
	if seen == nil {
		seen, err = examineWith(ctx, a.cfg.Driver, &a.setup)
	}
	before, changes := seen.have, seen.changes
	if err == nil {
		if !a.probed && before.Profile != "" && before.Profile != a.setup.Profile { // what its maps hold goes with its setup
			a.log.WithFields(logrus.Fields{"recorded": vendors.ShortProfile(before.Profile), "profile": vendors.ShortProfile(a.setup.Profile)}).Warn("the device was set up for another profile: it is set up again for this agent's")
		}
		a.holds = len(changes) == 0 && before.TPID != 0
	}
	if err = errors.Join(a.unsupportedActions(&a.facts), err); err != nil {
		if err := a.refused(err); err != nil {
			return err
		}
	}
	if _, can := vendors.As[vendors.SelfTester](a.cfg.Driver); can && a.holds && a.cfg.SelfTest { // a predecessor's lease runs out meanwhile
		a.mu.Lock()
		a.tried.Reason = "it waits until what was found set up is taken over"
		a.mu.Unlock()
	} else {
		if err := a.trySelf(ctx); err != nil {
			return err
		}
	}
	err = a.cfg.Driver.Apply(ctx, a.setup)
	switch {
	case err != nil && ctx.Err() != nil, vendors.IsPermanent(err):
		if a.cfg.Shadow {
			return a.refused(err)
		}
		if errors.As(err, new(*vendors.HeldError)) {
			return err // nothing was written, and nothing is ours to undo
		}
		return errors.Join(err, a.undo(before))
	}
	released := err == nil && a.withoutLease() && before.TPID != 0
	if released {
		err = a.cfg.Driver.Release(ctx)
	}
	if released || len(changes) > 0 {
		a.wrote()
	}
	a.noteSetup(err)
	return nil
}

// examination is what a device has, and what Apply would change.
type examination struct {
	have    vendors.Setup
	changes []vendors.Change
}

func examineWith(ctx context.Context, driver vendors.Driver, want *vendors.Setup) (*examination, error) {
	have, err := driver.Observe(ctx)
	if err != nil {
		return &examination{}, err
	}
	changes, err := driver.Diff(have, *want)
	return &examination{have, changes}, err
}

// refused returns what stops the start. Shadow mode notes a refusal and goes
// on.
func (a *Agent) refused(err error) error {
	if !a.cfg.Shadow || !vendors.IsPermanent(err) {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	known := len(a.would)
	for _, f := range refusals(err) {
		if !slices.ContainsFunc(a.would, func(w findings.Finding) bool { return w.String() == f.String() }) {
			a.would = append(a.would, f)
		}
	}
	if len(a.would) > known {
		a.log.WithError(err).Error("a real run would refuse to start")
	}
	return nil
}

// refusals are the refusals that err joins, each with its port.
func refusals(err error) []findings.Finding {
	f := findings.Finding{Code: findings.StartRefused, Level: findings.Error}
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *vendors.PermanentError:
		if f.Reason = e.Err.Error(); e.Port != "" {
			f.Ports = []string{e.Port}
		}
	case *vendors.PortError:
		f.Ports, f.Reason = []string{e.Port}, e.Err.Error()
	case interface{ Unwrap() []error }:
		var out []findings.Finding
		for _, err := range e.Unwrap() {
			out = append(out, refusals(err)...)
		}
		return out
	default:
		f.Reason = err.Error()
	}
	return []findings.Finding{f}
}

// unsupportedActions refuses the actions that this device does not support; nil where it supports
// all.
func (a *Agent) unsupportedActions(f *vendors.Facts) error {
	var errs []error
	for _, c := range []struct {
		action vlanrules.Action
		can    vlanrules.Verdict
	}{{vlanrules.Update, f.Update}, {vlanrules.Strip, f.Strip}} {
		if c.can.Level != vlanrules.Refused {
			continue
		}
		for _, p := range a.cfg.Device.Ports {
			if p.Action == c.action { // one is enough: the reason is the device's
				errs = append(errs, &vendors.PermanentError{Port: p.Name, Err: fmt.Errorf("its action is %s: %s", c.action, c.can.Reason)})
				break
			}
		}
	}
	if why := f.UpdatesRefused(&a.cfg.Device); why != "" {
		for _, p := range a.cfg.Device.Ports {
			if p.Action == vlanrules.Update {
				errs = append(errs, &vendors.PermanentError{Port: p.Name, Err: fmt.Errorf("its action is update: %s", why)})
				break
			}
		}
	}
	return errors.Join(errs...)
}

// trySelf runs the driver's self-test. Its verdict is logged and shown, and
// stops nothing: an error is a test that ctx ended, or that broke.
func (a *Agent) trySelf(ctx context.Context) (err error) {
	defer untrusted.Recover(&err)
	t, ok := vendors.As[vendors.SelfTester](a.cfg.Driver)
	if !a.cfg.SelfTest || !ok {
		return nil
	}
	v, err := t.SelfTest(ctx)
	if err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	a.mu.Lock()
	a.tried = api.Verdict{Code: findings.SelfTest, What: selfTest, Level: v.Level.String(), Reason: v.Reason}
	a.mu.Unlock()
	if v.Level == vlanrules.Full {
		a.log.Info("self-test passed: every frame saw the old or the new value")
	} else {
		a.log.WithField("verdict", v.Level.String()).Warn("self-test: " + v.Reason)
	}
	return nil
}

// tryLater runs the self-test of a start that found its setup in place, when
// after has passed and the first windows are programmed, so that its frames do not keep them
// from their turn. What it tries is in force already: the verdict comes no later
// for that than it would have.
func (a *Agent) tryLater(ctx context.Context, after time.Duration) {
	if vendors.Wait(ctx, after) != nil {
		return
	}
	if err := a.trySelf(ctx); err != nil && ctx.Err() == nil {
		a.log.WithError(err).Warn("the self-test broke")
	}
}

// undo restores the setup from before a failed start.
func (a *Agent) undo(before vendors.Setup) error {
	ctx, cancel := context.WithTimeout(context.Background(), a.writeLimit())
	defer cancel()
	var err error
	if driver := vendors.Alone(a.cfg.Driver); before.TPID == 0 && len(before.Ports) == 0 {
		err = driver.Remove(ctx) // what another platform left stays as it was
	} else {
		err = driver.Apply(ctx, before)
	}
	if err != nil {
		return &UndoError{Err: err}
	}
	return nil
}

// UndoError says that the cleanup after a failed start failed, too.
type UndoError struct{ Err error }

func (e *UndoError) Error() string {
	return fmt.Sprintf("cleanup after a failed start failed: %v; the fallback may be in force until an agent is started again", e.Err)
}

func (e *UndoError) Unwrap() error { return e.Err }

// noteSetup records whether the setup holds, or when to try again, and marks
// the ports it does not hold for.
func (a *Agent) noteSetup(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cutOff = err != nil && !vendors.IsPermanent(err)
	vendors.EachPort(err, func(string, error) { a.cutOff = false })
	if err == nil {
		a.setupDue = time.Time{}
		if a.setupError != "" {
			a.log.Info("setup holds again")
			a.setupError = ""
		}
		return
	}
	a.setupDue = time.Now().Add(max(setupRetry, 3*a.facts.ConfigInterval().Is)) // updates have their turns, too
	msg := err.Error()
	if msg == a.setupError { // say it once, not each second
		return
	}
	a.setupError = msg
	if vendors.IsPermanent(err) {
		a.log.WithError(err).Error("setup refused; retrying")
	} else {
		a.log.WithError(err).Error("setup is not complete; trying again")
	}
	vendors.EachPort(err, func(port string, err error) {
		for i := range a.ports {
			if a.ports[i].cfg.Name == port {
				a.ports[i].refused, a.refusals = err.Error(), true
			}
		}
	})
}

// cutOffTime is how long a setup that was cut off may take to be tried again, until its problem is said.
const cutOffTime = 5 * setupRetry

// awaitSetup waits while a setup that was cut off is tried again by the cycles.
func (a *Agent) awaitSetup(ctx context.Context) {
	is := func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.cutOff
	}
	for begin := time.Now(); is() && time.Since(begin) < cutOffTime && vendors.Wait(ctx, setupRetry/20) == nil; {
	}
}

// setupProblem is what the setup still lacks; "" where it holds.
func (a *Agent) setupProblem() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.setupError
}
