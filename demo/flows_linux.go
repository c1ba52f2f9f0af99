package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/hosts/tcp"
	"github.com/csig-agent/csig/inventory"
)

//go:embed flows.yaml
var flowsFile []byte

// FlowsOptions are how to run the demo of flows: of Options those about the run and what it shows.
type FlowsOptions struct {
	Options
	Ask func(ctx context.Context, socket string) (*tcp.Status, error) // asks csig host run, as csig host status does
}

// flowsRunner is one run of it. Both paths are alike, but for csig: in the second one nothing of it runs.
type flowsRunner struct {
	o      FlowsOptions
	fleet  *inventory.Fleet
	group  *controlGroup
	paths  [flowCount]*path
	agents []*proc
	hosts  []*child
	flows  [flowCount]*flow
	socket string // of h1's csig host run
	res    FlowsResult
}

// RunFlows builds the fabric of the demo twice, has a TCP flow cross each, one with the signal and one without, and
// changes what others leave to them. As of Run: when ctx ends, what was measured so far is the result, and it has
// namespaces of its own.
func RunFlows(ctx context.Context, o FlowsOptions) (res *FlowsResult, err error) {
	if o.Duration == 0 {
		o.Duration = time.Duration(len(flowSteps)) * flowStep
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	fleet, err := o.fleet(flowsFile)
	if err != nil {
		return nil, err
	}
	if err := mayHaveTags(); err != nil {
		return nil, err
	}
	if err := mountScratch(); err != nil {
		return nil, err
	}
	r := &flowsRunner{o: o, fleet: fleet, socket: filepath.Join(scratch, "h1.sock"), res: FlowsResult{
		Format: FlowsFormat, Version: o.Version, Started: time.Now(), IntervalNS: o.Interval.Nanoseconds(), RTTNS: 2 * flowDelay.Nanoseconds(),
	}}
	if r.group, err = enterControlGroup(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.group.leave()) }()
	for i := range r.paths {
		p := &path{hosts: make(map[string]*fabric.Port), delay: flowDelay}
		if err := p.build(fleet); err != nil {
			return nil, errors.Join(fmt.Errorf("building the fabric: %w", err), p.Close())
		}
		defer func() { err = errors.Join(err, p.Close()) }()
		r.paths[i] = p
	}
	if err := r.run(ctx); err != nil {
		if ctx.Err() != nil && len(r.res.Steps) == 0 {
			err = ErrInterrupted // what did not get ready in time does not matter
		}
		return nil, err
	}
	return &r.res, nil
}

// mayHaveTags is an error where the kernel or the user cannot have csig host run and its congestion control.
func mayHaveTags() error {
	for _, p := range tcp.Look(nil).Parts {
		if !p.OK && (p.Needed || p.Name == "control") {
			err := fmt.Errorf("flows with the signal: %s: %s", p.Name, p.Reason)
			if p.Next != "" {
				err = fmt.Errorf("%w: %s", err, p.Next)
			}
			return err
		}
	}
	return nil
}

func (r *flowsRunner) run(ctx context.Context) (err error) {
	for _, p := range r.paths {
		err = errors.Join(err, p.WaitUp(ctx))
	}
	if err != nil {
		return err
	}
	loads := stepLoads(r.paths[0], 0)
	for _, p := range r.paths {
		if err := p.setLoads(loads); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.stopLoads()) }()
	}

	// What watches the processes goes on beyond Ctrl-C, until they are to end. The first that fails ends the run.
	run, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	startup, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	defer context.AfterFunc(run, func() { giveUp(context.Cause(run)) })()
	startup, done := context.WithTimeoutCause(startup, 60*time.Second+10*r.o.Interval, errors.New("not ready in time"))
	defer done()

	fmt.Fprintf(r.o.Live, "Two hosts behind three switches, twice, in namespaces of this run, %v apart.\nOver the one path a TCP flow has the signal. No switch and no host of the other\none runs csig.\n\n", 2*flowDelay)
	watch := func(c *child) { all.Go(func() { c.watch(run, cancel) }) }
	for i, h := range r.paths[withSignal].hops {
		a, err := startAgent(r.o.Executable, scratch, r.fleet, h)
		if err != nil {
			return err
		}
		r.agents = append(r.agents, a)
		watch(a.child)
		fmt.Fprintf(r.o.Live, "%s runs csig agent (%d of %d)\n", a.hop.device.Name, i+1, len(r.paths[withSignal].hops))
	}
	for _, a := range r.agents {
		if err := a.ready(startup); err != nil {
			return err
		}
	}
	for _, p := range r.paths {
		if err := p.joinFlow(r.fleet); err != nil {
			return err
		}
	}
	for i := range r.fleet.Hosts {
		c, err := r.startHost(i)
		if err != nil {
			return err
		}
		r.hosts = append(r.hosts, c)
		watch(c)
		if err := r.answers(startup, c, r.fleet.Hosts[i].Name); err != nil {
			return err
		}
		fmt.Fprintf(r.o.Live, "%s runs csig host run (%d of %d)\n", r.fleet.Hosts[i].Name, i+1, len(r.fleet.Hosts))
	}
	for i, p := range r.paths {
		if r.flows[i], err = p.startFlow(ctx, r.fleet.Hosts[1].Address); err != nil {
			return fmt.Errorf("the flow %s: %w", flowNames[i], err)
		}
		defer r.flows[i].stop()
	}
	if err := r.measure(ctx, run); err != nil {
		return err
	}
	cancel(nil)
	all.Wait()
	return stopAll(r.hosts, r.agents)
}

