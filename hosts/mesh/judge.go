package mesh

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/quantize"
)

// Finding is something wrong that hosts of a mesh have found.
type Finding struct {
	Code    findings.Code  `json:"code"`
	Level   findings.Level `json:"severity"`
	Device  string         `json:"device"` // switch or host; "" where several explain it
	Ports   []string       `json:"ports"`
	Either  []string       `json:"either"` // the ports, or the switches, of which each explains it, where there are few
	Reason  string         `json:"message"`
	Pairs   int            `json:"pairs"`   // that have it; 0 where it is not about pairs
	Example []string       `json:"example"` // FROM, TO of one
	Since   time.Time      `json:"since"`   // as far as this collector has seen

	about string        // tells it from others of its code and place
	wait  time.Duration // for so long it has to last until it is shown
}

// Place is where it is: "leaf1:swp1", "leaf1", or "leaf1 or leaf2"; "" where that is not known.
func (f *Finding) Place() string {
	if f.Device == "" {
		return strings.Join(f.Either, " or ")
	}
	return (&findings.Finding{Device: f.Device, Ports: f.Ports}).Place()
}

const (
	mostPlaces = 4 // ports or switches that a finding names

	// A collector waits so long for the first rows of a host before it misses them.
	firstRows = 30 * time.Second

	// Tagged probes are delayed where the median of the extra delay is more than this, and than half of the round trip.
	delayed = 200 * time.Microsecond

	leastTagged = 16 // probes before one in four is a finding
)

// pairRef is a pair by the numbers of its hosts.
type pairRef struct{ from, to int }

// agentsSeen are the last statuses of the switches' agents.
type agentsSeen struct {
	at       time.Time
	byDevice map[string]*api.Status // by device; nil: asked, and it did not answer
}

// Agents tells the collector what the agents of switches say, by device; one that does not answer is nil. Those
// that are not there were not asked.
func (c *Collector) Agents(statuses map[string]*api.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agents = agentsSeen{time.Now(), statuses}
}

// judge is what is wrong, by what the pairs have found and what agents say.
func (c *Collector) judge(now time.Time) (out []Finding) {
	var capable, stale, unreachable, dropped, stripped, late, reordered, losing, mixed []pairRef
	var writers []*port
	off := make(map[string][]pairRef) // by the ports that have the locator
	read := make([]*least, len(c.ways.all)*len(c.signals))
	for i := range c.hosts {
		if !c.live(i, now) {
			since := fmt.Sprintf("it has sent no rows for %v", now.Sub(c.seen[i].at).Round(time.Second))
			if c.seen[i].at.IsZero() {
				if now.Sub(c.began) < firstRows {
					continue
				}
				since = "it has sent no rows yet"
			}
			out = append(out, Finding{
				Code: findings.MeshHostSilent, Level: findings.Warning, Device: c.hosts[i].Name, Ports: []string{}, Either: []string{}, Example: []string{},
				Reason: since + ": its pairs are unknown; look at csig mesh run there",
			})
			continue
		}
		for j := range c.hosts {
			rec, ref := c.known(i, j, now), pairRef{i, j}
			if i != j && c.prefixes[i].Addr().Is4() != c.prefixes[j].Addr().Is4() {
				mixed = append(mixed, ref)
			}
			if rec == nil {
				continue
			}
			switch States[rec.state()] {
			case StateUnreachable:
				unreachable = append(unreachable, ref)
			case StateDropsTags:
				dropped = append(dropped, ref)
			case StateNotCapable:
				stripped = append(stripped, ref)
			case StateCapable:
				capable = append(capable, ref)
			}
			if extra := rec.extra(); extra > delayed && extra > rec.rtt/2 {
				late = append(late, ref)
			}
			if rec.reordered.n >= leastTagged && bits.OnesCount64(rec.reordered.bits)*4 >= int(rec.reordered.n) {
				reordered = append(reordered, ref)
			}
			if h := &rec.untagged; States[rec.state()] != StateUnreachable && h.n == 64 && bits.OnesCount64(h.bits) >= 8 {
				losing = append(losing, ref)
			}
			writers = c.readings(ref, rec, now, read, off, writers)
			if c.stale(i, rec, now) {
				stale = append(stale, ref)
			}
		}
	}
	add := func(code findings.Code, level findings.Level, pairs []pairRef, reason string) {
		if len(pairs) > 0 {
			out = append(out, c.finding(code, level, pairs, without(capable, pairs), reason))
		}
	}
	const look = "csig qualify proves a switch, csig assess names what is known of its platform"
	add(findings.MeshUnreachable, findings.Warning, unreachable, fmt.Sprintf("probes without a tag are lost, too: a host or a cable is down, UDP to port %d is filtered, or the hosts have different keys", c.fleet.Mesh.Port))
	add(findings.MeshDropsTags, findings.Error, dropped, "probes with a tag are lost, and those without arrive; "+look)
	add(findings.MeshLoses, findings.Warning, losing, "one in eight probes without a tag is lost, or more: a full queue, or a cable or card that damages frames (csig mesh status --matrix has the shares)")
	add(findings.MeshFamilies, findings.Warning, mixed, "their addresses in the fleet file are of IPv4 and of IPv6, and so they do not probe each other: give all hosts addresses of one")
	add(findings.MeshStripsTags, findings.Warning, stripped, "tags are taken off on the way: a port strips, or its switch is not set up yet (csig plan)")
	add(findings.MeshDelaysTags, findings.Warning, late, "probes with a tag are delayed, and those without are not; "+look)
	add(findings.MeshReorders, findings.Warning, reordered, "probes with a tag and without change places: a hash takes in the tag, or another queue; "+look)
	add(findings.MeshStale, findings.Warning, stale, "the switch has no current signal: its agent is gone or stopped, or its counters do not come (csig status)")
	for _, ports := range slices.Sorted(maps.Keys(off)) {
		pairs := off[ports]
		f := c.example(findings.MeshOffPath, findings.Error, pairs, "")
		f.wait, f.about = c.readAgain(pairs), ports
		f.Reason = fmt.Sprintf("%s: their tags have the locator of %s, which is on no shortest path between them: a cable is not where the fleet file has it, or a rule is not csig's", pairsText(pairs), ports)
		out = append(out, f)
	}
	if !c.written && len(capable) > 0 {
		out = append(out, Finding{
			Code: findings.MeshUnwritten, Level: findings.Info, Ports: []string{}, Either: []string{}, Example: []string{},
			Reason: "no switch has written into a probe yet: the network is idle, or no switch updates tags (csig status there)",
			wait:   c.readAgain(capable),
		})
	}
	return c.lasting(append(out, c.askAgents(now, capable, read)...), now)
}

