// Command cost measures what tags of TCP cost: processor time for each byte at both ends, with and without them, in turns.
// It makes network namespaces of its own, as root, and needs a machine that does nothing else.
//
//	go run ./integration/cost -csig bin/csig -pairs 20
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
)

// arms are what is compared. The first two are the same: how far apart they are is what the figures are good for.
var arms = []string{"untagged", "untagged again", "tags alone", "tags and reflections, both ways", "another tag in each segment"}

const (
	untagged = iota
	again
	tagsAlone
	tagsReflected
	tagsDiffer // as T in turns by segment would have it, and for the receiver a switch that writes S by packet: neither is judged
)

// Bounds of issue and documentation: medians, and how far apart the same may be from itself.
const (
	mostAlone     = 1.05
	mostReflected = 1.10
	leastBatch    = 0.95
	mostApart     = 0.03
)

func main() {
	csig := flag.String("csig", "bin/csig", "the program")
	pairs := flag.Int("pairs", 20, "rounds, each with every arm once")
	bytes := flag.Uint64("bytes", 1<<30, "of each transfer")
	flag.Parse()
	if child() {
		return
	}
	if *pairs < 1 {
		exitOn(fmt.Errorf("-pairs %d: want 1 or more", *pairs))
	}
	runs, err := measure(*csig, *pairs, *bytes)
	exitOn(err)
	exitOn(report(runs))
}

// child is whether this process was an end of a transfer.
func child() bool {
	if len(os.Args) != 4 || os.Args[1] != "send" && os.Args[1] != "receive" {
		return false
	}
	exitOn(transfer(os.Args[1], os.Args[2], os.Args[3]))
	return true
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

// one is what a transfer took.
type one struct {
	cpu   [2]float64 // ns a byte at the sender and the receiver: process and NAPI thread
	batch float64    // segments in what the receiver's stack got at once
	rate  float64    // bit/s
}

func (o one) both() float64 { return o.cpu[0] + o.cpu[1] }

// measure is every arm's transfers, a round behind the other.
func measure(csig string, pairs int, bytes uint64) (runs [][]one, err error) {
	csig, err = filepath.Abs(csig)
	if err != nil {
		return nil, err
	}
	b, err := newBed(csig)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	runs = make([][]one, len(arms))
	order := rand.New(rand.NewPCG(1, 0))
	for i := -1; i < pairs; i++ { // the first round warms up
		for _, arm := range order.Perm(len(arms)) {
			o, err := b.run(arm, bytes)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", arms[arm], err)
			}
			if i >= 0 {
				runs[arm] = append(runs[arm], o)
			}
		}
		fmt.Fprintf(os.Stderr, "\rround %d of %d", i+1, pairs)
	}
	fmt.Fprintln(os.Stderr)
	return runs, nil
}

// report compares each arm with the untagged transfers of its round: the two of one another, the others with their mean.
func report(runs [][]one) error {
	quartiles := func(v []float64) (low, mid, high float64) {
		v = slices.Sorted(slices.Values(v))
		return v[len(v)/4], v[len(v)/2], v[3*len(v)/4]
	}
	ratios := func(arm int, of func(one) float64) (out []float64) {
		for i, o := range runs[arm] {
			base := of(runs[untagged][i])
			if arm > again {
				base = (base + of(runs[again][i])) / 2
			}
			out = append(out, of(o)/base)
		}
		return out
	}
	var failed []string
	for arm, name := range arms {
		low, mid, high := quartiles(ratios(arm, one.both))
		_, sender, _ := quartiles(ratios(arm, func(o one) float64 { return o.cpu[0] }))
		_, receiver, _ := quartiles(ratios(arm, func(o one) float64 { return o.cpu[1] }))
		var batches, rates []float64
		for _, o := range runs[arm] {
			batches, rates = append(batches, o.batch), append(rates, o.rate)
		}
		_, batch, _ := quartiles(batches)
		_, rate, _ := quartiles(rates)
		_, merged, _ := quartiles(ratios(arm, func(o one) float64 { return o.batch }))
		fmt.Printf("%-32s processor time x%.3f (quartiles %.3f to %.3f; sender x%.3f, receiver x%.3f), %.1f segments a batch (x%.3f), %.2f Gbit/s\n",
			name, mid, low, high, sender, receiver, batch, merged, rate/1e9)
		bad := func(format string, v ...any) { failed = append(failed, name+": "+fmt.Sprintf(format, v...)) }
		switch {
		case arm == again && (mid > 1+mostApart || mid < 1-mostApart):
			bad("the same is x%.3f of itself: the machine is not quiet enough to judge", mid)
		case arm == tagsAlone && mid > mostAlone:
			bad("x%.3f, and x%.2f is the most", mid, mostAlone)
		case arm == tagsReflected && mid > mostReflected:
			bad("x%.3f, and x%.2f is the most", mid, mostReflected)
		}
		if arm != tagsDiffer && merged < leastBatch {
			bad("batches are x%.3f as long, and x%.2f is the least", merged, leastBatch)
		}
	}
	if failed != nil {
		return errors.New(strings.Join(failed, "\n"))
	}
	return nil
}

