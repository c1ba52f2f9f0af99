package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/agent/api"
)

// TestWhy: the newest records of a port, and why there are none.
func TestWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := one(t)
		w := &api.Why{}
		for i := range maxRecords + 7 {
			w.Records = append(w.Records, api.Record{First: api.Moment{At: time.Unix(int64(i), 0)}, Cycles: 1, Reason: strings.Repeat("x", 3*maxText)})
		}
		var failure error
		cfg.Why = func(device, port string) (*api.Why, error) {
			if device != "s1" || port != "swp1" {
				t.Errorf("asked for %s:%s", device, port)
			}
			return w, failure
		}
		_, _, client := inMemory(t, cfg)
		ask := func(port string) (a whyAnswer, code int) {
			t.Helper()
			code, _, text := get(t, client, "http://127.0.0.1:8080/api/v1/why?device=s1&port="+port, nil)
			if code == 200 {
				if err := json.Unmarshal([]byte(text), &a); err != nil {
					t.Fatal(err)
				}
			}
			return a, code
		}
		a, _ := ask("swp1")
		if len(a.Records) != maxRecords || a.More != 7 || a.Error != "" {
			t.Fatalf("%d records, %d more, %q", len(a.Records), a.More, a.Error)
		}
		if at := a.Records[0].From; !at.Equal(time.Unix(maxRecords+6, 0)) {
			t.Errorf("the first is of %v, and not the newest", at)
		}
		if n := len(a.Records[0].Notes[0]); n > maxText+10 {
			t.Errorf("a note has %d bytes", n)
		}
		failure = errors.New("another controller drives s1")
		if a, _ := ask("swp1"); a.Error != failure.Error() || len(a.Records) != 0 {
			t.Errorf("%+v", a)
		}
		if _, code := ask("other"); code != 404 {
			t.Errorf("of no port: %d", code)
		}
	})
}

// TestRanges: what a bucket stands for is learned of each profile, and devices that name ever new profiles
// do not fill the memory.
func TestRanges(t *testing.T) {
	var r rangesByProfile
	p := live("p1", 31_000, 1_000)
	s := status("s1", p)
	r.learn(s, &p)
	if got := r.of(s)[0]; got.Unit != "bit/s" || got.Of[30] != [2]uint64{30_000, 31_000} {
		t.Errorf("learned %+v", got)
	}
	for i := range 10 * mostProfiles {
		s.ProfileHash = fmt.Sprint(i)
		p.Signals[0].Bucket, p.Signals[0].T = uint8(i), uint8(i%8)
		r.learn(s, &p)
		if len(r) > mostProfiles {
			t.Fatalf("%d profiles are kept", len(r))
		}
		if n := len(r.of(s)); n > 1 || i%8 >= signalsKept && n > 0 {
			t.Errorf("profile %d has ranges of %d signals", i, n)
		}
	}
}
