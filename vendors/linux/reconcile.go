package linux

import (
	"maps"
	"reflect"
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
	addSet(s *setSpec) // without its elements
	delSet(name string)
	flushSet(name string)
	addKeys(set string, keys []uint16, timeout time.Duration)
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
	port   string // "" for what all ports share
	why    []string
	kind   vendors.ChangeKind
	writes []func(w writer)

	content []interval // what the port's map holds where it is rebuilt
}

// add adds writes, with what they are for; "" where that was added before.
func (g *group) add(why string, writes ...func(w writer)) {
	if why != "" {
		g.why = append(g.why, why)
	}
	g.writes = append(g.writes, writes...)
}

func (g *group) write(w writer) {
	for _, write := range g.writes {
		write(w)
	}
}

// set makes a set as it should be: h is what there is, wrong tells that its elements
// are to be others, and fill writes them.
func (g *group) set(s *setSpec, h *observedSet, wrong bool, fill func(w writer)) {
	add := func(w writer) { w.addSet(s) }
	switch {
	case h == nil:
		g.add("set "+s.name, add, fill)
	case !s.same(h):
		g.add("set "+s.name+": other setup", func(w writer) { w.delSet(s.name) }, add, fill)
	case wrong:
		g.add("elements of set "+s.name, func(w writer) { w.flushSet(s.name) }, fill)
	}
}

// chain makes a chain as it should be: h is what there is, flushed tells that it has
// lost its rules before.
func (g *group) chain(c *chainSpec, h *observedChain, flushed bool) {
	flush, rules := func(w writer) { w.flushRules(c.name) }, func(w writer) { w.addRules(c) }
	add := []func(w writer){func(w writer) { w.addChain(c) }, rules}
	if c.optional {
		add = nil
	}
	switch {
	case h == nil && c.optional:
	case h == nil:
		g.add("chain "+c.name, add...)
	case !c.sameHook(h):
		g.add("chain "+c.name+": not on the egress of "+c.device, flush, func(w writer) { w.delChain(c.name) })
		g.add("", add...)
	case flushed:
		g.add("chain "+c.name, rules)
	case !c.sameRules(h):
		g.add("rules of chain "+c.name, flush, rules)
	}
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

// same reports whether a set of the kernel is the wanted one, its elements
// aside.
func (s *setSpec) same(h *observedSet) bool {
	dataLen := uint32(0)
	if s.isMap {
		dataLen = 2
	}
	return h.flags == s.flags() && h.keyLen == 2 && h.dataLen == dataLen && h.comment == s.comment
}

// wrong reports whether a set that Apply fills holds something else.
func (s *setSpec) wrong(h *observedSet) bool {
	return h.irregular || s.fixed && (len(h.keys) > 0 || !slices.Equal(h.intervals, s.intervals))
}

// shared handles the table and what all ports use.
func (r *reconciler) shared() group {
	g := group{kind: vendors.Alter}
	if !r.have.table {
		g.kind = vendors.Create
		g.add("table "+tableName, writer.addTable)
	}
	if r.sharedReplaced {
		// Also the chains that will go: a set that rules look into stays.
		for _, name := range slices.Sorted(maps.Keys(r.have.chains)) {
			g.add("", func(w writer) { w.flushRules(name) })
		}
	}
	for i := range r.want.sets {
		s := &r.want.sets[i]
		h := r.have.sets[s.name]
		switch {
		case strings.HasPrefix(s.name, portPrefix):
		case s.expires:
			keys := leaseKeys(r.setup)
			g.set(s, h, h != nil && (r.newMeaning || h.left > 0 && !slices.Equal(h.keys, keys)), func(w writer) {
				if h != nil && h.left > 0 && !r.newMeaning { // Apply is no reason to fall back
					w.addKeys(s.name, keys, h.left)
				}
			})
		default:
			g.set(s, h, h != nil && s.wrong(h), s.fill)
		}
	}
	g.chain(r.want.chain(chainStale), r.have.chains[chainStale], r.sharedReplaced)
	return g
}

// fill writes what a set holds that Apply fills.
func (s *setSpec) fill(w writer) {
	if len(s.intervals) > 0 {
		w.addIntervals(s.name, s.intervals)
	}
}

func (c *chainSpec) sameHook(h *observedChain) bool {
	if c.device == "" {
		return h.hook < 0
	}
	return h.hook == hookEgress && h.priority == 0 && h.policy == policyAccept && h.device == c.device
}

func (c *chainSpec) sameRules(h *observedChain) bool {
	if h.made != nil {
		return slices.EqualFunc(c.rules, h.made, func(want, have ruleSpec) bool { return slices.Equal(want.steps, have.steps) })
	}
	return slices.EqualFunc(c.rules, h.rules, func(want ruleSpec, have []any) bool { return reflect.DeepEqual(formOf(want.steps), have) })
}

// port handles the map and the chain of one port.
func (r *reconciler) port(name, key string) group {
	g := group{port: name, kind: vendors.Alter}
	set, chain := r.want.set(key), r.want.chain(key)
	hs, hc := r.have.sets[key], r.have.chains[key]
	if hs == nil && hc == nil {
		g.kind = vendors.Create
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
	// Rules go before the set they look into.
	if hc != nil && (chain == nil || replaced) {
		g.add("", func(w writer) { w.flushRules(key) })
	}
	if hc != nil && chain == nil {
		g.add("chain "+key+" is not wanted", func(w writer) { w.delChain(key) })
	}
	content := g.content
	g.set(set, hs, hs != nil && (set.wrong(hs) || r.newMeaning && len(hs.intervals) > 0), func(w writer) {
		if len(content) > 0 {
			w.addIntervals(key, content)
		}
	})
	if chain != nil {
		g.chain(chain, hc, replaced || r.sharedReplaced)
	}
	return g
}

// updated reports whether a map was the signal of a port that updates.
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
		if hc != nil {
			g.add("", func(w writer) { w.flushRules(n) }, func(w writer) { w.delChain(n) })
		}
		if hs != nil {
			g.add("", func(w writer) { w.delSet(n) })
		}
		out = append(out, g)
	}
	return out
}
