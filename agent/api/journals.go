package api

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// JournalsPath lists the journals that controllers keep for all operators. JournalsPath/ID has
// one: GET ?at= a part from an offset on, in bytes, POST ?at= adds a part to one of that size.
const JournalsPath = "/v1/journals"

// Formats of the answers.
const (
	JournalsFormat = "csig.journals/v1"
	PartFormat     = "csig.journal-part/v1"
)

// MaxPart is how many bytes a part of a journal has at most.
const MaxPart = 256 << 10

// MostJournals is how many are listed; older ones can be fetched by their IDs.
const MostJournals = 1000

// Journals keeps journals. Errors wrap a *vendors.PermanentError where a retry would fail, too.
type Journals interface {
	Journals(ctx context.Context) ([]Journal, error)
	Journal(ctx context.Context, id string, at int64) ([]byte, error)
	AppendJournal(ctx context.Context, id string, at int64, part []byte, by Operator) error
}

// Journal is one of a list.
type Journal struct {
	ID      string    `json:"id"`
	Who     string    `json:"who"`   // wrote to it last: USER@HOST
	What    string    `json:"what"`  // the command
	Began   time.Time `json:"began"` // by the controllers' clocks
	Changed time.Time `json:"changed"`
	Size    int64     `json:"size_bytes"`
}

// JournalList is the answer of JournalsPath.
type JournalList struct {
	Format   string    `json:"format"`
	Journals []Journal `json:"journals"` // the newest first, MostJournals at most
}

// part is a part of a journal.
type part struct {
	Format string   `json:"format"`
	Text   fileText `json:"base64"`
}

var journalID = regexp.MustCompile(`^[0-9a-f]{16}$`)

// place is the journal and the offset of a request.
func place(r *http.Request) (id string, at int64, err error) {
	id = r.PathValue("id")
	at, err = strconv.ParseInt(argument(r, "at"), 10, 64)
	if err != nil || at < 0 || !journalID.MatchString(id) {
		err = &vendors.PermanentError{Err: errors.New("which part of a journal: want its ID, of 16 hexadecimal digits, and ?at= an offset in bytes")}
	}
	return id, at, err
}

// Keep lets the server answer JournalsPath. It is called before Serve.
func (s *Server) Keep(j Journals) {
	s.mux.HandleFunc("GET "+JournalsPath, answer(func(r *http.Request) (any, error) {
		list, err := j.Journals(r.Context())
		return JournalList{JournalsFormat, listed(list)}, err
	}))
	s.mux.HandleFunc("GET "+JournalsPath+"/{id}", answer(func(r *http.Request) (any, error) {
		id, at, err := place(r)
		if err != nil {
			return nil, err
		}
		text, err := j.Journal(r.Context(), id, at)
		return part{PartFormat, fileText(base64.StdEncoding.EncodeToString(text))}, err
	}))
	s.mux.HandleFunc("POST "+JournalsPath+"/{id}", answer(func(r *http.Request) (any, error) {
		id, at, err := place(r)
		if err != nil {
			return nil, err
		}
		by, err := operatorOf(r)
		if err != nil {
			return nil, err
		}
		text, err := s.body(r, MaxPart)
		if err != nil {
			return nil, err
		}
		return struct{}{}, j.AppendJournal(r.Context(), id, at, text, by)
	}))
}

// Journals lists what controllers keep. The error wraps errors.ErrUnsupported of an agent
// that keeps none.
func (c *Client) Journals(ctx context.Context) ([]Journal, error) {
	var l JournalList
	err := c.object(ctx, http.MethodGet, JournalsPath, nil, &l, JournalsFormat, &l.Format)
	return l.Journals, err
}

// Journal is a part of a journal that begins at an offset in bytes, empty at its end.
func (c *Client) Journal(ctx context.Context, id string, at int64) ([]byte, error) {
	var p part
	if err := c.object(ctx, http.MethodGet, journalAt(id, at), nil, &p, PartFormat, &p.Format); err != nil {
		return nil, err
	}
	text, err := base64.StdEncoding.DecodeString(string(p.Text))
	if err != nil || len(text) > MaxPart {
		return nil, errors.New("agent at " + c.name + ": its part of a journal is none")
	}
	return text, nil
}

// AppendJournal adds to a journal that has so many bytes.
func (c *Client) AppendJournal(ctx context.Context, id string, at int64, text []byte) error {
	return c.change(ctx, http.MethodPost, journalAt(id, at), text)
}

func journalAt(id string, at int64) string {
	return JournalsPath + "/" + url.PathEscape(id) + "?at=" + strconv.FormatInt(at, 10)
}
