package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/quantize"
)

// controllerFaults kills, stops and cuts off controllers of five switches, fills the disks
// of their NATS servers and sets their clocks, each once, or for CSIG_FAULTS at a term of 3 s, in an order
// that CSIG_SEED gives. The switches' own logs have no change by a former owner that was carried out:
// where they fence, from the next one's first on, and where one does not, as after the wait that is
// stated. No frame leaves with the tag that it came with, nor with a better one than was true within
// the lease.
func controllerFaults(t *testing.T) {
	length, seed, term := time.Duration(0), uint64(1), 2*time.Second
	if v := os.Getenv("CSIG_FAULTS"); v != "" {
		var err error
		if length, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
		term = 3 * time.Second
	}
	if v := os.Getenv("CSIG_SEED"); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	b := newBeside(t)
	c := newControllers(t, term, strings.NewReplacer("{buckets: log-100M}", "{buckets: log-100M, initial_s: 30}", "speed: 50M", "speed: 1M").Replace(controllersText)+b.text)
	c.program = steppable(t)
	c.sw.Appctl("vlog/set", "vconn:file:dbg")
	c.sw.Appctl("vlog/disable-rate-limit", "vconn")
	for i := range c.ops {
		b.reach(c.ops[i])
		c.smallDisk(i)
		c.start(i)
	}
	owner := c.owner(0, 1, 2)
	for _, device := range besideNames {
		c.driven("the start", device, 2*patience, func(*api.Status) bool { return true }, 0, 1, 2)
	}
	up := filepath.Join(c.dir, "up.plan")
	c.ops[owner].run(2, "plan", "-i", c.ops[owner].fleet, "-o", up)
	c.ops[owner].run(0, "apply", up, "--soak", "50ms")
	s := c.where[owner].await("its lease", func(s *api.Status) bool { return s.LeaseNS > 0 })
	c.bound = time.Duration(s.LeaseNS) + expires
	c.written("the first owner", ofAgent)

	rest := func() { // until each has an owner that has written
		for _, device := range besideNames {
			c.driven("the rest between faults", device, 2*patience, live, 0, 1, 2)
		}
	}
	took := map[string][]time.Duration{}
	counts := map[string]int{}
	var kinds []string
	for end, n := time.Now().Add(length), 0; n < 5 || time.Now().Before(end); n++ {
		if len(kinds) == 0 { // each kind once in five faults
			kinds = []string{"killed", "stopped", "cut off", "full", "set to another time"}
			random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
			rest()
		}
		c.setLoad(0)
		owner = c.owner(0, 1, 2)
		c.where[owner].await("that its port is live", live)
		victim := owner
		if random.IntN(4) == 0 { // one that owns nothing
			victim = others(owner)[random.IntN(2)]
		}
		kind := kinds[0]
		kinds = kinds[1:]
		counts[kind]++
		what := fmt.Sprintf("c%d of owner c%d is %s", victim+1, owner+1, kind)
		if kind == "full" {
			if t.Log(what); c.fullDisk(what, victim) {
				counts["full, and taken over"]++
			}
			continue
		}
		if kind == "set to another time" {
			c.anotherTime(what, victim, time.Duration(1+random.IntN(48))*time.Hour-24*time.Hour-30*time.Minute)
			continue
		}
		if err := b.load.SetRate(cliLoads[random.IntN(len(cliLoads))]); err != nil {
			t.Fatal(err)
		}
		var lost []string // of the devices beside
		for _, device := range besideNames {
			if is, _ := c.drives(victim, device); is {
				lost = append(lost, device)
			}
		}
		process, begin := c.where[victim].cmd.Process, time.Now()
		switch kind {
		case "killed":
			_ = c.where[victim].signal(syscall.SIGKILL)
		case "stopped":
			if err := process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		default:
			c.cut(victim)
		}
		c.setLoad(1400)
		if victim == owner {
			c.written(what, fallsBack)
			next := c.owner(others(victim)...)
			c.where[next].await(what, live)
			c.written(what, ofAgent)
			took["hw1"] = append(took["hw1"], time.Since(begin))
		} else {
			c.written(what, ofAgent)
		}
		for _, device := range lost {
			c.driven(what, device, 2*patience, func(*api.Status) bool { return true }, others(victim)...)
			took[device] = append(took[device], time.Since(begin))
		}
		switch kind {
		case "killed":
			c.start(victim)
		case "stopped":
			if err := process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		default:
			exits(t, 0, c.ops[victim].host.Command("nft", "delete", "table", "inet", "cut"))
		}
		// One that was stopped needs a moment until it knows that it owns nothing.
		c.where[victim].await(what+", and back", func(s *api.Status) bool { return strings.Contains(s.Waiting, "this one takes over") })
	}
	rest()
	t.Logf("seed %d: %v", seed, counts)
	for _, device := range append([]string{"hw1"}, besideNames...) {
		if all := took[device]; len(all) > 0 {
			slices.Sort(all)
			t.Logf("%s: %d take-overs, p50 %v, p99 %v", device, len(all), all[len(all)/2].Round(10*time.Millisecond), all[len(all)*99/100].Round(10*time.Millisecond))
		}
	}
	t.Logf("hw1: %d frames, none better than the truth of the last %v", c.frames, c.bound)
	oneMaster(t, "hw1", filepath.Join(c.sw.Dir, "vs.log"))
	b.oneWriter()
}

