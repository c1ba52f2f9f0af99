package device

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/rollout"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
)

// ward is a daemon without a device: it has the setup of its configuration, and
// keeps a history.
type ward struct {
	vendors.LinkProber // nil: its links are not tried

	runs    *inventory.Fleet // nil: it waits
	text    string
	kept    map[string]string
	applied int
	bare    bool // its platform keeps no record of the profile
}

func (w *ward) Admit(context.Context, api.Operator) error { return nil }
func (w *ward) Leave(context.Context, string) error       { return nil }

func (w *ward) Facts(context.Context, api.Described) (vendors.Facts, error) {
	p, err := all.Default().Platform("linux")
	return p.Offline(), err
}

func (w *ward) Setup(context.Context, api.Described) (vendors.Setup, error) {
	if w.runs == nil {
		return vendors.Setup{}, nil
	}
	s := vendors.SetupOf(&w.runs.Profile, w.runs.Policy, &w.runs.Devices[0])
	if s.Config = w.hash(); w.bare {
		s.Profile = ""
	}
	return s, nil
}

func (w *ward) hash() string { return w.runs.DeviceView(&w.runs.Devices[0]).Hash() }

func (w *ward) Config(_ context.Context, hash string) (string, error) {
	if w.runs != nil && hash == w.hash() {
		return w.text, nil
	}
	text, ok := w.kept[hash]
	if !ok {
		return "", &vendors.PermanentError{Err: errors.New("it is not kept")}
	}
	return text, nil
}

func (w *ward) Configure(_ context.Context, file []byte, _ string) error {
	f, err := inventory.Parse("configuration", file)
	if err != nil {
		return err
	}
	w.keep()
	w.runs, w.text = f, string(file)
	w.applied++
	return nil
}

func (w *ward) keep() {
	if w.runs != nil {
		w.kept[w.hash()] = w.text
	}
}

func (w *ward) RemoveSetup(context.Context, api.Described, string) error {
	w.keep()
	w.runs, w.text = nil, ""
	return nil
}

func (w *ward) Health(context.Context, api.Described) ([]vendors.PortHealth, error) { return nil, nil }
func (w *ward) MTUs(context.Context, api.Described) (map[string]int, error) {
	return map[string]int{"swp1": 9000, "swp2": 9000}, nil
}
func (w *ward) SetMTU(context.Context, api.Described, string, int) error { return nil }

// wardFile is a fleet of one switch behind a daemon.
const wardFile = `
format: csig.fleet/v1
profile: {name: lab, tpid: 0x9900, interval: %s, signals: {abw: {buckets: %s}}}
hosts: [{name: h1, csig: true, mtu: 9000}]
devices:
  - name: s1
    platform: linux
    address: 192.0.2.1
    management: {ssh: {user: x, agent: true}, daemon: {socket: %s}}
    counters: {source: snmp, snmp: {version: 2c, community: {command: [/bin/echo, %s]}}}
    ports:
      - {name: swp1, speed: 10G, lm: 1, peer: h1}
      - {name: swp2, speed: 10G, lm: 2, action: %s}
`

