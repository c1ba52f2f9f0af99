package linux

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// observed is our table as the kernel has it.
type observed struct {
	generation uint32 // of the ruleset it was read at
	table      bool   // there is a table of our name
	comment    string // of the table
	alike      string // a profile by which values mean the same as by the wanted one; "" none
	sets       map[string]*observedSet
	chains     map[string]*observedChain
}

type observedSet struct {
	setHead
	keys      []uint16      // of a set, sorted
	left      time.Duration // until the first of the keys expires
	intervals []interval    // of a map, sorted
	irregular bool          // intervals not as we write them: replace, do not edit
}

// setHead is a set without its elements.
type setHead struct {
	name    string
	handle  uint64 // the kernel's; 0 where it was not read
	flags   uint32
	keyLen  uint32
	dataLen uint32
	comment string
}

type observedChain struct {
	name     string
	handle   uint64 // the kernel's; 0 where it was not read
	device   string
	hook     int32 // as the kernel counts hooks; -1: not a base chain
	priority int32
	policy   uint32
	rules    [][]any    // each as formOf has it
	made     []ruleSpec // in place of rules, what they were written from
}

// keep leaves only those of its chains that are there still, and reports whether they are as they
// were, and no others are there.
func (o *observed) keep(now map[string]*observedChain) bool {
	for name, c := range now {
		was := o.chains[name]
		if was == nil || was.device != c.device || was.hook != c.hook || was.priority != c.priority || was.policy != c.policy {
			return false
		}
	}
	maps.DeleteFunc(o.chains, func(name string, _ *observedChain) bool { return now[name] == nil })
	return true
}

// ours reports whether the table carries our mark, in a format we know.
func (o *observed) ours() bool { return o.comment == tableMark }

// The kernel's numbers for what our base chains have
// (linux/netfilter_netdev.h, linux/netfilter.h).
const (
	hookEgress   = 1
	policyAccept = 1
)

// setup is what the observed table was made for, with what is not as it should
// be; index has the ports' devices. It is readable where it says all of it, and
// only programs are left to look at.
func (have *observed) setup(index map[string]int, depths int) (s vendors.Setup, readable bool, err error) {
	if !have.table {
		return vendors.Setup{}, false, nil
	}
	if err := foreign(have); err != nil {
		return vendors.Setup{}, false, err
	}
	s = vendors.Setup{Damaged: "set " + setLease + ", which says what the setup is, is gone or illegible"}
	if parsed, ok := have.recorded(); ok {
		s, readable = parsed, true
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
		ia, ib := index[a.Port], index[b.Port]
		switch {
		case ia != 0 && ib != 0:
			return ia - ib
		case ia != ib: // one is not there
			return ib - ia
		}
		return strings.Compare(a.Port, b.Port)
	})
	if !readable {
		return s, readable, nil
	}
	want, err := rulesetOf(&s, func(port string) string { return have.deviceOf(&s, port, index) }, depths)
	if err != nil {
		s.Damaged = err.Error()
		return s, false, nil
	}
	for _, g := range reconcile(&s, want, have) {
		damage(&s, g.port, strings.Join(g.why, ", "))
	}
	return s, true, nil
}

// everywhere is where all ports are there.
func everywhere(port string) string { return port }

// deviceOf is what the device of a port is called now, "" where there is none: the
// one of its name or, where there is none, the one that its chain stays on, which
// has got another name.
func (have *observed) deviceOf(s *vendors.Setup, port string, index map[string]int) string {
	if index[port] != 0 {
		return port
	}
	c := have.chains[portKey(port)]
	if c == nil || index[c.device] == 0 || s.HasPort(c.device) {
		return ""
	}
	return c.device
}

// recorded is what the table says of its setup, ports aside; ok is false where
// it says too little. A profile that cannot be read is one that is not
// recorded, and its set is not as Apply leaves it.
func (have *observed) recorded() (s vendors.Setup, ok bool) {
	lease := have.sets[setLease]
	if lease == nil {
		return s, false
	}
	if s, ok = parseSetupComment(lease.comment); !ok {
		return s, false
	}
	if set := have.sets[setProfile]; set != nil {
		parseProfileComment(set.comment, &s)
	}
	return s, true
}

// sameMeaning reports whether what the maps hold means the same under a setup.
// Rules of a version that recorded no profile are taken for the setup's own.
func (have *observed) sameMeaning(s *vendors.Setup) bool {
	if have.sets[setLease] == nil {
		return true
	}
	old, ok := have.recorded()
	return ok && old.Layout == s.Layout && (old.Profile == "" || old.Profile == s.Profile || old.Profile == have.alike)
}

// damage notes what is not as Apply leaves it.
func damage(s *vendors.Setup, port, what string) {
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

// asObserved is how the ruleset reads once it is in the kernel and an agent has
// been at work.
func (r *ruleset) asObserved() *observed {
	o := &observed{table: true, comment: tableMark, sets: map[string]*observedSet{}, chains: map[string]*observedChain{}}
	for i := range r.sets {
		s := &r.sets[i]
		h := &observedSet{setHead: setHead{name: s.name, flags: s.flags(), keyLen: 2, comment: s.comment}, intervals: s.intervals}
		if s.isMap {
			h.dataLen = 2
			if !s.fixed {
				h.intervals = []interval{{}} // whatever an agent wrote
			}
		}
		o.sets[s.name] = h
	}
	for i := range r.chains {
		c := &r.chains[i]
		h := &observedChain{name: c.name, device: c.device, hook: -1}
		if c.device != "" {
			h.hook, h.policy = hookEgress, policyAccept
		}
		h.made = c.rules
		o.chains[c.name] = h
	}
	return o
}
