package tcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/hosts/internal/offer"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

// RunConfig is what csig host run does.
type RunConfig struct {
	*Config
	Socket string // unix socket for csig host status
	Pin    string // directory in a BPF file system where what runs in the kernel stays when csig host run ends; "": it ends, too
	Log    *logrus.Entry

	// Follow runs beside, until ctx ends, and has every change of the fleet file put in force; of what cannot be,
	// the error says why, and connections go on as they were. Nil: the fleet file does not change.
	Follow func(ctx context.Context, put func(*Config) error)

	// OnReady is called when connections may have tags: with whether it makes progress, and its state in a few words.
	OnReady func(alive func() bool, line func() string)

	// Beside runs beside, until ctx ends, with what asks for the status: metrics. Nil: nothing.
	Beside func(ctx context.Context, status func() (*Status, error)) error
}

// place is the interface and the control group that the programs are for, if they may be there.
func (cfg *Config) place() (iface *net.Interface, cgroup string, err error) {
	if iface, err = net.InterfaceByName(cfg.Host.Interface); err != nil {
		return nil, "", fmt.Errorf("host %s: interface %s: %w", cfg.Host.Name, cfg.Host.Interface, err)
	}
	if err = cfg.refuse(); err != nil {
		return nil, "", err
	}
	cgroup, err = cfg.cgroup()
	return iface, cgroup, err
}

// Run gives connections tags until ctx ends.
func Run(ctx context.Context, cfg RunConfig) error {
	iface, cgroup, err := cfg.place()
	if err != nil {
		return err
	}
	unix, err := api.ListenSocket(cfg.Socket)
	if err != nil {
		return err
	}
	offers, err := offer.Listen(offer.SocketOf(cfg.Socket))
	if err != nil {
		return errors.Join(err, unix.Close())
	}
	defer offers.Close()
	go offers.Serve()
	r := &running{cfg: cfg, offers: offers, cgroup: cgroup, began: time.Now(), names: newNames(cfg.Config)}
	listener, err := api.ListenTCP(api.ListenerConfig{Flag: "--socket", On: unix, Conns: 64, Handler: r.handler()})
	if err != nil {
		return errors.Join(err, unix.Close())
	}
	defer listener.Close()
	defer r.end()
	if err := r.first(iface.Index); err != nil {
		return err
	}
	r.registerControl()
	r.looked.Store(time.Now().UnixNano())
	cfg.Log.WithFields(logrus.Fields{"host": cfg.Host.Name, "interface": iface.Name, "cgroup": cgroup, "to": cfg.Host.TCP.To}).Info("TCP connections have tags")
	ended := make(chan error, 2)
	go func() { ended <- listener.Serve(log.New(io.Discard, "", 0)) }()
	if cfg.OnReady != nil {
		cfg.OnReady(func() bool { return time.Since(time.Unix(0, r.looked.Load())) < looksAlive }, func() string { return cfg.Host.Name + ": TCP has tags at " + iface.Name })
	}
	if cfg.Beside != nil {
		beside, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := cfg.Beside(beside, r.status); err != nil && beside.Err() == nil {
				ended <- err
			}
		}()
		defer func() { stop(); <-done }()
	}
	if cfg.Follow != nil {
		ctx, cancel := context.WithCancel(ctx)
		var follows sync.WaitGroup
		follows.Go(func() { cfg.Follow(ctx, r.put) })
		defer follows.Wait()
		defer cancel()
	}
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-ended:
			return err
		case <-look.C:
			r.follow()
			r.looked.Store(time.Now().UnixNano())
		}
	}
}

// looksAlive is how long a look at the interface and the control group may take before a watchdog is told that nothing moves.
const looksAlive = 15 * time.Second

// running is csig host run.
type running struct {
	looked atomic.Int64 // ns since 1970: when it last looked
	cfg    RunConfig
	offers *offer.Server
	cgroup string
	began  time.Time

	mu       sync.Mutex
	programs *programs
	names    *names
	index    int    // of the interface that the programs are at; 0: it is gone, or the control group
	group    uint64 // the inode of the control group that they are at
	trouble  string // why they are at none
	native   string // why csig's control has no connection, though the fleet file wants it
	noMaps   string // why programs of this machine read no maps
}

