package gnmi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/csig-agent/csig/protocol/gnmi"
)

// run keeps a subscription until ctx ends, or until it turns out that the target has to be
// polled.
func (s *Source) run(ctx context.Context) {
	defer close(s.stopped)
	wait := s.cfg.Backoff
	for {
		complete, err := s.session(ctx)
		if ctx.Err() != nil || err == nil {
			return
		}
		if errors.Is(err, errOtherOrigin) {
			continue
		}
		if complete {
			wait = s.cfg.Backoff
		}
		if errors.Is(err, gnmi.ErrCredentials) {
			wait = s.cfg.MaxBackoff
		}
		// Devices that lost one collector at the same time do not get all of
		// it back at the same time.
		t := time.NewTimer(wait*4/5 + rand.N(wait*2/5+1))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		wait = min(2*wait, s.cfg.MaxBackoff)
	}
}

// session subscribes in the first shape that the target accepts, and takes in what comes
// until the stream ends, or returns nil where the target has to be polled. complete
// reports whether the target had sent everything.
func (s *Source) session(ctx context.Context) (complete bool, err error) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.live = false
		if errors.Is(err, errOtherOrigin) {
			return
		}
		if s.err = err; err != nil {
			s.info.LastError = err.Error()
		}
		s.notify()
	}()
	encs, version, err := s.target.Capabilities(ctx)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	s.encoding = encs[0]
	s.info.Version, s.info.Encoding = version, encs[0].String()
	s.mu.Unlock()
	if s.cfg.Mode == Get {
		s.polling()
		return false, nil
	}
	list := shapes(s.cfg.Mode, encs, len(s.ports))
	var first error
	for ; s.shape < len(list); s.shape++ {
		sh := list[s.shape]
		s.mu.Lock()
		sh.origin = s.origin
		s.mu.Unlock()
		complete, err := s.subscribe(ctx, sh)
		if !gnmi.Refused(err) {
			return complete, err
		}
		if first == nil {
			first = err
		}
	}
	s.shape = 0
	if s.cfg.Mode != Auto {
		return false, fmt.Errorf("%w: it refuses each kind of subscription that mode %v allows: %w", ErrRefused, s.cfg.Mode, first)
	}
	// The subscriptions may have been refused for a reason that passes.
	if err := s.fetchSome(ctx, statePart, []int{0}); err != nil {
		if errors.Is(err, ErrRefused) {
			err = fmt.Errorf("%w; of the subscriptions: %w", err, first)
		}
		return false, err
	}
	s.polling()
	return false, nil
}

// polling leaves it to Read to ask the target.
func (s *Source) polling() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.Mode, s.info.Request = Get, "get"
}

// subscribe keeps one stream. An error for which gnmi.Refused holds is the target's answer to the
// request.
func (s *Source) subscribe(ctx context.Context, sh shape) (complete bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(s.cfg.Timeout, func() {
		cancel(fmt.Errorf("%w: nothing came in %v", gnmi.ErrNoAnswer, s.cfg.Timeout))
	})
	defer watch.Stop()
	stream, err := s.target.Subscribe(ctx, sh.request(&s.cfg))
	if err != nil {
		return false, err
	}
	probing := make(chan struct{})
	defer func() {
		cancel(nil)
		<-probing
	}()
	go s.probe(ctx, probing)

	got := false
	for {
		reply, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("%w: closed by the target", ErrStream)
			}
			if got && gnmi.Refused(err) {
				// It did work, so it is no answer to the request.
				err = fmt.Errorf("%w: %s", ErrStream, err.Error())
			}
			return complete, err
		}
		// The first answer proves nothing about how long the next one may take.
		if !got {
			watch.Stop()
			watch = time.AfterFunc(s.cfg.silence, func() {
				cancel(fmt.Errorf("%w: the stream brought nothing in %v", gnmi.ErrNoAnswer, s.cfg.silence))
			})
		} else {
			watch.Reset(s.cfg.silence)
		}
		now := time.Now()
		s.mu.Lock()
		if !got {
			got = true
			s.opened(sh, now)
			s.reopen = cancel
		}
		switch r := reply.GetResponse().(type) {
		case *pb.SubscribeResponse_Update:
			s.refresh = complete
			s.take(r.Update, now)
		case *pb.SubscribeResponse_SyncResponse:
			if !complete {
				complete = true
				s.synced = now
			}
		default:
			s.info.Invalid++
		}
		s.notify()
		s.mu.Unlock()
	}
}

// opened begins the state of a new stream. The caller holds the lock.
func (s *Source) opened(sh shape, now time.Time) {
	s.stream++
	s.live, s.err = true, nil
	s.begun, s.synced, s.pruned = now, time.Time{}, false
	s.encoding = sh.encoding
	s.info.Mode, s.info.Request, s.info.Encoding = sh.mode, sh.String(), sh.encoding.String()
	s.info.Streams++
}

// notify wakes a Read that waits.
func (s *Source) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// probe asks for ports of which the stream says nothing, until ctx ends: with Get, or
// with a subscription of its own. A target that leaves out unchanged values shows that
// way that they are.
func (s *Source) probe(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	t := time.NewTicker(s.cfg.Interval)
	defer t.Stop()
	var silent []int
	once := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		silent = s.silent(time.Now(), silent[:0])
		if len(silent) == 0 {
			continue
		}
		var err error
		if once {
			err = s.fetchOnce(ctx, silent)
		} else if err = s.fetch(ctx, statePart, silent); err != nil && (gnmi.Refused(err) || errors.Is(err, ErrRefused)) {
			once = true
			continue
		}
		if err != nil {
			s.mu.Lock()
			s.info.LastError = fmt.Sprintf("asking about silent ports: %v", err)
			s.mu.Unlock()
			if gnmi.Refused(err) {
				return // for this stream
			}
		}
	}
}
