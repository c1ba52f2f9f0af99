package web

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

const (
	lookEvery    = time.Second      // how often a device's status is looked at
	lookOthers   = 5 * time.Second  // where another controller drives it, which is asked for through NATS
	portsASecond = 4000             // of all devices; with more of them each is looked at less often
	silentAfter  = 10 * time.Second // a device that answers nothing for so long is shown as silent
	maxText      = 500              // bytes of a text from a device
	eventsKept   = 64               // of a device, a port's included
)

// board is what the page shows, and what it has shown of late.
type board struct {
	cfg    *Config
	budget int // bytes of history

	mu      sync.Mutex
	fleet   *inventory.Fleet
	devices []*boardDevice
	epoch   int           // how often fleet and devices have changed
	version uint64        // of the last change; 1 before the first, as 0 asks for everything
	changed chan struct{} // closed at the next one
	ports   int           // of all devices
	shape   int           // how often devices and ports have changed
	ranges  rangesByProfile
	past    past

	worstNow  []Bottleneck // of the version and the slot of sparklines
	worstAt   uint64
	worstSlot int64
}

// boardDevice is one device on the board. The board's lock guards it.
type boardDevice struct {
	name   string
	stop   context.CancelFunc
	looked time.Time
	owner  string
	status *api.Status // the last one, another controller's included; nil: there is none
	row    row
	silent bool // of the row
	wait   string
	ports  []*boardPort
	byName map[string]*boardPort
	events []Event // the newest last
}

// boardPort is one port on the board.
type boardPort struct {
	row
	name    string
	history history
	gone    time.Time // since when its agent does not report it
	is      *api.Port // as its agent says; nil: it is shown without figures, as follows
	state   string
	reason  string
}

// row is what clients are sent of a device or a port.
type row struct {
	text    json.RawMessage
	version uint64 // of its last change
}

// PortRow is a port as the page shows it. Figures are 0 where measured is false.
type PortRow struct {
	ID          string    `json:"id"`
	Device      string    `json:"device"`
	Port        string    `json:"port"`
	Action      string    `json:"action"`
	State       string    `json:"state"`
	Reason      string    `json:"reason"`
	Measured    bool      `json:"measured"`
	CapacityBPS uint64    `json:"capacity_bps"`
	LoadBPS     uint64    `json:"load_bps"`
	ABWBPS      uint64    `json:"abw_bps"`
	ABWCPPM     uint32    `json:"abwc_ppm"`
	Ended       time.Time `json:"ended,omitzero"` // the last complete window
	Signals     []Signal  `json:"signals"`
}

// Signal is what a port writes for one signal.
type Signal struct {
	Signal   string `json:"signal"`
	S        uint8  `json:"s"`
	Low      uint64 `json:"low"`
	High     uint64 `json:"high"`
	Unit     string `json:"unit"`
	Locator  string `json:"locator"`
	Doubtful bool   `json:"doubtful"`
	Stale    bool   `json:"stale"`
}

// DeviceRow is a device as the page shows it.
type DeviceRow struct {
	Device    string   `json:"device"`
	Platform  string   `json:"platform"`
	Version   string   `json:"version"`
	Owner     string   `json:"owner"`   // the controller that drives it; "": none, or not shared
	Shared    bool     `json:"shared"`  // among several controllers
	Waiting   string   `json:"waiting"` // what its agent waits for; "": it runs
	Silent    bool     `json:"silent"`  // its agent does not answer the page
	Shadow    bool     `json:"shadow"`
	DataPlane string   `json:"data_plane"`
	Reason    string   `json:"reason"`
	LastError string   `json:"last_error"`
	Reload    string   `json:"reload"` // why its agent has not put the fleet file in force as it is now
	Profile   string   `json:"profile"`
	Hash      string   `json:"profile_hash"`
	TPID      uint16   `json:"tpid"`
	Interval  int64    `json:"interval_ns"`
	Limits    []string `json:"limits"` // what it does less than fully
	Ports     int      `json:"ports"`
}

func newBoard(cfg *Config) *board {
	budget := cmp.Or(cfg.Memory, 2<<20)
	return &board{cfg: cfg, version: 1, changed: make(chan struct{}), budget: budget, past: newPast(budget / pastPart)}
}

// follow looks at all devices until ctx ends.
func (b *board) follow(ctx context.Context) {
	var all sync.WaitGroup
	for {
		b.renew(ctx, &all)
		b.silence(time.Now())
		if vendors.Wait(ctx, lookEvery) != nil {
			break
		}
		b.remember(time.Now()) // the first time after the first looks
	}
	all.Wait()
}

