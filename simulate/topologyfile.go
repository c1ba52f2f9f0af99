package simulate

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/csig-agent/csig/inventory"
)

// maxTopologyFile bounds a topology file, in bytes.
const maxTopologyFile = 64 << 20

// parseTopology reads a topology in the format of HPCC's public ns-3 code: a line with how many nodes, switches and cables
// there are; one with the numbers of the switches; and a line each cable: two nodes, rate, delay and error rate, which is 0.
func parseTopology(name string, data []byte) (*graph, error) {
	f := &topologyFile{name: name, lines: strings.Split(string(data), "\n")}
	head := f.next(3)
	nodes, switches, cables := f.number(head, 0, maxHosts+maxSwitches), f.number(head, 1, maxSwitches), f.number(head, 2, maxCables)
	if f.err == nil && (switches >= nodes || nodes-switches > maxHosts) {
		f.wrong(head, 1, "%d switches of %d nodes leave no number of hosts that there may be", switches, nodes)
	}
	list := f.next(switches)
	if f.err != nil {
		return nil, f.err
	}
	g := &graph{hosts: nodes - switches}
	node := make([]int32, nodes) // its number among hosts, or switches
	for i := range switches {
		if n := f.number(list, i, nodes-1); f.err == nil {
			if node[n] != 0 {
				f.wrong(list, i, "switch %d is there twice", n)
			}
			node[n] = int32(g.hosts + i)
			g.names = append(g.names, "node"+strconv.Itoa(n))
		}
	}
	host := int32(0)
	for i := range node {
		if node[i] == 0 {
			node[i] = host
			host++
		}
	}
	for range cables {
		one := f.next(5)
		a, b := f.number(one, 0, nodes-1), f.number(one, 1, nodes-1)
		rate, delay := f.rate(one, 2), f.delay(one, 3)
		if f.err == nil && a == b {
			f.wrong(one, 1, "a cable from node %d to itself", a)
		}
		if loss, err := strconv.ParseFloat(f.word(one, 4), 64); f.err == nil && (err != nil || loss != 0) {
			f.wrong(one, 4, "%q is not 0: no cable loses packets by chance", f.word(one, 4))
		}
		if f.err != nil {
			return nil, f.err
		}
		g.cable(node[a], node[b], rate, delay)
	}
	return g, f.err
}

// topologyFile reads words with their places, and keeps the first mistake.
type topologyFile struct {
	name  string
	lines []string
	line  int // that is read next
	err   error
}

// topologyLine is the words of a line.
type topologyLine struct {
	number  int
	words   []string
	columns []int
}

// next is the next line that is not empty, which has so many words.
func (f *topologyFile) next(words int) (l topologyLine) {
	for f.err == nil && f.line < len(f.lines) {
		text := f.lines[f.line]
		f.line++
		if l.words = strings.Fields(text); len(l.words) == 0 {
			continue
		}
		l.number = f.line
		at := 0
		for _, w := range l.words {
			at += strings.Index(text[at:], w)
			l.columns = append(l.columns, at+1)
			at += len(w)
		}
		if len(l.words) != words {
			f.wrong(l, 0, "it has %d words, and %d are needed", len(l.words), words)
		}
		return l
	}
	if f.err == nil {
		f.err = fmt.Errorf("%s:%d:1: the file ends before all that its first line promises", f.name, len(f.lines))
	}
	return l
}

func (f *topologyFile) wrong(l topologyLine, word int, format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("%s:%d:%d: %s", f.name, l.number, l.columns[word], fmt.Sprintf(format, args...))
	}
}

func (f *topologyFile) word(l topologyLine, i int) string {
	if f.err != nil {
		return ""
	}
	return l.words[i]
}

func (f *topologyFile) number(l topologyLine, i, most int) int {
	n, err := strconv.ParseUint(f.word(l, i), 10, 31)
	if f.err == nil && (err != nil || n > uint64(most)) {
		f.wrong(l, i, "%q is no number up to %d", f.word(l, i), most)
	}
	return int(n)
}

// rate reads 100Gbps.
func (f *topologyFile) rate(l topologyLine, i int) uint64 {
	text := f.word(l, i)
	rate, err := inventory.ParseSpeed(strings.TrimSuffix(text, "bps"))
	if f.err == nil && (err != nil || rate == 0) {
		f.wrong(l, i, "%q is no rate above 0: e.g. 100Gbps", text)
	}
	return rate
}

// delay reads 1000ns.
func (f *topologyFile) delay(l topologyLine, i int) time.Duration {
	text := f.word(l, i)
	d, err := time.ParseDuration(text)
	if f.err == nil && (err != nil || d < 0 || d > time.Second) {
		f.wrong(l, i, "%q is no delay from 0 to 1s: e.g. 1000ns", text)
	}
	return d
}

// WriteTopology writes the scenario's network in the format that file reads, without cables that are down.
func (s *Scenario) WriteTopology(w io.Writer) error {
	g := s.Topology.graph
	var b strings.Builder
	cables := slices.DeleteFunc(slices.Clone(g.cables), func(c cable) bool { return c.down })
	fmt.Fprintf(&b, "%d %d %d\n", g.nodes(), len(g.names), len(cables))
	for i := range g.names {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprint(&b, g.hosts+i)
	}
	b.WriteByte('\n')
	for i := range cables {
		c := &cables[i]
		fmt.Fprintf(&b, "%d %d %sbps %dns 0.000000\n", c.a, c.b, inventory.FormatSpeed(c.rate), c.delay/1000)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
