package linux

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Driver drives the ports of one network namespace. Its methods are not safe
// for concurrent use.
type Driver struct {
	cfg      Config
	sock     *socket
	links    *links
	strip    stripper
	depths   int
	depthWhy string // why depths is less than maxDepth

	setup      *vendors.Setup // what the table is to be; nil until Apply or the first Update
	ports      []*port
	byName     map[string]*port
	compiler   *vlanrules.Compiler
	generation uint32 // of the ruleset we know
	synced     bool   // ports know what the kernel has, at that generation
	known      bool   // ports know what we left in the kernel, at some generation

	leaseUntil time.Time // what we gave the lease; zero: nothing that would have to be there

	stale     []interval // the fallback
	leaseKeys []uint16

	batch   batch
	pending []*port // of the batch being written
}

var (
	_ vendors.Driver     = (*Driver)(nil)
	_ vendors.SelfTester = (*Driver)(nil)
)

// port is what the driver knows about one port.
type port struct {
	name   string
	key    string
	action vlanrules.Action
	index  int // of its device; 0: not there
	label  string

	intents  []vlanrules.Intent // what want was compiled from
	compiled bool
	refused  *vendors.PermanentError
	result   vlanrules.Result
	want     []interval
	have     []interval // in the kernel
	del, add []interval

	strip error // why a strip port has no program, nil where it has
}

