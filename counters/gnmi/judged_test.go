package gnmi

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/csig-agent/csig/counters/refreshtest"
	"github.com/csig-agent/csig/protocol/gnmi"
)

// stamping is a target that samples its ports in a period of their own, and stamps what it sends.
type stamping struct {
	ports   []string
	truth   []*refreshtest.Known
	period  time.Duration
	grain   time.Duration // of its times
	behind  time.Duration // how far its clock is
	uneven  bool          // samples come up to half a period early
	delayed bool          // one notification of ten is up to three periods late, and others overtake it
}

// serve sends samples until the stream ends.
func (d *stamping) serve(_ *pb.SubscriptionList, stream pb.GNMI_SubscribeServer) error {
	ctx, stop := context.WithCancel(stream.Context())
	var mu sync.Mutex // of the stream
	var err error
	put := func(do func() error) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		if err = do(); err != nil {
			stop()
		}
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	begun := time.Now()
	note := func(i int) func() error {
		at := time.Now()
		octets, frames := d.truth[i].Counters(at)
		n := leafNote(at.Add(-d.behind).Truncate(d.grain).UnixNano(), d.ports[i], operStatus, "UP", portSpeed, "SPEED_1GB", outOctets, octets, outPkts, frames)
		return func() error { return send(stream, n) }
	}
	for i := range d.ports {
		put(note(i))
	}
	put(func() error { return sendSync(stream) })
	for i := range d.ports {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			timer := time.NewTimer(0)
			<-timer.C
			defer timer.Stop()
			next := begun.Add(d.period * time.Duration(i+1) / time.Duration(len(d.ports)+1))
			for {
				at := next
				if d.uneven {
					at = at.Add(-time.Duration(rnd.Int64N(int64(d.period / 2))))
				}
				next = next.Add(d.period)
				timer.Reset(time.Until(at))
				select {
				case <-ctx.Done():
					return
				case <-timer.C:
				}
				now := note(i)
				if !d.delayed || rnd.IntN(10) > 0 {
					put(now)
					continue
				}
				by := time.Duration(rnd.Int64N(int64(3 * d.period)))
				all.Go(func() {
					late := time.NewTimer(by)
					defer late.Stop()
					select {
					case <-ctx.Done():
					case <-late.C:
						put(now)
					}
				})
			}
		})
	}
	<-ctx.Done()
	mu.Lock()
	defer mu.Unlock()
	return err
}

// TestLongJudged reads targets whose notifications are late, early and of whole seconds: no load is further off than
// is said of it. CSIG_JUDGED=1h is how long, on virtual time.
func TestLongJudged(t *testing.T) { synctest.Test(t, testJudged) }

func testJudged(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), refreshtest.Long(t, 100*time.Second))
	defer stop()
	var judged []*refreshtest.Real
	for n, test := range []struct {
		name string
		stamping
	}{
		{"in time", stamping{period: time.Second, grain: 1}},
		{"late by up to 3 periods", stamping{period: time.Second, grain: 1, delayed: true}},
		{"stamped 0.2 s early", stamping{period: time.Second, grain: 1, behind: 200 * time.Millisecond}},
		{"sampled early by up to half a period", stamping{period: time.Second, grain: 1, uneven: true}},
		{"of whole seconds", stamping{period: time.Second, grain: time.Second}},
		{"of whole seconds, and late", stamping{period: time.Second, grain: time.Second, delayed: true}},
		{"of whole seconds, early, each 1.3 s", stamping{period: 1300 * time.Millisecond, grain: time.Second, behind: 200 * time.Millisecond, uneven: true}},
	} {
		d := test.stamping
		d.ports, d.truth = []string{"e1", "e2", "e3", "e4"}, refreshtest.KnownLoads(uint64(n), time.Now())
		var truth []refreshtest.Truth
		for _, k := range d.truth {
			truth = append(truth, k)
		}
		src := open(t, Config{Config: gnmi.Config{Dial: serve(t, &script{encodings: []pb.Encoding{pb.Encoding_PROTO}, subscribe: d.serve})}, Ports: d.ports, Interval: time.Second})
		judged = append(judged, &refreshtest.Real{Name: test.name, Source: src, Every: time.Second, Speed: refreshtest.Speed, Ports: d.ports, Truth: truth, Behind: d.behind})
	}
	refreshtest.Begin(ctx, t, judged)()
}