// bed is two hosts with a cable between them.
type bed struct {
	fabric.Fabric
	csig   string
	dir    string
	hosts  [2]*fabric.Node
	nics   [2]*fabric.Port
	napi   [2]int // threads of the network cards
	counts *counter
}

const (
	network = "10.0.0."
	port    = 5201
)

const fleet = `format: csig.fleet/v1
profile:
  name: cost
  tpid: 0x88a8
  interval: 100ms
  signals:
    abw: {buckets: log-100M}
    abwc: {buckets: log}
vlan_tpids: [0x8100]
devices:
  - name: s1
    platform: linux
    ports:
      - {name: up, speed: 100M}
hosts:
`

func newBed(csig string) (b *bed, err error) {
	b = &bed{csig: csig}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = os.MkdirTemp("", "csig-cost-"); err != nil {
		return b, err
	}
	for i, name := range []string{"h1", "h2"} {
		if b.hosts[i], err = b.AddHost(name); err != nil {
			return b, err
		}
	}
	if b.nics[0], b.nics[1], err = b.Connect(fabric.End{Node: b.hosts[0], Port: "eth0"}, fabric.End{Node: b.hosts[1], Port: "eth0"}, 1600); err != nil {
		return b, err
	}
	for i, h := range b.hosts {
		own, other := network+strconv.Itoa(i+1), network+strconv.Itoa(2-i)
		before, err := napiThreads()
		if err != nil {
			return b, err
		}
		// Without TSO, with which veth hands super-frames over and nothing is merged. The window is shorter than veth's ring.
		script := fmt.Sprintf(`set -e
ip link set dev eth0 arp on
ip address add %s/24 dev eth0
ip route replace 10.0.0.0/24 dev eth0 proto kernel scope link src %s mtu 1500
ip neighbour add %s lladdr %s dev eth0 nud permanent
sysctl -q -w net.ipv4.tcp_rmem='4096 131072 262144'
mount -t sysfs sysfs /sys
ethtool -K eth0 gso on gro on
echo 1 > /sys/class/net/eth0/threaded`, own, own, other, b.nics[1-i].MAC)
		if out, err := h.Command("unshare", "-m", "sh", "-c", script).CombinedOutput(); err != nil {
			return b, fmt.Errorf("host %s: %w: %s", h.Name(), err, out)
		}
		after, err := napiThreads()
		if err != nil {
			return b, err
		}
		for pid := range before {
			delete(after, pid)
		}
		if len(after) != 1 {
			return b, fmt.Errorf("host %s: %d threads of its network card: is this the machine's own PID namespace?", h.Name(), len(after))
		}
		for pid := range after {
			b.napi[i] = pid
			if err := pin(pid, i); err != nil {
				return b, err
			}
		}
		text := fleet
		for j := range b.hosts {
			local := ""
			if i == j {
				local = "local: true, interface: eth0, "
			}
			text += fmt.Sprintf("  - {name: h%d, csig: true, address: %s%d, %stcp: {to: [10.0.0.0/24]}}\n", j+1, network, j+1, local)
		}
		if err := os.WriteFile(b.file(i, ".yaml"), []byte(text), 0o600); err != nil {
			return b, err
		}
	}
	b.counts, err = newCounter()
	return b, err
}

func (b *bed) file(host int, ext string) string {
	return filepath.Join(b.dir, b.hosts[host].Name()+ext)
}

func (b *bed) close() error {
	return errors.Join(b.counts.close(), b.Close(), os.RemoveAll(b.dir))
}

// napiThreads are the kernel's threads of network cards.
func napiThreads() (map[int]bool, error) {
	out := map[int]bool{}
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range names {
		if comm, _ := os.ReadFile(name); strings.HasPrefix(string(comm), "napi/eth0-") {
			pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
			out[pid] = true
		}
	}
	return out, err
}

func pin(pid, cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(pid, &set); err != nil {
		return fmt.Errorf("processor %d for %d: %w", cpu, pid, err)
	}
	return nil
}

// ran is how long a thread has run, ns.
func ran(pid int) (ns uint64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err == nil {
		_, err = fmt.Sscan(string(text), &ns)
	}
	return ns, err
}

