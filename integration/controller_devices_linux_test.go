package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
	"github.com/csig-agent/csig/vendors/vrp/vrptest"
)

const besideText = `  - name: vs1
    platform: ovs
    address: 127.0.0.1
    management: {ovs: {bridge: csig, run_dir: %[1]s, role: master}, ssh: {user: %[2]s, key: %[3]s, known_hosts: %[4]s, port: %[5]d}, daemon: {at: here, socket: DIR/vs1.sock}}
    ports: [{name: swp1, speed: 50M, lm: 6}, {name: swp2, action: strip}]
  - name: sonic1
    platform: sonic
    experimental: true
    address: 127.0.0.1
    management: {redis: {databases: %[6]s}, ssh: {user: %[2]s, key: %[3]s, known_hosts: %[4]s, port: %[5]d}, daemon: {at: here, socket: DIR/sonic1.sock}}
    ports: [{name: Ethernet0, speed: 100M, lm: 7}]
  - name: vrp1
    platform: vrp
    experimental: true
    updates: cli
    lease: none
    interval: 6s
    schedule: "@every 1s"
    address: 127.0.0.1
    management: {ssh: {user: %[7]s, port: %[8]d, password: {file: %[9]s}, known_hosts: %[10]s}, daemon: {at: here, socket: DIR/vrp1.sock}}
    counters: {source: snmp, snmp: {version: 2c, port: %[11]d, community: {file: DIR/community}}}
    ports: [{name: p2, speed: 100M, lm: 8}]
  - name: of1
    platform: openflow
    experimental: true
    address: 127.0.0.1
    management: {openflow: {port: %[12]s, plaintext: true, ordinary_vlans: not-handed-over}, daemon: {at: here, socket: DIR/of1.sock}}
    ports: [{name: p2, speed: 50M, lm: 9}, {name: p3, action: strip}]
`

// beside are devices that controllers share beside hw1: three that fence by other means, and
// one, of1, that does not. All are reached through relays from each controller's loopback.
type beside struct {
	t     *testing.T
	node  *fabric.Node // has what the relays go to
	text  string
	vs    *ovstest.Switch
	of    *oftest.Switch
	cli   *clitest.Server
	load  *fabric.Load // of vrp1
	snmp  *fabric.Node
	ports []int
	redis *redisLog
}

// besideNames are their names, those that are taken over faster first.
var besideNames = []string{"vs1", "sonic1", "vrp1", "of1"}

func newBeside(t *testing.T) *beside {
	t.Helper()
	b := &beside{t: t, node: newHost(t, "devices")}
	b.vs = ovstest.Start(t, ovstest.Options{Dummy: true})
	b.vs.AddBridge("csig")
	b.vs.AddWire("csig", "swp1", 1)
	b.vs.AddWire("csig", "swp2", 2)

	db := sonictest.StartRedis(t)
	sonictest.NewSwitch(t, db, sonictest.R202511, "Ethernet0")
	db.Do(2, "HSET", "COUNTERS_PORT_NAME_MAP", "Ethernet0", "oid:0x1000000000001")
	const counters = "COUNTERS:oid:0x1000000000001"
	db.Do(2, "HSET", counters, "SAI_PORT_STAT_IF_OUT_OCTETS", 0, "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", 0, "SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS", 0)
	b.redis = logRedis(t, db.Socket)
	sshd := sshtest.Start(t, sshtest.Options{Port: loopbackPort(), Start: func(cmd *exec.Cmd) error { return b.node.Do(cmd.Start) }}).Login

	p := plane.New(t, 3)
	sw := vrptest.New("vrp1", "p1", "p2", "p3")
	if err := b.node.Do(func() error { b.cli = clitest.New(t, sw.Shell); return nil }); err != nil {
		t.Fatal(err)
	}
	startSnmpd(t, p.Node(), snmpdPort, nil, "")
	b.snmp, b.load = p.Node(), p.Load(t, 2, cliLoads[0])

	b.of = oftest.StartSwitch(t, 3)
	b.of.Flow("add-flow", "table=0,priority=10,dl_dst=02:00:00:00:00:02,actions=write_metadata:2/0xfff,goto_table:10")
	_, port := proxyIn(t, b.node, oftest.Options{Bridge: b.of.Path(), Port: 6654})
	every(t, 50*time.Millisecond, func(n int) {
		b.of.Ports[2].Send(append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 3, 0, 0x88, 0xb5}, make([]byte, 46)...))
		if n%4 == 0 {
			_ = db.Try(2, "HINCRBY", counters, "SAI_PORT_STAT_IF_OUT_OCTETS", 1000) // it ends with the test
		}
	})
	for _, s := range []*ovstest.Switch{b.vs, b.of.Switch} {
		s.Appctl("vlog/set", "vconn:file:dbg")
		s.Appctl("vlog/disable-rate-limit", "vconn")
	}

	l := b.cli.Login
	b.text = fmt.Sprintf(besideText, b.vs.Dir, sshd.User, sshd.Key, sshd.KnownHosts, sshd.Port, db.File, l.User, l.Port, l.Password.File, l.KnownHosts, snmpdPort, port)
	at, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	b.ports = []int{int(sshd.Port), int(l.Port), at}
	return b
}