// least is the least that pairs read of a port.
type least struct {
	s     uint8
	pairs int
	first pairRef
}

// readings notes what a pair's paths read. buf is memory of its own.
func (c *Collector) readings(ref pairRef, rec *record, now time.Time, read []*least, off map[string][]pairRef, buf []*port) []*port {
	layout := c.fleet.Profile.Layout
	way := c.ways.between(ref.from, ref.to)
	for k, sig := range c.signals {
		f := c.worst(ref.from, rec, k, now)
		switch {
		case f == nil, f.lm == layout.LMNone(), f.lm == layout.LMStale():
			continue
		}
		ports := way.writers(buf[:0], sig, f.lm)
		buf = ports
		if len(ports) == 0 && len(way.hops) > 0 {
			var of []string
			for _, p := range c.ways.all {
				if p.is.LM[sig] == f.lm {
					of = append(of, p.String())
				}
			}
			where := strings.Join(of[:min(len(of), mostPlaces)], ", ")
			if len(of) == 0 {
				where = "no port of the fleet"
			}
			off[where] = append(off[where], ref)
		}
		if len(ports) != 1 {
			continue
		}
		at := &read[ports[0].number*len(c.signals)+k]
		if *at == nil {
			*at = &least{s: f.s, first: ref}
		}
		if sig.Worse(f.s, (*at).s) {
			(*at).s = f.s
		}
		(*at).pairs++
	}
	return buf
}

// extra is how much longer tagged probes of a pair take, by the path where that is most.
func (rec *record) extra() time.Duration {
	most := int32(0)
	for i := range rec.paths {
		most = max(most, rec.paths[i].extra)
	}
	return time.Duration(most) * time.Microsecond
}

