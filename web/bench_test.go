package web

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
)

// BenchmarkFollower is a round of all looks at 100 switches with 64 ports each, whose load moves, and what one
// browser is sent of it, with a history of 32 MiB that is full.
func BenchmarkFollower(b *testing.B) {
	const devices, ports, memory = 100, 64, 32 << 20
	statuses := make(map[string]*api.Status)
	cfg := &Config{Memory: memory, Status: func(device string) *api.Status { return statuses[device] }, Fleet: func() (*inventory.Fleet, []string) { return nil, nil }}
	bd := newBoard(cfg)
	for i := range devices {
		d := &boardDevice{name: fmt.Sprint("s", i), byName: make(map[string]*boardPort)}
		bd.devices = append(bd.devices, d)
	}
	second := 0
	move := func() { // a second passes
		second++
		now := time.Unix(1_800_000_000+int64(second), 0)
		for i, d := range bd.devices {
			s := status(d.name)
			s.Time = now
			for k := range ports {
				p := live(fmt.Sprint("Ethernet", 4*k), 100e9, uint64(1+(7*i+13*k+second*(k%5))%98)*1e9+(uint64(i*64+k+1)*uint64(second)*2654435761)%1_000_000_007)
				*p.WindowEnd, p.AgeNS = now, 1
				s.Ports = append(s.Ports, p)
			}
			statuses[d.name] = s
		}
	}
	round := func(at place) (place, int) {
		for _, d := range bd.devices {
			bd.look(d)
		}
		delta, at, _ := bd.since(at, "", "")
		text, err := json.Marshal(delta)
		if err != nil {
			b.Fatal(err)
		}
		return at, len(text)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var at place
	for range memory/(sampleSize*devices*ports) + 10 {
		move()
		at, _ = round(at)
	}
	column := time.Duration(0)
	for range 400 { // and an hour of the fleet's past
		second += 9
		move()
		for _, d := range bd.devices {
			for k := range statuses[d.name].Ports {
				p := &statuses[d.name].Ports[k]
				d.byName[p.Port].is = p
			}
		}
		began := time.Now()
		bd.remember(time.Unix(1_800_000_000+int64(second), 0))
		column += time.Since(began) / 400
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	sent := 0
	for b.Loop() {
		b.StopTimer()
		move()
		b.StartTimer()
		at, sent = round(at)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB-held")
	b.ReportMetric(float64(sent)/1024, "KiB-sent")
	b.ReportMetric(float64(bd.past.bytes)/(1<<20), "MiB-past")
	b.ReportMetric(bd.past.every.Seconds(), "s-past-every")
	b.ReportMetric(float64(column.Microseconds())/1000, "ms-column")
}

// BenchmarkPast is what a browser asks for of the past of 100 switches with 64 ports: all ports at a time, and the
// hour of one port.
func BenchmarkPast(b *testing.B) {
	r, of, noise := newPast(32<<20/pastPart), manyPlaces(100), rand.New(rand.NewPCG(1, 2))
	begin := time.Unix(1_800_000_000, 0)
	for at := begin; at.Sub(begin) <= pastKept; at = at.Add(pastEvery) {
		if r.due(at) {
			r.add(randomColumn(at.UnixMilli(), of, func(int) uint64 { return noise.Uint64N(100e9) }), at)
		}
	}
	b.Run("fleet", func(b *testing.B) {
		for b.Loop() {
			var a pastAnswer
			if err := a.fill(r.columns, r.every); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(len(marshal(a)))/1024, "KiB-sent")
		}
	})
	b.Run("port", func(b *testing.B) {
		for b.Loop() {
			if n := len(pastOf(r.columns, "s99", "Ethernet252", math.MaxInt64)); n < len(r.columns)-1 {
				b.Fatal(n)
			}
		}
	})
}
