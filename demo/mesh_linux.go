package demo

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/inventory"
)

//go:embed mesh.yaml
var meshFile []byte

// MeshOptions are how to run the demo of the mesh: of Options those about the run and what it shows.
type MeshOptions struct {
	Options
	Ask  func(ctx context.Context, socket string) (*mesh.Status, error) // asks a collector, as csig mesh status does
	Text func(*mesh.Status) string                                      // as csig mesh status prints it
}

// meshRate is what a host's probes and answers may take of its link of 100 Mbit/s, a thousandth. What the kernel
// says of virtual cables is no speed of theirs.
const meshRate = "100k"

// meshAsk is how often the collector is asked: it makes no new status more often.
const meshAsk = 200 * time.Millisecond

// meshRunner is one run of it.
type meshRunner struct {
	o      MeshOptions
	once   bool // each load step, until it is named
	fleet  *inventory.Fleet
	path   *path
	socket string // of the collector

	agents []*proc
	hosts  []*child
	res    MeshResult
	began  time.Time // of the first step
}

// RunMesh builds the fabric of the demo with hosts that probe each other, loads one hop after the other, and shows
// what the mesh names. As of Run: when ctx ends, what was seen so far is the result, and it has namespaces of its own.
func RunMesh(ctx context.Context, o MeshOptions) (res *MeshResult, err error) {
	once := o.Duration == 0
	if once {
		o.Duration = meshDuration(o.Interval)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	fleet, err := o.fleet(meshFile)
	if err != nil {
		return nil, err
	}
	if err := mountScratch(); err != nil {
		return nil, err
	}
	p, err := buildPath(fleet)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := p.joinHosts(fleet); err != nil {
		return nil, fmt.Errorf("building the fabric: %w", err)
	}
	r := &meshRunner{o: o, once: once, fleet: fleet, path: p, socket: filepath.Join(scratch, "mesh.sock")}
	if err := r.run(ctx); err != nil {
		if ctx.Err() != nil && len(r.res.steps) == 0 {
			err = ErrInterrupted // what did not get ready in time does not matter
		}
		return nil, err
	}
	return &r.res, nil
}

// joinHosts connects the mesh's own host, and has the switches forward between all hosts of the mesh, both ways.
func (p *path) joinHosts(fleet *inventory.Fleet) error {
	h3, err := p.AddHost("h3")
	if err != nil {
		return err
	}
	if p.hosts["h3"], _, err = p.Connect(fabric.End{Node: h3, Port: "eth0"}, fabric.End{Node: p.hops[0].node, Port: "swp5"}, 0); err != nil {
		return err
	}
	for i := range fleet.Hosts {
		host := &fleet.Hosts[i]
		nic := p.hosts[host.Name]
		at, port := p.attached(host.Name)
		for k, h := range p.hops {
			by := port
			switch {
			case k < at:
				by = h.port.Name
			case k > at:
				by = "swp1"
			}
			for _, out := range h.node.Ports() {
				if out.Name == by {
					err = errors.Join(err, h.node.Forward(nic.MAC, out))
				}
			}
		}
		if err := errors.Join(err, nic.Node().Do(func() error { return p.address(nic, host, fleet) })); err != nil {
			return fmt.Errorf("host %s: %w", host.Name, err)
		}
	}
	return nil
}

// attached is the number of the hop whose switch a host is connected to, and the switch's port.
func (p *path) attached(host string) (int, string) {
	for i, h := range p.hops {
		for j := range h.device.Ports {
			if h.device.Ports[j].Peer.Device == host {
				return i, h.device.Ports[j].Name
			}
		}
	}
	return -1, ""
}

// passing is how many pairs of hosts pass the egress port of a hop.
func (p *path) passing(hop int, fleet *inventory.Fleet) (n int) {
	for i := range fleet.Hosts {
		for j := range fleet.Hosts {
			from, _ := p.attached(fleet.Hosts[i].Name)
			to, port := p.attached(fleet.Hosts[j].Name)
			if i != j && from <= hop && (to > hop || to == hop && port == p.hops[hop].port.Name) {
				n++
			}
		}
	}
	return n
}

// address gives a host its address, and tells it those of the others: the switches flood nothing that could ask.
func (p *path) address(nic *fabric.Port, host *inventory.Host, fleet *inventory.Fleet) error {
	l, err := netlink.LinkByIndex(nic.Index())
	if err != nil {
		return err
	}
	const bits = 24
	ip := func(h *inventory.Host) net.IP { return netip.MustParseAddr(h.Address).AsSlice() }
	err = errors.Join(netlink.LinkSetARPOn(l), netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: ip(host), Mask: net.CIDRMask(bits, 32)}}))
	for i := range fleet.Hosts {
		if h := &fleet.Hosts[i]; h != host {
			err = errors.Join(err, netlink.NeighSet(&netlink.Neigh{LinkIndex: nic.Index(), IP: ip(h), HardwareAddr: p.hosts[h.Name].MAC, State: netlink.NUD_PERMANENT}))
		}
	}
	return err
}

