package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ssh"
	"github.com/csig-agent/csig/vlanrules"
)

// Runner runs commands on the switch; *ssh.Client and *ssh.Root are. A command that ends
// with another status than 0 is an *ssh.ExitError; after any other error the
// runner is closed and not used again.
type Runner interface {
	Run(ctx context.Context, command string, stdin []byte) ([]byte, error)
	Close() error
}

// AfarConfig is how to reach a switch that does not run csig.
type AfarConfig struct {
	// Connect logs in at the switch. It is called at the first use, and again
	// after a connection was lost.
	Connect func(context.Context) (Runner, error)

	// Now is the clock that tells when to look again whether anybody changed
	// our table, and whether a lease should still hold; nil is time.Now. The
	// lease itself runs by the switch's own clock.
	Now func() time.Time
}

// Afar drives a Linux switch with what is on it: the nft and ip commands. It
// needs a runner that is root there, or sudo without a password. It cannot strip. Its methods
// are not safe for concurrent use.
//
// Unlike Driver it cannot make a transaction depend on nobody having changed
// nftables since it looked: Apply reads back what it wrote, and Update looks at
// the whole table again every recheck, and after any refusal.
type Afar struct {
	cfg  AfarConfig
	run  Runner
	host *host // what the switch is; nil until asked

	index map[string]int // of the switch's network devices, by name

	setup    *vendors.Setup // what the table is to be; nil until Apply or the first Update
	ports    []*afarPort
	byName   map[string]*afarPort
	compiler *vlanrules.Compiler
	stale    []interval
	keys     []uint16 // of the lease

	synced     bool      // ports know what the switch has
	known      bool      // ports know what we left there
	checked    time.Time // when the table was looked at
	leaseUntil time.Time // what we gave the lease; zero: nothing that would have to be there

	mark string // of our Arm: Apply and Remove are what may be taken back
}

var _ vendors.Driver = (*Afar)(nil)

// recheck is how often Update looks whether the table is still as it left it.
const recheck = 10 * time.Second

// afarTries is how often a table is read anew because it went meanwhile, and
// written anew because it reads back otherwise.
const afarTries = 3

// commandLimit is how long a command may take, logging in included. Hundreds
// of ports take nft less than a second.
const commandLimit = 20 * time.Second

// host is what is known of the switch itself.
type host struct {
	kernel   string // its release
	nft      string // its version
	sudo     bool   // nft needs it
	depths   int
	depthWhy string
}

// OpenAfar returns a driver for a switch that is driven by commands. It does
// not connect yet.
func OpenAfar(cfg AfarConfig) *Afar {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Afar{cfg: cfg}
}

// Close ends the connection. What is programmed stays, until its lease ends.
func (d *Afar) Close() error {
	if d.run == nil {
		return nil
	}
	err := d.run.Close()
	d.run = nil
	return err
}

// shell runs a line of POSIX shell on the switch, whatever the login shell is.
func (d *Afar) shell(ctx context.Context, line string, stdin []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, commandLimit, fmt.Errorf("the switch does not answer for %v", commandLimit))
	defer cancel()
	if d.run == nil {
		run, err := d.cfg.Connect(ctx)
		if err != nil {
			return nil, err
		}
		d.run = run
	}
	// nft is in sbin, which is not on every user's path.
	out, err := d.run.Run(ctx, `/bin/sh -c 'PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C; export PATH LC_ALL; `+line+`'`, stdin)
	var exit *ssh.ExitError
	switch {
	case errors.As(err, &exit):
		exit.Command = line // the rest is nobody's concern
	case err != nil:
		d.host = nil // it may come back as another one
		return nil, errors.Join(err, d.Close())
	}
	return out, err
}

// nft runs the nft command.
func (d *Afar) nft(ctx context.Context, args string, stdin []byte) ([]byte, error) {
	if err := d.meet(ctx); err != nil {
		return nil, err
	}
	line := "exec nft " + args
	if d.host.sudo {
		line = "exec sudo -n nft " + args
	}
	return d.shell(ctx, line, stdin)
}

