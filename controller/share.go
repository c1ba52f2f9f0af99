package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/controller/owner"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
	"github.com/csig-agent/csig/vlanrules"
)

// owned waits until this controller owns a device, and runs its agent as long as it does. At
// the device's socket it says meanwhile who does.
func (cfg *Config) owned(ctx context.Context, d *inventory.Device, own agent.Config) (err error) {
	by := &standby{device: d.Name, store: cfg.Share, since: time.Now(), version: own.Version}
	server, err := api.Listen(own.Socket, by.Status)
	if err != nil {
		return err
	}
	server.Forward(by.toOwner())
	server.Keep(cfg.Share)
	server.LogTo(own.Log)
	defer cfg.Statuses.set(d.Name, source{status: by.Status, standby: true})()
	go func() { _ = server.Serve() }()
	var shared *vendors.Owner
	lease, octx, err := cfg.Share.Own(ctx, d.Name)
	if err == nil {
		shared = &vendors.Owner{MayWrite: lease.MayWrite, Token: lease.Token.Uint64(), Logins: lease}
		if !lease.GivenUp {
			err = settle(octx, d, shared, own.Log)
		}
	}
	if closed := server.Close(); err == nil {
		err = closed
	}
	if lease == nil {
		return err
	}
	defer func() {
		cctx, done := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
		defer done()
		// An error may be that of a write whose answer did not come, or of a wait for a former owner's.
		if err := lease.Close(cctx, err != nil); err != nil {
			own.Log.WithError(err).Warn("the device is not given up: the next owner waits for a term")
		}
	}()
	if err != nil {
		return err
	}
	own.Log.WithField("token", fmt.Sprintf("%d.%d", lease.Token.Epoch, lease.Token.Revision)).Info("this controller owns the device")
	k := &keeper{lease: lease, file: own.File, marker: api.OffMarker(own.Socket), log: own.Log}
	for err := k.fetch(octx); err != nil; err = k.fetch(octx) { // a cluster that has lost a server takes its time
		if octx.Err() != nil {
			return context.Cause(octx)
		}
		own.Log.WithError(err).Warn("the device's configuration cannot be fetched: it is left alone")
		if vendors.Wait(octx, fetchPause) != nil {
			return context.Cause(octx)
		}
	}
	own.Store, own.Journals = k, cfg.Share
	if own.Also, err = cfg.Share.Listen(d.Name); err != nil {
		return err
	}
	defer own.Also.Close()
	a, free := newAgent(own, shared)
	defer free()
	defer cfg.Statuses.set(d.Name, source{status: a.Status, why: a.Why})()
	defer cfg.lives.begin(d.Name, a)()
	r := &reporter{store: cfg.Share, device: d.Name, log: own.Log}
	err = r.during(octx, a.Status, func() error { return once(octx, a) })
	if errors.Is(context.Cause(octx), owner.ErrNotOwner) && ctx.Err() == nil {
		return context.Cause(octx)
	}
	return err
}

// fetchPause is how long the store is left alone after it could not be asked.
const fetchPause = 200 * time.Millisecond

// closeLimit is how long giving a device up may take.
const closeLimit = 5 * time.Second

// settle waits until what a former owner may have sent has reached the device, where nothing
// there tells it from what this one sends: less long where its logins can be ended.
func settle(ctx context.Context, d *inventory.Device, shared *vendors.Owner, log *logrus.Entry) (err error) {
	p, err := all.Default().Platform(d.Platform)
	if err != nil {
		return err
	}
	fence, _ := p.FenceOf(d)
	if fence.Level == vlanrules.Full {
		return nil
	}
	facts := p.Offline()
	wait := vendors.Unsent + facts.WriteTime(len(d.Ports)*signals)
	began, reason := time.Now(), fence.Reason
	defer func() { // they are ended, or were waited out
		if err == nil && p.EndLogins != nil {
			err = shared.Logins.Keep(ctx, nil)
		}
	}()
	if p.EndLogins != nil {
		ectx, done := context.WithTimeout(ctx, wait)
		former := shared.Logins.Open()
		err := p.EndLogins(ectx, vendors.Config{Device: *d, Who: who, Owner: shared, Dial: shared.Guard()}, former)
		done()
		if err == nil {
			log.WithField("logins", strings.Join(former, "; ")).Info("the former owner is logged in no more")
			return nil
		}
		reason = "the former owner's logins are not ended: " + err.Error()
	}
	wait -= time.Since(began)
	log.WithField("reason", reason).Infof("the device is unfenced: its former owner's writes are waited out, %v", wait.Round(time.Millisecond))
	return vendors.Wait(ctx, wait)
}

// signals is how many a port has at most.
const signals = 4