func (r *meshRunner) run(ctx context.Context) (err error) {
	if err := r.path.WaitUp(ctx); err != nil {
		return err
	}
	if _, err := r.load(0); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.path.stopLoads()) }()

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

	fmt.Fprintf(r.o.Live, "Three switches in namespaces of this run, an agent in each, and four hosts\nthat probe each other.\n%s\nBehind s1, s2 and s3 one more host each, l1, l2 and l3, sends what loads a link.\n\n", meshPicture)
	for _, h := range r.path.hops {
		a, err := startAgent(r.o.Executable, scratch, r.fleet, h)
		if err != nil {
			return err
		}
		r.agents = append(r.agents, a)
	}
	for i, a := range r.agents {
		if err := a.ready(startup); err != nil {
			return err
		}
		all.Go(func() {
			if err := a.follow(run); err != nil {
				cancel(err)
			}
		})
		fmt.Fprintf(r.o.Live, "%s runs csig agent (%d of %d)\n", a.hop.device.Name, i+1, len(r.agents))
	}
	if err := r.startHosts(); err != nil {
		return err
	}
	for _, c := range r.hosts {
		all.Go(func() { c.watch(run, cancel) })
	}
	if err := r.ready(startup); err != nil {
		return err
	}
	if err := r.measure(ctx, run); err != nil {
		return err
	}
	cancel(nil)
	all.Wait()
	return stopAll(r.hosts, r.agents)
}

