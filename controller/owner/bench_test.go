package owner

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csig-agent/csig/controller/owner/kv"
)

// BenchmarkConfirm is how many confirmations of owners three servers take in a second, each of
// which they write to their disks, here one disk for all: an owner of many devices asks for as many
// as four a device in each term.
func BenchmarkConfirm(b *testing.B) {
	const keys, watched = 1000, 10 * time.Second
	addr := free(b, 3)
	var servers []*Server
	for i := range addr {
		s, err := Serve(b.Context(), ServerConfig{Name: addr[i], Dir: b.TempDir(), Listen: addr[i], Peers: peersAt(slices.Delete(slices.Clone(addr), i, i+1)...), Log: quiet()})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(s.Close)
		servers = append(servers, s)
	}
	s, err := Open(connected(b, servers[0]), Config{Name: "c1", Term: 30 * time.Second, Replicas: 3, Log: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	var on kv.Bucket
	for end := time.Now().Add(time.Minute); ; { // the servers find each other
		if on, err = s.bucket(b.Context()); err == nil {
			break
		}
		if time.Now().After(end) {
			b.Fatal(err)
		}
	}
	var revisions [keys]uint64
	for b.Loop() {
		var done atomic.Uint64
		var all sync.WaitGroup
		began := time.Now()
		for i := range keys {
			all.Go(func() {
				k, revision := fmt.Sprint("leaf", i), &revisions[i]
				for time.Since(began) < watched {
					var err error
					*revision, err = on.Update(b.Context(), kv.Entry{Key: k, Value: s.value("c1", nil)}, *revision)
					if err != nil {
						b.Error(err)
						return
					}
					done.Add(1)
				}
			})
		}
		all.Wait()
		b.ReportMetric(float64(done.Load())/time.Since(began).Seconds(), "confirmations/s")
	}
	b.ReportMetric(0, "ns/op")
}
