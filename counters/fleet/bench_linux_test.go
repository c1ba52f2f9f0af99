package fleet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/snmp"
)

// startAgents starts n agents in another process and returns their UDP ports.
func startAgents(tb testing.TB, n, ports int) (udp []uint16) {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(exe, fmt.Sprintf("-fleet.agents=%d", n), fmt.Sprintf("-fleet.ports=%d", ports))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			tb.Errorf("the agents' process: %v", err)
		}
	})
	line, err := bufio.NewReaderSize(out, 1<<20).ReadString('\n')
	if err != nil {
		tb.Fatalf("the agents' process: %v", err)
	}
	for _, f := range strings.Fields(line) {
		p, err := strconv.ParseUint(f, 10, 16)
		if err != nil {
			tb.Fatal(err)
		}
		udp = append(udp, uint16(p))
	}
	return udp
}

// raw is a source that costs as little as a source on a socket can: what is left is the
// fleet's own cost.
type raw struct {
	conn  *net.UDPConn
	names []string
	buf   []byte
}

func openRaw(port uint16, names []string) (counters.Source, error) {
	conn, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)})
	return &raw{conn, names, make([]byte, 16*len(names)+1)}, err
}

func (r *raw) Close() error { return r.conn.Close() }

func (r *raw) Read(_ context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	if err := r.conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
		return dst, err
	}
	if _, err := r.conn.Write([]byte{1}); err != nil {
		return dst, err
	}
	n, err := r.conn.Read(r.buf)
	if err != nil {
		return dst, err
	}
	if n != 16*len(r.names) {
		return dst, fmt.Errorf("%d bytes for %d ports", n, len(r.names))
	}
	now := time.Now()
	for i, name := range r.names {
		dst = append(dst, counters.Sample{
			Port: name, Octets: binary.BigEndian.Uint64(r.buf[16*i:]), Packets: binary.BigEndian.Uint64(r.buf[16*i+8:]),
			Speed: 1e11, Up: true, At: now, Bits: 64, Overhead: 20,
		})
	}
	return dst, nil
}

func portNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("swp%d", i+1))
	}
	return names
}

func sourceFor(kind string, port uint16, names []string) func(context.Context) (counters.Source, error) {
	return func(context.Context) (counters.Source, error) {
		if kind == "raw" {
			return openRaw(port, names)
		}
		return snmp.New(snmp.Config{
			Address: "127.0.0.1", Port: port, Community: "public", Ports: names,
			Timeout: 400 * time.Millisecond, Retries: 1, Recheck: 10 * time.Second,
		})
	}
}

// A few real sockets, as a test: the benchmark's agents and sources work.
func TestFleetOverSockets(t *testing.T) {
	const devices, ports = 12, 8
	for _, kind := range []string{"raw", "snmp"} {
		t.Run(kind, func(t *testing.T) {
			udp := startAgents(t, devices, ports)
			var mu sync.Mutex
			good := map[int]int{}
			enough, done := context.WithTimeout(t.Context(), 2*time.Minute)
			defer done()
			cfg := Config{Interval: 200 * time.Millisecond, Sink: func(r *Reading) {
				mu.Lock()
				defer mu.Unlock()
				for i := range r.Samples {
					if s := &r.Samples[i]; s.Err != nil || !s.Up || s.Speed != 1e11 || s.Octets == 0 {
						t.Errorf("%s: %+v", r.Device, s)
					}
				}
				// A machine that does much else answers late, and the next reading is good.
				if late := new(lateError); r.Err != nil && r.Device != "dead" && !errors.As(r.Err, &late) && !errors.Is(r.Err, os.ErrDeadlineExceeded) {
					t.Error(r.Err)
				}
				if len(r.Samples) == ports {
					good[r.Index]++
				}
				least := good[0]
				for i := range devices {
					least = min(least, good[i])
				}
				if least >= 5 {
					done()
				}
			}}
			for i, p := range udp {
				cfg.Devices = append(cfg.Devices, Device{Name: fmt.Sprintf("leaf%d", i), Open: sourceFor(kind, p, portNames(ports))})
			}
			quiet, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}) // never answers
			if err != nil {
				t.Fatal(err)
			}
			defer quiet.Close()
			cfg.Devices = append(cfg.Devices, Device{Name: "dead", Open: sourceFor(kind, uint16(quiet.LocalAddr().(*net.UDPAddr).Port), portNames(ports))})
			f, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Run(enough); err != nil {
				t.Error(err)
			}
			if enough.Err() != context.Canceled {
				t.Errorf("after two minutes: %v good readings", good)
			}
		})
	}
}

