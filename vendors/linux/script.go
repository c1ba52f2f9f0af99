package linux

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// script is a transaction in the language of the nft command: nft -f takes all
// of it, or nothing.
type script struct {
	bytes.Buffer
	// sets are the names of those that are no maps: nft wants to be told, the
	// kernel does not.
	sets map[string]bool
}

func newScript() *script {
	return &script{sets: map[string]bool{setLease: true}}
}

// kind is what nft calls a set.
func (w *script) kind(set string) string {
	if w.sets[set] {
		return "set"
	}
	return "map"
}

var _ writer = (*script)(nil)

// object is how nft names an object of our table.
func (w *script) object(name string) string { return "netdev " + tableName + " " + name }

func (w *script) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

func (w *script) addTable() {
	w.line("add table netdev %s { comment %q; }", tableName, tableMark)
}

func (w *script) addSet(s *setSpec) {
	typeof := fieldText(field{protocol: s.protocol, offset: uint16(s.offset), bits: 16})
	if s.isMap {
		typeof += " : " + typeof
	}
	w.sets[s.name] = !s.isMap
	flags := ""
	switch {
	case s.isMap:
		flags = "flags interval; "
	case s.expires:
		flags = "flags timeout; "
	}
	w.line("add %s %s { typeof %s; %scomment \"%s\"; }", w.kind(s.name), w.object(s.name), typeof, flags, s.comment)
}

func (w *script) delSet(name string) { w.line("delete %s %s", w.kind(name), w.object(name)) }

func (w *script) flushSet(name string) { w.line("flush %s %s", w.kind(name), w.object(name)) }

func (w *script) addKeys(set string, keys []uint16, timeout time.Duration) {
	fmt.Fprintf(w, "add element %s { ", w.object(set))
	for i, k := range keys {
		if i > 0 {
			w.WriteString(", ")
		}
		fmt.Fprintf(w, "0x%04x timeout %dms", k, leaseMillis(timeout))
	}
	w.WriteString(" }\n")
}

func (w *script) addIntervals(set string, list []interval) {
	fmt.Fprintf(w, "add element %s { ", w.object(set))
	for i, e := range list {
		if i > 0 {
			w.WriteString(", ")
		}
		fmt.Fprintf(w, "0x%04x", e.first)
		if e.last != e.first {
			fmt.Fprintf(w, "-0x%04x", e.last)
		}
		fmt.Fprintf(w, " : 0x%04x", e.value)
	}
	w.WriteString(" }\n")
}

func (w *script) addChain(c *chainSpec) {
	if c.device == "" {
		w.line("add chain %s", w.object(c.name))
		return
	}
	w.line("add chain %s { type filter hook egress device \"%s\" priority 0; policy accept; }", w.object(c.name), c.device)
}

func (w *script) delChain(name string) { w.line("delete chain %s", w.object(name)) }

func (w *script) flushRules(chain string) { w.line("flush chain %s", w.object(chain)) }

func (w *script) addRules(c *chainSpec) {
	for _, r := range c.rules {
		fmt.Fprintf(w, "add rule %s", w.object(c.name))
		for _, s := range r.steps {
			w.WriteByte(' ')
			w.WriteString(s.text())
		}
		w.line(" comment %q", r.comment)
	}
}

func fieldText(f field) string {
	if f.protocol {
		return "meta protocol"
	}
	return fmt.Sprintf("@ll,%d,%d", f.offset, f.bits)
}

// text is the step in the language of nft.
func (s *step) text() string {
	at := fieldText(s.at)
	switch s.op {
	case isValue:
		if s.mask != 0 {
			return fmt.Sprintf("%s & 0x%x == 0x%x", at, s.mask, s.value)
		}
		return fmt.Sprintf("%s 0x%04x", at, s.value)
	case notValue:
		return fmt.Sprintf("%s != 0x%04x", at, s.value)
	case notInSet:
		return fmt.Sprintf("%s != @%s", at, s.name)
	case rewrite:
		return fmt.Sprintf("%s set %s map @%s", at, at, s.name)
	case accept:
		return "accept"
	}
	return "goto " + s.name
}

// scriptOf writes what a reconciliation asks for, with a line for each group
// that says why.
func scriptOf(groups []group, have *observed) *script {
	w := newScript()
	for name, s := range have.sets {
		w.sets[name] = s.flags&flagMap == 0
	}
	for _, g := range groups {
		what := "shared by all ports"
		if g.port != "" {
			what = "port " + g.port
		}
		w.line("# %s %s: %s", g.kind, what, strings.Join(g.why, ", "))
		g.write(w)
	}
	return w
}

// Script is what Apply(want) does to a switch where Observe read have, for nft -f: one
// transaction, empty where nothing differs. It needs no device, and assumes that the ports' devices exist, that
// the kernel is Linux 6.8 or newer, and that an agent has been at work whose
// lease is over. What have calls damaged is repaired by Apply according to the device's own listing;
// here a comment stands for it, as for the programs of ports that strip. A
// setup that the platform cannot have, or that cannot be written down for nft,
// is a *vendors.PermanentError.
func Script(have, want vendors.Setup) ([]byte, error) {
	if err := errors.Join(validate(&want), writable(&want)); err != nil {
		return nil, err
	}
	rules, err := rulesetOf(&want, everywhere, maxDepth)
	if err != nil {
		return nil, &vendors.PermanentError{Err: err}
	}
	now := &observed{}
	if have.TPID != 0 {
		before, err := rulesetOf(&have, everywhere, maxDepth)
		if err != nil {
			return nil, fmt.Errorf("the setup that was observed: %w", err)
		}
		now = before.asObserved()
	}
	groups := reconcile(&want, rules, now)
	w := scriptOf(groups, now)
	if len(groups) > 0 && have.TPID != 0 && now.sameMeaning(&want) {
		w.line("# while an agent is at work: what is left of its lease stays, and new maps hold the fallback until its next update")
	}
	note := func(what, damaged string) {
		if damaged != "" {
			w.line("# ~ %s: repair as the device's own listing shows: %s", what, damaged)
		}
	}
	note("shared by all ports", have.Damaged)
	programs := map[string]string{}
	for i := range have.Ports {
		p := &have.Ports[i]
		programs[p.Port] = programText(&have, p)
		note("port "+p.Port, p.Damaged)
	}
	for i := range want.Ports {
		p := &want.Ports[i]
		switch was, is := programs[p.Port], programText(&want, p); {
		case was == is:
		case was == "":
			w.line("# + port %s: %s, by csig on the device", p.Port, is)
		case is == "":
			w.line("# - port %s: %s, by csig on the device", p.Port, was)
		default:
			w.line("# ~ port %s: %s -> %s, by csig on the device", p.Port, was, is)
		}
	}
	return w.Bytes(), nil
}

// writable refuses names that the nft command could not read, or would read
// as something else. The netlink writer has no such limit.
func writable(s *vendors.Setup) error {
	for _, p := range s.Ports {
		if !plain(p.Port) {
			return &vendors.PermanentError{Port: p.Port, Err: errors.New(notPlain)}
		}
	}
	return nil
}

const notPlain = "its name cannot be written in a script for nft; csig agent on the switch takes it all the same"

// plain reports whether a name means itself inside double quotes, to nft and to
// the shell: nft knows no escapes there, and takes * for a pattern.
func plain(name string) bool {
	for i := 0; i < len(name); i++ {
		if c := name[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"'\\*`$!", c) >= 0 {
			return false
		}
	}
	return name != ""
}
