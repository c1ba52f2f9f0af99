package owner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/csig-agent/csig/controller/owner/kv"
)

// epoch is the metadata of a stream with the bucket's epoch.
const epoch = "csig-epoch"

// createLimit is how long a stream may take to be created: its servers agree, and write files.
const createLimit = 10 * time.Second

// natsStore implements kv.Store over a connection to NATS: a bucket is a stream.
type natsStore struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	replicas int // of a stream that is created
}

func newNATSStore(nc *nats.Conn, wait time.Duration, replicas int) (kv.Store, error) {
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(wait))
	if err != nil {
		return nil, err
	}
	return &natsStore{nc, js, replicas}, nil
}

// natsBucket is a stream of JetStream.
type natsBucket struct {
	of     *natsStore
	cfg    kv.Config
	stream jetstream.Stream
	epoch  uint64
}

// streamName returns the name of a bucket's stream.
func streamName(b *kv.Config) string {
	if b.Plain {
		return b.Name
	}
	return "KV_" + b.Name
}

// prefix returns what the subjects of a bucket begin with.
func prefix(b *kv.Config) string {
	if b.Plain {
		return b.Name + "."
	}
	return "$KV." + b.Name + "."
}

// Open implements kv.Store.
func (s *natsStore) Open(ctx context.Context, cfg kv.Config) (kv.Bucket, error) {
	st, err := s.js.Stream(ctx, streamName(&cfg))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		cctx, done := context.WithTimeout(ctx, createLimit)
		st, err = s.js.CreateStream(cctx, s.create(&cfg))
		done()
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another controller was first
			st, err = s.js.Stream(ctx, streamName(&cfg))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the stream %s: %w", streamName(&cfg), err)
	}
	b := &natsBucket{of: s, cfg: cfg, stream: st}
	if b.epoch, err = strconv.ParseUint(st.CachedInfo().Config.Metadata[epoch], 10, 64); err != nil {
		b.epoch = 0 // csig did not create it
	}
	return b, nil
}

// create returns the stream of a bucket that is missing.
func (s *natsStore) create(b *kv.Config) jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name: streamName(b), Description: b.Description, Replicas: s.replicas, MaxMsgsPerSubject: int64(b.History),
		MaxMsgSize: int32(b.MaxValue), MaxBytes: b.MaxBytes, DenyDelete: b.Keep,
	}
	if b.Memory {
		c.Storage = jetstream.MemoryStorage
	}
	if b.Epoch > 0 {
		c.Metadata = map[string]string{epoch: strconv.FormatUint(b.Epoch, 10)}
	}
	if b.Plain {
		c.Subjects = []string{b.Name + ".*"}
		return c
	}
	// As CreateKeyValue does, but for FirstSeq: what was seen of a stream that is created again
	// fits no revision of the new one, in a compare-and-set, too; and for AllowRollup, with which
	// one message takes the place of all.
	c.Subjects, c.DenyDelete, c.AllowDirect, c.Discard = []string{prefix(b) + ">"}, true, true, jetstream.DiscardNew
	c.FirstSeq = 1 + rand.Uint64N(1<<(revisionBits-1))
	return c
}

func (b *natsBucket) Epoch() uint64 { return b.epoch }

func (b *natsBucket) Last(ctx context.Context, key string) (kv.Entry, error) {
	return b.entry(b.stream.GetLastMsgForSubject(ctx, prefix(&b.cfg)+key))
}

func (b *natsBucket) Next(ctx context.Context, key string, from uint64) (kv.Entry, error) {
	return b.entry(b.stream.GetMsg(ctx, max(from, 1), jetstream.WithGetMsgSubject(prefix(&b.cfg)+key)))
}

// entry returns a message of the stream as an entry.
func (b *natsBucket) entry(m *jetstream.RawStreamMsg, err error) (kv.Entry, error) {
	if err != nil {
		return kv.Entry{}, plainError(err)
	}
	e := kv.Entry{Key: strings.TrimPrefix(m.Subject, prefix(&b.cfg)), Revision: m.Sequence, Time: m.Time, Value: m.Data}
	e.Header = headers(m.Header)
	// What kv.Delete and kv.Purge of NATS write in the key's place.
	e.Deleted = !b.cfg.Plain && (e.Header["KV-Operation"] != "" || e.Header[jetstream.MarkerReasonHeader] != "")
	return e, nil
}