// keeper has the configuration of an owned device in the store, where the next owner finds it.
type keeper struct {
	lease  *owner.Lease
	file   string
	marker string // of csig off, on this machine
	log    *logrus.Entry
}

// fetch makes the kept configuration this machine's. One that was never kept is that of a
// controller that ran alone: it is kept now.
func (k *keeper) fetch(ctx context.Context) error {
	if err := k.goBack(ctx); err != nil {
		return err
	}
	text, err := k.lease.Config(ctx)
	switch {
	case errors.Is(err, owner.ErrNoConfig):
		return k.KeepConfig(ctx)
	case err != nil:
		return err
	case len(text) == 0:
		if err := os.Remove(k.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := k.dropMarker(ctx); err != nil {
		return err
	}
	if have, err := os.ReadFile(k.file); err == nil && bytes.Equal(have, text) {
		return nil
	}
	return k.write(k.file, text)
}

// goBack carries out the auto-revert that was pending under the owner before, as an agent does that
// starts again. What this machine has of one is ignored: it is no newer.
func (k *keeper) goBack(ctx context.Context) error {
	kept, err := k.lease.Revert(ctx)
	if err != nil {
		return err
	}
	hash, pending := strings.CutPrefix(string(kept), revertTo)
	if _, off := os.Lstat(k.marker); pending && errors.Is(off, fs.ErrNotExist) { // csig off was later
		if err := k.goBackTo(ctx, hash); err != nil {
			return err
		}
	}
	if pending {
		if err := k.KeepRevert(ctx, nil); err != nil {
			return err
		}
	}
	if err := os.Remove(agent.RevertFile(k.file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// goBackTo puts the configuration of a hash in force, or none, and has the agent remove the present one.
func (k *keeper) goBackTo(ctx context.Context, hash string) error {
	now, err := k.lease.Config(ctx)
	if err != nil && !errors.Is(err, owner.ErrNoConfig) {
		return err
	}
	log := k.log.WithField("config", fmt.Sprintf("%.12s", hash))
	text := ""
	switch {
	case hash != "":
		if text, err = k.Earlier(ctx, hash); err != nil {
			return err
		}
		if text == "" {
			log.Error("a change was not confirmed under the previous owner, and the configuration before it is not kept any more: the present one stays (csig apply, or csig off)")
			return nil
		}
	case len(now) > 0:
		if err := k.write(agent.RemovingFile(k.file), now); err != nil {
			return err
		}
	}
	if text != string(now) {
		if err := k.lease.KeepConfig(ctx, []byte(text)); err != nil {
			return err
		}
	}
	log.Warn("change not confirmed under the previous owner; rolling back")
	return nil
}

// write writes a file of csig's, which no user's is to be here.
func (k *keeper) write(file string, text []byte) error {
	if !bytes.HasPrefix(text, []byte(agent.OwnMark)) {
		text = append([]byte(agent.OwnMark+"\n"), text...)
	}
	if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, text) {
		return nil
	}
	return outfile.Write(file, 0o600, outfile.Prefix(agent.OwnMark), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// revertTo stands in front of the hash of the configuration that an auto-revert goes back to.
const revertTo = "revert to "

// KeepRevert keeps to which configuration an auto-revert goes back (agent.Store).
func (k *keeper) KeepRevert(ctx context.Context, to *string) error {
	if to == nil {
		return k.lease.KeepRevert(ctx, nil)
	}
	return k.lease.KeepRevert(ctx, []byte(revertTo+*to))
}

// Earlier is the configuration of a hash that the device had under any owner (agent.Store).
func (k *keeper) Earlier(ctx context.Context, hash string) (string, error) {
	ctx, done := context.WithTimeout(ctx, closeLimit)
	defer done()
	all, err := k.lease.Configs(ctx)
	if err != nil {
		return "", err
	}
	for _, text := range all {
		if is, err := agent.HashOf(text); err == nil && is == hash {
			return string(text), nil
		}
	}
	return "", nil
}

// KeepConfig keeps what this machine has.
func (k *keeper) KeepConfig(ctx context.Context) error {
	text, err := os.ReadFile(k.file)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = nil, nil
	}
	if err != nil {
		return err
	}
	return k.lease.KeepConfig(ctx, text)
}

// Lock is the device's change lock, as the owner before kept it.
func (k *keeper) Lock(ctx context.Context) (l agent.Lock, err error) {
	text, err := k.lease.Lock(ctx)
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &l)
	}
	return l, err
}

// KeepLock keeps it for the next owner.
func (k *keeper) KeepLock(ctx context.Context, l agent.Lock) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return k.lease.KeepLock(ctx, text)
}