// Open returns a driver for the ports of a network namespace. It changes
// nothing. The error says what is missing: rights, or nftables.
func Open(cfg Config) (*Driver, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	d := &Driver{cfg: cfg, strip: stripper{netns: cfg.NetNS}}
	d.depths, d.depthWhy = depthsOfKernel()
	var err error
	if d.sock, err = dial(cfg.NetNS); err != nil {
		return nil, err
	}
	if d.links, err = watchLinks(cfg.NetNS); err != nil {
		return nil, errors.Join(err, d.sock.close())
	}
	if _, err = d.sock.generation(); err != nil {
		err = fmt.Errorf("%w: nftables needs CAP_NET_ADMIN in the network namespace and a kernel with NF_TABLES and NF_TABLES_NETDEV", err)
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Close ends the driver's connections. What is programmed stays, until its
// lease ends.
func (d *Driver) Close() error {
	return errors.Join(d.sock.close(), d.links.close(), d.strip.close())
}

// Observe reads back the setup. Ports are in the order of their devices'
// indices, those without a device last, by name. A table "csig" that is not
// ours is a *vendors.PermanentError.
func (d *Driver) Observe(ctx context.Context) (vendors.Setup, error) {
	if err := ctx.Err(); err != nil {
		return vendors.Setup{}, err
	}
	if err := d.links.scan(); err != nil {
		return vendors.Setup{}, err
	}
	have, err := d.sock.observe()
	if err != nil {
		return vendors.Setup{}, err
	}
	return d.setupOf(have)
}

// setupOf is the setup that the observed table was made for. The links have to
// be scanned.
func (d *Driver) setupOf(have *observed) (vendors.Setup, error) {
	if !have.table {
		return vendors.Setup{}, nil
	}
	if err := foreign(have); err != nil {
		return vendors.Setup{}, err
	}
	s := vendors.Setup{Damaged: "set " + setLease + ", which says what the setup is, is gone or illegible"}
	readable := false
	if lease := have.sets[setLease]; lease != nil {
		if parsed, ok := parseSetupComment(lease.comment); ok {
			s, readable = parsed, true
		}
	}
	for name, set := range have.sets {
		if !strings.HasPrefix(name, portPrefix) {
			continue
		}
		if p, ok := parsePortComment(set.comment); ok && portKey(p.Port) == name {
			s.Ports = append(s.Ports, p)
		}
	}
	slices.SortFunc(s.Ports, func(a, b vendors.PortSetup) int {
		ia, ib := d.links.index[a.Port], d.links.index[b.Port]
		switch {
		case ia != 0 && ib != 0:
			return ia - ib
		case ia != ib: // one is not there
			return ib - ia
		}
		return strings.Compare(a.Port, b.Port)
	})
	if !readable {
		return s, nil
	}
	want, err := rulesetOf(&s, d.present, d.depths)
	if err != nil {
		s.Damaged = err.Error()
		return s, nil
	}
	for _, g := range reconcile(&s, want, have) {
		d.damage(&s, g.port, strings.Join(g.why, ", "))
	}
	err = d.strip.inside(func() error {
		for i := range s.Ports {
			p := &s.Ports[i]
			index := d.links.index[p.Port]
			if index == 0 {
				continue
			}
			why, err := d.strip.check(index, &s, p.Action == vlanrules.Strip)
			if errors.Is(err, errNoBPF) || errors.Is(err, errHidden) {
				why, err = "its BPF program cannot be looked at: "+err.Error(), nil
			}
			if err != nil {
				return fmt.Errorf("port %s: %w", p.Port, err)
			}
			if why != "" {
				d.damage(&s, p.Port, why)
			}
		}
		return nil
	})
	return s, err
}

// damage notes what is not as Apply leaves it.
func (d *Driver) damage(s *vendors.Setup, port, what string) {
	at := &s.Damaged
	for i := range s.Ports {
		if port != "" && s.Ports[i].Port == port {
			at = &s.Ports[i].Damaged
		}
	}
	if *at != "" {
		what = *at + ", " + what
	}
	*at = what
}

// foreign is the error for a table of our name that we did not make.
func foreign(have *observed) error {
	if !have.table || have.ours() {
		return nil
	}
	if strings.HasPrefix(have.comment, markPrefix) {
		return theirs("the nftables table netdev %s says %q: it was made by another version of csig: stop that version's agent with Ctrl-C or, where none runs, nft delete table netdev %s", tableName, have.comment, tableName)
	}
	return theirs("there is an nftables table netdev %s that csig did not make (its comment is %q, not %q): csig leaves it alone; rename it, or nft delete table netdev %s", tableName, have.comment, tableMark, tableName)
}

func theirs(format string, args ...any) error {
	return &vendors.PermanentError{Err: &vendors.ForeignError{What: fmt.Sprintf(format, args...)}}
}

func (d *Driver) present(name string) bool { return d.links.index[name] != 0 }

// Diff lists what Apply(want) would change. It reads nothing.
func (d *Driver) Diff(have, want vendors.Setup) ([]vendors.Change, error) {
	if err := validate(&want); err != nil {
		return nil, err
	}
	var out []vendors.Change
	empty := have.TPID == 0 && len(have.Ports) == 0 && have.Damaged == ""
	switch {
	case empty:
		out = append(out, vendors.Change{Kind: vendors.Create, What: "table " + tableName, Detail: setupComment(&want)})
	case setupComment(&have) != setupComment(&want):
		out = append(out, vendors.Change{Kind: vendors.Alter, What: "table " + tableName, Detail: setupComment(&have) + " -> " + setupComment(&want)})
	case have.Damaged != "":
		out = append(out, vendors.Change{Kind: vendors.Alter, What: "table " + tableName, Detail: "repair: " + have.Damaged})
	}
	old := make(map[string]vendors.PortSetup, len(have.Ports))
	for _, p := range have.Ports {
		old[p.Port] = p
	}
	for _, p := range want.Ports {
		o, known := old[p.Port]
		delete(old, p.Port)
		c := vendors.Change{Kind: vendors.Alter, Port: p.Port, What: p.Action.String()}
		switch {
		case !known:
			c.Kind, c.Detail = vendors.Create, actionDetail(&want, p.Action)
		case o.Action != p.Action:
			c.Detail = fmt.Sprintf("%s -> %s: %s", o.Action, p.Action, actionDetail(&want, p.Action))
		case o.Damaged != "":
			c.Detail = "repair: " + o.Damaged
		default:
			continue
		}
		out = append(out, c)
	}
	for _, p := range have.Ports {
		if _, left := old[p.Port]; left {
			out = append(out, vendors.Change{Kind: vendors.Remove, Port: p.Port, What: p.Action.String(), Detail: "CSIG tags leave as they are"})
		}
	}
	return out, nil
}

func actionDetail(s *vendors.Setup, a vlanrules.Action) string {
	switch a {
	case vlanrules.Update:
		var names []string
		for _, sig := range s.Signals {
			names = append(names, sig.String())
		}
		return "nftables egress chain and map: compare-and-replace of " + strings.Join(names, ", ")
	case vlanrules.Strip:
		return "BPF program " + stripName + " on tcx egress"
	}
	return "CSIG tags leave as they are"
}

// validate refuses a setup that this platform cannot have.
func validate(s *vendors.Setup) error {
	problem := func(format string, args ...any) error {
		return &vendors.PermanentError{Err: fmt.Errorf(format, args...)}
	}
	if err := (quantize.TPIDs{Compact: s.TPID, Wide: s.WideTPID}).Validate(); err != nil {
		return &vendors.PermanentError{Err: err}
	}
	if len(s.Signals) == 0 {
		return problem("the setup carries no signal")
	}
	for i, sig := range s.Signals {
		if !sig.Known() || slices.Contains(s.Signals[:i], sig) {
			return problem("signal %s of the setup is unknown or named twice", sig)
		}
	}
	switch s.OnStale {
	case inventory.Conservative, inventory.StalePassthrough:
	case inventory.StaleStrip:
		return problem("on_stale: strip is not possible here: nftables can rewrite a tag but not remove it, and the fallback has to work without BPF; use conservative or passthrough")
	default:
		return problem("on_stale is %q: want conservative or passthrough", s.OnStale)
	}
	seen := make(map[string]bool, len(s.Ports))
	for _, p := range s.Ports {
		switch {
		case p.Port == "" || len(p.Port) >= unix.IFNAMSIZ || strings.ContainsAny(p.Port, "/: \t\n"):
			return &vendors.PermanentError{Port: p.Port, Err: fmt.Errorf("%q is no name of a Linux network device", p.Port)}
		case seen[p.Port]:
			return &vendors.PermanentError{Port: p.Port, Err: errors.New("the setup names it twice")}
		}
		seen[p.Port] = true
	}
	return nil
}

// Release ends the lease: every port falls back at once.
func (d *Driver) Release(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	have, err := d.sock.observe()
	if err != nil || !have.ours() || have.sets[setLease] == nil {
		return err
	}
	d.synced, d.leaseUntil = false, time.Time{}
	d.batch.begin(d.sock.seq+1, have.generation)
	d.batch.labelNext("release of the lease")
	d.batch.flushSet(setLease)
	d.batch.end()
	return d.sock.commit(&d.batch)
}

// Remove deletes our table and our programs. A table of our name that is not
// ours stays.
func (d *Driver) Remove(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.synced, d.setup, d.leaseUntil = false, nil, time.Time{}
	if err := d.links.scan(); err != nil {
		return err
	}
	var errs []error
	have, err := d.sock.observe()
	switch {
	case err != nil:
		errs = append(errs, err)
	case have.ours():
		d.batch.begin(d.sock.seq+1, have.generation)
		d.batch.delTable()
		d.batch.end()
		errs = append(errs, d.sock.commit(&d.batch))
	}
	errs = append(errs, d.strip.inside(func() error {
		var errs []error
		for index, name := range d.links.name {
			if err := d.strip.remove(index); err != nil {
				errs = append(errs, fmt.Errorf("port %s: %w", name, err))
			}
		}
		return errors.Join(errs...)
	}))
	return errors.Join(errs...)
}

// leaseTick is the longest of the ticks in which kernels count: an element may
// expire so much earlier than its timeout says.
const leaseTick = 10 * time.Millisecond

// Lease limits: the kernel counts in ticks, and an agent that renews less than
// once a minute is none.
const (
	minLease = 10 * time.Millisecond
	maxLease = time.Hour
)
