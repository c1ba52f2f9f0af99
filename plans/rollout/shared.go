package rollout

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// What operators on several machines have in common is at the agents of the devices: a lock
// for each, and where controllers share devices, the journals.

// Locker is a target that one operator at a time may change. Every change takes the lock and
// keeps it for a while.
type Locker interface {
	Lock(ctx context.Context) error
	Unlock(ctx context.Context) error
}

// Recorder is a target that keeps journals for everyone. The error wraps
// errors.ErrUnsupported where it does not.
type Recorder interface {
	// Journal is a part of one that begins at an offset in bytes, empty at its end.
	Journal(ctx context.Context, id string, at int64) ([]byte, error)
	// AppendJournal adds to one that has so many bytes; it was done already where it has these.
	AppendJournal(ctx context.Context, id string, at int64, part []byte) error
}

// maxPart is how many bytes a part of a journal has at most (api.MaxPart).
const maxPart = 256 << 10

// keepEvery is how often locks are kept between changes.
const keepEvery = 40 * time.Second

// Hold takes the locks of devices and keeps them until release. Devices that have none, or
// cannot be reached, are passed over: a change there takes the lock. lost gets the error where
// another operator has one meanwhile.
func (r *Run) Hold(ctx context.Context, names []string, busy func(error) bool, lost func(error)) (release func(), err error) {
	each := func(ctx context.Context, do func(Locker, context.Context) error) error {
		return SideBySide(ctx, r.Parallel, names, false, func(name string) error {
			err := with(ctx, r.Open, r.Limit, name, func(ctx context.Context, t Target) error {
				l, ok := vendors.As[Locker](t)
				if !ok {
					return nil
				}
				return do(l, ctx)
			})
			if err != nil && busy(err) {
				return err
			}
			return nil
		})
	}
	free := func() {
		fctx, done := context.WithTimeout(context.WithoutCancel(ctx), lockLimit)
		defer done()
		_ = each(fctx, func(l Locker, ctx context.Context) error { return l.Unlock(ctx) }) // they end by themselves, too
	}
	if err := each(ctx, func(l Locker, ctx context.Context) error { return l.Lock(ctx) }); err != nil {
		free()
		return nil, err
	}
	kctx, stop := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() {
		for vendors.Wait(kctx, keepEvery) == nil {
			if err := each(kctx, func(l Locker, ctx context.Context) error { return l.Lock(ctx) }); err != nil && kctx.Err() == nil {
				lost(err)
				return
			}
		}
	})
	return func() {
		stop()
		keeper.Wait()
		free()
	}, nil
}

// lockLimit is how long freeing the locks may take.
const lockLimit = 10 * time.Second

// Share has the journal kept at the first of the devices that keeps journals, and every
// further record before what it announces is done. shared is false where none does. The error
// is that the one there is not this one, or has more: another operator continued it.
func (r *Run) Share(ctx context.Context, names []string) (shared bool, end func(), err error) {
	s := &recorders{ctx: context.WithoutCancel(ctx), limit: cmp.Or(r.Limit, time.Minute), open: r.Open, names: slices.Clone(names), id: r.Journal.id}
	for len(s.names) > 0 {
		tctx, done := context.WithTimeout(ctx, s.limit)
		if err = s.connect(tctx); err == nil {
			_, err = s.now.Journal(tctx, s.id, 0) // does it keep any?
		}
		if done(); err == nil {
			break
		}
		s.leave()
		s.names = s.names[1:]
	}
	if len(s.names) == 0 {
		return false, func() {}, nil
	}
	if err := r.Journal.share(s); err != nil {
		s.leave()
		return false, nil, fmt.Errorf("journal %s: %w", s.id, err)
	}
	return true, s.leave, nil
}

// share brings what is kept up to date: it has to be a beginning of this journal.
func (j *Journal) share(s *recorders) error {
	f, ok := j.file.(io.ReaderAt)
	if !ok {
		return errors.ErrUnsupported
	}
	own := make([]byte, maxPart)
	for at := int64(0); ; {
		kept, err := s.read(at)
		if err != nil {
			return err
		}
		own = own[:min(maxPart, j.size-at)]
		if _, err := f.ReadAt(own, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		switch {
		case !bytes.HasPrefix(own, kept):
			return ErrContinued
		case len(kept) > 0:
			at += int64(len(kept))
		case len(own) > 0:
			if err := s.append(at, own); err != nil {
				return err
			}
			at += int64(len(own))
		default:
			j.also = s.append
			return nil
		}
	}
}

// ErrContinued is the error of a journal that another operator has gone on with: this one is of no
// use any more.
var ErrContinued = errors.New("another operator continued it: fetch the newer journal with csig journals, and use that one")

// recorders are the targets that keep a journal, one of them at a time.
type recorders struct {
	ctx   context.Context //nolint:containedctx // records have none; those of a run that ends are still written
	limit time.Duration   // for one part
	open  Open
	names []string
	id    string

	to  Target // nil: none is open
	now Recorder
}

// read is the part that is kept from an offset on.
func (s *recorders) read(at int64) (part []byte, err error) {
	err = s.do(func(ctx context.Context) error {
		part, err = s.now.Journal(ctx, s.id, at)
		return err
	})
	return part, err
}

// append adds a part of any size.
func (s *recorders) append(at int64, text []byte) error {
	for len(text) > 0 {
		part := text[:min(len(text), maxPart)]
		if err := s.do(func(ctx context.Context) error { return s.now.AppendJournal(ctx, s.id, at, part) }); err != nil {
			return err
		}
		at, text = at+int64(len(part)), text[len(part):]
	}
	return nil
}

// do does it at the one that is open, and else at one after the other: controllers that lost one
// of them take their time.
func (s *recorders) do(what func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.limit)
	defer cancel()
	for {
		if err = s.connect(ctx); err == nil {
			err = what(ctx)
		}
		if err == nil || vendors.IsPermanent(err) {
			return err
		}
		s.leave()
		s.names = append(s.names[1:], s.names[0])
		if vendors.Wait(ctx, nextRecorder) != nil {
			return err
		}
	}
}

// nextRecorder is the pause before the next one is tried.
const nextRecorder = 200 * time.Millisecond

// connect opens the first.
func (s *recorders) connect(ctx context.Context) error {
	if s.to != nil {
		return nil
	}
	t, err := s.open(ctx, s.names[0])
	if err != nil {
		return err
	}
	r, ok := vendors.As[Recorder](t)
	if !ok {
		return errors.Join(errors.ErrUnsupported, t.Close())
	}
	s.to, s.now = t, r
	return nil
}

// leave closes it.
func (s *recorders) leave() {
	if s.to != nil {
		_ = s.to.Close() // a connection
		s.to, s.now = nil, nil
	}
}
