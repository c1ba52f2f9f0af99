package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// BenchmarkReaction steps the load of a cable up and down and measures, for
// the frames that enter its egress queue, how long after the step S first
// changes and how long until it has its final value. Queueing in the egress
// itself comes on top for the receiver: "ms-queue-p99".
func BenchmarkReaction(b *testing.B) {
	t := newBed(b, quantize.Draft00)
	// A step of the load begins with a burst, which the cable needs time to
	// work off: not the fullest load, or that would be most of what is seen.
	loads := midLoads(b, t, 5)
	low, high := loads[1], loads[3]
	t.setLoad(b, low-streamBPS)
	a := t.start(b)
	p := t.probes(b)
	p.stream()
	a.settle()
	var first, final, queue []float64
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	load := low
	for b.Loop() {
		from := uint32(t.want(quantize.MinABW, load))
		load = low + high - load
		to := uint32(t.want(quantize.MinABW, load))
		step := time.Now()
		t.setLoad(b, load-streamBPS)
		var changed time.Time
		for {
			f := p.next()
			queue = append(queue, ms(f.At.Sub(f.Payload.Sent)))
			if f.Tag.T != quantize.MinABW || f.Payload.Sent.Before(step) {
				continue
			}
			if changed.IsZero() && f.Tag.S != from {
				changed = f.Payload.Sent
			}
			if f.Tag.S == to {
				first = append(first, ms(changed.Sub(step)))
				final = append(final, ms(f.Payload.Sent.Sub(step)))
				break
			}
			if f.Payload.Sent.Sub(step) > 20*interval {
				b.Fatalf("S=%d two seconds after the step, want %d", f.Tag.S, to)
			}
		}
		// Steps come at any phase of the agents' windows.
		rest := step.Add(5*interval + time.Duration(len(final)%10)*interval/10)
		for f := p.next(); f.At.Before(rest); f = p.next() {
		}
	}
	for name, d := range map[string][]float64{"first": first, "final": final, "queue": queue} {
		slices.Sort(d)
		b.ReportMetric(d[len(d)/2], "ms-"+name+"-p50")
		b.ReportMetric(d[(len(d)*99+99)/100-1], "ms-"+name+"-p99")
	}
	b.ReportMetric(0, "ns/op")
}

// manyPorts is what the figures of a daemon are for. One frame of bulk every other interval is
// about half of what a port has, so that each of its windows is in another bucket.
const (
	manyPorts = 512
	portBPS   = 10_000_000
	bulk      = 60_000 // bytes
)

// sendBulk sends one frame of bulk from each port of a node every other interval until the test
// ends.
func sendBulk(b testing.TB, in, far *fabric.Node) {
	b.Helper()
	var list []netlink.Link
	up := func() (err error) {
		list, err = netlink.LinkList()
		for _, l := range list {
			err = errors.Join(err, netlink.LinkSetUp(l))
		}
		return err
	}
	fd := -1
	err := errors.Join(far.Do(up), in.Do(up), in.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	}))
	if err != nil {
		b.Fatal(err)
	}
	frame := make([]byte, bulk)
	frame[12], frame[13] = 0x88, 0xb5 // of a local experiment
	stop, ended := make(chan struct{}), make(chan struct{})
	b.Cleanup(func() { close(stop); <-ended; unix.Close(fd) })
	go func() {
		defer close(ended)
		tick := time.NewTicker(2 * interval)
		defer tick.Stop()
		for {
			for _, l := range list {
				if l.Type() == "veth" {
					_ = unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index}) // one that is lost makes a window of the same bucket
				}
			}
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
}

// daemon is a csig agent that runs as a process in a network namespace.
type daemon struct {
	pid    int
	node   *fabric.Node
	client *api.Client
}