// startHosts has each host run csig mesh; the first one collects.
func (r *meshRunner) startHosts() error {
	var names []string
	for i := range r.fleet.Hosts {
		names = append(names, r.fleet.Hosts[i].Name)
	}
	if err := certify(scratch, names); err != nil {
		return fmt.Errorf("certificates of the hosts: %w", err)
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	if err := os.WriteFile(filepath.Join(scratch, "mesh.key"), []byte(hex.EncodeToString(key)), 0o600); err != nil {
		return err
	}
	for i, name := range names {
		own := *r.fleet
		own.Hosts = append([]inventory.Host(nil), r.fleet.Hosts...)
		own.Hosts[i].Local = true
		text, err := inventory.Marshal(&own)
		if err != nil {
			return fmt.Errorf("fleet file of %s: %w", name, err)
		}
		file := func(ext string) string { return filepath.Join(scratch, name+ext) }
		if err := os.WriteFile(file(".yaml"), text, 0o600); err != nil {
			return err
		}
		args := []string{"mesh", "run", "-i", file(".yaml"), "--rate", meshRate, "--tls-cert", file(".pem"), "--tls-key", file(".key"), "--tls-ca", filepath.Join(scratch, "ca.pem")}
		if i == 0 {
			args = append(args, "--collect", "--agents", "--socket", r.socket)
		}
		c, err := startChild("csig mesh run of "+name, file(".log"), r.path.hosts[name].Node().Command(r.o.Executable, args...))
		if err != nil {
			return err
		}
		r.hosts = append(r.hosts, c)
		fmt.Fprintf(r.o.Live, "%s runs csig mesh run (%d of %d)\n", name, i+1, len(names))
	}
	return nil
}

// ready waits until tags arrive between all hosts.
func (r *meshRunner) ready(ctx context.Context) error {
	tick := time.NewTicker(meshAsk)
	defer tick.Stop()
	for {
		s, err := r.o.Ask(ctx, r.socket)
		if err == nil {
			if r.res.pairs = pairsOf(s); s.States[mesh.StateCapable] == r.res.pairs {
				return nil
			}
			err = fmt.Errorf("%d of %d pairs of hosts are capable", s.States[mesh.StateCapable], r.res.pairs)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the mesh did not get going: %w: %w%s", context.Cause(ctx), err, r.hosts[0].logTail())
		}
	}
}

// load begins a load step.
func (r *meshRunner) load(n int) (*meshStep, error) {
	buckets := bucketsOf(r.fleet)
	s := &meshStep{began: time.Now()}
	var loads []uint64
	for i, h := range r.path.hops {
		bps := midBucket(h.port.Speed, meshSteps[n%len(meshSteps)].util[i], buckets)
		loads = append(loads, bps)
		if bps > h.port.Speed/2 {
			s.port, s.from, s.bps, s.pairs = h.name, h.loadNIC.Node().Name(), bps, r.path.passing(i, r.fleet)
		}
	}
	return s, r.path.setLoads(loads)
}

// measure goes through the load steps and shows what the mesh names, until ctx ends.
func (r *meshRunner) measure(ctx, run context.Context) error {
	r.began = time.Now()
	var end <-chan time.Time
	if !r.once {
		end = time.After(r.o.Duration)
	}
	dwell := time.NewTimer(meshLasts(0, r.o.Interval))
	defer dwell.Stop()
	ask := time.NewTicker(meshAsk)
	defer ask.Stop()
	n := 0
	var step *meshStep
	var s *mesh.Status // the last one
	begin := func() (err error) {
		if step, err = r.load(n); err == nil {
			r.res.steps = append(r.res.steps, step)
		}
		return err
	}
	finish := func() {
		// The end of the run may come before that of its last step, at about the same time.
		step.whole = time.Since(step.began) > meshLasts(n, r.o.Interval)*3/4
		if r.o.Redraw == nil && step.port != "" && s != nil {
			fmt.Fprintf(r.o.Live, "\n$ csig mesh status\n%s\n", r.o.Text(s))
		}
	}
	if err := begin(); err != nil {
		return err
	}
	var shown time.Time // when the last line was
	for {
		fresh, err := r.o.Ask(run, r.socket)
		if err != nil && run.Err() == nil {
			return err
		}
		if now := time.Now(); err == nil {
			s = fresh
			step.see(now, s)
			if r.o.Redraw != nil || now.Sub(shown) > time.Second-meshAsk/2 {
				shown = now
				r.draw(&meshFrame{elapsed: now.Sub(r.began), total: max(r.o.Duration, now.Sub(r.began)), at: now, step: step, status: s})
			}
		}
		select {
		case <-ask.C:
		case <-r.o.Resized:
		case <-dwell.C:
			if r.once && step.port != "" && step.named == nil && time.Since(step.began) < meshPatience {
				dwell.Reset(meshAsk)
				continue
			}
			finish()
			if n++; r.once && n == len(meshSteps) {
				return nil
			}
			dwell.Reset(meshLasts(n, r.o.Interval))
			if err := begin(); err != nil {
				return err
			}
		case <-end:
			finish()
			return nil
		case <-run.Done():
			return context.Cause(run)
		case <-ctx.Done():
			finish()
			return nil // Ctrl-C: what was seen so far is the result
		}
	}
}

func (r *meshRunner) draw(f *meshFrame) {
	if r.o.Redraw == nil {
		f.line(r.o.Live)
		return
	}
	var text strings.Builder
	f.table(&text, r.o.Text(f.status))
	r.o.Redraw(strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n"))
}