// run is one transfer.
func (b *bed) run(arm int, bytes uint64) (o one, err error) {
	stop, err := b.prepare(arm)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	before, err := b.counts.read()
	if err != nil {
		return o, err
	}
	var threads [2]uint64
	for i, pid := range b.napi {
		if threads[i], err = ran(pid); err != nil {
			return o, err
		}
	}
	began := time.Now()
	cpu, err := b.transfer(bytes)
	if err != nil {
		return o, err
	}
	o.rate = float64(bytes) * 8 / time.Since(began).Seconds()
	for i, pid := range b.napi {
		now, err := ran(pid)
		if err != nil {
			return o, err
		}
		o.cpu[i] = float64(cpu[i]+now-threads[i]) / float64(bytes)
	}
	after, err := b.counts.read()
	if err != nil {
		return o, err
	}
	o.batch = float64(after[segments]-before[segments]) / float64(after[batches]-before[batches])
	if arm >= tagsAlone && after[tagged]-before[tagged] < (after[batches]-before[batches])*9/10 {
		return o, fmt.Errorf("%d of %d batches had a tag", after[tagged]-before[tagged], after[batches]-before[batches])
	}
	return o, nil
}

// transfer sends bytes from the first host to the second, and is the processor time of both processes, ns.
func (b *bed) transfer(bytes uint64) (cpu [2]uint64, err error) {
	self, err := os.Executable()
	if err != nil {
		return cpu, err
	}
	receiver := b.hosts[1].Command(self, "receive", network+"2", strconv.FormatUint(bytes, 10))
	out, err := receiver.StdoutPipe()
	if err != nil {
		return cpu, err
	}
	receiver.Stderr = os.Stderr
	if err := receiver.Start(); err != nil {
		return cpu, err
	}
	answers := json.NewDecoder(out)
	var ready uint64
	if err := answers.Decode(&ready); err != nil { // it listens
		return cpu, errors.Join(err, receiver.Process.Kill(), receiver.Wait())
	}
	sender := b.hosts[0].Command(self, "send", network+"2", strconv.FormatUint(bytes, 10))
	sender.Stderr = os.Stderr
	sent, err := sender.Output()
	if err == nil {
		err = json.Unmarshal(sent, &cpu[0])
	}
	if err != nil {
		return cpu, errors.Join(err, receiver.Process.Kill(), receiver.Wait())
	}
	err = answers.Decode(&cpu[1])
	return cpu, errors.Join(err, receiver.Wait())
}

// transfer is the child's part: it prints what processor time it took, ns; the receiver a 0 before that, once it listens.
func transfer(what, address, bytes string) error {
	left, err := strconv.ParseUint(bytes, 10, 64)
	if err != nil {
		return err
	}
	cpu := 0
	if what == "receive" {
		cpu = 1
	}
	for _, name := range tasks() {
		if err := pin(name, cpu); err != nil {
			return err
		}
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic"); err != nil {
		return err
	}
	at := &unix.SockaddrInet4{Port: port}
	if _, err := fmt.Sscanf(address, "%d.%d.%d.%d", &at.Addr[0], &at.Addr[1], &at.Addr[2], &at.Addr[3]); err != nil {
		return err
	}
	move := unix.Write
	if what == "receive" {
		move = unix.Read
		if err := errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.Bind(fd, at), unix.Listen(fd, 1)); err != nil {
			return err
		}
		fmt.Println(0)
		if fd, _, err = unix.Accept(fd); err != nil {
			return err
		}
	} else if err := unix.Connect(fd, at); err != nil {
		return err
	}
	buf := make([]byte, 1<<16)
	for left > 0 {
		n, err := move(fd, buf[:min(uint64(len(buf)), left)])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return fmt.Errorf("%s: %d bytes are left: %w", what, left, err)
		}
		left -= uint64(n)
	}
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return err
	}
	fmt.Println(used.Utime.Nano() + used.Stime.Nano())
	if what == "send" { // the receiver ends the connection
		_, _ = unix.Read(fd, buf)
	}
	return nil
}

// tasks are this process's threads.
func tasks() (out []int) {
	names, _ := filepath.Glob("/proc/self/task/*") // the pattern is one
	for _, name := range names {
		tid, _ := strconv.Atoi(filepath.Base(name))
		out = append(out, tid)
	}
	return out
}

// startCSIG has a host's connections have tags.
func (b *bed) startCSIG(host int) (stop func() error, err error) {
	socket := b.file(host, ".sock")
	cmd := b.hosts[host].Command(b.csig, "host", "run", "-i", b.file(host, ".yaml"), "--socket", socket)
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() error {
		if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
			return err
		}
		return cmd.Wait()
	}
	for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(20 * time.Millisecond) {
		if exec.Command(b.csig, "host", "status", "--socket", socket, "--json").Run() == nil {
			return stop, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("csig host run does not answer: %s", log.String()), stop())
}
