package sonicdb

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/csig-agent/csig/vendors/untrusted"
)

// The most that csig takes from a Redis. redigo allocates what a length announces
// before any of it has come, and follows arrays within arrays with its stack, so
// lengths are checked before it sees them.
const (
	maxLine  = 64 << 10 // bytes of a line: a status, an error, a length
	maxBulk  = 1 << 20  // bytes of one value
	maxArray = 1 << 16  // elements of one array
	maxDepth = 8        // arrays within arrays
	maxReply = 8 << 20  // bytes that one reply costs in memory
	maxRound = 64 << 20 // and all replies of one round trip

	elementCost = 64 // bytes of memory that an element costs beside its text
	maxHeader   = 24 // bytes of a line that announces a length
)

// guard is a connection to Redis whose replies are checked, byte by byte as they
// come (Redis serialization protocol, version 2). What it has passed on once is
// within the limits; an error is final.
type guard struct {
	net.Conn

	err    error
	line   int             // bytes of the line so far
	head   [maxHeader]byte // and its beginning
	last   byte            // of the line so far
	body   int             // bytes of a value that are still to come
	tail   bool            // the next line is the empty one behind a value
	within [maxDepth]int   // elements still to come of each array, the outermost first
	depth  int
	reply  int // what this reply has cost
	round  int // what this round trip has cost; negative: it has no end, as a subscription
}

// endless is the round of a connection whose replies never end.
const endless = -1

// Read passes on what the connection has, or an error instead of it.
func (g *guard) Read(p []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.Conn.Read(p)
	if g.err = g.check(p[:n]); g.err != nil {
		return 0, g.err
	}
	return n, err
}

// begin is called before a round trip.
func (g *guard) begin() { g.round = 0 }

func (g *guard) check(p []byte) error {
	for len(p) > 0 {
		if g.body > 0 {
			n := min(g.body, len(p))
			g.body, p = g.body-n, p[n:]
			g.tail = g.body == 0
			continue
		}
		part, rest, whole := bytes.Cut(p, []byte{'\n'})
		p = rest
		if g.line < maxHeader {
			copy(g.head[g.line:], part)
		}
		if len(part) > 0 {
			g.line += len(part)
			g.last = part[len(part)-1]
		}
		switch {
		case g.line > maxLine:
			return tooMuch("a line", g.line, "bytes", maxLine)
		case !whole:
			return nil
		}
		if err := g.end(); err != nil {
			return err
		}
	}
	return nil
}

// end is at the end of a line.
func (g *guard) end() error {
	n, tail := g.line-1, g.tail // without its \r
	cr := g.last == '\r'
	g.line, g.last, g.tail = 0, 0, false
	switch {
	case n < 0 || !cr:
		return errNoRedis
	case tail && n == 0:
		return g.element(0)
	case tail || n == 0:
		return errNoRedis
	}
	switch kind := g.head[0]; kind {
	case '+', '-':
		return g.element(n)
	case ':':
		if n >= maxHeader {
			return errNoRedis
		}
		return g.element(0)
	case '$', '*':
		if n >= maxHeader {
			return errNoRedis
		}
		text := string(g.head[1:n])
		v, err := strconv.ParseUint(text, 10, 63)
		switch {
		case text == "-1":
			return g.element(0)
		case err != nil:
			return errNoRedis
		case kind == '*':
			return g.array(v)
		case v > maxBulk:
			return tooMuch("a value", v, "bytes", maxBulk)
		case v == 0:
			g.tail = true
			return nil
		}
		g.body = int(v)
		return g.cost(g.body)
	}
	return errNoRedis
}

func (g *guard) array(n uint64) error {
	switch {
	case n > maxArray:
		return tooMuch("an array", n, "elements", maxArray)
	case n == 0:
		return g.element(0)
	case g.depth == maxDepth:
		return tooMuch("a reply", maxDepth+1, "arrays within each other", maxDepth)
	}
	g.within[g.depth] = int(n)
	g.depth++
	return g.cost(int(n) * elementCost) // its elements are allocated at once
}

// element is at the end of an element that has this many bytes of text.
func (g *guard) element(text int) error {
	if err := g.cost(text); err != nil {
		return err
	}
	for g.depth > 0 {
		if g.within[g.depth-1]--; g.within[g.depth-1] > 0 {
			return nil
		}
		g.depth--
	}
	g.reply = 0
	return nil
}

func (g *guard) cost(n int) error {
	if g.depth == 0 {
		n += elementCost
	}
	if g.reply += n; g.reply > maxReply {
		return tooMuch("a reply", g.reply, "bytes", maxReply)
	}
	if g.round == endless {
		return nil
	}
	if g.round += n; g.round > maxRound {
		return tooMuch("the replies of one round trip", g.round, "bytes", maxRound)
	}
	return nil
}

func tooMuch[N int | uint64](what string, n N, unit string, most int) error {
	return fmt.Errorf("%w: %s of %d %s, more than %d", untrusted.ErrTooLong, what, n, unit, most)
}

var errNoRedis = errors.New("what answers there does not speak Redis' protocol")
