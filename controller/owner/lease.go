package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/csig-agent/csig/controller/owner/kv"
)

// ErrNotOwner is the cause of everything that is refused because this controller does not
// own the device, or cannot know any more that it does.
var ErrNotOwner = errors.New("this controller does not own the device")

// Token orders the owners of a device: a later one's is higher. The revision alone does not,
// as a stream that is created again begins anywhere.
type Token struct {
	Epoch    uint64 // < 2²⁰
	Revision uint64 // of the key when the device was taken
}

// Uint64 is the token as one number that is ordered as it is.
func (t Token) Uint64() uint64 { return t.Epoch<<revisionBits | t.Revision }

// revisionBits are enough for 1,000 writes a second for 250 years behind any beginning.
const revisionBits = 44

// Lease is the ownership of a device.
type Lease struct {
	Token   Token
	GivenUp bool // by its former owner, of which nothing is on its way any more
	store   *Store
	bucket  kv.Bucket
	key     string
	cancel  context.CancelCauseFunc
	stop    context.CancelFunc // ends renewing
	ended   chan struct{}      // it has ended

	mu       sync.Mutex
	revision uint64
	until    time.Duration // of sinceBoot: nothing is written to the device from here on
	lost     error
	logins   []string
	version  int           // of logins
	kept     int           // the version that NATS has confirmed
	beats    chan struct{} // closed by the next confirmation
	now      chan struct{} // asks for a renewal at once

	current  cell // the revision of the configuration that is in force
	operator cell // who changes the device
	revert   cell // to which configuration an auto-revert goes back that is pending
}

var start = time.Now()

// sinceBoot is a clock that is never set, and goes on while the machine is suspended: an owner
// that sleeps must not find its term where it left it.
func sinceBoot() time.Duration {
	a := asleep()
	return time.Since(start) + a
}

// Own waits until this controller owns a device. The context that it returns ends with the
// ownership, with a cause that is ErrNotOwner, or with ctx: what ends then still takes its time
// on the device, and the ownership is confirmed until Close.
//
// A device is taken by a compare-and-set, when its key was given up, or has not changed for a
// term on this machine's clock; one that is not there is no different. The owner before has
// then stopped writing, a margin ago.
func (s *Store) Own(ctx context.Context, device string) (*Lease, context.Context, error) {
	k := key(device)
	for {
		at, ok, freed := s.last(k)
		if !ok {
			var err error
			if at, err = s.look(ctx, k); err != nil && ctx.Err() == nil {
				s.cfg.Log.WithError(err).WithField("device", device).Warn("who owns the device cannot be asked: it is left alone")
			}
		} else if at.free || time.Since(at.since) >= max(s.cfg.Term, at.term) {
			// Those that own much come late, so that what one gives up is shared.
			if !pause(ctx, min(time.Duration(s.owned.Load())*time.Millisecond, s.cfg.Term/8)) {
				return nil, nil, ctx.Err()
			}
			l, err := s.take(ctx, k, at)
			switch {
			case err == nil:
				l.GivenUp = at.free && !at.unsettled
				octx, cancel := context.WithCancelCause(ctx)
				rctx, stop := context.WithCancel(context.WithoutCancel(ctx))
				l.cancel, l.stop = cancel, stop
				s.owned.Add(1)
				go l.renew(rctx)
				return l, octx, nil
			case !isStale(err) && ctx.Err() == nil:
				s.cfg.Log.WithError(err).WithField("device", device).Warn("the device cannot be taken")
			}
			if _, err := s.look(ctx, k); err != nil && ctx.Err() == nil {
				s.cfg.Log.WithError(err).WithField("device", device).Debug("look at the owner again")
			}
		}
		wait, done := context.WithTimeout(ctx, s.cfg.Term/8)
		select {
		case <-wait.Done():
		case <-freed:
		}
		done()
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
}

// look reads a key. What it says may be old; a compare-and-set on it then fails.
func (s *Store) look(ctx context.Context, k string) (sighting, error) {
	b, err := s.bucket(ctx)
	if s.note(err); err != nil {
		return sighting{}, err
	}
	e, err := b.Last(ctx, k)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return sighting{}, err
	}
	e.Key = k
	return s.saw(e), nil
}

// take makes this controller the owner, if the key still has that revision. The epoch is
// that of the bucket before and after, else another bucket's. Logins of former owners stay in it.
func (s *Store) take(ctx context.Context, k string, at sighting) (*Lease, error) {
	b, err := s.bucket(ctx)
	if err != nil {
		return nil, err
	}
	l := &Lease{store: s, bucket: b, key: k, current: cell{key: "current." + k}, operator: cell{key: "operator." + k}, revert: cell{key: "revert." + k}, ended: make(chan struct{}), logins: at.logins, beats: make(chan struct{}), now: make(chan struct{}, 1)}
	sent := sinceBoot()
	if l.revision, err = b.Update(ctx, kv.Entry{Key: k, Value: s.value(s.cfg.Name, at.logins)}, at.revision); err != nil {
		return nil, err
	}
	after, err := s.bucket(ctx)
	if err != nil {
		return nil, err
	}
	if after.Epoch() != b.Epoch() {
		return nil, fmt.Errorf("the stream %s was created again meanwhile", stream)
	}
	l.Token = Token{Epoch: b.Epoch(), Revision: l.revision}
	l.until = sent + s.cfg.Term - margin(s.cfg.Term)
	return l, nil
}

