package web

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/csig-agent/csig/plans"
)

// Bounds of a plan on the page.
const (
	maxPlanFile    = 16 << 20 // bytes
	maxPlanDevices = 500      // with changes
	maxPlanNotes   = 200
)

// planAnswer is a plan that was handed over with --web-plan, as csig plan -o wrote it, and how far
// the devices are: what csig plan shows of it, and no observation of its own.
type planAnswer struct {
	File    string       `json:"file"` // "": none was handed over
	Error   string       `json:"error"`
	Created time.Time    `json:"created,omitzero"`
	Version string       `json:"version"`
	Goal    string       `json:"goal"`
	Offline bool         `json:"offline"`
	Totals  plans.Totals `json:"totals"`
	Devices []planDevice `json:"devices"` // with changes
	More    int          `json:"more"`    // of these that are left off
	Same    int          `json:"same"`    // devices without changes
	Notes   []string     `json:"notes"`
}

// planDevice is a device that a plan changes.
type planDevice struct {
	Device   string         `json:"device"`
	Platform string         `json:"platform"`
	State    string         `json:"state"` // one of the planned constants
	Changes  []plans.Change `json:"changes"`
}

// What the page knows of a planned change.
const (
	plannedRuns    = "carried out" // the device's agent runs the configuration that the plan ends with
	plannedPending = "pending"     // it runs another, or none
	plannedUnknown = "not known here"
)

// planFile is what the page shows of the plan's file as it was when it was last read. Many
// browsers ask for it all the time, and a plan may be large.
type planFile struct {
	mu      sync.Mutex
	info    os.FileInfo // nil: not read yet, or it could not be
	answer  planAnswer
	devices []string // as the plan has them, beside those of the answer
	configs []string
}

func (s *Server) servePlan(w http.ResponseWriter, _ *http.Request) {
	if s.cfg.Plan == "" {
		reply(w, planAnswer{Devices: []planDevice{}, Notes: []string{}})
		return
	}
	reply(w, s.plan.now(s.cfg.Plan, s.board.configs()))
}

// now is the plan, where the devices run these configurations.
func (p *planFile) now(file string, running map[string]string) planAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := os.Stat(file)
	if err != nil || p.info == nil || !os.SameFile(info, p.info) || info.Size() != p.info.Size() || !info.ModTime().Equal(p.info.ModTime()) {
		p.info = nil
		if err := p.read(file); err != nil {
			return planAnswer{File: clean(file), Error: clean(err.Error()), Devices: []planDevice{}, Notes: []string{}}
		}
		p.info = info
	}
	a := p.answer
	a.Devices = slices.Clone(a.Devices)
	for i := range a.Devices {
		if hash, driven := running[p.devices[i]]; driven && p.configs[i] != "" {
			a.Devices[i].State = plannedPending
			if hash == p.configs[i] {
				a.Devices[i].State = plannedRuns
			}
		}
	}
	return a
}

func (p *planFile) read(file string) error {
	plan, err := readPlan(file)
	if err != nil {
		return err
	}
	a := planAnswer{
		File: clean(file), Created: plan.Created, Version: clean(plan.Version), Goal: clean(string(plan.Goal)), Offline: plan.Offline, Totals: plan.Totals,
		Devices: []planDevice{}, Notes: []string{},
	}
	p.devices, p.configs = nil, nil
	for i := range plan.Devices {
		d := &plan.Devices[i]
		switch {
		case len(d.Changes) == 0:
			a.Same++
			continue
		case len(a.Devices) == maxPlanDevices:
			a.More++
			continue
		}
		one := planDevice{Device: clean(d.Device), Platform: clean(d.Platform), State: plannedUnknown, Changes: []plans.Change{}}
		for _, c := range d.Changes {
			one.Changes = append(one.Changes, plans.Change{Kind: c.Kind, Ports: clean(c.Ports), Count: c.Count, What: clean(c.What), Detail: clean(c.Detail), Disruptive: clean(c.Disruptive)})
		}
		a.Devices, p.devices, p.configs = append(a.Devices, one), append(p.devices, d.Device), append(p.configs, d.Config)
	}
	for i := range plan.Findings {
		if i == maxPlanNotes {
			a.Notes = append(a.Notes, fmt.Sprintf("and %d more: csig plan shows them", len(plan.Findings)-i))
			break
		}
		f := &plan.Findings[i]
		a.Notes = append(a.Notes, clean(fmt.Sprintf("%s: %s", f.Level, f.String())))
	}
	p.answer = a
	return nil
}

// readPlan reads a plan's file, as it is now.
func readPlan(file string) (*plans.Plan, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not there: csig plan -o writes it", file)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", file)
	case fi.Size() > maxPlanFile:
		return nil, fmt.Errorf("%s has %d MiB, more than this page shows: csig plan --device shows a part of it", file, fi.Size()>>20)
	}
	p, err := plans.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// configs are the hashes of the configurations that the devices' agents run, "" where none runs.
func (b *board) configs() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[string]string, len(b.devices))
	for _, d := range b.devices {
		if s := shown(d.status); s != nil {
			out[d.shownName()] = s.ConfigHash
		}
	}
	return out
}
