package mesh

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/agent/api/tlstest"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors/vendorstest/freeport"
)

// asCollector has this test program be a collector: FLEET CERT KEY CA SOCKET.
const asCollector = "CSIG_TEST_COLLECTOR"

func TestMain(m *testing.M) {
	if args := os.Getenv(asCollector); args != "" {
		if err := collects(strings.Fields(args)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// collects is a collector until its standard input ends. For each line there it prints the bytes that live in its heap.
func collects(args []string) error {
	fleet, err := inventory.Load(args[0])
	if err != nil {
		return err
	}
	s, err := NewServer(ServerConfig{Fleet: fleet, Socket: args[4], Addr: fleet.Mesh.Collector, TLS: api.TLSFiles{Cert: args[1], Key: args[2], CA: args[3]}, Log: logrus.NewEntry(logrus.New())})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			debug.FreeOSMemory()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			fmt.Println(m.HeapAlloc)
		}
	}()
	if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// manyHosts is a fabric of so many hosts, 40 a leaf, and of four spines.
func manyHosts(hosts int, collector string) string {
	const each, spines = 40, 4
	var b, list strings.Builder
	fmt.Fprintf(&b, "format: csig.fleet/v1\nprofile: {name: many, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-100G}, abwc: {buckets: log}}}\ndevices:\n")
	leaves := (hosts + each - 1) / each
	for l := range leaves {
		fmt.Fprintf(&b, "  - name: leaf%d\n    platform: linux\n    ports:\n", l)
		for s := range spines {
			fmt.Fprintf(&b, "      - {name: up%d, speed: 100G, peer: \"spine%d:down%d\"}\n", s, s, l)
		}
		for h := range min(each, hosts-l*each) {
			fmt.Fprintf(&b, "      - {name: host%d, speed: 100G, peer: h%d}\n", h, l*each+h)
			fmt.Fprintf(&list, "  - {name: h%d, csig: true, address: 10.0.%d.%d}\n", l*each+h, l, h+1)
		}
	}
	for s := range spines {
		fmt.Fprintf(&b, "  - name: spine%d\n    platform: linux\n    ports:\n", s)
		for l := range leaves {
			fmt.Fprintf(&b, "      - {name: down%d, speed: 100G, peer: \"leaf%d:up%d\"}\n", l, l, s)
		}
	}
	fmt.Fprintf(&b, "mesh: {key: {env: KEY}, interval: 1s, collector: %q}\nhosts:\n%s", collector, list.String())
	return b.String()
}

// manyCost is what a collector of many hosts took.
type manyCost struct {
	pairs, rows int           // rows: while watched
	watched     time.Duration // behind the first rows of all pairs
	cpu         time.Duration // meanwhile
	before      uint64        // bytes that live in the heap without hosts
	heap        uint64        // and in the end
	peak        uint64        // bytes resident

	taken []time.Duration // of each report: from its rows until the collector has them
	ages  []time.Duration // of each row: from its reading until the collector has it
}

// costsOf has so many hosts with a TLS connection each send the rows of an interval every second, until all pairs have
// some and for a while more.
func costsOf(t testing.TB, hosts int, during time.Duration) (out manyCost) {
	t.Helper()
	addr := freeport.Addr(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "fleet.yaml")
	if err := os.WriteFile(file, []byte(manyHosts(hosts, addr)), 0o600); err != nil {
		t.Fatal(err)
	}
	fleet, err := inventory.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	ca := tlstest.New(t)
	cert, key := ca.Certify("collector")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asCollector+"="+strings.Join([]string{file, cert, key, ca.CA, filepath.Join(dir, "mesh.sock")}, " "))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	printed, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(printed)
	heap := func() uint64 {
		if _, err := io.WriteString(in, "\n"); err != nil || !lines.Scan() {
			t.Fatalf("the collector has ended: %v", err)
		}
		n, err := strconv.ParseUint(lines.Text(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}

	out.before = heap()      // it listens
	c := NewCollector(fleet) // for what hosts may read
	clients := make([]*http.Client, hosts)
	for i, h := range c.hosts {
		var files api.TLSFiles
		files.CA = ca.CA
		files.Cert, files.Key = ca.Certify(h.Name)
		cfg, err := files.Client("collector")
		if err != nil {
			t.Fatal(err)
		}
		clients[i] = &http.Client{Transport: &http.Transport{TLSClientConfig: cfg}, Timeout: time.Minute}
		defer clients[i].CloseIdleConnections()
	}
	rounds := (hosts-2)/MostPeers + 1
	rows := manyRows(c)
	var mu sync.Mutex
	var watching bool
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	began := time.Now()
	failed := make(chan error, hosts)
	for i := range hosts {
		all.Go(func() {
			due := began.Add(time.Duration(i) * time.Second / time.Duration(hosts))
			for n := 0; wait(ctx, time.Until(due)) == nil; n++ {
				r := Report{Format: RowsFormat, Host: c.hosts[i].Name, Rows: rows(i, n)}
				made := time.Now()
				if err := send(ctx, clients[i], api.TLSFiles{}, addr, &r); err != nil {
					if ctx.Err() == nil {
						failed <- fmt.Errorf("host %d, report %d: %w", i, n, err)
					}
					return
				}
				took := time.Since(made)
				mu.Lock()
				if watching {
					out.rows += len(r.Rows)
					out.taken = append(out.taken, took)
					for k := range r.Rows {
						out.ages = append(out.ages, time.Duration(r.Rows[k].AgeNS)+took)
					}
				}
				mu.Unlock()
				due = due.Add(time.Second)
			}
		})
	}
	sleep := func(d time.Duration) {
		select {
		case err := <-failed:
			t.Fatal(err)
		case <-time.After(d):
		}
	}
	sleep(time.Duration(rounds+1) * time.Second) // all pairs have a row, and so their memory
	watch := func(on bool) { mu.Lock(); watching = on; mu.Unlock() }
	before, start := cpuOf(t, cmd.Process.Pid), time.Now()
	watch(true)
	sleep(during)
	watch(false)
	out.cpu, out.watched = cpuOf(t, cmd.Process.Pid)-before, time.Since(start)
	cancel()
	all.Wait()
	out.heap, out.pairs, out.peak = heap(), hosts*(hosts-1), peakOf(t, cmd.Process.Pid)
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(out.taken)
	slices.Sort(out.ages)
	return out
}

// manyRows is what the rows of a host's nth interval are: each host asks MostPeers peers in turn, and reads of each
// what another port on the way wrote.
func manyRows(c *Collector) func(i, n int) []Row {
	var mu sync.Mutex
	return func(i, n int) (out []Row) {
		mu.Lock()
		defer mu.Unlock()
		others := len(c.hosts) - 1
		for k := range min(others, MostPeers) {
			turn := n*min(others, MostPeers) + k
			j := (i + 1 + turn%others) % len(c.hosts)
			trial := turn / others
			sig := trial % len(c.signals)
			hops := c.ways.between(i, j).hops
			hop := hops[rand.IntN(len(hops))]
			s := uint8(rand.IntN(32))
			out = append(out, Row{
				To: c.hosts[j].Name, Port: trial / len(c.signals) % Ports, Signal: c.signals[sig].String(), State: StateCapable,
				Read: true, S: s, LM: hop[rand.IntN(len(hop))].is.LM[c.signals[sig]], AgeNS: int64(rand.N(time.Second)), RTTNS: 1e5, Sent: 2, Tagged: 1,
			})
		}
		return out
	}
}

// cpuOf is how long a process has run, in user and kernel.
func cpuOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	ticks := time.Duration(0)
	for _, s := range f[11:13] {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond // USER_HZ is 100
}

// peakOf is the most that a process has had resident, in bytes.
func peakOf(t testing.TB, pid int) uint64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	n, err := strconv.ParseUint(strings.Fields(after)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// TestManyHosts has few of them: what BenchmarkThousandHosts does works, and takes no more memory than it has to. A
// connection is allowed 64 KiB.
func TestManyHosts(t *testing.T) {
	const hosts, seconds = 30, 2
	c := costsOf(t, hosts, seconds*time.Second)
	changes := uint64(hosts * (hosts - 1) * (seconds + 4))
	if most := c.before + uint64(c.pairs*250) + changes*24 + hosts*(128<<10); c.rows == 0 || len(c.ages) != c.rows || c.heap > most {
		t.Errorf("%d rows, %d bytes live, want %d at most (%d without hosts)", c.rows, c.heap, most, c.before)
	}
	t.Logf("%d pairs: %d bytes live, of them %d without hosts", c.pairs, c.heap, c.before)
}

// TestMemoryOfAPair has what docs/mesh.md says of a collector's memory.
func TestMemoryOfAPair(t *testing.T) {
	fleet, err := inventory.Parse("many.yaml", []byte(manyHosts(200, "127.0.0.1:9918")))
	if err != nil {
		t.Fatal(err)
	}
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	c := NewCollector(fleet)
	before := live()
	rows, pairs := manyRows(c), 200*199
	for i := range c.hosts {
		for n := range 40 { // all paths have been read, some twice: there are histograms
			if err := c.Add(c.hosts[i].Name, &Report{Rows: rows(i, n)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	known := 0
	for _, of := range c.pairs {
		for _, rec := range of {
			if rec != nil {
				known++
			}
		}
	}
	if known != pairs {
		t.Fatalf("%d of %d pairs have rows", known, pairs)
	}
	full := live()
	c.histograms = newHistograms(c.began)
	histograms := full - live()
	ring := uint64(cap(c.changes.all)) * uint64(unsafe.Sizeof(change{}))
	each := (full - histograms - ring - before) / uint64(pairs)
	t.Logf("%d bytes a pair; %d histograms' are %d", each, 2*mostHistograms, histograms)
	if size := MostChanges * unsafe.Sizeof(change{}); each > 250 || size != 24<<20 {
		t.Errorf("%d bytes a pair and %d of the ring, want 250 and %d at most", each, size, 24<<20)
	}
	runtime.KeepAlive(c)
}

// BenchmarkThousandHosts is a collector, a process by itself, to which 1,000 hosts send the rows of their probes each second,
// by a TLS connection each: what it takes of memory and processor, and how old rows are when it has them. All readings change
// each time, which is the worst case.
func BenchmarkThousandHosts(b *testing.B) {
	for b.Loop() {
		c := costsOf(b, 1000, 30*time.Second)
		b.ReportMetric(float64(c.rows)/c.watched.Seconds(), "rows/s")
		b.ReportMetric(c.cpu.Seconds()/c.watched.Seconds(), "cores")
		b.ReportMetric(float64(c.cpu.Microseconds())/float64(c.rows), "µs-cpu/row")
		b.ReportMetric(float64(c.heap)/(1<<20), "MiB-live")
		b.ReportMetric(float64(c.peak)/(1<<20), "MiB-peak")
		b.ReportMetric(float64(c.taken[len(c.taken)/2].Microseconds())/1e3, "ms-taken-p50")
		b.ReportMetric(float64(c.taken[len(c.taken)*99/100].Microseconds())/1e3, "ms-taken-p99")
		b.ReportMetric(float64(c.ages[len(c.ages)*99/100].Microseconds())/1e3, "ms-age-p99")
	}
	b.ReportMetric(0, "ns/op")
}