// value is what an owner writes.
func (s *Store) value(owner string, logins []string) []byte {
	return s.text(&record{Owner: owner, Logins: logins})
}

func (s *Store) text(r *record) []byte {
	r.Session, r.At, r.Term = s.session, time.Now().UTC(), s.cfg.Term
	v, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and a time
	}
	return v
}

// isStale reports whether a compare-and-set failed because the key is another one now.
func isStale(err error) bool { return errors.Is(err, kv.ErrStale) }

// MayWrite is nil while something may be sent to the device: it is asked before every write,
// since a process may have been stopped for any time before it.
func (l *Lease) MayWrite() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.lost != nil:
		return l.lost
	case sinceBoot() >= l.until:
		return fmt.Errorf("%w any more: NATS has not confirmed it in time", ErrNotOwner)
	}
	return nil
}

// renew writes the key again and again, and ends the ownership where that does not succeed.
func (l *Lease) renew(ctx context.Context) {
	defer close(l.ended)
	term := l.store.cfg.Term
	for l.pause(ctx, term/4) {
		err := l.beat(ctx)
		if ctx.Err() != nil {
			return
		}
		if may := l.MayWrite(); may != nil {
			l.end(may)
			return
		}
		if err != nil {
			l.store.cfg.Log.WithError(err).WithField("key", l.key).Warn("the ownership of a device is not confirmed")
		}
	}
}

// pause waits until the next renewal is due, or asked for; false: ctx has ended.
func (l *Lease) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	case <-l.now:
	}
	return true
}

// Open implements vendors.Logins.
func (l *Lease) Open() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.logins)
}

// Keep implements vendors.Logins.
func (l *Lease) Keep(ctx context.Context, logins []string) error {
	l.mu.Lock()
	l.logins = slices.Clone(logins)
	l.version++
	version := l.version
	l.mu.Unlock()
	select {
	case l.now <- struct{}{}:
	default: // it is asked for
	}
	for {
		l.mu.Lock()
		kept, beat, lost := l.kept >= version, l.beats, l.lost
		l.mu.Unlock()
		switch {
		case kept:
			return nil
		case lost != nil:
			return lost
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.ended:
			return l.MayWrite()
		case <-beat:
		}
	}
}

// beat is one renewal. An error without a loss is tried again until the term ends.
func (l *Lease) beat(ctx context.Context) error {
	l.mu.Lock()
	logins, version := l.logins, l.version
	l.mu.Unlock()
	sent := sinceBoot()
	revision, err := l.bucket.Update(ctx, kv.Entry{Key: l.key, Value: l.store.value(l.store.cfg.Name, logins)}, l.revision)
	switch {
	case err == nil:
		l.mu.Lock()
		l.revision, l.until, l.kept = revision, sent+l.store.cfg.Term-margin(l.store.cfg.Term), version
		close(l.beats)
		l.beats = make(chan struct{})
		l.mu.Unlock()
		return nil
	case !isStale(err):
		return err
	}
	// The write before may have arrived, and its answer not: the next one builds on it.
	e, err := l.bucket.Last(ctx, l.key)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return err
	}
	switch r := parse(e); {
	case r.Session == l.store.session && r.Owner != "":
		l.mu.Lock()
		l.revision = e.Revision
		l.mu.Unlock()
		return errors.New("an answer of NATS was lost")
	case r.Owner != "":
		l.end(fmt.Errorf("%w any more: %s does", ErrNotOwner, r.Owner))
		return nil
	}
	l.end(fmt.Errorf("%w any more: its key is gone", ErrNotOwner))
	return nil
}

// end ends the ownership; the first cause counts.
func (l *Lease) end(cause error) {
	l.mu.Lock()
	first := l.lost == nil
	if first {
		l.lost = cause
	}
	l.mu.Unlock()
	if first {
		l.store.owned.Add(-1)
		l.cancel(cause)
	}
}

// Close gives the device up, when nothing is written to it any more: others need not wait for a
// term. Where something may be on its way to the device still, as its last answer did not come,
// unsettled has the next owner wait for that.
func (l *Lease) Close(ctx context.Context, unsettled bool) error {
	owned := l.MayWrite() == nil
	l.end(fmt.Errorf("%w any more: it gave it up", ErrNotOwner))
	l.stop()
	<-l.ended
	if !owned {
		return nil
	}
	free := record{Unsettled: unsettled}
	if unsettled {
		free.Logins = l.Open()
	}
	_, err := l.bucket.Update(ctx, kv.Entry{Key: l.key, Value: l.store.text(&free)}, l.revision)
	if isStale(err) {
		return nil // it is another's
	}
	return err
}
