package linux

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// writer is one of the two ways to change our table: netlink messages, or a
// script for the nft command. What is written between two commits is one
// transaction.
type writer interface {
	addTable()
	addSet(s *setSpec) // with what it holds, where that is fixed
	delSet(name string)
	flushSet(name string)
	addKeys(set string, keys []uint16, timeout time.Duration) // a timeout of 0 is none
	addIntervals(set string, list []interval)
	addChain(c *chainSpec) // without its rules
	delChain(name string)
	addRules(c *chainSpec)
	flushRules(chain string)
}

// group is what has to change for one port, or for what all ports share. The
// groups of one reconciliation may be cut into several transactions, in their
// order; one group never is.
type group struct {
	port  string // "" for what all ports share
	why   []string
	kind  vendors.ChangeKind
	write func(w writer)

	content []interval // what the port's map holds where it is rebuilt
}

// reconcile lists what turns the observed table into the wanted one, for a
// setup s. It keeps what is right. An empty list means that nothing differs.
func reconcile(s *vendors.Setup, want *ruleset, have *observed) []group {
	r := &reconciler{setup: s, want: want, have: have}
	return r.groups()
}

type reconciler struct {
	setup *vendors.Setup
	want  *ruleset
	have  *observed

	sharedReplaced bool // a set that every chain looks into is rebuilt
	newMeaning     bool // the content of the live maps has another meaning now
}

func (r *reconciler) groups() []group {
	var out []group
	for i := range r.want.sets {
		s := &r.want.sets[i]
		if h := r.have.sets[s.name]; !strings.HasPrefix(s.name, portPrefix) && s.name != setProfile && h != nil && !s.same(h) {
			r.sharedReplaced = true
		}
	}
	r.newMeaning = !r.have.sameMeaning(r.setup)
	if g := r.shared(); len(g.why) > 0 {
		out = append(out, g)
	}
	wanted := map[string]bool{setLease: true, mapStale: true} // chainStale is named like its map
	if r.want.set(setProfile) != nil {
		wanted[setProfile] = true
	}
	for _, p := range r.setup.Ports {
		key := portKey(p.Port)
		wanted[key] = true
		if g := r.port(p.Port, key); len(g.why) > 0 {
			out = append(out, g)
		}
	}
	return append(out, r.unwanted(wanted)...)
}

// same tells whether a set of the kernel is the wanted one, its elements
// aside.
func (s *setSpec) same(h *observedSet) bool {
	dataLen := uint32(0)
	if s.isMap {
		dataLen = 2
	}
	return h.flags == s.flags() && h.keyLen == 2 && h.dataLen == dataLen && h.comment == s.comment
}

// sameContent tells whether a fixed set holds what it should.
func (s *setSpec) sameContent(h *observedSet) bool {
	return !h.irregular && slices.Equal(h.keys, s.keys) && slices.Equal(h.intervals, s.intervals)
}

// shared handles the table and what all ports use.
func (r *reconciler) shared() group {
	g := group{kind: vendors.Alter}
	var writes []func(w writer)
	do := func(why string, write func(w writer)) {
		if why != "" {
			g.why = append(g.why, why)
		}
		writes = append(writes, write)
	}
	if !r.have.table {
		g.kind = vendors.Create
		do("table "+tableName, writer.addTable)
	}
	if r.sharedReplaced {
		// Also the chains that will go: a set that rules look into stays.
		for _, name := range slices.Sorted(maps.Keys(r.have.chains)) {
			do("", func(w writer) { w.flushRules(name) })
		}
	}
	for i := range r.want.sets {
		s := &r.want.sets[i]
		if strings.HasPrefix(s.name, portPrefix) {
			continue
		}
		h := r.have.sets[s.name]
		switch {
		case h == nil:
			do("set "+s.name, func(w writer) { w.addSet(s) })
		case !s.same(h):
			do("set "+s.name+": other setup", func(w writer) {
				w.delSet(s.name)
				w.addSet(s)
				// The lease outlives its set: Apply is no reason to fall back.
				if s.expires && h.left > 0 && !r.newMeaning {
					w.addKeys(s.name, leaseKeys(r.setup), h.left)
				}
			})
		case s.fixed && !s.sameContent(h):
			do("elements of set "+s.name, func(w writer) {
				w.flushSet(s.name)
				if len(s.keys) > 0 {
					w.addKeys(s.name, s.keys, 0)
				}
				if len(s.intervals) > 0 {
					w.addIntervals(s.name, s.intervals)
				}
			})
		case s.expires && (r.newMeaning || h.left > 0 && !slices.Equal(h.keys, leaseKeys(r.setup))):
			do("elements of set "+s.name, func(w writer) { w.flushSet(s.name) })
		}
	}
	why, write := r.chain(r.want.chain(chainStale))
	if why != "" {
		g.why = append(g.why, why)
	}
	if write != nil {
		writes = append(writes, write)
	}
	g.write = inOrder(writes)
	return g
}

func inOrder(writes []func(w writer)) func(w writer) {
	return func(w writer) {
		for _, write := range writes {
			write(w)
		}
	}
}