// every calls something again and again, with how often it did before, until the test ends.
func every(t testing.TB, d time.Duration, do func(n int)) {
	ended, stop := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-ended })
	go func() {
		defer close(ended)
		tick := time.NewTicker(d)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-tick.C:
				do(n)
			}
		}
	}()
}

// reach has a controller reach the devices.
func (b *beside) reach(o *operator) {
	b.t.Helper()
	for _, port := range b.ports {
		relayTCP(b.t, o.host, b.node, port)
	}
	relayUDP(b.t, o.host, b.snmp, snmpdPort)
	writeFile(b.t, filepath.Join(o.dir, "community"), []byte("public\n"))
}

// drives is whether a controller owns a device, and has waited for its former owner.
func (c *controllers) drives(i int, device string) (is bool, s *api.Status) {
	client := api.NewClient(filepath.Join(c.ops[i].dir, device+".sock"))
	defer client.Close()
	s, err := client.Status(c.t.Context())
	return err == nil && !strings.Contains(s.Waiting, "this one takes over"), s
}

// driven waits until one of these controllers drives a device, as wanted.
func (c *controllers) driven(what, device string, within time.Duration, is func(*api.Status) bool, among ...int) int {
	c.t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); {
		for _, i := range among {
			if drives, s := c.drives(i, device); drives && is(s) {
				return i
			}
		}
		if c.bound > 0 { // else nothing lets a frame pass yet
			c.written(what, func(int) bool { return true })
		} else {
			time.Sleep(20 * time.Millisecond) // between looks
		}
	}
	c.t.Fatalf("%s: none of the controllers %v drives %s", what, among, device)
	return 0
}