// startDaemon runs csig agent on so many ports every 100 ms until the test ends; the ports
// are idle or busy, and the command line has more arguments. It returns when the agent is under way.
func startDaemon(b testing.TB, ports int, busy bool, args ...string) *daemon {
	b.Helper()
	var fab fabric.Fabric
	b.Cleanup(func() {
		if err := fab.Close(); err != nil {
			b.Error(err)
		}
	})
	s1, err := fab.AddHost("s1")
	if err != nil {
		b.Fatal(err)
	}
	far, err := fab.AddHost("far")
	if err != nil {
		b.Fatal(err)
	}
	fleet, err := inventory.Parse("daemon.yaml", fmt.Appendf(nil, fleetText, quantize.Draft00))
	if err != nil {
		b.Fatal(err)
	}
	dev := &fleet.Devices[0]
	dev.Ports = nil
	fleet.Profile.Interval, dev.Interval, dev.Schedule = interval, interval, "@every 100ms"
	err = s1.Do(func() error {
		for i := range ports {
			name := "swp" + strconv.Itoa(i)
			veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: 65535}, PeerMTU: 65535, PeerName: name, PeerNamespace: netlink.NsFd(far.FD())}
			if err := netlink.LinkAdd(veth); err != nil {
				return err
			}
			lm := uint16(1 + i%124)
			dev.Ports = append(dev.Ports, inventory.Port{Name: name, Speed: portBPS, Action: vlanrules.Update,
				LM: map[quantize.Signal]uint16{quantize.MinABW: lm, quantize.MinABWC: lm}})
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	text, err := inventory.Marshal(fleet)
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	file, socket := filepath.Join(dir, "daemon.yaml"), filepath.Join(dir, "agent.sock")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		b.Fatal(err)
	}
	if busy {
		sendBulk(b, s1, far)
	}
	cmd := s1.Command(released(b), append([]string{"agent", "-i", file, "--socket", socket}, args...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed: nothing to learn
	})
	d := &daemon{pid: cmd.Process.Pid, node: s1, client: api.NewClient(socket)}
	b.Cleanup(d.client.Close)
	for deadline := time.Now().Add(patience); d.cycles(b) < 20; {
		if time.Now().After(deadline) {
			_ = cmd.Process.Signal(syscall.SIGQUIT) // it prints what its goroutines do
			_ = cmd.Wait()                          // of that signal
			b.Fatal("the agent does not get going")
		}
		time.Sleep(interval) // the agent's own pace; the condition is above
	}
	return d
}

// cycles are those of its status; 0 until it answers.
func (d *daemon) cycles(b testing.TB) uint64 {
	s, err := d.client.Status(b.Context())
	if err != nil {
		return 0
	}
	return s.Cycle.Count
}