// chain compares one chain; write is nil where nothing has to change. The
// reason is "" where a chain is only written again because of a set.
func (r *reconciler) chain(c *chainSpec) (why string, write func(w writer)) {
	h := r.have.chains[c.name]
	switch {
	case h == nil && c.optional:
		return "", nil
	case h == nil:
		return "chain " + c.name, func(w writer) { w.addChain(c); w.addRules(c) }
	case !c.sameHook(h) && c.optional:
		return "chain " + c.name + ": not on the egress of " + c.device, func(w writer) {
			w.flushRules(c.name)
			w.delChain(c.name)
		}
	case !c.sameHook(h):
		return "chain " + c.name + ": not on the egress of " + c.device, func(w writer) {
			w.flushRules(c.name)
			w.delChain(c.name)
			w.addChain(c)
			w.addRules(c)
		}
	case !c.sameRules(h):
		why = "rules of chain " + c.name
	case !r.sharedReplaced:
		return "", nil
	}
	return why, func(w writer) { w.flushRules(c.name); w.addRules(c) }
}

func (c *chainSpec) sameHook(h *observedChain) bool {
	if c.device == "" {
		return h.hook < 0
	}
	return h.hook == hookEgress && h.priority == 0 && h.policy == policyAccept && h.device == c.device
}

func (c *chainSpec) sameRules(h *observedChain) bool {
	return slices.EqualFunc(c.rules, h.rules, func(want ruleSpec, have []step) bool { return slices.Equal(want.steps, have) })
}

// port handles the map and the chain of one port.
func (r *reconciler) port(name, key string) group {
	g := group{port: name, kind: vendors.Alter}
	set, chain := r.want.set(key), r.want.chain(key)
	hs, hc := r.have.sets[key], r.have.chains[key]
	if hs == nil && hc == nil {
		g.kind = vendors.Create
	}
	var writes []func(w writer)
	do := func(write func(w writer)) {
		writes = append(writes, write)
	}
	replaced := hs != nil && !set.same(hs)
	// Under a lease that runs, a new map must not be empty: every tag would
	// pass as if the port had room for it, until the agent's next update.
	lease := r.have.sets[setLease]
	switch {
	case !set.isMap || r.newMeaning || hs != nil && !replaced && !hs.irregular:
	case replaced && !hs.irregular && hs.flags == set.flags() && r.updated(hs):
		g.content = hs.intervals // only what it strips differs
	case r.setup.OnStale != inventory.StalePassthrough && lease != nil && lease.left > 0:
		g.content = r.want.set(mapStale).intervals
	}
	fill := func(w writer) {
		if len(g.content) > 0 {
			w.addIntervals(key, g.content)
		}
	}
	// Rules go before the set they look into.
	if hc != nil && (chain == nil || replaced) {
		do(func(w writer) { w.flushRules(key) })
	}
	if hc != nil && chain == nil {
		g.why = append(g.why, "chain "+key+" is not wanted")
		do(func(w writer) { w.delChain(key) })
	}
	switch {
	case hs == nil:
		g.why = append(g.why, "set "+key)
		do(func(w writer) { w.addSet(set); fill(w) })
	case replaced:
		g.why = append(g.why, "set "+key+": other action")
		do(func(w writer) { w.delSet(key); w.addSet(set); fill(w) })
	case hs.irregular, set.fixed && !set.sameContent(hs), r.newMeaning && len(hs.intervals) > 0:
		g.why = append(g.why, "elements of set "+key)
		do(func(w writer) { w.flushSet(key); fill(w) })
	}
	if chain != nil {
		why, write := r.chain(chain)
		if write == nil && replaced && hc != nil {
			write = func(w writer) { w.addRules(chain) }
		}
		if why == "" && write != nil {
			why = "chain " + key // only rewritten, with the sets
		}
		if why != "" {
			g.why = append(g.why, why)
		}
		if write != nil {
			writes = append(writes, write)
		}
	}
	g.write = inOrder(writes)
	return g
}

// updated tells whether a map was the signal of a port that updates.
func (r *reconciler) updated(h *observedSet) bool {
	p, ok := parsePortComment(h.comment)
	return ok && p.Action == vlanrules.Update && portKey(p.Port) == h.name
}

// unwanted deletes what is in our table and not in the setup.
func (r *reconciler) unwanted(wanted map[string]bool) []group {
	var names []string
	for n := range r.have.chains {
		names = append(names, n)
	}
	for n := range r.have.sets {
		names = append(names, n)
	}
	slices.Sort(names)
	var out []group
	for _, n := range slices.Compact(names) {
		if wanted[n] {
			continue
		}
		hc, hs := r.have.chains[n], r.have.sets[n]
		g := group{kind: vendors.Remove, why: []string{n}}
		if hs != nil {
			if p, ok := parsePortComment(hs.comment); ok && portKey(p.Port) == n {
				g.port = p.Port
			}
		}
		g.write = func(w writer) {
			if hc != nil {
				w.flushRules(n)
				w.delChain(n)
			}
			if hs != nil {
				w.delSet(n)
			}
		}
		out = append(out, g)
	}
	return out
}