// meet finds out what the switch is.
func (d *Afar) meet(ctx context.Context) error {
	if d.host != nil {
		return nil
	}
	permanent := func(format string, args ...any) error {
		return &vendors.PermanentError{Err: fmt.Errorf(format, args...)}
	}
	out, err := d.shell(ctx, `uname -s; uname -r; id -u; nft --version || echo none; sudo -n nft --version 2>/dev/null || echo none`, nil)
	if err != nil {
		return fmt.Errorf("look at the switch: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) < 5 {
		return permanent("the switch answers %q to uname, id and nft --version: a shell on Linux was expected; log in by hand and look", brief(string(out)))
	}
	h := &host{kernel: lines[1], nft: strings.TrimPrefix(strings.TrimPrefix(lines[3], "nftables "), "v")}
	switch {
	case lines[0] != "Linux":
		return permanent("the switch runs %s, and the linux platform needs Linux", lines[0])
	case lines[3] == "none":
		return permanent("the switch has no nft command: install nftables there, or run csig on it")
	case lines[2] != "0" && lines[4] == "none":
		return permanent("user %s may not run nft there: log in as root, say in the fleet file how the user becomes root (management: ssh: sudo), or permit it sudo nft without a password", lines[2])
	}
	h.sudo = lines[2] != "0"
	h.depths, h.depthWhy = depthsOf(h.kernel)
	d.host = h
	return nil
}

func brief(s string) string { return s[:min(len(s), 200)] }

// depthsOf is depthsOfKernel for a kernel's release.
func depthsOf(release string) (depths int, why string) {
	var major, minor int
	_, _ = fmt.Sscanf(release, "%d.%d", &major, &minor) // 0.0 where it is not a number
	if major > 6 || major == 6 && minor >= 8 {
		return maxDepth, ""
	}
	return 0, fmt.Sprintf("Linux %d.%d writes to the wrong place behind an offloaded VLAN tag: Linux 6.8 or newer is needed", major, minor)
}

// read looks at the switch's devices and at our table.
func (d *Afar) read(ctx context.Context) (*observed, error) {
	links, err := d.links(ctx)
	if err != nil {
		return nil, err
	}
	d.index = make(map[string]int, len(links))
	for _, l := range links {
		d.index[l.Name] = l.Index
	}
	for try := 1; ; try++ {
		tables, err := d.nft(ctx, "list tables netdev", nil)
		if err != nil {
			return nil, unreadable(err)
		}
		if !slices.Contains(strings.Split(string(tables), "\n"), "table netdev "+tableName) {
			return &observed{}, nil
		}
		text, err := d.nft(ctx, "-y list table netdev "+tableName, nil)
		if err == nil {
			return parseListing(string(text))
		}
		if try == afarTries { // it may have gone meanwhile
			return nil, unreadable(err)
		}
	}
}

func unreadable(err error) error {
	if exit := (*ssh.ExitError)(nil); errors.As(err, &exit) && strings.Contains(exit.Stderr, "not permitted") {
		return &vendors.PermanentError{Err: fmt.Errorf("read nftables' rules: nft needs CAP_NET_ADMIN: %w", err)}
	}
	return fmt.Errorf("read nftables' rules: %w", err)
}

// Observe reads back the setup, as Driver does. Ports that strip are damaged:
// whether their program is there cannot be seen from afar.
func (d *Afar) Observe(ctx context.Context) (vendors.Setup, error) {
	have, err := d.read(ctx)
	if err != nil {
		return vendors.Setup{}, err
	}
	return d.setupOf(have)
}

func (d *Afar) setupOf(have *observed) (vendors.Setup, error) {
	s, _, err := have.setup(d.index, d.host.depths)
	for _, p := range s.Ports {
		if p.Strips() {
			damage(&s, p.Port, "its BPF program cannot be looked at from afar")
		}
	}
	return s, err
}

// Diff lists what Apply(want) would change. It reads nothing.
func (d *Afar) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	if err := d.refuse(&have, &want); err != nil {
		return nil, err
	}
	return Diff(have, want)
}