// expires is how much later than at its time Open vSwitch may expire a flow: it counts whole
// seconds, and looks now and then.
const expires = 2 * time.Second

// smallDisk gives the NATS server of a controller a file system of its own, which can be full.
func (c *controllers) smallDisk(i int) {
	c.t.Helper()
	dir := c.disk(i)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=16m,mode=0700"); err != nil { // this process has its own mounts
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			c.t.Error(err)
		}
	})
}

// disk is the folder of a controller's NATS server.
func (c *controllers) disk(i int) string { return filepath.Join(c.ops[i].dir, "state", "nats") }

// fullDisk fills the disk of a controller's NATS server for two terms, and frees it. The switch
// has a live owner all the time, or after a take-over, which moved reports; the server is back
// before another fault.
func (c *controllers) fullDisk(what string, victim int) (moved bool) {
	c.t.Helper()
	said := func(words string) int { return strings.Count(c.where[victim].log.String(), words) }
	await := func(words string, before int) {
		c.t.Helper()
		for end := time.Now().Add(patience + 4*c.term); said(words) == before; {
			if c.written(what, func(int) bool { return true }); time.Now().After(end) {
				c.t.Fatalf("%s: c%d does not log %q", what, victim+1, words)
			}
		}
	}
	const lost, back = "NATS server of this controller cannot write", "NATS server could not write; started again"
	before := [2]int{said(lost), said(back)}
	owner := c.owner(0, 1, 2)
	ballast := filepath.Join(c.disk(victim), "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		c.t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	f.Close()
	if !errors.Is(err, unix.ENOSPC) {
		c.t.Fatal(err)
	}
	await(lost, before[0])
	for end := time.Now().Add(2 * c.term); time.Now().Before(end); {
		c.written(what, func(int) bool { return true })
	}
	next := c.owner(0, 1, 2)
	c.where[next].await(what, live)
	c.written(what, ofAgent)
	if err := os.Remove(ballast); err != nil {
		c.t.Fatal(err)
	}
	await(back, before[1])
	for end := time.Now().Add(patience); said("the connection to NATS is lost") != said("connected to NATS again"); {
		if c.written(what, func(int) bool { return true }); time.Now().After(end) {
			c.t.Fatalf("%s: c%d is not connected again", what, victim+1)
		}
	}
	return next != owner
}

// quiet waits until the fault before is over for NATS, too, which elects leaders for longer than
// a term: until no controller has logged anything of it for two terms. It returns the owner.
func (c *controllers) quiet(what string) (owner int) {
	c.t.Helper()
	lines := func() (n int) {
		for _, a := range c.where {
			for _, words := range []string{"is not confirmed", "cannot be asked", "cannot be followed", "cannot be taken", "cannot be fetched", "to NATS", "owns the device"} {
				n += strings.Count(a.log.String(), words)
			}
		}
		return n
	}
	for end := time.Now().Add(patience + 20*c.term); time.Now().Before(end); {
		before := lines()
		for end := time.Now().Add(2 * c.term); time.Now().Before(end) && lines() == before; {
			c.written(what, func(int) bool { return true })
		}
		if lines() == before {
			return c.owner(0, 1, 2)
		}
	}
	c.t.Fatalf("%s: the controllers do not come to rest", what)
	return 0
}

// anotherTime sets the clock of a controller and its NATS server, for good. That moves nothing: the
// owner stays, and is live, for two terms.
func (c *controllers) anotherTime(what string, victim int, by time.Duration) {
	c.t.Helper()
	owner := c.quiet(what)
	c.where[owner].await(what, live)
	c.t.Logf("%s: %v", what, by)
	s, err := c.where[owner].client.Status(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	stepped := func() int { return strings.Count(c.where[owner].log.String(), "wall clock stepped") }
	before := stepped()
	c.setClock(victim, by)
	for end := time.Now().Add(2 * c.term); time.Now().Before(end); {
		c.written(what, ofAgent)
	}
	now, err := c.where[owner].client.Status(c.t.Context())
	if err != nil || now.Cycle.Count < s.Cycle.Count+10 || now.Cycle.Lapses != s.Cycle.Lapses {
		c.t.Errorf("%s: the owner's status is %+v, was %+v (%v)", what, now, s, err)
	}
	if victim == owner && stepped() == before {
		c.t.Errorf("%s, and it has not noticed", what)
	}
}

// written sends frames until one leaves as wanted: none ever with the tag that it came with, nor
// with a better one than was true within the bound. What is true are the frames that left the switch, and not
// when this test sent them: a busy machine lets the switch wait. It also lets the controller wait for its
// readings, whose times may then be off by a quarter of an interval at either end.
func (c *controllers) written(what string, is func(tci int) bool) {
	c.t.Helper()
	table, err := quantize.Preset(quantize.MinABW, "log-100M")
	if err != nil {
		c.t.Fatal(err)
	}
	const interval, speed, slack = 200 * time.Millisecond, 1_000_000, 8 * (1400 + onWire) // a frame that is counted and not seen yet
	for end := time.Now().Add(patience); ; {
		time.Sleep(20 * time.Millisecond) // as in the traffic; without, a test that waits uses up a processor
		sent := time.Now()
		tci := c.leaves(2)
		c.frames++
		switch written := tci&0x7f == 5 && tci>>7 < 31; {
		case !written && !fallsBack(tci):
			c.t.Fatalf("%s: a frame leaves with %04x", what, tci)
		case written && c.bound > 0:
			least := c.least(sent.Add(-c.bound-interval), interval/2)
			best := uint64(speed)
			if least > slack {
				best -= min(best, (least-slack)*uint64(time.Second/interval))
			}
			if s := table.Bucket(best); tci>>7 > int(s) {
				c.t.Fatalf("%s: a frame leaves with S %d, and S was %d at best in the last %v", what, tci>>7, s, c.bound)
			}
		}
		if is(tci) {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%s: it leaves with %04x", what, tci)
		}
	}
}

// cut has a controller neither send to the others nor receive from them; it reaches the devices.
func (c *controllers) cut(i int) {
	c.t.Helper()
	const rules = "table inet cut { chain in { type filter hook input priority 0; iifname { %[1]s } drop; }; chain out { type filter hook output priority 0; oifname { %[1]s } drop; }; }"
	ports := cable(i, others(i)[0]) + ", " + cable(i, others(i)[1])
	exits(c.t, 0, c.ops[i].host.Command("nft", fmt.Sprintf(rules, ports)))
}

// The lines of Open vSwitch's log that tell who changed what.
var (
	ofLine       = regexp.MustCompile(`\|vconn\|DBG\|(\S+): (received|sent \(Success\)): (OFPT_\w+) \(OF1\.[34]\) \(xid=(0x[0-9a-f]+)\):(.*(?:\n bundle_id.*)?)`)
	ofGeneration = regexp.MustCompile(`role=(?:master|primary) generation_id=(\d+)`)
)

// oneMaster reads a switch's own log: what it carried out came from the controller that was
// master with the newest generation then.
func oneMaster(t *testing.T, device, file string) {
	t.Helper()
	text := readFile(t, file)
	refused := map[string]bool{} // by connection and transaction
	lines := ofLine.FindAllStringSubmatch(string(text), -1)
	for _, l := range lines {
		if l[3] == "OFPT_ERROR" {
			refused[l[1]+l[4]] = true
		}
	}
	newest, masters := uint64(0), map[string]uint64{}
	var done, late, owners int
	for _, l := range lines {
		switch {
		case l[3] == "OFPT_ROLE_REPLY":
			if m := ofGeneration.FindStringSubmatch(l[5]); m != nil {
				g, err := strconv.ParseUint(m[1], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				if masters[l[1]] = g; g > newest {
					newest = g
					owners++
				}
			}
		case l[2] != "received" || l[3] != "OFPT_FLOW_MOD" && l[3] != "OFPT_GROUP_MOD" && (l[3] != "OFPT_BUNDLE_CONTROL" || !strings.Contains(l[5], "COMMIT")):
		case refused[l[1]+l[4]]:
			late++
		case masters[l[1]] != newest:
			t.Errorf("%s: %s, master of generation %#x, changes it under %#x:%s", device, l[1], masters[l[1]], newest, l[5])
		default:
			done++
		}
	}
	t.Logf("%s: %d changes of %d owners carried out, %d of former owners refused", device, done, owners, late)
	enough(t, device, done, owners)
}
