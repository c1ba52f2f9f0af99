package owner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors"
)

// journals is the stream of the journals of csig apply and csig rollback: a subject each, whose
// messages are its parts, in order.
const (
	journals      = "csig_journals"
	journalsLimit = 256 << 20 // bytes; the oldest go first
)

// Headers of a part.
const (
	headerEnd  = "Csig-End" // the journal's size with it, in bytes
	headerWho  = "Csig-Who"
	headerWhat = "Csig-What"
)

// journalLimit is how long an operator waits for a journal: no take-over does.
const journalLimit = 10 * time.Second

func (s *Store) journalStream(ctx context.Context) (jetstream.Stream, error) {
	return s.stream(ctx, jetstream.StreamConfig{
		Name: journals, Description: "journals of csig apply (csig)",
		Storage: jetstream.FileStorage, MaxBytes: journalsLimit, MaxMsgSize: api.MaxPart + 4096, DenyDelete: true,
	})
}

// end is the last part of a journal: its sequence number, the journal's size, and the part.
func (s *Store) end(ctx context.Context, st jetstream.Stream, id string) (seq uint64, size int64, last *jetstream.RawStreamMsg, err error) {
	last, err = st.GetLastMsgForSubject(ctx, journals+"."+id)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, 0, nil, nil
	}
	if err != nil {
		return 0, 0, nil, err
	}
	size, err = strconv.ParseInt(last.Header.Get(headerEnd), 10, 64)
	if err != nil || size < int64(len(last.Data)) {
		return 0, 0, nil, errForeign
	}
	return last.Sequence, size, last, nil
}

// AppendJournal adds a part to the journal that has so many bytes, in one compare-and-set.
func (s *Store) AppendJournal(ctx context.Context, id string, at int64, part []byte, by api.Operator) error {
	ctx, done := context.WithTimeout(ctx, journalLimit)
	defer done()
	st, err := s.journalStream(ctx)
	if err != nil {
		return err
	}
	for {
		seq, size, last, err := s.end(ctx, st, id)
		switch {
		case err != nil:
			return err
		case last != nil && size == at+int64(len(part)) && bytes.Equal(last.Data, part):
			return nil // its answer was lost
		case size != at:
			return &vendors.PermanentError{Err: fmt.Errorf("journal %s has %d bytes here, and %d there: another operator continued it", id, size, at)}
		}
		m := nats.NewMsg(journals + "." + id)
		m.Data = part
		m.Header.Set(headerEnd, strconv.FormatInt(at+int64(len(part)), 10))
		m.Header.Set(headerWho, oneLine(by.Who))
		m.Header.Set(headerWhat, oneLine(by.What))
		_, err = s.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(seq))
		if wrong := (*jetstream.APIError)(nil); errors.As(err, &wrong) && wrong.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence && ctx.Err() == nil {
			continue // what was read was old, or another operator writes
		}
		return err
	}
}

// oneLine is a header's value.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, s)
}

// cursor is where a reader of a journal goes on, so that the beginning is not read again.
type cursor struct {
	at  int64 // bytes
	seq uint64
}

// maxCursors bounds the readers that are remembered.
const maxCursors = 64

// Journal is what a journal has from an offset on, up to the length of a part; nothing at its end.
func (s *Store) Journal(ctx context.Context, id string, at int64) (text []byte, err error) {
	ctx, done := context.WithTimeout(ctx, journalLimit)
	defer done()
	st, err := s.journalStream(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	from := s.cursors[id]
	s.mu.Unlock()
	if from.at != at {
		from = cursor{seq: 1}
	}
	for {
		m, err := st.GetMsg(ctx, from.seq, jetstream.WithGetMsgSubject(journals+"."+id))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return text, nil
		}
		if err != nil {
			return nil, err
		}
		end, err := strconv.ParseInt(m.Header.Get(headerEnd), 10, 64)
		begin := end - int64(len(m.Data))
		switch {
		case err != nil || begin < 0:
			return nil, errForeign
		case begin > at:
			return nil, &vendors.PermanentError{Err: fmt.Errorf("the beginning of journal %s is not kept any more", id)}
		case end <= at:
		case len(text)+len(m.Data) > api.MaxPart && len(text) > 0:
			s.goOn(id, from)
			return text, nil
		default:
			text = append(text, m.Data[at-begin:]...)
			at = end
		}
		from = cursor{at: end, seq: m.Sequence + 1}
	}
}

// goOn remembers where a reader goes on.
func (s *Store) goOn(id string, at cursor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cursors) >= maxCursors {
		clear(s.cursors)
	}
	s.cursors[id] = at
}

var errForeign = fmt.Errorf("the stream %s has something that is not csig's", journals)

// Journals lists them, the newest first.
func (s *Store) Journals(ctx context.Context) ([]api.Journal, error) {
	ctx, done := context.WithTimeout(ctx, journalLimit)
	defer done()
	st, err := s.journalStream(ctx)
	if err != nil {
		return nil, err
	}
	info, err := st.Info(ctx, jetstream.WithSubjectFilter(journals+".*"))
	if err != nil {
		return nil, err
	}
	var out []api.Journal
	for subject := range info.State.Subjects {
		id := strings.TrimPrefix(subject, journals+".")
		_, size, last, err := s.end(ctx, st, id)
		if err != nil {
			return nil, err
		}
		if last == nil {
			continue
		}
		first, err := st.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(subject))
		if err != nil {
			return nil, err
		}
		out = append(out, api.Journal{ID: id, Who: last.Header.Get(headerWho), What: last.Header.Get(headerWhat), Began: first.Time, Changed: last.Time, Size: size})
	}
	slices.SortFunc(out, func(a, b api.Journal) int { return b.Changed.Compare(a.Changed) })
	return out[:min(len(out), api.MostJournals)], nil
}