// finding is one about pairs, at the switches that explain it.
func (c *Collector) finding(code findings.Code, level findings.Level, pairs, fine []pairRef, reason string) Finding {
	f := c.example(code, level, pairs, "")
	ports, devices := c.explain(pairs, fine)
	switch {
	case len(ports) == 1:
		f.Device, f.Ports = ports[0].Device, []string{ports[0].Port}
	case len(devices) == 1:
		f.Device = devices[0]
	case len(ports) > 0 && len(ports) <= mostPlaces:
		f.Either = names(ports)
	case len(devices) > 0 && len(devices) <= mostPlaces:
		f.Either = devices
	}
	f.Reason = pairsText(pairs) + ": " + reason
	return f
}

func (c *Collector) example(code findings.Code, level findings.Level, pairs []pairRef, reason string) Finding {
	return Finding{Code: code, Level: level, Ports: []string{}, Either: []string{}, Reason: reason, Pairs: len(pairs), Example: []string{c.hosts[pairs[0].from].Name, c.hosts[pairs[0].to].Name}}
}

func pairsText(pairs []pairRef) string {
	if len(pairs) == 1 {
		return "1 pair"
	}
	return fmt.Sprintf("%d pairs", len(pairs))
}

// explain names the ports that all frames of some pairs may pass and no frame of the others has to, and the
// switches of which the same is true.
func (c *Collector) explain(pairs, fine []pairRef) (ports []*port, devices []string) {
	may := make([]int, len(c.ways.all))
	passes := make(map[string]int)
	for _, ref := range pairs {
		way := c.ways.between(ref.from, ref.to)
		seen := make(map[string]bool)
		for _, hop := range way.hops {
			for _, p := range hop {
				may[p.number]++
				if !seen[p.Device] {
					seen[p.Device] = true
					passes[p.Device]++
				}
			}
		}
	}
	must, has := make([]bool, len(c.ways.all)), make(map[string]bool)
	for _, ref := range fine {
		for _, hop := range c.ways.between(ref.from, ref.to).hops {
			if len(hop) == 1 {
				must[hop[0].number] = true
			}
			if !slices.ContainsFunc(hop, func(p *port) bool { return p.Device != hop[0].Device }) {
				has[hop[0].Device] = true
			}
		}
	}
	for _, p := range c.ways.all {
		if may[p.number] == len(pairs) && !must[p.number] {
			ports = append(ports, p)
		}
	}
	for device, n := range passes {
		if n == len(pairs) && !has[device] {
			devices = append(devices, device)
		}
	}
	slices.Sort(devices)
	return ports, devices
}

// without is the pairs that are not among others; both are in order.
func without(all, others []pairRef) (out []pairRef) {
	for _, ref := range all {
		_, is := slices.BinarySearchFunc(others, ref, func(a, b pairRef) int { return cmp.Or(a.from-b.from, a.to-b.to) })
		if !is {
			out = append(out, ref)
		}
	}
	return out
}

// askAgents compares what hosts read with what agents write.
func (c *Collector) askAgents(now time.Time, capable []pairRef, read []*least) (out []Finding) {
	if now.Sub(c.agents.at) > c.silent()+10*time.Second {
		return nil // nobody asks them any more
	}
	// What a full port's pairs read is compared; of the others it is enough that there are some.
	status, full := make([]*api.Port, len(c.ways.all)), make([]bool, len(c.ways.all))
	for _, p := range c.ways.all {
		s := c.agents.byDevice[p.Device]
		if s == nil || s.Cycle.Hangs {
			continue
		}
		at := slices.IndexFunc(s.Ports, func(q api.Port) bool { return q.Port == p.Port })
		if at < 0 || s.Ports[at].State != api.StateLive {
			continue
		}
		status[p.number] = &s.Ports[at]
		for _, sig := range c.signals {
			s, writes := written(&s.Ports[at], sig)
			full[p.number] = full[p.number] || writes && c.limits(sig, s, p)
		}
	}
	some, passed := make([]bool, len(c.ways.all)), make([][]pairRef, len(c.ways.all)) // pairs whose frames may pass a port
	for _, ref := range capable {
		for _, hop := range c.ways.between(ref.from, ref.to).hops {
			for _, p := range hop {
				if some[p.number] = true; full[p.number] {
					passed[p.number] = append(passed[p.number], ref)
				}
			}
		}
	}
	silent := make(map[string]bool)
	for _, p := range c.ways.all {
		s, asked := c.agents.byDevice[p.Device]
		if !asked || !some[p.number] {
			continue
		}
		if s == nil || s.Cycle.Hangs {
			if !silent[p.Device] {
				silent[p.Device] = true
				out = append(out, Finding{
					Code: findings.MeshNoAgent, Level: findings.Error, Device: p.Device, Ports: []string{}, Either: []string{}, Example: []string{},
					Reason: "its agent does not answer, or completes no cycle: look at its process and its log", wait: 3*agentsEvery + c.silent(),
				})
			}
			continue
		}
		if status[p.number] == nil {
			continue
		}
		for k, sig := range c.signals {
			if s, writes := written(status[p.number], sig); writes {
				out = append(out, c.compare(p, k, sig, s, read[p.number*len(c.signals)+k], passed[p.number], now)...)
			}
		}
	}
	return out
}

