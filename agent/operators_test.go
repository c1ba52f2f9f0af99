package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api"
)

// lockStore is a Store of the lock in memory.
type lockStore struct {
	Store
	now Lock
	err error
}

func (s *lockStore) Lock(context.Context) (Lock, error) { return s.now, s.err }
func (s *lockStore) KeepLock(_ context.Context, now Lock) error {
	if s.err == nil {
		s.now = now
	}
	return s.err
}

// TestOneOperator: while one operator changes a device, others are refused by their name, in the
// next agent of the device, too; csig off ends that.
func TestOneOperator(t *testing.T) {
	ann, bob := api.Operator{Session: "a", Who: "ann@x", What: "csig apply"}, api.Operator{Session: "b", Who: "bob@y", What: "csig rollback"}
	again := ann
	again.Since = again.Since.Add(time.Second)
	off, unnamed := api.Operator{Session: "off", Who: "eve@z", What: "csig off", Force: true}, api.Operator{}
	type step struct {
		do   string
		by   api.Operator
		want string // "": it may
	}
	for name, steps := range map[string][]step{
		"in turn":            {{"admit", ann, ""}, {"admit", bob, "ann@x (csig apply)"}, {"admit", unnamed, "ann@x"}, {"leave", ann, ""}, {"admit", bob, ""}, {"admit", ann, "bob@y"}},
		"not another's":      {{"admit", ann, ""}, {"leave", bob, ""}, {"admit", bob, "ann@x"}},
		"kept":               {{"admit", ann, ""}, {"most of the term", ann, ""}, {"admit", ann, ""}, {"most of the term", ann, ""}, {"admit", bob, "ann@x"}},
		"killed":             {{"admit", ann, ""}, {"term", ann, ""}, {"admit", bob, ""}, {"admit", ann, "bob@y"}},
		"unnamed takes none": {{"admit", unnamed, ""}, {"admit", ann, ""}},
		"the next agent":     {{"admit", ann, ""}, {"restart", ann, ""}, {"admit", bob, "ann@x"}, {"admit", ann, ""}},
		"killed with it":     {{"admit", ann, ""}, {"restart", ann, ""}, {"admit", bob, "ann@x"}, {"term", ann, ""}, {"admit", bob, ""}},
		"left, and restart":  {{"admit", ann, ""}, {"leave", ann, ""}, {"restart", ann, ""}, {"admit", bob, ""}},
		"off":                {{"admit", ann, ""}, {"admit", off, ""}, {"admit", ann, "eve@z (csig off) ended this"}, {"admit", off, ""}, {"admit", bob, ""}, {"admit", ann, "eve@z"}},
		"a command after it": {{"admit", ann, ""}, {"admit", off, ""}, {"admit", ann, "eve@z"}, {"admit", again, ""}},
		"off, and restart":   {{"admit", ann, ""}, {"admit", off, ""}, {"restart", ann, ""}, {"admit", ann, "eve@z"}, {"admit", bob, ""}, {"restart", ann, ""}, {"admit", ann, "eve@z"}},
		"off takes none":     {{"admit", off, ""}, {"admit", ann, ""}},
		"after an off":       {{"admit", ann, ""}, {"admit", off, ""}, {"term", ann, ""}, {"admit", ann, ""}},
		"no store":           {{"break", ann, ""}, {"admit", ann, "cannot be read: no quorum"}, {"admit", off, ""}},
		"off without store":  {{"admit", ann, ""}, {"break", ann, ""}, {"admit", off, ""}, {"admit", ann, "eve@z"}},
		"store breaks later": {{"admit", ann, ""}, {"leave", ann, ""}, {"break", ann, ""}, {"admit", bob, "cannot be stored: no quorum"}, {"mend", ann, ""}, {"admit", ann, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &lockStore{}
				d := NewDaemon(Config{Store: store})
				for i, s := range steps {
					var err error
					switch s.do {
					case "admit":
						err = d.Admit(t.Context(), s.by)
					case "leave":
						err = d.Leave(t.Context(), s.by.Session)
					case "most of the term":
						time.Sleep(api.LockTerm - time.Second)
					case "term":
						time.Sleep(api.LockTerm)
					case "restart":
						d = NewDaemon(Config{Store: store})
					case "break":
						store.err = errors.New("no quorum")
					case "mend":
						store.err = nil
					}
					if (err == nil) != (s.want == "") || err != nil && !strings.Contains(err.Error(), s.want) {
						t.Fatalf("step %d, %s by %q: %v, want %q", i+1, s.do, s.by.Who, err, s.want)
					}
				}
			})
		})
	}
}