// stepLoads are the loads of a step, in bit/s.
func stepLoads(p *path, n int) (loads []uint64) {
	for i, h := range p.hops {
		loads = append(loads, h.port.Speed*flowSteps[n%len(flowSteps)].util[i]/1_000_000)
	}
	return loads
}

// joinFlow has the switches forward from h2 to h1, too, and gives both hosts addresses and whole packets.
func (p *path) joinFlow(fleet *inventory.Fleet) error {
	var err error
	for _, h := range p.hops {
		for _, out := range h.node.Ports() {
			if out.Name == "swp1" {
				err = errors.Join(err, h.node.Forward(p.sender.MAC, out))
			}
		}
	}
	for i := range fleet.Hosts {
		host := &fleet.Hosts[i]
		nic := p.hosts[host.Name]
		if err := errors.Join(err, nic.Whole(), nic.Node().Do(func() error {
			return errors.Join(p.address(nic, host, fleet), limitMTU(nic.Index()))
		})); err != nil {
			return fmt.Errorf("host %s: %w", host.Name, err)
		}
	}
	return nil
}

// limitMTU has the packets to a host's own network leave room for a tag.
func limitMTU(index int) error {
	l, err := netlink.LinkByIndex(index)
	if err != nil {
		return err
	}
	routes, err := netlink.RouteList(l, netlink.FAMILY_V4)
	if err != nil {
		return err
	}
	for i := range routes {
		routes[i].MTU = flowMTU
		err = errors.Join(err, netlink.RouteReplace(&routes[i]))
	}
	return err
}

// startHost starts csig host run on a host of the path with the signal.
func (r *flowsRunner) startHost(i int) (*child, error) {
	own := *r.fleet
	own.Hosts = append([]inventory.Host(nil), r.fleet.Hosts...)
	for j := range own.Hosts {
		t := *own.Hosts[j].TCP
		t.CGroup = r.group.path
		own.Hosts[j].TCP = &t
	}
	own.Hosts[i].Local = true
	name := own.Hosts[i].Name
	text, err := inventory.Marshal(&own)
	if err != nil {
		return nil, fmt.Errorf("fleet file of %s: %w", name, err)
	}
	file := func(ext string) string { return filepath.Join(scratch, name+ext) }
	if err := os.WriteFile(file(".yaml"), text, 0o600); err != nil {
		return nil, err
	}
	node := r.paths[withSignal].hosts[name].Node()
	return startChild("csig host run of "+name, file(".log"), node.Command(r.o.Executable, "host", "run", "-i", file(".yaml"), "--socket", file(".sock")))
}

// answers waits until csig host run of a host does.
func (r *flowsRunner) answers(ctx context.Context, c *child, host string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := r.o.Ask(ctx, filepath.Join(scratch, host+".sock"))
		switch {
		case err == nil && s.Control.Trouble != "":
			return fmt.Errorf("csig host run of %s: %s", host, s.Control.Trouble)
		case err == nil:
			return nil
		}
		select {
		case <-tick.C:
		case <-c.ended:
			return c.died()
		case <-ctx.Done():
			return fmt.Errorf("%s did not get going: %w%s", c.name, context.Cause(ctx), c.logTail())
		}
	}
}