// first loads the programs, and attaches them, or has them run in place of those that a csig host run before this one has left.
func (r *running) first(index int) (err error) {
	var former *programs
	if r.cfg.Pin != "" {
		if former, err = openPins(r.cfg.Pin); err != nil {
			return err
		}
		defer func() {
			if former != nil {
				err = errors.Join(err, former.close())
			}
		}()
	}
	r.programs, err = r.cfg.load(nil, former)
	fresh := former == nil
	if errors.Is(err, ebpf.ErrMapIncompatible) {
		r.cfg.Log.WithError(err).Warn("what the csig host run before this one knew of connections is of another version: those that are open have no tags from now on")
		fresh = true
		r.programs, err = r.cfg.load(nil, nil)
	}
	if err != nil {
		return err
	}
	if r.cfg.Pin == "" {
		return r.begin(index)
	}
	r.programs.pins = r.cfg.Pin
	if fresh {
		if err := r.programs.pinMaps(r.cfg.Pin); err != nil {
			return err
		}
	}
	if !former.isAt(index, r.cgroup) {
		if former != nil {
			err = former.detach() // of another interface, or of one that is gone
		}
		return errors.Join(err, r.begin(index))
	}
	if err := former.replace(r.programs); err != nil {
		return err
	}
	r.cfg.Log.WithField("pin", r.cfg.Pin).Info("the programs of the csig host run before this one are replaced: connections keep their tags")
	return errors.Join(r.atInterface(index), r.programs.revise())
}

// begin attaches the programs to an interface.
func (r *running) begin(index int) error {
	err := r.programs.attach(index, r.cgroup)
	if err == nil && r.programs.pins != "" {
		if err = r.programs.pinLinks(); err != nil {
			err = errors.Join(err, r.programs.detach())
		}
	}
	if err != nil {
		return err
	}
	return r.atInterface(index)
}

// atInterface is what is done once the programs are at an interface.
func (r *running) atInterface(index int) (err error) {
	if r.group, err = inodeOf(r.cgroup); err != nil {
		return errors.Join(err, r.programs.detach())
	}
	if r.cfg.Host.TCP.CGroup == "" {
		if err = r.programs.listeners(); err != nil {
			err = errors.Join(err, r.programs.detach())
		}
	}
	if err == nil {
		r.index = index
		r.renewOffer()
	}
	return err
}

// registerControl has connections be given to csig's control, where the fleet file wants it; else they stay with the
// system's.
func (r *running) registerControl() {
	pin := ""
	if r.programs.pins != "" {
		pin = filepath.Join(r.programs.pins, controlLink)
	}
	switch {
	case !r.cfg.wantsControl():
		if pin != "" {
			_ = os.Remove(pin) // of a fleet file before this one
		}
		return
	case r.programs.control != nil && r.programs.control.link != nil:
		return
	}
	err := r.programs.unloaded
	if err == nil {
		err = r.programs.control.register(pin)
	}
	switch {
	case err == nil:
		r.native = ""
		jump, ramp := r.cfg.Host.TCP.Shares()
		r.cfg.Log.WithFields(logrus.Fields{"jump": fmt.Sprintf("1/%d", jump), "ramp": fmt.Sprintf("1/%d", ramp)}).Info("csig's congestion control has connections while the signal comes")
	case r.native != err.Error():
		r.native = err.Error()
		r.cfg.Log.WithError(err).Warn("connections stay with the system's congestion control")
	}
}

// renewOffer has programs of this machine read the maps as they are now.
func (r *running) renewOffer() {
	o, files := r.programs.offer(r.cfg.Config)
	r.noMaps = o.Files
	r.offers.Offer(o, files)
}

// put has another fleet file be in force. Connections that are in both keep their tags. With an error all stays as it was.
func (r *running) put(cfg *Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.programs == nil {
		return errors.New("csig host run is ending")
	}
	iface, cgroup, err := cfg.place()
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(r.cfg.programmed(), cfg.programmed()) {
		if err := r.reprogram(cfg, iface.Index, cgroup); err != nil {
			return err
		}
	}
	r.cfg.Config, r.names = cfg, newNames(cfg)
	if r.native = ""; r.index != 0 {
		r.registerControl()
	}
	if r.index != 0 {
		r.renewOffer()
	}
	return nil
}

// reprogram has the programs of another fleet file run in place of those that do.
func (r *running) reprogram(cfg *Config, index int, cgroup string) error {
	next, err := cfg.load(r.cfg.Config, r.programs)
	if err != nil {
		return err
	}
	former := r.programs
	switch {
	case r.index == 0: // at no interface now: follow finds the new one
		next.pins = former.pins
	case r.index == index && r.cgroup == cgroup:
		err = former.replace(next)
	default:
		if err = next.attach(index, cgroup); err == nil {
			r.offers.Offer(nil, nil)
			r.index = index
			if next.pins = former.pins; next.pins != "" {
				if err = errors.Join(former.detach(), next.pinLinks()); err != nil {
					r.index = 0 // follow tries again
				}
			}
		}
	}
	if err != nil {
		return errors.Join(err, next.closeBut(former))
	}
	r.programs, r.cgroup = next, cgroup
	if r.group, err = inodeOf(cgroup); err != nil {
		r.group = 0 // follow says so
	}
	if cfg.Host.TCP.CGroup == "" {
		err = next.listeners()
	}
	if err = errors.Join(err, next.revise(), former.closeBut(next)); err != nil {
		r.cfg.Log.WithError(err).Warn("not all connections are as the fleet file has them: some that are open may have tags that it does not want, or none")
	}
	return nil
}