// BenchmarkDaemon reports what csig agent takes of a core and of memory, now and at most since
// its start, by the number of ports, every 100 ms. docs/operations.md has its figures.
func BenchmarkDaemon(b *testing.B) {
	for _, ports := range []int{64, 128, 256, manyPorts} {
		b.Run(fmt.Sprintf("ports=%d", ports), func(b *testing.B) {
			d := startDaemon(b, ports, false)
			const seconds = 10
			for b.Loop() {
				n, cpu, start := d.cycles(b), cpuTime(b, d.pid), time.Now()
				time.Sleep(seconds * time.Second) // the time itself is what is measured
				wall := time.Since(start)
				b.ReportMetric(100*float64(cpuTime(b, d.pid)-cpu)/float64(wall), "%core")
				b.ReportMetric(float64(d.cycles(b)-n)/wall.Seconds(), "cycles/s")
				b.ReportMetric(resident(b, d.pid), "MiB-resident")
				peak, ok := memory(d.pid, "VmHWM:")
				if !ok {
					b.Fatal("no VmHWM in /proc")
				}
				b.ReportMetric(peak, "MiB-peak")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// residentMiB is what an agent of 512 ports may hold of memory once it runs, a
// small management CPU having little.
const residentMiB = 40

// The agent stays small while the bucket of each port changes all the time and it is asked for its status in each cycle
// and for its metrics each second, remembers as many changes as it ever does, and has given back by then what its
// start took. Its load takes a processor: beside other tests a cycle took two seconds.
func TestLongMemory(t *testing.T) {
	d := startDaemon(t, manyPorts, true, "--metrics", metricsAt)
	scraper := clientIn(d.node)
	t.Cleanup(scraper.CloseIdleConnections)
	const settled = 250
	var held []float64 // each second, in MiB: garbage comes and goes
	scraped := time.Now()
	for deadline := time.Now().Add(4 * patience); d.cycles(t) < settled; {
		if now := time.Now(); now.Sub(scraped) >= time.Second {
			if _, err := get(t.Context(), scraper, "http://"+metricsAt+"/metrics"); err != nil {
				t.Fatal(err)
			}
			scraped = now
			if d.cycles(t) > settled/2 {
				held = append(held, resident(t, d.pid))
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d cycles, want %d", d.cycles(t), settled)
		}
		time.Sleep(interval) // the agent's own pace; the condition is above
	}
	slices.Sort(held)
	got := held[len(held)/2]
	w, err := d.client.Why(t.Context(), "swp0")
	if err != nil {
		t.Fatal(err)
	}
	changes := 0
	for i := range w.Records {
		if w.Records[i].Written {
			changes++
		}
	}
	if changes < 15 {
		t.Errorf("it remembers %d values that were written, and the load changes all the time", changes)
	}
	t.Logf("%.1f MiB are resident, %.1f to %.1f, with %d changes of a port", got, held[0], held[len(held)-1], changes)
	if got > residentMiB {
		t.Errorf("%.1f MiB are resident, want at most %d: GODEBUG=inittrace=1 shows what packages hold, /proc/PID/smaps what the kernel counts", got, residentMiB)
	}
}

// BenchmarkPage reports what csig agent --web takes of memory at the most ports, busy ones,
// once the page's history is full and one client has followed it for as long.
func BenchmarkPage(b *testing.B) {
	const address = "127.0.0.1:8080" // of a namespace of its own
	d := startDaemon(b, manyPorts, true, "--web", address)
	client := clientIn(d.node)
	b.Cleanup(client.CloseIdleConnections)
	end := make(chan error, 1)
	go func() { // until the agent ends
		live, err := client.Get("http://" + address + "/api/v1/live")
		if err == nil {
			defer live.Body.Close()
			_, err = io.Copy(io.Discard, live.Body)
		}
		end <- err
	}()
	for b.Loop() {
		start, most := time.Now(), 0.0
		for full := false; !full; time.Sleep(time.Second) { // the page's own pace
			var port struct {
				Most    int
				Samples []json.RawMessage
			}
			text, err := get(b.Context(), client, "http://"+address+"/api/v1/port?device=s1&port=swp0")
			if err != nil {
				b.Fatal(err)
			}
			if err := json.Unmarshal([]byte(text), &port); err != nil {
				b.Fatalf("%v: %s", err, text)
			}
			full = len(port.Samples) >= port.Most
			most = max(most, resident(b, d.pid))
			select {
			case err := <-end:
				b.Fatalf("the client that follows has ended: %v", err)
			default:
			}
			if time.Since(start) > 10*time.Minute {
				b.Fatalf("%d of %d samples after ten minutes", len(port.Samples), port.Most)
			}
		}
		b.ReportMetric(resident(b, d.pid), "MiB-resident")
		b.ReportMetric(most, "MiB-most")
		b.ReportMetric(time.Since(start).Seconds(), "s-until-full")
	}
	b.ReportMetric(0, "ns/op")
}

// cpuTime is the user and system time of a process so far.
func cpuTime(b testing.TB, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	var sum time.Duration
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(n) * tick
	}
	return sum
}

// resident is the resident memory of a process in MiB.
func resident(b testing.TB, pid int) float64 {
	b.Helper()
	mib, ok := memory(pid, "VmRSS:")
	if !ok {
		b.Fatal("no VmRSS in /proc")
	}
	return mib
}

// memory is a value of a process's /proc/PID/status in MiB; one that has ended has none.
func memory(pid int, name string) (mib float64, ok bool) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, name); found {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			return float64(kib) / 1024, err == nil
		}
	}
	return 0, false
}
