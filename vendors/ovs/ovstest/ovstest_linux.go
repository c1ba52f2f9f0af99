package ovstest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Options are what tests may want otherwise; the zero value will do.
type Options struct {
	// Start starts a command, perhaps in another network namespace; nil is (*exec.Cmd).Start, with a
	// namespace of its own where it is Dummy and not Here.
	Start func(*exec.Cmd) error

	// Dummy makes bridges whose ports are sockets of the test instead of
	// network devices: see Wire.
	Dummy bool

	Here bool // in the test's own network namespace, though it is Dummy: it connects to the test over TCP
}

// Switch is a running Open vSwitch.
type Switch struct {
	Dir string // of its sockets

	t       testing.TB
	options Options
	own     bool // it runs where the test does
	db, vs  *exec.Cmd

	together bool // Together runs
	args     []string
	bridges  []string // that come with args
}

const schema = "/usr/share/openvswitch/vswitch.ovsschema"

// Start runs an Open vSwitch without bridges until the test ends.
func Start(t testing.TB, o Options) *Switch {
	t.Helper()
	for _, need := range []string{"ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Fatalf("%v: install Open vSwitch (Debian: apt-get install openvswitch-switch)", err)
		}
	}
	own := o.Start == nil
	if own {
		o.Start = (*exec.Cmd).Start
	}
	dir, err := os.MkdirTemp("", "ovs") // unix sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	s := &Switch{Dir: dir, t: t, options: o, own: own}
	t.Cleanup(func() {
		s.stop(&s.vs)
		s.stop(&s.db)
		if t.Failed() {
			for _, log := range []string{"db.log", "vs.log"} {
				text, _ := os.ReadFile(filepath.Join(dir, log))
				bad := regexp.MustCompile(`(?m)^.*\|(WARN|ERR|EMER)\|.*$`).FindAllString(string(text), -1)
				for _, line := range bad[max(0, len(bad)-30):] {
					t.Logf("%s: %s", log, line)
				}
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	conf := filepath.Join(dir, "conf.db")
	empty.Lock()
	defer empty.Unlock()
	if empty.database == nil {
		s.run("ovsdb-tool", "create", conf, schema)
		s.StartDatabase()
		s.run("ovs-vsctl", "--db=unix:"+s.database(), "--no-wait", "init")
		empty.database, err = os.ReadFile(conf)
	} else if err = os.WriteFile(conf, empty.database, 0o600); err == nil {
		s.StartDatabase()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.startSwitch()
	return s
}

// empty is a database without bridges, which is made once.
var empty struct {
	sync.Mutex
	database []byte
}

func (s *Switch) database() string { return filepath.Join(s.Dir, "db.sock") }

// command prepares a program that finds the switch's files.
func (s *Switch) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), "OVS_RUNDIR="+s.Dir, "OVS_LOGDIR="+s.Dir, "OVS_DBDIR="+s.Dir, "OVS_SYSCONFDIR="+s.Dir)
	return c
}

func (s *Switch) run(name string, args ...string) string {
	s.t.Helper()
	var out, why bytes.Buffer
	c := s.command(name, args...)
	c.Stdout, c.Stderr = &out, &why
	err := s.options.Start(c)
	if err == nil {
		err = c.Wait()
	}
	if err != nil {
		s.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, why.String())
	}
	return out.String()
}

// Together has all the bridges and ports that f adds, and what it sets of them, come in one
// transaction.
func (s *Switch) Together(f func()) {
	s.t.Helper()
	s.together = true
	f()
	args, bridges := s.args, s.bridges
	s.together, s.args, s.bridges = false, nil, nil
	s.Vsctl(args...)
	for _, br := range bridges {
		s.awaitBridge(br)
	}
}

// Vsctl runs ovs-vsctl and returns what it prints.
func (s *Switch) Vsctl(args ...string) string {
	s.t.Helper()
	if s.together {
		s.args = append(append(s.args, "--"), args...)
		return ""
	}
	return s.run("ovs-vsctl", append([]string{"--db=unix:" + s.database(), "--timeout=60"}, args...)...)
}

// Rows are those of a table of the database, as JSON: some of their columns.
func (s *Switch) Rows(table string, columns ...string) (rows []string) {
	s.t.Helper()
	c, err := net.Dial("unix", s.database())
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	request := map[string]any{"id": 0, "method": "transact", "params": []any{
		"Open_vSwitch", map[string]any{"op": "select", "table": table, "where": []any{}, "columns": columns},
	}}
	var reply struct {
		Error  any
		Result []struct{ Rows []json.RawMessage }
	}
	err = errors.Join(c.SetDeadline(time.Now().Add(time.Minute)), json.NewEncoder(c).Encode(request), json.NewDecoder(c).Decode(&reply))
	if err != nil || reply.Error != nil || len(reply.Result) != 1 {
		s.t.Fatalf("the rows of %s: %v, %+v", table, err, reply)
	}
	for _, r := range reply.Result[0].Rows {
		rows = append(rows, string(r))
	}
	return rows
}

