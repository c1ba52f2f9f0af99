package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// TestOperator: each change says who wants it, and nothing happens where that is refused.
func TestOperator(t *testing.T) {
	m := &manager{mtus: map[string]int{"swp9": 1600}}
	socket, _ := manage(t, m, nil)
	c := NewClient(socket)
	defer c.Close()
	who := Operator{Session: "s\n1", Who: "änn@x", What: "csig apply", Since: time.Unix(1, 0).UTC()}
	c.As(&who)
	changes := map[string]func() error{
		"lock":      func() error { return c.Lock(t.Context()) },
		"configure": func() error { return c.Configure(t.Context(), []byte("text")) },
		"remove":    func() error { return c.Remove(t.Context()) },
		"MTU":       func() error { return c.SetMTU(t.Context(), "swp9", 1700) },
		"revert":    func() error { _, err := c.StartRevert(t.Context(), time.Second); return err },
		"confirm":   func() error { return c.Confirm(t.Context(), "mark") },
	}
	for name, change := range changes {
		m.admitted, m.refuses, m.mtus = nil, nil, map[string]int{}
		if err := change(); err != nil || !reflect.DeepEqual(m.admitted, []Operator{who}) {
			t.Errorf("%s: %v, admitted %+v", name, err, m.admitted)
		}
		m.file, m.mtus, m.armed, m.refuses = "unchanged", nil, nil, LockedError("s1", &who)
		err := change()
		if !errors.Is(err, ErrLocked) || !errors.As(err, new(*vendors.PermanentError)) || !strings.Contains(err.Error(), "änn@x (csig apply) on s1 since 1970-01-01T00:00:01Z") {
			t.Errorf("%s: %v", name, err)
		}
		if m.file != "unchanged" || m.mtus != nil || m.armed != nil {
			t.Errorf("%s was refused, and happened", name)
		}
	}
	if err := c.Unlock(t.Context()); err != nil || m.left != who.Session {
		t.Errorf("%v, left %q", err, m.left)
	}
	m.refuses = nil
	for name, header := range map[string]string{"no JSON": "x", "no session": `{"who":"x"}`, "too long": `{"session":"` + strings.Repeat("x", maxOperator) + `"}`} {
		m.admitted = nil
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://agent"+LockPath, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(operatorHeader, header)
		resp, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnprocessableEntity || len(m.admitted) > 0 {
			t.Errorf("%s: %s, admitted %+v", name, resp.Status, m.admitted)
		}
	}
}

// shelf keeps one journal.
type shelf struct {
	id   string
	text []byte
	by   Operator
}

func (s *shelf) Journals(context.Context) ([]Journal, error) {
	return []Journal{{ID: s.id, Who: "\x1b[31mred", Size: int64(len(s.text))}}, nil
}

func (s *shelf) Journal(_ context.Context, id string, at int64) ([]byte, error) {
	if id != s.id {
		return nil, nil
	}
	return s.text[at:min(at+MaxPart, int64(len(s.text)))], nil
}

func (s *shelf) AppendJournal(_ context.Context, id string, at int64, part []byte, by Operator) error {
	if at != int64(len(s.text)) {
		return &vendors.PermanentError{Err: errors.New("another operator")}
	}
	s.id, s.text, s.by = id, append(s.text, part...), by
	return nil
}

func TestJournals(t *testing.T) {
	s, ln := inMemory(t, nil)
	kept := &shelf{}
	s.Keep(kept)
	c := clientOf(t, ln)
	who := Operator{Session: "s", Who: "ann@x"}
	c.As(&who)
	const id = "0123456789abcdef"
	text := bytes.Repeat([]byte("\x00\xff\n"), MaxPart/3)
	if err := c.AppendJournal(t.Context(), id, 0, text); err != nil || kept.by.Who != "ann@x" {
		t.Fatalf("%v, by %+v", err, kept.by)
	}
	if err := c.AppendJournal(t.Context(), id, int64(len(text)), []byte("end")); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Journal(t.Context(), id, 0); err != nil || !bytes.Equal(got, kept.text[:MaxPart]) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if got, err := c.Journal(t.Context(), id, int64(len(kept.text))); err != nil || len(got) != 0 {
		t.Errorf("behind its end: %q, %v", got, err)
	}
	list, err := c.Journals(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != id || strings.ContainsRune(list[0].Who, '\x1b') {
		t.Errorf("%+v, %v", list, err)
	}
	size := len(kept.text)
	for name, f := range map[string]func() error{
		"another operator": func() error { return c.AppendJournal(t.Context(), id, 1, []byte("x")) },
		"a part too long":  func() error { return c.AppendJournal(t.Context(), id, int64(size), make([]byte, MaxPart+1)) },
		"a negative place": func() error { _, err := c.Journal(t.Context(), id, -1); return err },
		"no ID":            func() error { _, err := c.Journal(t.Context(), "0123", 0); return err },
	} {
		if err := f(); !errors.As(err, new(*vendors.PermanentError)) || len(kept.text) != size {
			t.Errorf("%s: %v, %d bytes", name, err, len(kept.text))
		}
	}
	without, _ := manage(t, &manager{}, nil)
	plain := NewClient(without)
	defer plain.Close()
	if _, err := plain.Journals(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an agent that keeps none: %v", err)
	}
}
