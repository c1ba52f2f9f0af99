package owner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors"
)

// TestJournalOfOperators: a journal is what was appended, in order, for every controller; of two
// that append to the same place one is refused.
func TestJournalOfOperators(t *testing.T) {
	bubble(t, func(t *testing.T, m *memory) {
		a, b := m.a, m.b
		const id = "0123456789abcdef"
		ctx := t.Context()
		if list, err := a.Journals(ctx); err != nil || len(list) != 0 {
			t.Fatalf("%+v, %v", list, err)
		}
		var want []byte
		for i := range 40 { // more than one part of the API's
			part := bytes.Repeat([]byte{byte(i)}, 1+i*1000)
			for range 2 { // the second: its answer was lost
				if err := a.AppendJournal(ctx, id, int64(len(want)), part, api.Operator{Who: "ann@x\r\nCsig-End: 1", What: "csig apply"}); err != nil {
					t.Fatal(err)
				}
			}
			want = append(want, part...)
		}
		time.Sleep(time.Second)
		if err := b.AppendJournal(ctx, "fedcba9876543210", 0, []byte("another"), api.Operator{Who: "bob@y", What: "csig rollback"}); err != nil {
			t.Fatal(err)
		}
		for name, store := range map[string]*Store{"c1": a, "c2": b} {
			var got []byte
			for {
				part, err := store.Journal(ctx, id, int64(len(got)))
				if err != nil || len(part) > api.MaxPart {
					t.Fatalf("%s: %d bytes, %v", name, len(part), err)
				}
				if len(part) == 0 {
					break
				}
				got = append(got, part...)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s reads %d bytes, want %d", name, len(got), len(want))
			}
			if part, err := store.Journal(ctx, id, 5); err != nil || !bytes.HasPrefix(want[5:], part) || len(part) == 0 {
				t.Errorf("%s from the middle of a part: %d bytes, %v", name, len(part), err)
			}
		}
		list, err := b.Journals(ctx)
		if err != nil || len(list) != 2 || list[0].ID != "fedcba9876543210" || list[0].Who != "bob@y" || list[1].Size != int64(len(want)) || list[1].What != "csig apply" || !list[0].Changed.Equal(list[1].Changed.Add(time.Second)) {
			t.Errorf("%+v, %v", list, err)
		}

		var won atomic.Int32
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				err := []*Store{a, b}[i%2].AppendJournal(context.WithoutCancel(ctx), id, int64(len(want)), fmt.Appendf(nil, "operator %d", i), api.Operator{})
				switch {
				case err == nil:
					won.Add(1)
				case !errors.As(err, new(*vendors.PermanentError)):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Errorf("%d operators appended to one place", won.Load())
		}
	})
}