// 1,000 devices of 64 ports each second, for ten seconds after a warm-up, from a
// process that does nothing else. late is from a device's slot to the moment it is
// asked; cpu and rss are this process's, not the agents'.
func BenchmarkFleet1000x64(b *testing.B) {
	const devices, ports = 1000, 64
	for _, tt := range []struct {
		name, kind string
		dead       int // devices that do not answer, on top
	}{{"raw", "raw", 0}, {"raw-and-100-dead", "raw", 100}, {"snmp", "snmp", 0}} {
		b.Run(tt.name, func(b *testing.B) {
			udp := startAgents(b, devices, ports)
			quiet, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			if err != nil {
				b.Fatal(err)
			}
			defer quiet.Close()
			for range tt.dead {
				udp = append(udp, uint16(quiet.LocalAddr().(*net.UDPAddr).Port))
			}
			for b.Loop() {
				measure(b, tt.kind, udp, devices, ports)
			}
		})
	}
}

func measure(b *testing.B, kind string, udp []uint16, alive, ports int) {
	const warm, run = 5 * time.Second, 10 * time.Second
	var mu sync.Mutex
	var late []time.Duration
	var failed, missed int
	begin := time.Now().Add(warm)
	cfg := Config{Sink: func(r *Reading) {
		if r.Index >= alive || r.Due.Before(begin) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		late = append(late, r.Start.Sub(r.Due))
		missed += r.Missed
		if r.Err != nil || len(r.Samples) != ports {
			failed++
		}
	}}
	names := portNames(ports)
	for i, p := range udp {
		cfg.Devices = append(cfg.Devices, Device{Name: fmt.Sprintf("leaf%d", i), Open: sourceFor(kind, p, names)})
	}
	f, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithDeadline(b.Context(), begin.Add(run))
	defer cancel()
	var cpu time.Duration
	var allocs uint64
	time.AfterFunc(warm, func() {
		mu.Lock()
		defer mu.Unlock()
		cpu, allocs = cpuTime(b), mallocs()
	})
	if err := f.Run(ctx); err != nil {
		b.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(late) < alive*9 {
		b.Fatalf("only %d readings of %d devices in %v", len(late), alive, run)
	}
	slices.Sort(late)
	ms := func(q float64) float64 { return float64(late[int(q*float64(len(late)-1))].Microseconds()) / 1000 }
	b.ReportMetric(ms(0.5), "p50-late-ms")
	b.ReportMetric(ms(0.99), "p99-late-ms")
	b.ReportMetric(ms(1), "max-late-ms")
	b.ReportMetric(100*float64(cpuTime(b)-cpu)/float64(run), "cpu-%")
	b.ReportMetric(rss(b), "rss-MiB")
	b.ReportMetric(float64(mallocs()-allocs)/float64(len(late)), "allocs/reading")
	b.ReportMetric(float64(len(late))/run.Seconds(), "readings/s")
	b.ReportMetric(float64(failed+missed), "bad")
}

func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Error(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func rss(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var kib float64
		if n, _ := fmt.Sscanf(string(line), "VmRSS: %f kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	b.Fatal("no VmRSS")
	return 0
}
