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

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/controller/owner/kv"
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

func (s *Store) journalBucket(ctx context.Context) (kv.Bucket, error) {
	return s.kv.Open(ctx, kv.Config{Name: journals, Description: "journals of csig apply (csig)", Plain: true, MaxBytes: journalsLimit, MaxValue: api.MaxPart + 4096, Keep: true})
}

// end is the last part of a journal, and the journal's size; without a revision there is none.
func end(ctx context.Context, b kv.Bucket, id string) (last kv.Entry, size int64, err error) {
	last, err = b.Last(ctx, id)
	if errors.Is(err, kv.ErrNotFound) {
		return kv.Entry{}, 0, nil
	}
	if err != nil {
		return kv.Entry{}, 0, err
	}
	size, err = strconv.ParseInt(last.Header[headerEnd], 10, 64)
	if err != nil || size < int64(len(last.Value)) {
		return kv.Entry{}, 0, errForeign
	}
	return last, size, nil
}

// AppendJournal adds a part to the journal that has so many bytes, in one compare-and-set.
func (s *Store) AppendJournal(ctx context.Context, id string, at int64, part []byte, by api.Operator) error {
	ctx, done := context.WithTimeout(ctx, journalLimit)
	defer done()
	b, err := s.journalBucket(ctx)
	if err != nil {
		return err
	}
	for {
		last, size, err := end(ctx, b, id)
		switch {
		case err != nil:
			return err
		case last.Revision > 0 && size == at+int64(len(part)) && bytes.Equal(last.Value, part):
			return nil // its answer was lost
		case size != at:
			return &vendors.PermanentError{Err: fmt.Errorf("journal %s has %d bytes here, and %d there: another operator continued it", id, size, at)}
		}
		header := map[string]string{headerEnd: strconv.FormatInt(at+int64(len(part)), 10), headerWho: oneLine(by.Who), headerWhat: oneLine(by.What)}
		_, err = b.Update(ctx, kv.Entry{Key: id, Value: part, Header: header}, last.Revision)
		if isStale(err) && ctx.Err() == nil {
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
	b, err := s.journalBucket(ctx)
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
		m, err := b.Next(ctx, id, from.seq)
		if errors.Is(err, kv.ErrNotFound) {
			return text, nil
		}
		if err != nil {
			return nil, err
		}
		end, err := strconv.ParseInt(m.Header[headerEnd], 10, 64)
		begin := end - int64(len(m.Value))
		switch {
		case err != nil || begin < 0:
			return nil, errForeign
		case begin > at:
			return nil, &vendors.PermanentError{Err: fmt.Errorf("the beginning of journal %s is not kept any more", id)}
		case end <= at:
		case len(text)+len(m.Value) > api.MaxPart && len(text) > 0:
			s.goOn(id, from)
			return text, nil
		default:
			text = append(text, m.Value[at-begin:]...)
			at = end
		}
		from = cursor{at: end, seq: m.Revision + 1}
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
	b, err := s.journalBucket(ctx)
	if err != nil {
		return nil, err
	}
	ids, err := b.Keys(ctx)
	if err != nil {
		return nil, err
	}
	var out []api.Journal
	for _, id := range ids {
		last, size, err := end(ctx, b, id)
		if err != nil {
			return nil, err
		}
		if last.Revision == 0 {
			continue
		}
		first, err := b.Next(ctx, id, 1)
		if err != nil {
			return nil, err
		}
		out = append(out, api.Journal{ID: id, Who: last.Header[headerWho], What: last.Header[headerWhat], Began: first.Time, Changed: last.Time, Size: size})
	}
	slices.SortFunc(out, func(a, b api.Journal) int { return b.Changed.Compare(a.Changed) })
	return out[:min(len(out), api.MostJournals)], nil
}