// renew has exactly the fleet's devices on the board.
func (b *board) renew(ctx context.Context, all *sync.WaitGroup) {
	fleet, names := b.cfg.Fleet()
	b.mu.Lock()
	defer b.mu.Unlock()
	same := fleet == b.fleet && slices.EqualFunc(names, b.devices, func(n string, d *boardDevice) bool { return n == d.name })
	if same {
		return
	}
	was := make(map[string]*boardDevice, len(b.devices))
	for _, d := range b.devices {
		was[d.name] = d
	}
	b.fleet, b.devices = fleet, make([]*boardDevice, 0, len(names))
	b.epoch++
	b.shape++
	for _, name := range names {
		d := was[name]
		delete(was, name)
		if d == nil {
			d = &boardDevice{name: name, byName: make(map[string]*boardPort)}
			var dctx context.Context
			dctx, d.stop = context.WithCancel(ctx)
			all.Go(func() {
				for {
					b.look(d)
					if vendors.Wait(dctx, b.pause(d)) != nil {
						return
					}
				}
			})
		}
		b.devices = append(b.devices, d)
	}
	for _, d := range was {
		d.stop()
		b.ports -= len(d.ports)
	}
	b.notify()
}

// pause is how long a device is left alone.
func (b *board) pause(d *boardDevice) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.every(d)
}

// every is how often a device is looked at. The caller has the lock.
func (b *board) every(d *boardDevice) time.Duration {
	every := lookEvery * time.Duration(1+b.ports/portsASecond)
	if b.cfg.Owner != nil && d.status != nil && d.status.Waiting != "" {
		every = max(every, lookOthers)
	}
	return every
}