// written is the S that a port's agent says it writes for a signal. Of a frame's delay or queue no agent knows what
// the device writes.
func written(p *api.Port, sig quantize.Signal) (s uint8, writes bool) {
	if !sig.Counted() {
		return 0, false
	}
	i := slices.IndexFunc(p.Signals, func(g api.Signal) bool { return g.Signal == sig.String() && !g.Stale })
	if i < 0 {
		return 0, false
	}
	return p.Signals[i].Bucket, true
}

// compare compares what a port's agent writes with what hosts read of it, and of whatever is on their way: they
// are the same but for a bucket, since neither is of the same moment.
func (c *Collector) compare(p *port, k int, sig quantize.Signal, writes uint8, read *least, passed []pairRef, now time.Time) (out []Finding) {
	buckets := c.fleet.Profile.Signals[sig].Buckets
	apart := func(a, b uint8) bool { return sig.Worse(a, b) && max(a, b)-min(a, b) > 1 }
	if read != nil && apart(read.s, writes) && !c.isFull(sig, writes, p) {
		f := c.example(findings.MeshNamesIdle, findings.Error, []pairRef{read.first}, fmt.Sprintf("%s: hosts read %s of it, and its agent writes %s: a rule is not as csig wrote it, or another switch has its locator",
			sig, buckets.FormatRange(read.s), buckets.FormatRange(writes)))
		f.Device, f.Ports, f.Pairs, f.wait = p.Device, []string{p.Port}, read.pairs, c.readAgain([]pairRef{read.first})
		out = append(out, f)
	}
	if !c.limits(sig, writes, p) {
		return out
	}
	best := uint8(0)
	for i, ref := range passed {
		f := c.worst(ref.from, c.pairs[ref.from][ref.to], k, now)
		if f == nil || f.lm == c.fleet.Profile.Layout.LMStale() || !apart(writes, f.s) {
			return out // one has read as little, or nothing that counts
		}
		if i == 0 || sig.Worse(f.s, best) {
			best = f.s
		}
	}
	f := c.example(findings.MeshMissesFull, findings.Error, passed, fmt.Sprintf("%s: its agent writes %s, and none of %s that may pass it reads less than %s: its rules do not hold, or frames go by another way",
		sig, buckets.FormatRange(writes), pairsText(passed), buckets.FormatRange(best)))
	f.Device, f.Ports, f.wait = p.Device, []string{p.Port}, c.readAgain(passed)
	return append(out, f)
}

// lasting is the findings that there have been for long enough to be no moment between two readings.
func (c *Collector) lasting(list []Finding, now time.Time) (out []Finding) {
	is := make(map[string]bool)
	for _, f := range list {
		key := fmt.Sprint("finds ", f.Code, " ", f.Device, f.Ports, f.about)
		is[key] = true
		if c.since[key].IsZero() {
			c.since[key] = now
		}
		f.Since = c.since[key]
		if now.Sub(f.Since) >= f.wait {
			out = append(out, f)
		}
	}
	for key := range c.since {
		if strings.HasPrefix(key, "finds ") && !is[key] {
			delete(c.since, key)
		}
	}
	slices.SortStableFunc(out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(levelOf(a.Level), levelOf(b.Level)), cmp.Compare(b.Pairs, a.Pairs), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Device, b.Device))
	})
	return out
}

func levelOf(l findings.Level) int {
	return slices.Index([]findings.Level{findings.Error, findings.Warning, findings.Info}, l)
}

// readAgain is how long it may take until all paths of pairs were read once more: readings that are not of the same time are
// compared.
func (c *Collector) readAgain(pairs []pairRef) (out time.Duration) {
	for _, ref := range pairs {
		out = max(out, c.oldest(ref.from))
	}
	return out + c.silent()
}