// A roll-out through a daemon and its way back: the daemon gets what the fleet
// file has, arguments of commands included, and at last has what it had. The
// plan and the journal have neither.
func TestRollOutThroughADaemon(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	w := &ward{kept: map[string]string{}}
	serve(t, socket, w)
	file := func(name, interval, buckets, argument, action string) *inventory.Fleet {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, fmt.Appendf(nil, wardFile, interval, buckets, socket, argument, action), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := inventory.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		f.Devices[0].Management.SSH = nil // the socket is here
		return f
	}
	before := file("before.yaml", "5s", "log-10G", "TOPSECRET1", "update")
	measured := file("e.yaml", "5s", "log-10G", "TOPSECRET1", "update")
	late := time.Second
	measured.Devices[0].Facts = &inventory.Facts{Name: "m", Platform: measured.Devices[0].Platform, Model: "M", Version: "V", Date: "2026-11-22", TPIDs: []uint16{measured.Profile.TPID}, AckToWire: &late}
	for _, tc := range []struct {
		name   string
		after  *inventory.Fleet
		remove bool
		change string // of the configuration
	}{
		{"other arguments", file("a.yaml", "5s", "log-10G", "TOPSECRET2", "update"), false, "counters"},
		{"another interval", file("b.yaml", "7s", "log-10G", "TOPSECRET2", "update"), false, "Δt 5s -> 7s"},
		{"a port that strips", file("c.yaml", "5s", "log-10G", "TOPSECRET1", "strip"), false, "actions of swp2"},
		{"another profile", file("d.yaml", "5s", "log-25G", "TOPSECRET2", "strip"), false, "profile lab"},
		{"facts of its model", measured, false, "facts"},
		{"nothing", before, true, ""},
	} {
		for undoneFrom, fleet := range map[string]*inventory.Fleet{"its own file": tc.after, "the file of before": before} {
			t.Run(tc.name+", undone from "+undoneFrom, func(t *testing.T) {
				start, err := inventory.Marshal(before.DeviceView(&before.Devices[0]))
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Configure(t.Context(), start, ""); err != nil {
					t.Fatal(err)
				}
				w.kept, w.bare = map[string]string{}, undoneFrom == "its own file"
				goal := plans.RollOut
				if tc.remove {
					goal = plans.TakeOff
				}
				plan := func() *plans.Plan {
					seen, err := NewOpener(tc.after).ObserveAll(t.Context(), 1, time.Minute, nil)
					if err != nil {
						t.Fatal(err)
					}
					p, err := plans.Build(tc.after, func(d *inventory.Device) plans.Observation { return seen[d.Name] }, plans.Options{Goal: goal, Version: "test", InventoryHash: tc.after.Hash(), Now: time.Now()})
					if err != nil || len(p.Errors()) > 0 {
						t.Fatal(err, p)
					}
					return p
				}
				p := plan()
				if p.Empty() {
					t.Fatal("nothing to do")
				}
				if tc.change != "" && (p.Devices[0].Changes[0].What != "configuration" || !strings.Contains(p.Devices[0].Changes[0].Detail, tc.change)) {
					t.Errorf("the plan has %+v, want %q", p.Devices[0].Changes, tc.change)
				}
				var text bytes.Buffer
				if err := p.Write(&text); err != nil {
					t.Fatal(err)
				}
				if p, err = plans.Read(bytes.NewReader(text.Bytes())); err != nil {
					t.Fatal(err)
				}
				journal := filepath.Join(t.TempDir(), "journal")
				j, err := rollout.CreateJournal(journal, "test", p)
				if err != nil {
					t.Fatal(err)
				}
				defer j.Close()
				if err := (&rollout.Run{Journal: j, Open: NewOpener(tc.after).Open}).Apply(t.Context()); err != nil {
					t.Fatal(err)
				}
				if tc.remove != (w.runs == nil) || !tc.remove && w.hash() != p.Devices[0].Config {
					t.Errorf("the daemon runs\n%s", w.text)
				}
				if !tc.remove {
					want, err := inventory.Marshal(tc.after.DeviceView(&tc.after.Devices[0]))
					if err != nil || w.text != string(want) {
						t.Errorf("the daemon runs\n%s\nwant\n%s", w.text, want)
					}
				}
				if again := plan(); !again.Empty() {
					t.Errorf("planned again: %+v", again.Stages)
				}
				if err := (&rollout.Run{Journal: j, Open: NewOpener(fleet).Open}).Rollback(t.Context()); err != nil {
					t.Fatal(err)
				}
				if w.text != string(start) {
					t.Errorf("the daemon runs\n%s\nand ran\n%s", w.text, start)
				}
				for _, kept := range []func() ([]byte, error){func() ([]byte, error) { return os.ReadFile(journal) }, func() ([]byte, error) { return text.Bytes(), nil }} {
					if text, err := kept(); err != nil || bytes.Contains(text, []byte("TOPSECRET")) || len(text) == 0 {
						t.Errorf("%v: %s", err, text)
					}
				}
			})
		}
	}

	// Where neither the fleet file nor the daemon has it any more, that is reported.
	w.kept = map[string]string{}
	target, err := NewOpener(file("e.yaml", "9s", "log-10G", "x", "update")).Open(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	lost := vendors.SetupOf(&before.Profile, before.Policy, &before.Devices[0])
	lost.Config = strings.Repeat("ab", 32)
	n := w.applied
	if err := target.Apply(t.Context(), lost); err == nil || w.applied != n || !strings.Contains(err.Error(), "name with -i the fleet file of that time") {
		t.Errorf("%v, %d applied", err, w.applied-n)
	}
}

func (w *ward) StartRevert(context.Context, api.Described, time.Duration) (string, error) {
	return "", errors.ErrUnsupported
}
func (w *ward) Confirm(context.Context, string) error { return vendors.ErrReverted }
func (w *ward) PendingRevert(context.Context) error   { return nil }

// serve answers for a manager at a socket until the test ends.
func serve(t *testing.T, socket string, m api.Manager) {
	t.Helper()
	s, err := api.Listen(socket, func() *api.Status { return &api.Status{Format: api.StatusFormat} })
	if err != nil {
		t.Fatal(err)
	}
	s.Manage(m)
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
}

// A daemon that may not be opened is not reported as silent.
func TestBypassReason(t *testing.T) {
	d := &inventory.Device{Management: inventory.Management{Daemon: &inventory.Daemon{Socket: "/run/csig/agent.sock"}}}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := bypassReason(t.Context(), d, nil, fmt.Errorf("no: %w", fs.ErrPermission)), "its daemon may not be opened by "+me.Username; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := bypassReason(t.Context(), d, nil, api.ErrNoAgent), "its daemon does not answer"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
