package linux

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parseListing reads what "nft -y list table netdev csig" prints. The listing
// in JSON would be easier to read, but nft 1.0.6 leaves the table's comment and
// the chains' devices out of it. What is not as a table of ours would be is
// kept as something that differs from it; an error means that this is no such
// listing.
func parseListing(text string) (*observed, error) {
	p := &listing{lines: strings.Split(text, "\n")}
	o := &observed{table: true, sets: map[string]*observedSet{}, chains: map[string]*observedChain{}}
	head, ok := p.next()
	if !ok || !slices.Equal(head, []string{"table", "netdev", tableName, "{"}) {
		return nil, errors.New("nft's listing does not begin with table netdev " + tableName)
	}
	for {
		words, ok := p.next()
		if !ok {
			return nil, errors.New("nft's listing ends in the middle")
		}
		switch {
		case words[0] == "}":
			return o, nil
		case words[0] == "comment" && len(words) == 2:
			o.comment = unquote(words[1])
		case len(words) == 3 && words[2] == "{" && (words[0] == "set" || words[0] == "map"):
			s, err := p.set(words[1], words[0] == "map")
			if err != nil {
				return nil, err
			}
			o.sets[s.name] = s
		case len(words) == 3 && words[2] == "{" && words[0] == "chain":
			c, err := p.chain(words[1])
			if err != nil {
				return nil, err
			}
			o.chains[c.name] = c
		case words[len(words)-1] == "{": // an object that no table of ours has
			if err := p.skip(); err != nil {
				return nil, err
			}
		}
	}
}

// listing walks over the lines of a listing.
type listing struct {
	lines []string
	at    int
}

// next is the words of the next line that has any and is no remark.
func (p *listing) next() ([]string, bool) {
	for p.at < len(p.lines) {
		line := p.lines[p.at]
		p.at++
		if w := words(line); len(w) > 0 && !strings.HasPrefix(w[0], "#") {
			return w, true
		}
	}
	return nil, false
}

func (p *listing) skip() error {
	for depth := 1; depth > 0; {
		w, ok := p.next()
		if !ok {
			return errors.New("nft's listing ends in the middle")
		}
		for _, x := range w {
			switch x {
			case "{":
				depth++
			case "}":
				depth--
			}
		}
	}
	return nil
}

// words cuts a line into words, quoted strings with their quotes, and the
// marks { } ; , : and =.
func words(line string) []string {
	var out []string
	for i := 0; i < len(line); {
		start := i
		switch c := line[i]; {
		case c == ' ' || c == '\t' || c == '\r':
			i++
			continue
		case c == '"':
			end := strings.IndexByte(line[i+1:], '"')
			if end < 0 {
				i = len(line)
			} else {
				i += end + 2
			}
		case strings.IndexByte("{};:", c) >= 0:
			i++
		default:
			for i < len(line) && strings.IndexByte(" \t\r\"{};:", line[i]) < 0 {
				i++
			}
		}
		out = append(out, line[start:i])
	}
	return out
}

func unquote(s string) string {
	return strings.TrimSuffix(strings.TrimPrefix(s, `"`), `"`)
}

// unknownFlag stands for flags of sets that none of ours has.
const unknownFlag = 1 << 31

func (p *listing) set(name string, isMap bool) (*observedSet, error) {
	s := &observedSet{name: name}
	if isMap {
		s.flags = flagMap
	}
	for {
		w, ok := p.next()
		if !ok {
			return nil, fmt.Errorf("nft's listing ends in set %s", name)
		}
		switch w[0] {
		case "}":
			slices.Sort(s.keys)
			sortIntervals(s.intervals)
			return s, nil
		case "typeof", "type":
			key, data := w[1:], []string(nil)
			if colon := slices.Index(key, ":"); colon >= 0 {
				key, data = key[:colon], key[colon+1:]
			}
			s.keyLen, s.dataLen = length(key), length(data)
			if s.keyLen != 2 {
				s.irregular = true // not a set of ours
			}
		case "flags":
			for _, f := range strings.Split(strings.Join(w[1:], ""), ",") {
				switch f {
				case "interval":
					s.flags |= flagInterval
				case "timeout":
					s.flags |= flagTimeout
				default:
					s.flags |= unknownFlag
				}
			}
		case "comment":
			if len(w) == 2 {
				s.comment = unquote(w[1])
			}
		case "elements":
			for !slices.Contains(w, "}") {
				more, ok := p.next()
				if !ok {
					return nil, fmt.Errorf("nft's listing ends in the elements of set %s", name)
				}
				w = append(w, more...)
			}
			s.elements(w)
		}
	}
}

// length is the bytes of a type, 0 where no set of ours has it.
func length(typ []string) uint32 {
	if len(typ) == 1 && (typ[0] == "ether_type" || typ[0] == "integer") {
		return 2
	}
	if f, rest, ok := readField(typ); ok && len(rest) == 0 && f.bits == 16 {
		return 2
	}
	return 0
}

// elements reads "elements = { 0x1-0x2 : 0x3, 0x4 timeout 1s expires 900ms }".
func (s *observedSet) elements(w []string) {
	first, last := slices.Index(w, "{"), slices.Index(w, "}")
	if first < 0 || last < first {
		s.irregular = true
		return
	}
	for _, e := range strings.Split(strings.Join(w[first+1:last], " "), ",") {
		s.element(strings.Fields(e))
	}
}