// oneWriter reads the devices' own logs: nothing was carried out that a former owner sent when
// the next one had begun.
func (b *beside) oneWriter() {
	b.t.Helper()
	oneMaster(b.t, "vs1", filepath.Join(b.vs.Dir, "vs.log"))

	newest, done, owners := newestFirst{}, 0, 0
	for _, line := range b.cli.Log() {
		newest.seen(line.By)
		if word, _, _ := strings.Cut(strings.TrimPrefix(line.Text, "undo "), " "); !slices.Contains([]string{"traffic", "classifier", "if-match", "remark"}, word) {
			continue // of those that change what frames meet
		}
		switch newest.changes(line.By) {
		case older:
			b.t.Errorf("vrp1: login %d changes it under login %d, which has: %s", newest.began[line.By], newest.latest, line.Text)
		case another:
			owners++
		}
		done++
	}
	b.t.Logf("vrp1: %d lines of %d logins", done, owners)
	enough(b.t, "vrp1", done, owners)

	text := readFile(b.t, filepath.Join(b.of.Dir, "vs.log"))
	newest, done, owners = newestFirst{}, 0, 0
	for _, l := range ofLine.FindAllStringSubmatch(string(text), -1) {
		newest.seen(l[1])
		if l[2] != "received" || l[3] != "OFPT_FLOW_MOD" && l[3] != "OFPT_GROUP_MOD" || strings.Contains(l[1], "snoop") {
			continue
		}
		switch newest.changes(l[1]) {
		case older:
			b.t.Errorf("of1: a former connection changes it: %s", l[5])
		case another:
			owners++
		}
		done++
	}
	b.t.Logf("of1, which is unfenced: %d changes on %d connections", done, owners)
	enough(b.t, "of1", done, owners)

	b.redis.mu.Lock()
	defer b.redis.mu.Unlock()
	for _, late := range b.redis.late {
		b.t.Errorf("sonic1: %s", late)
	}
	b.t.Logf("sonic1: %d writes of %d owners carried out, %d scripts of former owners refused", b.redis.done, b.redis.owners, b.redis.refused)
	enough(b.t, "sonic1", b.redis.done, b.redis.owners)
}

func enough(t *testing.T, device string, done, owners int) {
	t.Helper()
	if done == 0 || owners < 2 {
		t.Errorf("%s: the log has %d changes of %d owners", device, done, owners)
	}
}

// newestFirst has the sessions with a device in the order in which they began. Each owner begins
// its own: one that began before that of the last change is a former owner's.
type newestFirst struct {
	began  map[any]int
	latest int // of those that have changed something
}

func (n *newestFirst) seen(session any) {
	if n.began == nil {
		n.began = map[any]int{}
	}
	if _, known := n.began[session]; !known {
		n.began[session] = len(n.began) + 1
	}
}

const (
	same = iota
	another
	older
)

// changes is what the session of a change is beside that of the one before.
func (n *newestFirst) changes(session any) int {
	switch at := n.began[session]; {
	case at < n.latest:
		return older
	case at > n.latest:
		n.latest = at
		return another
	}
	return same
}

// redisLog is what Redis itself says that it carries out, of what owners of a switch send.
type redisLog struct {
	mu                    sync.Mutex
	newest, script        string // tokens
	wrote                 bool   // the script at hand
	done, owners, refused int
	late                  []string
}

var (
	redisScript = regexp.MustCompile(`^[0-9.]+ \[\d+ [^\]]*\] "(?i:EVAL)" .*?"csig_owner" "(\d{20})"`)
	redisWrite  = regexp.MustCompile(`^[0-9.]+ \[\d+ lua\] "(DEL|HDEL|HSET|PUBLISH|SADD|SET|SREM)" (.{0,80})`)
)

func logRedis(t *testing.T, socket string) *redisLog {
	t.Helper()
	l := &redisLog{}
	c, err := redis.Dial("unix", socket)
	if err == nil {
		_, err = c.Do("MONITOR")
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { c.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			line, err := redis.String(redis.ReceiveWithTimeout(c, 0))
			if err != nil {
				return
			}
			l.take(line)
		}
	}()
	return l
}

func (l *redisLog) take(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := redisScript.FindStringSubmatch(line); m != nil {
		if l.script != "" && !l.wrote {
			l.refused++
		}
		l.script, l.wrote = m[1], false
		return
	}
	m := redisWrite.FindStringSubmatch(line)
	switch {
	case m == nil:
		return
	case l.script < l.newest:
		l.late = append(l.late, fmt.Sprintf("%s %s of owner %s under %s", m[1], m[2], l.script, l.newest))
	case l.script > l.newest:
		l.newest = l.script
		l.owners++
	}
	l.wrote = true
	l.done++
}