// Ofctl runs ovs-ofctl and returns what it prints, a dump with its lines sorted: flows
// of one priority come in an order that other flows can change.
func (s *Switch) Ofctl(args ...string) string {
	s.t.Helper()
	out := s.run("ovs-ofctl", append([]string{"-O", "OpenFlow14"}, args...)...)
	if slices.Contains(args, "dump-flows") || slices.Contains(args, "dump-groups") {
		return strings.Join(slices.Sorted(strings.Lines(out)), "")
	}
	return out
}

// Appctl gives ovs-vswitchd a command, as ovs-appctl does, and returns what that would print.
func (s *Switch) Appctl(command string, args ...string) string {
	s.t.Helper()
	c, err := net.Dial("unix", filepath.Join(s.Dir, fmt.Sprintf("ovs-vswitchd.%d.ctl", s.vs.Process.Pid)))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	request := struct {
		ID     int      `json:"id"`
		Method string   `json:"method"`
		Params []string `json:"params"` // never null
	}{0, command, append([]string{}, args...)}
	var reply struct{ Result, Error string }
	if err := errors.Join(c.SetDeadline(time.Now().Add(time.Minute)), json.NewEncoder(c).Encode(request), json.NewDecoder(c).Decode(&reply)); err != nil || reply.Error != "" {
		s.t.Fatalf("%s %s: %v %v", command, strings.Join(args, " "), err, reply.Error)
	}
	return reply.Result
}

// Settled has frames from now on take what the bridge's tables have now: Open vSwitch
// caches paths, and revalidator/wait may return while it corrects them. A path that came
// while the revalidators were at work is one that purge does not know.
func (s *Switch) Settled() {
	s.t.Helper()
	s.Appctl("revalidator/purge")
	if strings.TrimSpace(s.Appctl("dpctl/dump-flows")) != "" {
		s.Appctl("dpctl/del-flows")
	}
}

// daemon starts a daemon, and waits until its socket is there.
func (s *Switch) daemon(to **exec.Cmd, socket, name string, args ...string) {
	s.t.Helper()
	c := s.command(name, args...)
	// It ends with the test, however that ends: with the thread that started it, which
	// therefore stays until then. Where the caller starts it the thread is the caller's.
	if s.own {
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if s.options.Dummy && !s.options.Here && os.Geteuid() == 0 { // its sockets alone are used: no csig of another test finds its bridges
			c.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
		}
	}
	gone, started := make(chan struct{}), make(chan error, 1)
	if !s.own {
		started <- s.options.Start(c)
	}
	go func() {
		defer close(gone)
		if s.own {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			started <- s.options.Start(c)
		}
		_ = c.Wait() // it is killed in the end, or was not started
	}()
	if err := <-started; err != nil {
		s.t.Fatal(err)
	}
	*to = c
	for limit := time.Now().Add(time.Minute); ; {
		path := strings.ReplaceAll(socket, "PID", strconv.Itoa(c.Process.Pid))
		if conn, err := net.Dial("unix", path); err == nil {
			conn.Close()
			break
		}
		select {
		case <-gone:
			s.t.Fatalf("%s ended: %v", name, c.ProcessState)
		case <-time.After(5 * time.Millisecond): // to look again
		}
		if time.Now().After(limit) {
			s.t.Fatalf("%s does not open %s", name, path)
		}
	}
	c.Cancel = func() error { // by its own process, and waited for by the goroutine above
		if err := c.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-gone
		return nil
	}
}

func (s *Switch) stop(c **exec.Cmd) {
	if *c == nil {
		return
	}
	if err := (*c).Cancel(); err != nil {
		s.t.Error(err)
	}
	*c = nil
}

// StartDatabase starts ovsdb-server, with what it had before.
func (s *Switch) StartDatabase() {
	s.t.Helper()
	s.daemon(&s.db, s.database(), "ovsdb-server", "--remote=punix:"+s.database(), "--log-file="+filepath.Join(s.Dir, "db.log"),
		"--pidfile="+filepath.Join(s.Dir, "db.pid"), "-vconsole:off", "--no-chdir", filepath.Join(s.Dir, "conf.db"))
}

// StopDatabase kills ovsdb-server.
func (s *Switch) StopDatabase() { s.stop(&s.db) }