func (s *observedSet) element(w []string) {
	if len(w) == 0 {
		s.irregular = true
		return
	}
	low, high, isRange := strings.Cut(w[0], "-")
	a, ok := readValue(low)
	b := a
	if isRange {
		var ok2 bool
		b, ok2 = readValue(high)
		ok = ok && ok2
	}
	e := interval{first: a, last: b}
	var left time.Duration
	for rest := w[1:]; ok && len(rest) > 0; {
		switch {
		case len(rest) < 2:
			ok = false
		case rest[0] == ":":
			e.value, ok = readValue(rest[1])
		case rest[0] == "timeout":
			_, ok = readTime(rest[1])
		case rest[0] == "expires":
			left, ok = readTime(rest[1])
		default:
			ok = false
		}
		if ok {
			rest = rest[2:]
		}
	}
	switch {
	case !ok || b < a:
		s.irregular = true
	case s.flags&flagInterval != 0:
		s.intervals = append(s.intervals, e)
	case isRange:
		s.irregular = true
	default:
		s.keys = append(s.keys, a)
		if s.left == 0 || left < s.left {
			s.left = left
		}
	}
}

// readValue reads a number, or one of nft's names for the ethertypes that a
// lease may hold.
func readValue(s string) (uint16, bool) {
	switch s {
	case "8021q", "vlan":
		return 0x8100, true
	case "8021ad":
		return 0x88a8, true
	}
	v, err := strconv.ParseUint(s, 0, 16)
	return uint16(v), err == nil
}

// readTime reads times as nft prints them, "1m8ms", in days and less.
func readTime(s string) (time.Duration, bool) {
	var days time.Duration
	if d, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseUint(d, 10, 16)
		if err != nil {
			return 0, false
		}
		if days, s = time.Duration(n)*24*time.Hour, rest; s == "" {
			return days, true
		}
	}
	d, err := time.ParseDuration(s)
	return days + d, err == nil && d >= 0
}

func (p *listing) chain(name string) (*observedChain, error) {
	c := &observedChain{name: name, hook: -1}
	for {
		w, ok := p.next()
		if !ok {
			return nil, fmt.Errorf("nft's listing ends in chain %s", name)
		}
		switch w[0] {
		case "}":
			return c, nil
		case "type":
			c.readHook(w)
		case "comment": // the chain's
		default:
			c.rules = append(c.rules, readRule(w))
		}
	}
}

// readHook reads
//
//	type filter hook egress device "swp1" priority 0; policy accept;
func (c *observedChain) readHook(w []string) {
	c.hook, c.priority, c.policy = math.MaxInt32, math.MaxInt32, math.MaxUint32 // nothing of ours
	if w = slices.DeleteFunc(w, func(x string) bool { return x == "=" || x == "{" || x == "}" }); len(w) < 2 || w[1] != "filter" {
		return
	}
	for i := 2; i+1 < len(w); i++ {
		switch value := w[i+1]; w[i] {
		case "hook":
			if value == "egress" {
				c.hook = hookEgress
			}
		case "device", "devices":
			c.device = unquote(value)
			if i+2 < len(w) && w[i+2] != "priority" {
				c.device = "" // several: no chain of ours
			}
		case "priority":
			if n, err := strconv.ParseInt(value, 10, 32); err == nil && i+2 < len(w) && w[i+2] == ";" {
				c.priority = int32(n)
			}
		case "policy":
			if value == "accept" {
				c.policy = policyAccept
			}
		}
	}
}

// readRule reads a rule. From the first word on that no rule of ours has, it
// is one step that equals none of ours.
func readRule(w []string) []step {
	var out []step
	for len(w) > 0 {
		if w[0] == "comment" && len(w) == 2 {
			return out
		}
		s, rest, ok := readStep(w)
		if !ok {
			return append(out, step{op: foreignStep, name: strings.Join(w, " ")})
		}
		out, w = append(out, s), rest
	}
	return out
}

func readStep(w []string) (s step, rest []string, ok bool) {
	switch {
	case w[0] == "accept":
		return step{op: accept}, w[1:], true
	case w[0] == "goto" && len(w) > 1:
		return step{op: jumpTo, name: w[1]}, w[2:], true
	}
	at, w, ok := readField(w)
	if !ok || len(w) == 0 {
		return s, w, false
	}
	s = step{op: isValue, at: at}
	if w[0] == "set" {
		to, w, ok := readField(w[1:])
		if !ok || to != at || len(w) < 2 || w[0] != "map" || !strings.HasPrefix(w[1], "@") {
			return s, w, false
		}
		return step{op: rewrite, at: at, name: w[1][1:]}, w[2:], true
	}
	if w[0] == "&" && len(w) > 1 {
		if s.mask, ok = readValue(w[1]); !ok || s.mask == 0 {
			return s, w, false
		}
		w = w[2:]
	}
	if len(w) > 0 && (w[0] == "==" || w[0] == "!=") {
		if w[0] == "!=" {
			s.op = notValue
		}
		w = w[1:]
	}
	if len(w) == 0 || s.op == notValue && s.mask != 0 {
		return s, w, false
	}
	if set, ok := strings.CutPrefix(w[0], "@"); ok {
		return step{op: notInSet, at: at, name: set}, w[1:], s.op == notValue
	}
	s.value, ok = readValue(w[0])
	return s, w[1:], ok
}

// readField reads "@ll,96,16" or "meta protocol".
func readField(w []string) (f field, rest []string, ok bool) {
	if len(w) >= 2 && w[0] == "meta" && w[1] == "protocol" {
		return field{protocol: true, bits: 16}, w[2:], true
	}
	if len(w) == 0 {
		return f, w, false
	}
	at, ok := strings.CutPrefix(w[0], "@ll,")
	offset, bits, ok2 := strings.Cut(at, ",")
	o, err := strconv.ParseUint(offset, 10, 13)
	b, err2 := strconv.ParseUint(bits, 10, 16)
	if !ok || !ok2 || err != nil || err2 != nil {
		return f, w, false
	}
	return field{offset: uint16(o), bits: uint16(b)}, w[1:], true
}