func headers(h nats.Header) map[string]string {
	if len(h) == 0 {
		return nil
	}
	out := map[string]string{}
	for name := range h {
		out[name] = h.Get(name)
	}
	return out
}

func (b *natsBucket) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return b.publish(ctx, &kv.Entry{Key: key, Value: value})
}

func (b *natsBucket) Update(ctx context.Context, e kv.Entry, last uint64) (uint64, error) {
	return b.publish(ctx, &e, jetstream.WithExpectLastSequencePerSubject(last))
}

func (b *natsBucket) publish(ctx context.Context, e *kv.Entry, opts ...jetstream.PublishOpt) (uint64, error) {
	ack, err := b.of.js.PublishMsg(ctx, message(kv.Message{Subject: prefix(&b.cfg) + e.Key, Data: e.Value, Header: e.Header}), opts...)
	if err != nil {
		return 0, plainError(err)
	}
	return ack.Sequence, nil
}

// plainError makes an error of NATS one of package kv.
func plainError(err error) error {
	var api *jetstream.APIError
	code := jetstream.ErrorCode(0)
	if errors.As(err, &api) {
		code = api.ErrorCode
	}
	kind := error(nil)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		kind = kv.ErrNotFound
	case code == jetstream.JSErrCodeStreamWrongLastSequence, code == jetstream.JSErrCodeStreamWrongLastSequenceConstant: // the second: of a stream with replicas
		kind = kv.ErrStale
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, nats.ErrNoResponders):
		kind = kv.ErrNoBucket
	case code == tooLong:
		kind = kv.ErrTooLong
	default:
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// tooLong is the server's error code for a message that is longer than MaxMsgSize.
const tooLong = 10054

func (b *natsBucket) Keys(ctx context.Context) (keys []string, err error) {
	info, err := b.stream.Info(ctx, jetstream.WithSubjectFilter(prefix(&b.cfg)+">"))
	if err != nil {
		return nil, plainError(err)
	}
	for subject := range info.State.Subjects {
		keys = append(keys, strings.TrimPrefix(subject, prefix(&b.cfg)))
	}
	slices.Sort(keys)
	return keys, nil
}

func (b *natsBucket) Watch(ctx context.Context, f func(kv.Entry)) error {
	view, err := b.of.js.KeyValue(ctx, b.cfg.Name)
	if err != nil {
		return err
	}
	w, err := view.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = w.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return errors.New("NATS ended the watch")
			case e != nil: // nil: what follows has happened since
				f(kv.Entry{Key: e.Key(), Revision: e.Revision(), Time: e.Created(), Value: e.Value(), Deleted: e.Operation() != jetstream.KeyValuePut})
			}
		}
	}
}

func (s *natsStore) Inbox() string { return s.nc.NewInbox() }

func (s *natsStore) Subscribe(subject string, f func(kv.Message)) (func() error, error) {
	sub, err := s.nc.Subscribe(subject, func(m *nats.Msg) { f(received(m)) })
	if err != nil {
		return nil, err
	}
	return sub.Unsubscribe, nil
}

func (s *natsStore) Flush(limit time.Duration) error { return s.nc.FlushTimeout(limit) }

func (s *natsStore) Publish(m kv.Message) error { return s.nc.PublishMsg(message(m)) }

func (s *natsStore) Request(ctx context.Context, subject string, data []byte) (kv.Message, error) {
	m, err := s.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Data: data})
	if errors.Is(err, nats.ErrNoResponders) {
		err = kv.ErrNoReader
	}
	if err != nil {
		return kv.Message{}, err
	}
	return received(m), nil
}

func received(m *nats.Msg) kv.Message {
	return kv.Message{Subject: m.Subject, Data: m.Data, Header: headers(m.Header), Reply: m.Reply}
}

func message(m kv.Message) *nats.Msg {
	out := &nats.Msg{Subject: m.Subject, Reply: m.Reply, Data: m.Data, Header: nats.Header{}}
	for name, value := range m.Header {
		out.Header.Set(name, value)
	}
	return out
}