// PauseDatabase has ovsdb-server stand still, and go on.
func (s *Switch) PauseDatabase(still bool) {
	s.t.Helper()
	sig := syscall.SIGCONT
	if still {
		sig = syscall.SIGSTOP
	}
	if err := s.db.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// StartSwitch starts ovs-vswitchd, and waits until it has the bridges of the
// database.
func (s *Switch) StartSwitch() {
	s.t.Helper()
	s.startSwitch()
	for _, br := range strings.Fields(s.Vsctl("list-br")) {
		s.awaitBridge(br)
	}
}

func (s *Switch) startSwitch() {
	s.t.Helper()
	args := []string{"--log-file=" + filepath.Join(s.Dir, "vs.log"), "--pidfile=" + filepath.Join(s.Dir, "vs.pid"), "-vconsole:off", "--no-chdir", "--disable-system"}
	if s.options.Dummy {
		args = append(args, "--enable-dummy")
	}
	s.daemon(&s.vs, filepath.Join(s.Dir, "ovs-vswitchd.PID.ctl"), "ovs-vswitchd", append(args, "unix:"+s.database())...)
}

// StopSwitch kills ovs-vswitchd: the flows of every bridge are lost.
func (s *Switch) StopSwitch() { s.stop(&s.vs) }

func (s *Switch) awaitBridge(name string) {
	s.t.Helper()
	if s.together {
		s.bridges = append(s.bridges, name)
		return
	}
	for limit := time.Now().Add(time.Minute); ; {
		if c, err := net.Dial("unix", filepath.Join(s.Dir, name+".mgmt")); err == nil {
			c.Close()
			return
		}
		if time.Now().After(limit) {
			s.t.Fatalf("bridge %s does not come", name)
		}
		<-time.After(5 * time.Millisecond) // to look again
	}
}

// AddBridge makes a bridge that forwards nothing by itself.
func (s *Switch) AddBridge(name string) {
	s.t.Helper()
	kind := "netdev"
	if s.options.Dummy {
		kind = "dummy"
	}
	s.Vsctl("add-br", name, "--", "set", "bridge", name, "datapath_type="+kind, "fail_mode=secure", "other_config:disable-in-band=true")
	s.awaitBridge(name)
}

// AddPatch joins two bridges with a pair of patch ports.
func (s *Switch) AddPatch(bridgeA, portA, bridgeB, portB string) {
	s.t.Helper()
	s.Vsctl("add-port", bridgeA, portA, "--", "set", "interface", portA, "type=patch", "options:peer="+portB,
		"--", "add-port", bridgeB, portB, "--", "set", "interface", portB, "type=patch", "options:peer="+portA)
}

// Wire is the far end of a port that is a socket.
type Wire struct {
	t     testing.TB
	conns chan net.Conn // as ovs-vswitchd makes them: it reconnects at times
	c     net.Conn

	mu     sync.Mutex
	left   func(frame []byte) // of Left; nil: none
	frames [][]byte           // that have come and were not received, without a bound
	came   chan struct{}      // one where there may be some
}

// AddWire adds a port to a bridge of a Dummy switch, with an OpenFlow number.
func (s *Switch) AddWire(bridge, port string, number int) *Wire {
	s.t.Helper()
	path := filepath.Join(s.Dir, fmt.Sprintf("%s-%d.wire", port, number))
	l, err := net.Listen("unix", path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { l.Close() })
	w := &Wire{t: s.t, conns: make(chan net.Conn, 64), came: make(chan struct{}, 1)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.conns <- c
			go w.listen(c)
		}
	}()
	s.Vsctl("add-port", bridge, port, "--", "set", "interface", port, "type=dummy", "options:stream=unix:"+path, fmt.Sprintf("ofport_request=%d", number))
	return w
}

// listen takes frames off a connection until it ends.
func (w *Wire) listen(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 1<<16)
	for {
		var n [2]byte
		if _, err := io.ReadFull(r, n[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint16(n[:]))
		if _, err := io.ReadFull(r, frame); err != nil {
			return
		}
		w.mu.Lock()
		w.frames = append(w.frames, frame)
		left := w.left
		w.mu.Unlock()
		if left != nil {
			left(frame)
		}
		w.wake()
	}
}

// Left has f called with each frame at the time when the switch has sent it.
func (w *Wire) Left(f func(frame []byte)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = f
}

// Send gives frames to the switch.
func (w *Wire) Send(frames ...[]byte) {
	w.t.Helper()
	var message []byte
	for _, f := range frames {
		message = append(binary.BigEndian.AppendUint16(message, uint16(len(f))), f...)
	}
	for {
		for w.c == nil || len(w.conns) > 0 {
			select {
			case w.c = <-w.conns:
			case <-time.After(time.Minute):
				w.t.Fatal("ovs-vswitchd does not connect to the port's socket")
			}
		}
		if _, err := w.c.Write(message); err == nil {
			return
		}
		w.c = nil
	}
}

// Receive waits for the next frame that the switch sends; nil after a while
// without one.
func (w *Wire) Receive(patience time.Duration) []byte {
	w.t.Helper()
	var end *time.Timer
	for {
		w.mu.Lock()
		if len(w.frames) > 0 {
			frame := w.frames[0]
			w.frames = w.frames[1:]
			more := len(w.frames) > 0
			w.mu.Unlock()
			if more { // another may wait for it
				w.wake()
			}
			return frame
		}
		w.mu.Unlock()
		if end == nil {
			end = time.NewTimer(patience)
			defer end.Stop()
		}
		select {
		case <-w.came:
		case <-end.C:
			return nil
		}
	}
}

// wake has one that waits for a frame look.
func (w *Wire) wake() {
	select {
	case w.came <- struct{}{}:
	default: // it will
	}
}
