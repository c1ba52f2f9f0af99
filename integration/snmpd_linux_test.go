package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/counters/snmp"
	"github.com/csig-agent/csig/fabric"
)

// snmpd is a real net-snmp agent inside a switch.
type snmpd struct {
	port  uint16
	dir   string
	start func(t testing.TB) // it, or again after stop
	stop  func()
	send  func(syscall.Signal)
}

// A port number is the namespace's own, so it is always free.
const (
	snmpdPort = 1161
	timerPort = 1162
)

const (
	snmpdUser   = "poller"
	snmpdPhrase = "a-pass-phrase"
)

// startSnmpd runs snmpd in a switch with more lines of configuration.
func startSnmpd(t testing.TB, in *fabric.Node, port uint16, env []string, conf string) *snmpd {
	t.Helper()
	path, err := exec.LookPath("snmpd")
	if err != nil {
		path = "/usr/sbin/snmpd" // not in an ordinary user's PATH
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("this test needs snmpd: apt-get install snmpd: %v", err)
	}
	d := &snmpd{port: port, dir: t.TempDir()}
	text := fmt.Sprintf("agentaddress udp:127.0.0.1:%d\nrocommunity public\ncreateUser %s SHA-256 %q AES %q\nrouser %s priv\n%s",
		port, snmpdUser, snmpdPhrase, snmpdPhrase, snmpdUser, conf)
	file, log := filepath.Join(d.dir, "snmpd.conf"), filepath.Join(d.dir, "log")
	writeFile(t, file, []byte(text))
	var cmd *fabric.Cmd
	d.start = func(t testing.TB) {
		t.Helper()
		cmd = in.Command(path, "-f", "-C", "-c", file, "-LF", "4", log)
		cmd.Env = append(append(os.Environ(), "MIBS=", "SNMP_PERSISTENT_DIR="+filepath.Join(d.dir, "persistent")), env...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	d.send = func(sig syscall.Signal) { _ = cmd.Process.Signal(sig) } // it may have ended
	d.stop = func() {
		if cmd.Process != nil && cmd.ProcessState == nil {
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			_ = cmd.Wait()
		}
	}
	d.start(t)
	t.Cleanup(func() {
		d.stop()
		if text, err := os.ReadFile(log); t.Failed() && err == nil {
			t.Logf("snmpd at port %d wrote:\n%s", port, text)
		}
	})
	return d
}

// v2c and v3 are how to ask it.
func (d *snmpd) v2c(ports ...string) snmp.Config {
	return snmp.Config{Device: "s1", Address: "127.0.0.1", Port: d.port, Community: "public", Ports: ports}
}

func (d *snmpd) v3(ports ...string) snmp.Config {
	return snmp.Config{
		Device: "s1", Address: "127.0.0.1", Port: d.port, Version: snmp.V3, User: snmpdUser,
		Auth: "SHA256", AuthPassphrase: snmpdPhrase, Priv: "AES", PrivPassphrase: snmpdPhrase, Ports: ports,
	}
}

// timerLog is, in the environment, the file into which the timer's MIB writes what
// it refreshed; its presence makes this test binary that MIB.
const timerLog = "CSIG_TEST_TIMER_LOG"

// timerPeriod is how often the timer's MIB takes the kernel's counters.
const timerPeriod = 5 * time.Second

// timerFrozen is, in the environment, the name of a file: the MIB then has no timer, and takes
// the counters whenever it is asked, as long as that file is not there.
const timerFrozen = "CSIG_TEST_TIMER_FROZEN"

// ifXTable's rows, which the timer's MIB serves in the place of snmpd's own.
const ifXEntry = ".1.3.6.1.2.1.31.1.1.1"

// init makes the binary the program that snmpd passes ifXTable to. snmpd starts
// it inside the switch, where TestMain would want namespaces of its own.
func init() {
	if log := os.Getenv(timerLog); log != "" {
		if err := serveTimerMIB(log, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// refreshed is one line of the timer's log.
type refreshed struct {
	At     time.Time         `json:"at"`
	Seen   time.Time         `json:"seen"` // by when it could be read
	Octets map[string]uint64 `json:"octets"`
}

// startTimerSnmpd runs an snmpd whose interface counters are copied from the kernel
// every timerPeriod, whenever it is asked, as switches do that read their ASIC in
// the background. It returns the file with the instants.
func startTimerSnmpd(t testing.TB, in *fabric.Node) (*snmpd, string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "refreshes")
	d := startSnmpd(t, in, timerPort, []string{timerLog + "=" + log}, "pass_persist "+ifXEntry+" "+exe+"\n")
	return d, log
}

func readTimerLog(t testing.TB, file string) (all []refreshed) {
	t.Helper()
	text := readFile(t, file)
	for line := range strings.Lines(string(text)) {
		var r refreshed
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// timerMIB is ifXTable as of the last tick.
type timerMIB struct {
	mu     sync.Mutex
	values map[string]string // "type\nvalue" by OID
	order  [][]int
}

func serveTimerMIB(logFile string, in io.Reader, out io.Writer) error {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	var m timerMIB
	if err := m.refresh(log); err != nil {
		return err
	}
	failed := make(chan error, 1)
	frozen := os.Getenv(timerFrozen)
	if frozen == "" {
		go func() {
			for range time.Tick(timerPeriod) {
				if err := m.refresh(log); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	taken := time.Now()
	current := func() error { // within a PDU they are of one instant
		if frozen == "" || time.Since(taken) < 20*time.Millisecond {
			return nil
		}
		if _, err := os.Stat(frozen); err == nil {
			return nil
		}
		taken = time.Now()
		return m.refresh(log)
	}
	lines := bufio.NewScanner(in)
	next := func() string { lines.Scan(); return strings.TrimSpace(lines.Text()) }
	for lines.Scan() {
		select {
		case err := <-failed:
			return err
		default:
		}
		switch verb := strings.TrimSpace(lines.Text()); verb {
		case "PING":
			_, err = fmt.Fprintln(out, "PONG")
		case "get", "getnext":
			if err = current(); err == nil {
				_, err = fmt.Fprintln(out, m.answer(verb, next()))
			}
		case "set":
			next()
			next()
			_, err = fmt.Fprintln(out, "not-writable")
		case "":
			return nil
		}
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

// refresh copies the kernel's counters and writes down when.
func (m *timerMIB) refresh(log io.Writer) error {
	before := time.Now()
	text, err := os.ReadFile("/proc/thread-self/net/dev")
	after := time.Now()
	if err != nil {
		return err
	}
	links, err := net.Interfaces()
	if err != nil {
		return err
	}
	note := refreshed{At: before.Add(after.Sub(before) / 2), Octets: map[string]uint64{}}
	values := map[string]string{}
	var order [][]int
	for line := range strings.Lines(string(text)) {
		name, numbers, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		i := slices.IndexFunc(links, func(l net.Interface) bool { return l.Name == name })
		f := strings.Fields(numbers)
		if !ok || i < 0 || len(f) < 10 {
			continue
		}
		octets, err := strconv.ParseUint(f[8], 10, 64)
		if err != nil {
			return err
		}
		note.Octets[name] = octets
		for column, value := range map[int]string{
			1: "string\n" + name, 4: "counter\n0", 5: "counter\n0",
			10: "counter64\n" + f[8], 11: "counter64\n" + f[9], 12: "counter64\n0", 13: "counter64\n0",
			15: "gauge\n10000", 19: "timeticks\n0",
		} {
			order = append(order, []int{column, links[i].Index})
			values[fmt.Sprintf("%s.%d.%d", ifXEntry, column, links[i].Index)] = value
		}
	}
	slices.SortFunc(order, slices.Compare[[]int])
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values, m.order = values, order
	note.Seen = time.Now()
	line, err := json.Marshal(note)
	if err != nil {
		return err
	}
	_, err = log.Write(append(line, '\n'))
	return err
}

// answer is what snmpd expects: an OID, a type and a value, or NONE.
func (m *timerMIB) answer(verb, oid string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if verb == "getnext" {
		var at []int
		for _, arc := range strings.Split(strings.Trim(strings.TrimPrefix(oid, ifXEntry), "."), ".") {
			if n, err := strconv.Atoi(arc); err == nil {
				at = append(at, n)
			}
		}
		i := slices.IndexFunc(m.order, func(o []int) bool { return slices.Compare(o, at) > 0 })
		if i < 0 {
			return "NONE"
		}
		oid = fmt.Sprintf("%s.%d.%d", ifXEntry, m.order[i][0], m.order[i][1])
	}
	value, ok := m.values[oid]
	if !ok {
		return "NONE"
	}
	return oid + "\n" + value
}