// look puts what a device's agent says on the board.
func (b *board) look(d *boardDevice) {
	s, owner := b.cfg.Status(d.name), ""
	if b.cfg.Owner != nil {
		owner = b.cfg.Owner(d.name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.devices, d) {
		return // removed meanwhile
	}
	now := time.Now()
	d.looked = now
	d.record(d.status, s, now)
	d.status, d.owner = s, owner
	r := b.deviceRow(d, s, owner)
	d.silent, d.wait = false, r.Waiting
	b.put(&d.row, r)
	b.putPorts(d, s, now)
	b.notify()
}

// silence marks the devices whose agents answer nothing.
func (b *board) silence(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.devices {
		limit := max(silentAfter, 2*b.every(d)+lookEvery) // with many ports a look comes later
		if now.Sub(d.looked) > limit && !d.looked.IsZero() {
			r := b.deviceRow(d, d.status, d.owner)
			r.Silent, d.silent = true, true
			b.put(&d.row, r)
			for _, p := range d.ports {
				b.without(d, p, api.StateUnknown, "its agent does not answer this page")
			}
		}
	}
	b.notify()
}

// notify wakes those who follow, where something has changed since they were last woken.
func (b *board) notify() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// put gives a row a new version where its text is another.
func (b *board) put(r *row, v any) {
	text, err := json.Marshal(v)
	if err != nil || string(text) == string(r.text) {
		return
	}
	b.version++
	r.text, r.version = text, b.version
}

// shown is the status whose ports the page shows: the owner's where this controller is not it.
func shown(s *api.Status) *api.Status {
	if s != nil && s.Elsewhere != nil {
		return s.Elsewhere
	}
	return s
}

func (b *board) deviceRow(d *boardDevice, s *api.Status, owner string) DeviceRow {
	r := DeviceRow{Device: d.name, Owner: clean(owner), Shared: b.cfg.Owner != nil, Limits: []string{}}
	if s == nil {
		r.Waiting = "no agent of it runs"
		return r
	}
	r.Waiting = clean(s.Waiting)
	if strings.HasPrefix(r.Waiting, "for ") { // an agent's; a controller's are whole sentences
		r.Waiting = "waiting " + r.Waiting
	}
	late := s.OwnerSilent()
	s = shown(s)
	if d.name == "" {
		r.Device = clean(s.Device)
	}
	r.Platform, r.Version, r.Shadow, r.DataPlane, r.Reason = clean(s.Platform), clean(s.Version), s.Shadow, s.DataPlane, clean(s.DataPlaneReason)
	r.LastError, r.Profile, r.Hash, r.TPID, r.Interval, r.Ports = clean(s.Cycle.LastError), clean(s.Profile), clean(s.ProfileHash), s.TPID, s.IntervalNS, len(s.Ports)
	if late {
		r.DataPlane, r.Reason = api.DataPlaneUnknown, ownerSilent
	}
	if s.Reload != nil {
		r.Reload = clean(s.Reload.Error)
	}
	for _, v := range s.Verdicts {
		text := v.Level + ": " + v.What + ": "
		if v.Port != "" {
			text += "port " + v.Port + ": "
		}
		r.Limits = append(r.Limits, clean(text+v.Reason))
	}
	return r
}

// putPorts puts the ports of a status on the board. One that is not in it any more stays for an hour, as
// gone: its history is of interest then.
func (b *board) putPorts(d *boardDevice, s *api.Status, now time.Time) {
	late := s != nil && s.OwnerSilent()
	s = shown(s)
	there := make(map[string]bool)
	if s != nil {
		for i := range s.Ports {
			p := &s.Ports[i]
			there[p.Port] = true
			at := d.byName[p.Port]
			if at == nil {
				at = &boardPort{name: p.Port}
				d.byName[p.Port] = at
				d.ports = append(d.ports, at)
				b.ports++
				b.shape++
			}
			at.gone = time.Time{}
			at.history.add(p, now, b.samples())
			if late {
				b.without(d, at, api.StateUnknown, ownerSilent)
				continue
			}
			at.is = p
			b.ranges.learn(s, p)
			b.put(&at.row, d.portRow(p, s))
		}
	}
	for _, at := range d.ports {
		if there[at.name] {
			continue
		}
		if at.gone.IsZero() {
			at.gone = now
		}
		b.without(d, at, stateGone, "its agent does not report it any more")
	}
	if n := len(d.ports); n > len(there) {
		d.ports = slices.DeleteFunc(d.ports, func(at *boardPort) bool { return !at.gone.IsZero() && now.Sub(at.gone) > pastKept })
		if left := len(d.ports); left < n { // all is sent again, without them
			d.byName = make(map[string]*boardPort, left)
			for _, at := range d.ports {
				d.byName[at.name] = at
			}
			b.ports -= n - left
			b.epoch++
			b.shape++
		}
	}
}

// ownerSilent is why nothing is known of a device that another controller has driven.
const ownerSilent = "no controller has reported it for 30 s"

// stateGone is the state of a port that the device's agent does not report.
const stateGone = "gone"

// samples is how many of each port's history are kept.
func (b *board) samples() int {
	return min(maxSamples, max(minSamples, b.budget/(sampleSize*max(1, b.ports))))
}

func (d *boardDevice) shownName() string {
	if s := shown(d.status); d.name == "" && s != nil {
		return clean(s.Device)
	}
	return d.name
}

func (d *boardDevice) portID(port string) string { return d.shownName() + ":" + clean(port) }

// without has a port be shown without figures.
func (b *board) without(d *boardDevice, p *boardPort, state, reason string) {
	p.is, p.state, p.reason = nil, state, reason
	b.put(&p.row, PortRow{ID: d.portID(p.name), Device: d.shownName(), Port: clean(p.name), State: state, Reason: reason, Signals: []Signal{}})
}

func (d *boardDevice) portRow(p *api.Port, s *api.Status) PortRow {
	r := PortRow{
		ID: d.portID(p.Port), Device: d.shownName(), Port: clean(p.Port), Action: p.Action, State: p.State, Reason: clean(p.Reason), Measured: p.WindowEnd != nil,
		CapacityBPS: p.CapacityBPS, LoadBPS: p.LoadBPS, ABWBPS: p.ABWBPS, ABWCPPM: p.ABWCPPM, Signals: []Signal{},
	}
	if p.AgeNS > 0 {
		r.Ended = s.Time.Add(-time.Duration(p.AgeNS)).Round(time.Millisecond).UTC()
	}
	for i := range p.Signals {
		r.Signals = append(r.Signals, signalRow(&p.Signals[i]))
	}
	return r
}

// clean makes a text safe to show. The page itself puts texts into its document as texts alone.
func clean(s string) string { return untrusted.Text(s, maxText) }

// delta is what has changed on the board since a version.
type delta struct {
	Now     time.Time         `json:"now"`
	Full    bool              `json:"full"` // it is everything, and the map may be another
	Devices []json.RawMessage `json:"devices"`
	Ports   []json.RawMessage `json:"ports"`
	Worst   []Bottleneck      `json:"worst"`         // all of them, where not one port alone is followed
	Kept    time.Time         `json:"kept,omitzero"` // since when there is a past
}

// place is where a client is in what the board has to tell.
type place struct {
	epoch   int
	version uint64
}

// since is what has changed since a client was there, of one port where it is given, with where
// that leads to and what is closed at the next change.
func (b *board) since(at place, device, port string) (d delta, now place, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	version := at.version
	if at.epoch != b.epoch {
		version = 0
	}
	d = delta{Now: time.Now().UTC(), Full: version == 0, Devices: []json.RawMessage{}, Ports: []json.RawMessage{}}
	if len(b.past.columns) > 0 {
		d.Kept = time.UnixMilli(b.past.columns[0].at).UTC()
	}
	for _, dev := range b.devices {
		if port != "" && dev.shownName() != device {
			continue
		}
		if dev.row.version > version {
			d.Devices = append(d.Devices, dev.row.text)
		}
		for _, p := range dev.ports {
			if p.version > version && (port == "" || p.name == port) {
				d.Ports = append(d.Ports, p.text)
			}
		}
	}
	if port == "" && len(d.Devices)+len(d.Ports) > 0 {
		d.Worst = b.worst(d.Now)
	}
	return d, place{b.epoch, b.version}, b.changed
}

// find is a port on the board; nil where there is none. The caller has the lock.
func (b *board) find(device, port string) (*boardDevice, *boardPort) {
	i := slices.IndexFunc(b.devices, func(d *boardDevice) bool { return d.shownName() == device })
	if i < 0 {
		return nil, nil
	}
	return b.devices[i], b.devices[i].byName[port]
}
