package ovs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// One writer drives a bridge at a time, be it an agent, csig apply or csig off:
// each holds a lock of the database while it does (RFC 7047, §4.1.8), which goes
// with its connection. It is the same one for every client of the database, from
// any network namespace, mount or machine.

// writerKey is the key of the bridge's external_ids where the lock's owner says
// who it is: the lock itself does not tell.
const writerKey = "csig-writer"

// setupKey is the key of the bridge's external_ids that says that csig has a setup
// there, with its first table.
const setupKey = "csig-tables"

// lockName is the name of a bridge's lock. Names have letters, digits and _
// alone, not beginning with a digit (RFC 7047, §3.1, <id>).
func lockName(bridge string) string { return fmt.Sprintf("csig_%x", bridge) }

// ownership is whether this driver programs the bridge.
type ownership uint8

const (
	watching ownership = iota // it reads
	claiming                  // it is to program it, and could not so far
	owning                    // it does
	lost                      // another process took the bridge since, for good
)

// after is what the database's answer makes of it: the bridge's lock is ours, or not.
func (o ownership) after(held bool) ownership {
	switch {
	case o == claiming && held:
		return owning
	case o == owning && !held:
		return lost
	}
	return o
}

// lockState is what a connection to the database has of the bridge's lock.
type lockState uint8

const (
	lockFree   lockState = iota
	lockHeld             // it is ours
	lockStolen           // it was, until another process took it: for good
)

// take takes a bridge's lock, where it is free, or from its holder. had is whether
// there was one.
func (d *database) take(bridge string, steal bool) (had bool, err error) {
	if d.lock == lockHeld {
		return false, nil
	}
	ask := func(method string) error {
		result, err := d.call(method, lockName(bridge))
		if err != nil {
			return err
		}
		var got struct {
			Locked bool `json:"locked"`
		}
		if err := json.Unmarshal(result, &got); err != nil {
			return fmt.Errorf("the database's answer to %s: %w", method, err)
		}
		if d.lock = lockFree; got.Locked {
			d.lock = lockHeld
		}
		return nil
	}
	if err := ask("lock"); err != nil || d.lock == lockHeld {
		return false, err
	}
	// We are in its queue now, and do not want to be: who gets a lock later
	// would not know what happened in between.
	if _, err := d.call("unlock", lockName(bridge)); err != nil {
		return true, err
	}
	if d.lock = lockFree; !steal {
		return true, nil
	}
	return true, ask("steal")
}

// isFree reports whether a bridge's lock is free.
func (d *database) isFree(bridge string) (bool, error) {
	if _, err := d.take(bridge, false); err != nil || d.lock != lockHeld {
		return false, err
	}
	d.lock = lockFree
	_, err := d.call("unlock", lockName(bridge))
	return true, err
}

// note has the bridge's external_ids say something, "" nothing, under a key: who has its
// lock, or where csig has its setup. It does nothing unless the lock is ours.
func (d *database) note(bridge, key, value string) error {
	err := d.change(bridge, []any{external("Bridge", [][3]any{{"name", "==", bridge}}, key, value)})
	if errors.Is(err, errNotOwner) {
		return nil
	}
	return err
}

// claim makes the connection's owner the one that programs the bridge, where
// no other process does; with steal that one loses the bridge. had is whether one did.
func (d *database) claim(bridge, who string, steal bool) (had bool, err error) {
	if d.lock != lockFree {
		return false, nil
	}
	had, err = d.take(bridge, steal)
	if err == nil && d.lock == lockHeld {
		err = d.note(bridge, writerKey, who)
	}
	if err != nil {
		return had, fmt.Errorf("locking bridge %s: %w", bridge, err)
	}
	return had, nil
}

// claim looks at the database and makes the bridge this driver's to program,
// until it is closed. Where another process holds it, the
// error is a *vendors.HeldError.
func (d *Driver) claim(ctx context.Context) error {
	if d.owner == watching {
		d.owner = claiming
	}
	for limit := time.Now().Add(handoverWait); ; {
		if err := d.look(ctx); err != nil {
			return err
		}
		err := d.checkOwner()
		if err == nil || d.owner == lost || time.Now().After(limit) {
			return err
		}
	}
}

// handoverWait is how long the end of a process that had the bridge may take to reach
// the database.
const handoverWait = 300 * time.Millisecond

// release gives up the bridge's lock, and deletes the owner's name. Where that cannot
// be done soon the end of the connection does it.
func (d *Driver) release() {
	c := d.db.c
	late := time.AfterFunc(glanceFor, func() { c.Close() })
	defer late.Stop()
	if err := d.db.note(d.cfg.Bridge, writerKey, ""); err == nil {
		_, _ = d.db.call("unlock", lockName(d.cfg.Bridge))
	}
	d.db.lock, d.owner = lockFree, claiming // it was not taken away
}

// checkOwner is an error where another process holds the bridge.
func (d *Driver) checkOwner() error {
	by := &vendors.HeldError{By: cmp.Or(d.info.writer, "another csig"), Taken: d.owner == lost}
	switch {
	case d.owner == lost && d.info.writer == "":
		return &vendors.PermanentError{Err: fmt.Errorf("bridge %s was taken away from this process, by one that does not program it any more: start this one again", d.cfg.Bridge)}
	case d.owner == lost:
		return &vendors.PermanentError{Err: fmt.Errorf("bridge %s was taken away from this process: %w; start it again when that is done", d.cfg.Bridge, by)}
	case !d.info.held:
		return &vendors.PermanentError{Err: fmt.Errorf("bridge %s: %w: stop that first", d.cfg.Bridge, by)}
	}
	return nil
}

// follows reports whether the bridge is this controller's to take from a process of that name:
// where controllers share devices, and it is one of them. That one's flows are refused by its
// generation or, without role: master, were waited out before this driver was opened; a machine
// that is lost holds its lock for as long as sshd keeps its connection.
func (d *Driver) follows(writer string) bool {
	return d.cfg.Guard != nil && strings.HasPrefix(writer, d.who()+processIs)
}

// processIs comes between the owner's name and its process.
const processIs = ", process "

func (d *Driver) who() string { return cmp.Or(d.cfg.Who, "csig") }

// ownerName is the name that this driver writes as the owner. The number at its end
// distinguishes it from other containers' process 1.
func (d *Driver) ownerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "a machine without a name"
	}
	return fmt.Sprintf("%s%s%d on %s (%08x)", d.who(), processIs, os.Getpid(), host, d.instance)
}