// end ends what runs in the kernel; csig host status has no answer then.
func (r *running) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offers.Offer(nil, nil)
	if r.programs == nil {
		return
	}
	if r.programs.pins != "" {
		r.cfg.Log.WithField("pin", r.programs.pins).Info("the programs stay in the kernel: rm -r of the directory ends them")
	}
	if err := r.programs.close(); err != nil {
		r.cfg.Log.WithError(err).Warn("not all that runs in the kernel could be ended by itself: it ends with the process")
	}
	r.programs = nil
}

// inodeOf tells a directory from another one that has its name later.
func inodeOf(dir string) (uint64, error) {
	fi, err := os.Stat(dir)
	if err != nil {
		return 0, err
	}
	return fi.Sys().(*syscall.Stat_t).Ino, nil
}

// follow attaches the programs again where the interface or the control group was removed and is there again, as that of a
// service that was started again.
func (r *running) follow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.registerControl()
	iface, err := net.InterfaceByName(r.cfg.Host.Interface)
	group, failed := inodeOf(r.cgroup)
	if err = errors.Join(err, failed); err == nil && iface.Index == r.index && group == r.group {
		return
	}
	if r.index != 0 {
		r.index = 0
		r.offers.Offer(nil, nil)
		err = errors.Join(err, r.programs.detach())
	}
	if err == nil {
		if err = r.cfg.refuse(); err == nil {
			err = r.begin(iface.Index)
		}
	}
	switch {
	case err == nil:
		r.trouble = ""
		r.cfg.Log.WithField("interface", iface.Name).Info("the interface and the control group are there again: TCP connections have tags")
	case r.trouble != err.Error():
		r.trouble = err.Error()
		r.cfg.Log.WithError(err).Warn("no connection has tags: tried again each second")
	}
}

// handler answers csig host status.
func (r *running) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+StatusPath, func(w http.ResponseWriter, _ *http.Request) {
		s, err := r.status()
		if err != nil {
			api.WriteError(w, &vendors.PermanentError{Err: err})
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s) // its reader has gone
	})
	return mux
}

func (r *running) status() (*Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &Status{Format: StatusFormat, Time: time.Now(), Host: r.cfg.Host.Name, Interface: r.cfg.Host.Interface, CGroup: r.cgroup, Since: r.began, Trouble: r.trouble, NoMaps: r.noMaps, Flows: []Flow{}}
	if r.programs == nil {
		return nil, errors.New("csig host run is ending")
	}
	c, err := r.programs.counts()
	if err != nil {
		return nil, err
	}
	s.Counts = Counts{c.Connections, c.Tagged, c.Probes, c.Stripped, c.Options, c.Reflections, c.Malformed, c.NoRoom, c.Failed, c.DatagramsSent, c.DatagramsReceived}
	if s.Control, err = r.control(); err != nil {
		return nil, err
	}
	entries, more, err := r.programs.connections()
	if err != nil {
		return nil, err
	}
	s.More = more
	for i := range entries {
		f := r.names.flow(&entries[i])
		f.Control, f.Why = entries[i].by(&s.Control)
		s.Flows = append(s.Flows, f)
	}
	sortFlows(s.Flows)
	return s, nil
}

// flow is a connection as users see it.
func (n *names) flow(e *tcpEntry) Flow {
	remote := addressOf(e.Ends.Remote)
	f := Flow{
		Local: netip.AddrPortFrom(addressOf(e.Ends.Local), e.Ends.LocalPort).String(), Remote: netip.AddrPortFrom(remote, e.Ends.RemotePort).String(),
		Peer: n.hosts[remote], Opened: "remote", State: FlowProbing, Tags: e.Flow.Tags, Sent: e.Flow.Options, Answers: e.Flow.Reflections,
		Learned: []Reading{}, Received: []Reading{}, Jumps: e.Control.Jumps, Ramps: e.Control.Ramps, Undelivered: e.Control.Failed,
	}
	if e.Flow.Active != 0 {
		f.Opened = "local"
	}
	age := func(at uint64) time.Duration { return time.Duration(max(0, int64(e.Now-at))) }
	if e.Flow.Reflected != 0 {
		ns := age(e.Flow.Reflected).Nanoseconds()
		f.AgeNS = &ns
		if ns < fresh.Nanoseconds() {
			f.State = FlowTagged
		}
	}
	for i := range e.Flow.Learned {
		for _, side := range []struct {
			r   *tcpReading
			to  *[]Reading
			out bool
		}{{&e.Flow.Learned[i], &f.Learned, true}, {&e.Flow.Received[i], &f.Received, false}} {
			if side.r.At == 0 {
				continue
			}
			if one, ok := n.reading(quantize.TCI(side.r.Tci), age(side.r.At), f.Peer, side.out); ok {
				if side.r.Averaged != 0 {
					one.Mean = &side.r.Mean
				}
				*side.to = append(*side.to, one)
			}
		}
	}
	return f
}