// measure goes through the load steps, until ctx ends.
func (r *flowsRunner) measure(ctx, run context.Context) error {
	began := time.Now()
	end := time.After(r.o.Duration)
	dwell, sample := time.NewTicker(flowStep), time.NewTicker(flowSample)
	defer dwell.Stop()
	defer sample.Stop()
	status := &following{}
	var all sync.WaitGroup
	defer all.Wait()
	run, stop := context.WithCancel(run)
	defer stop()
	all.Go(func() { status.follow(run, r.o.Ask, r.socket) })

	var counted [flowCount]flowCounts // when the step began
	begin := func() error {
		n := len(r.res.Steps)
		s := FlowStep{Time: time.Now(), LoadsBPS: stepLoads(r.paths[0], n)}
		s.Port, s.RoomBPS = r.paths[0].room(s.LoadsBPS)
		s.Opens = n == 0 || s.RoomBPS > r.res.Steps[n-1].RoomBPS
		for i, f := range r.flows {
			var err error
			if counted[i], err = f.counts(); err != nil {
				return err
			}
			s.Flows = append(s.Flows, FlowUse{Name: flowNames[i], Control: counted[i].control, window: []flowPoint{{s.Time, 0}}})
		}
		r.res.Steps = append(r.res.Steps, s)
		var err error
		for _, p := range r.paths {
			err = errors.Join(err, p.setLoads(s.LoadsBPS))
		}
		return err
	}
	see := func() (*FlowStep, error) {
		s, now := &r.res.Steps[len(r.res.Steps)-1], time.Now()
		s.DurationNS = now.Sub(s.Time).Nanoseconds()
		if s.NamedNS == nil && names(status.last.Load(), s.Port) {
			named := s.DurationNS
			s.NamedNS = &named
		}
		for i, f := range r.flows {
			c, err := f.counts()
			if err != nil {
				return nil, fmt.Errorf("the flow %s: %w", flowNames[i], err)
			}
			u := &s.Flows[i]
			u.sample(s.Time, now, c.bits-counted[i].bits, s.RoomBPS)
			u.Retrans, u.Control = c.retrans-counted[i].retrans, c.control
		}
		return s, nil
	}
	if err := begin(); err != nil {
		return err
	}
	var shown time.Time // when the last line was
	for {
		select {
		case <-sample.C:
		case <-r.o.Resized:
		case <-dwell.C:
			if time.Since(began) < r.o.Duration-flowStep/2 {
				if err := begin(); err != nil {
					return err
				}
			}
			continue
		case <-end:
			return nil
		case <-run.Done():
			return context.Cause(run)
		case <-ctx.Done():
			return nil // Ctrl-C: what was measured so far is the result
		}
		s, err := see()
		if err != nil {
			return err
		}
		every := time.Second
		if r.o.Redraw != nil {
			every = r.o.Interval
		}
		if now := time.Now(); now.Sub(shown) >= every-flowSample/2 {
			shown = now
			r.draw(&flowFrame{elapsed: now.Sub(began), total: r.o.Duration, step: s, hops: r.paths[0].hops, status: status.last.Load()})
		}
	}
}

func (r *flowsRunner) draw(f *flowFrame) {
	if r.o.Redraw == nil {
		f.line(r.o.Live)
		return
	}
	var text strings.Builder
	f.table(&text)
	r.o.Redraw(strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n"))
}

// following has the newest status of a host.
type following struct{ last atomic.Pointer[tcp.Status] }

func (f *following) follow(ctx context.Context, ask func(context.Context, string) (*tcp.Status, error), socket string) {
	tick := time.NewTicker(flowSample)
	defer tick.Stop()
	for {
		if s, err := ask(ctx, socket); err == nil {
			f.last.Store(s)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// flow is a TCP connection from h1 to h2 that sends as much as it may.
type flow struct {
	conn     *net.TCPConn
	listener net.Listener
	got      atomic.Uint64 // bytes
	all      sync.WaitGroup
}

// flowPort is where h2 listens.
const flowPort = 5201

// flowControl is the congestion control of both flows; csig takes over from it.
const flowControl = "cubic"

// startFlow connects, and sends until stop.
func (p *path) startFlow(ctx context.Context, to string) (*flow, error) {
	f := &flow{}
	if err := p.receiver.Node().Do(func() (err error) {
		f.listener, err = net.Listen("tcp", fmt.Sprintf("%s:%d", to, flowPort))
		return err
	}); err != nil {
		return nil, err
	}
	f.all.Go(func() {
		c, err := f.listener.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := c.Read(buf)
			f.got.Add(uint64(n))
			if err != nil {
				return
			}
		}
	})
	err := p.sender.Node().Do(func() error {
		d := net.Dialer{Timeout: 10 * time.Second, Control: func(_, _ string, c syscall.RawConn) (err error) {
			failed := c.Control(func(fd uintptr) {
				err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, flowControl)
			})
			return errors.Join(err, failed)
		}}
		c, err := d.DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", to, flowPort))
		if err == nil {
			f.conn = c.(*net.TCPConn)
		}
		return err
	})
	if err != nil {
		_ = f.listener.Close()
		f.all.Wait()
		return nil, err
	}
	f.all.Go(func() {
		_, _ = io.Copy(f.conn, zeros{}) // until stop
	})
	return f, nil
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// flowCounts are a flow's counts at one moment.
type flowCounts struct {
	bits    uint64 // that the segments that arrived took of a link
	retrans uint32
	control string
}

func (f *flow) counts() (c flowCounts, err error) {
	raw, err := f.conn.SyscallConn()
	if err != nil {
		return c, err
	}
	var info *unix.TCPInfo
	failed := raw.Control(func(fd uintptr) {
		if info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			c.control, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return c, err
	}
	c.control = strings.TrimRight(c.control, "\x00")
	if strings.HasPrefix(c.control, "csig") {
		c.control = tcp.ControlCSIG
	}
	const headers = 14 + 20 + 20 + 12 // Ethernet, IPv4, TCP with timestamps
	mss := float64(max(info.Snd_mss, 1))
	c.bits, c.retrans = uint64(8*float64(f.got.Load())*(mss+headers+fabric.L1Overhead)/mss), info.Total_retrans
	return c, nil
}

func (f *flow) stop() {
	_ = f.listener.Close()
	_ = f.conn.SetLinger(0)
	_ = f.conn.Close()
	f.all.Wait()
}
