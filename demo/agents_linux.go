package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
)

// child is a csig inside a switch or a host, a process of its own.
type child struct {
	name string // for messages
	cmd  *fabric.Cmd
	log  string // path of its log

	ended chan struct{}
	err   error // after ended
}

// startChild starts one; its log goes to a new file.
func startChild(name, logFile string, cmd *fabric.Cmd) (*child, error) {
	c := &child{name: name, cmd: cmd, log: logFile, ended: make(chan struct{})}
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

// proc is one csig agent.
type proc struct {
	*child
	hop    *hop
	client *api.Client
	judge  *watcher

	mu      sync.Mutex
	history []programmed
	last    *api.Status
}

// programmed is one value a port advertised, and the window it came from.
type programmed struct {
	at, windowEnd time.Time
	lease         time.Duration
	s             [len(signals)]uint8
}

// expired reports whether the data plane was right to fall back while a frame was at it: what the
// agent had programmed last had been read longer ago than its lease is.
func (p *proc) expired(at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.history) - 1; i >= 0; i-- {
		if rec := &p.history[i]; !rec.at.After(at) {
			return at.Sub(rec.windowEnd) >= rec.lease
		}
	}
	return false
}

// startAgent writes the fleet file of one switch and starts its agent.
func startAgent(exe, dir string, fleet *inventory.Fleet, h *hop) (*proc, error) {
	own := *fleet
	own.Devices = append([]inventory.Device(nil), fleet.Devices...)
	for i := range own.Devices {
		own.Devices[i].Local = own.Devices[i].Name == h.device.Name
	}
	text, err := inventory.Marshal(&own)
	if err != nil {
		return nil, fmt.Errorf("fleet file of %s: %w", h.device.Name, err)
	}
	file := filepath.Join(dir, h.device.Name+".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, h.device.Name+".sock")
	c, err := startChild("agent of "+h.device.Name, filepath.Join(dir, h.device.Name+".log"), h.node.Command(exe, "agent", "-i", file, "--socket", socket))
	if err != nil {
		return nil, err
	}
	return &proc{child: c, hop: h, client: api.NewClient(socket)}, nil
}

// ready waits until the agent has programmed a measured value.
func (p *proc) ready(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := p.client.Status(ctx)
		if err == nil && s.Ports[0].State == api.StateLive && len(s.Ports[0].Signals) > 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return p.died()
		case <-ctx.Done():
			return fmt.Errorf("%s did not get going: %w%s", p.name, context.Cause(ctx), p.logTail())
		}
	}
}

// follow keeps a history of what the agent programmed, until ctx ends.
func (p *proc) follow(ctx context.Context) error {
	err := p.client.Watch(ctx, func(s *api.Status) error {
		p.record(s)
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	select {
	case <-p.ended:
		return p.died()
	default:
		return fmt.Errorf("%s: %w", p.name, err)
	}
}

func (p *proc) record(s *api.Status) {
	port := &s.Ports[0]
	if p.judge != nil && port.WindowStart != nil && port.WindowEnd != nil && len(port.Signals) == len(signals) {
		p.judge.mu.Lock() // not with p.mu: the judge takes that one last
		p.judge.states(stated{port.WindowStart.UnixNano(), port.WindowEnd.UnixNano(), port.WindowErrorNS})
		p.judge.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = s
	if port.WindowEnd == nil || len(port.Signals) != len(signals) {
		return
	}
	rec := programmed{at: port.Signals[0].ProgrammedAt, windowEnd: *port.WindowEnd, lease: time.Duration(s.LeaseNS)}
	if n := len(p.history); n > 0 && !rec.at.After(p.history[n-1].at) {
		return
	}
	for i := range port.Signals {
		rec.s[i] = port.Signals[i].Bucket
	}
	p.history = append(p.history, rec)
	if len(p.history) > 2048 { // far more than any probe in flight needs
		p.history = append(p.history[:0], p.history[1024:]...)
	}
}

// source returns the end of the window behind a value that a frame passing at
// an instant was given: the newest window programmed by then whose bucket is s, or
// the newest of all where none does.
func (p *proc) source(at time.Time, sig int, s int) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var fallback time.Time
	for i := len(p.history) - 1; i >= 0; i-- {
		rec := &p.history[i]
		if rec.at.After(at) {
			continue
		}
		if s < 0 || int(rec.s[sig]) == s {
			return rec.windowEnd, true
		}
		if fallback.IsZero() {
			fallback = rec.windowEnd
		}
		if at.Sub(rec.at) > 10*time.Second {
			break
		}
	}
	return fallback, !fallback.IsZero()
}

// stop ends the agent as a service manager does.
func (p *proc) stop() error {
	p.client.Close()
	return p.child.stop()
}

// watch ends a run with the child's error where the child ends before the run.
func (c *child) watch(run context.Context, end context.CancelCauseFunc) {
	select {
	case <-c.ended:
		end(c.died())
	case <-run.Done():
	}
}

// stopAll ends hosts, and then agents.
func stopAll(hosts []*child, agents []*proc) (err error) {
	for _, c := range hosts {
		err = errors.Join(err, c.stop())
	}
	for _, a := range agents {
		err = errors.Join(err, a.stop())
	}
	return err
}

// stop ends the process as a service manager does.
func (c *child) stop() error {
	select {
	case <-c.ended:
		return c.died()
	default:
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	select {
	case <-c.ended:
	case <-time.After(30 * time.Second):
		return errors.Join(fmt.Errorf("%s does not end%s", c.name, c.logTail()), c.cmd.Process.Kill())
	}
	if c.err != nil {
		return c.died()
	}
	return nil
}

func (c *child) died() error {
	err := c.err
	if err == nil {
		err = errors.New("without an error")
	}
	return fmt.Errorf("%s ended: %w%s", c.name, err, c.logTail())
}

// logTail is the end of the log, for an error message.
func (c *child) logTail() string {
	b, err := os.ReadFile(c.log)
	if err != nil || len(b) == 0 {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return "\n" + string(bytes.Join(lines[max(0, len(lines)-6):], []byte("\n")))
}