// refuse refuses what cannot be done from afar.
func (d *Afar) refuse(have, want *vendors.Setup) error {
	errs := []error{writable(want)}
	strips := map[string]bool{}
	for _, p := range want.Ports {
		if p.Strips() {
			strips[p.Port] = true
			errs = append(errs, &vendors.PermanentError{Port: p.Port, Err: errors.New(noStrip)})
		}
	}
	for _, p := range have.Ports {
		if p.Strips() && !strips[p.Port] {
			errs = append(errs, &vendors.PermanentError{Port: p.Port, Err: errors.New("it strips, and its BPF program cannot be taken away from afar: " + besides)})
		}
	}
	return errors.Join(errs...)
}

const (
	besides = "run csig agent on the switch and drive it through that (management: daemon, in the fleet file)"
	noStrip = "strip from afar is not possible: it takes a BPF program, which the commands of a switch cannot load: " + besides
)

// Apply makes the table that of the setup, in one transaction where the kernel
// takes that much at once, and reads it back. What is refused, ports that strip or stop to strip among it, is refused
// before anything is written. A port whose device is missing is an error of
// that port; the others are done all the same.
func (d *Afar) Apply(ctx context.Context, want vendors.Setup) error {
	if err := validate(&want); err != nil {
		return err
	}
	stale, err := staleEntries(&want)
	if err != nil {
		return &vendors.PermanentError{Err: err}
	}
	have, err := d.Observe(ctx)
	if err != nil {
		return err
	}
	if err := d.refuse(&have, &want); err != nil {
		return err
	}
	if d.mark == "" {
		if err := d.disarm(ctx); err != nil {
			return err
		}
	}
	d.adopt(want, stale)
	if _, err := d.sync(ctx); err != nil {
		return d.late(ctx, err)
	}
	var errs []error
	for _, p := range d.ports {
		if err := d.missing(p); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// adopt makes a setup the wanted one.
func (d *Afar) adopt(want vendors.Setup, stale []interval) {
	s := want
	s.Damaged = ""
	s.Signals, s.Ports = slices.Clone(want.Signals), slices.Clone(want.Ports)
	d.ports, d.byName = nil, make(map[string]*afarPort, len(s.Ports))
	for i := range s.Ports {
		s.Ports[i].Damaged = ""
		p := &afarPort{name: s.Ports[i].Port, key: portKey(s.Ports[i].Port), action: s.Ports[i].Action}
		d.ports = append(d.ports, p)
		d.byName[p.name] = p
	}
	d.setup, d.stale, d.keys = &s, stale, leaseKeys(&s)
	d.compiler = vlanrules.NewCompiler(Rules(), s.Layout)
	d.synced, d.known = false, false
}

func (d *Afar) missing(p *afarPort) error {
	if d.index[p.name] != 0 {
		return nil
	}
	return &vendors.PortError{Port: p.name, Err: errors.New("there is no such network device; it is programmed as soon as it appears")}
}

// sync brings the switch to d.setup and our knowledge to the switch. It returns
// what it had to change, of what we had left there.
func (d *Afar) sync(ctx context.Context) ([]vendors.Change, error) {
	d.synced = false
	var changes []vendors.Change
	for try := 1; ; try++ {
		have, err := d.read(ctx)
		if err != nil {
			return changes, err
		}
		if err := foreign(have); err != nil {
			return changes, err
		}
		want, err := rulesetOf(d.setup, byName(d.index), d.host.depths)
		if err != nil {
			return changes, &vendors.PermanentError{Err: err}
		}
		groups := reconcile(d.setup, want, have)
		if len(groups) == 0 {
			return append(changes, d.learn(have)...), nil
		}
		if try > afarTries {
			return changes, fmt.Errorf("the table netdev %s is still not as it was written: %s; does anything else on the switch change it?", tableName, strings.Join(groups[0].why, ", "))
		}
		for _, g := range groups {
			changes = append(changes, vendors.Change{Kind: g.kind, Port: g.port, What: "nftables", Detail: strings.Join(g.why, ", ")})
		}
		var parts [][]byte
		for i := range groups {
			parts = append(parts, scriptOf(groups[i:i+1], have).Bytes())
		}
		if err := d.write(ctx, parts); err != nil {
			if try == afarTries || ctx.Err() != nil || d.run == nil {
				return changes, fmt.Errorf("write nftables' rules: %w", err)
			}
		}
	}
}

// write carries out the parts of a script, in their order: in one transaction
// where the kernel takes that much at once, which it does for hundreds of ports
// where nft is the machine's own root's, else in as few as possible. A part is
// never cut.
func (d *Afar) write(ctx context.Context, parts [][]byte) error {
	_, err := d.nft(ctx, "-f -", d.guard(bytes.Join(parts, nil)))
	var exit *ssh.ExitError
	if len(parts) < 2 || !errors.As(err, &exit) || !strings.Contains(exit.Stderr, "Message too long") {
		return err
	}
	half := len(parts) / 2
	if err := d.write(ctx, parts[:half]); err != nil {
		return err
	}
	return d.write(ctx, parts[half:])
}

// learn notes what the switch's table has, which is as the setup wants it.
func (d *Afar) learn(have *observed) []vendors.Change {
	var changes []vendors.Change
	now := d.cfg.Now()
	if lease := have.sets[setLease]; d.known && lease != nil && len(lease.keys) == 0 && now.Before(d.leaseUntil) {
		changes = append(changes, vendors.Change{Kind: vendors.Alter, What: "nftables", Detail: "the lease was gone, and ports had fallen back: elements of set " + setLease})
		d.leaseUntil = time.Time{} // said once; Update gives the next one
	}
	for _, p := range d.ports {
		var is []interval
		if s := have.sets[p.key]; s != nil && p.action == vlanrules.Update {
			is = s.intervals
		}
		if d.known && !slices.Equal(is, p.have) {
			changes = append(changes, vendors.Change{Kind: vendors.Alter, Port: p.name, What: "nftables", Detail: "elements of map " + p.key})
		}
		p.have = append(p.have[:0], is...)
	}
	d.synced, d.known, d.checked = true, true, now
	return changes
}

// Release ends the lease: every port falls back at once.
func (d *Afar) Release(ctx context.Context) error {
	have, err := d.read(ctx)
	if err != nil || !have.ours() || have.sets[setLease] == nil {
		return err
	}
	d.leaseUntil = time.Time{}
	w := newScript(tableName)
	w.flushSet(setLease)
	if _, err := d.nft(ctx, "-f -", w.Bytes()); err != nil {
		return fmt.Errorf("end the lease: %w", err)
	}
	return nil
}

// Remove deletes our table. A table of our name that is not ours stays. Ports
// that strip keep their program, which is a *vendors.PermanentError of theirs:
// it has to be removed by csig on the switch.
func (d *Afar) Remove(ctx context.Context) error {
	d.synced, d.setup, d.leaseUntil = false, nil, time.Time{}
	if d.mark == "" {
		if err := d.disarm(ctx); err != nil {
			return err
		}
	}
	have, err := d.read(ctx)
	if err != nil || !have.ours() {
		return err
	}
	s, err := d.setupOf(have)
	if err != nil {
		return err
	}
	w := newScript(tableName)
	w.delTable()
	if _, err := d.nft(ctx, "-f -", d.guard(w.Bytes())); err != nil {
		return d.late(ctx, fmt.Errorf("delete the table netdev %s: %w", tableName, err))
	}
	return d.refuse(&s, &vendors.Setup{})
}
