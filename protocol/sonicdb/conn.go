package sonicdb

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// The most that csig takes from a Redis. redigo's connections allocate what a length
// announces before any of it has come, and follow arrays within arrays with their stack.
const (
	maxLine  = 64 << 10 // bytes of a line: a status, an error, a length
	maxBulk  = 1 << 20  // bytes of one value
	maxArray = 1 << 16  // elements of one array
	maxDepth = 8        // arrays within arrays
	maxReply = 8 << 20  // bytes that one reply costs in memory
	maxRound = 64 << 20 // and all replies of one round trip

	elementCost = 64 // bytes of memory that an element costs beside its text
	maxDigits   = 20 // of a length
)

// conn is a connection to one Redis (Redis serialization protocol, version 2). An error
// is final. It has no deadlines, which those through SSH do not have: it is closed
// instead.
type conn struct {
	net.Conn
	in  *bufio.Reader
	out *bufio.Writer
	db  int // selected

	reply int // what this reply has cost
	round int // what this round trip has cost; negative: it has no end, as a subscription
}

// endless is the round of a connection whose replies never end.
const endless = -1

func newConn(c net.Conn) *conn {
	return &conn{Conn: c, in: bufio.NewReaderSize(c, maxLine+1), out: bufio.NewWriter(c)}
}

// send takes a command; the next flush reports what goes wrong with it.
func (c *conn) send(command ...string) {
	c.length('*', len(command))
	for _, word := range command {
		c.length('$', len(word))
		_, _ = c.out.WriteString(word) // as the others here
		_, _ = c.out.WriteString("\r\n")
	}
}

// length sends that of an array or of a text.
func (c *conn) length(kind byte, n int) {
	b := append(c.out.AvailableBuffer(), kind)
	_, _ = c.out.Write(append(strconv.AppendInt(b, int64(n), 10), "\r\n"...))
}

// ask sends one command, and returns its answer. A refusal is an error, too.
func (c *conn) ask(command ...string) (any, error) {
	c.send(command...)
	if err := c.out.Flush(); err != nil {
		return nil, err
	}
	answer, err := c.receive()
	if refused, ok := answer.(redis.Error); ok {
		return nil, refused
	}
	return answer, err
}

// receive reads a reply, as redigo has them: nil, int64, []byte, string, []any or
// redis.Error, which is a line that can be printed.
func (c *conn) receive() (any, error) {
	c.reply = 0
	if err := c.cost(elementCost); err != nil {
		return nil, err
	}
	return c.element(0)
}

func (c *conn) element(depth int) (any, error) {
	line, err := c.in.ReadSlice('\n')
	end := len(line) - len("\r\n")
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, tooMuch("a line", len(line), "bytes", maxLine)
	case err != nil:
		return nil, err
	case end < 1 || line[end] != '\r':
		return nil, errNoRedis
	}
	kind, text := line[0], string(line[1:end])
	switch kind {
	case '+':
		return text, c.cost(len(text))
	case '-':
		return readable(text), c.cost(len(text))
	case ':':
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			err = errNoRedis
		}
		return n, err
	case '$', '*':
		n, err := strconv.ParseUint(text, 10, 63)
		switch {
		case text == "-1":
			return nil, nil
		case err != nil || len(text) > maxDigits:
			return nil, errNoRedis
		case kind == '$':
			return c.value(n)
		}
		return c.array(n, depth)
	}
	return nil, errNoRedis
}

func (c *conn) value(n uint64) (any, error) {
	if n > maxBulk {
		return nil, tooMuch("a value", n, "bytes", maxBulk)
	}
	if err := c.cost(int(n)); err != nil {
		return nil, err
	}
	text := make([]byte, n+2)
	if _, err := io.ReadFull(c.in, text); err != nil {
		return nil, err
	}
	if string(text[n:]) != "\r\n" {
		return nil, errNoRedis
	}
	return text[:n], nil
}

func (c *conn) array(n uint64, depth int) (any, error) {
	switch {
	case n > maxArray:
		return nil, tooMuch("an array", n, "elements", maxArray)
	case depth == maxDepth:
		return nil, tooMuch("a reply", maxDepth+1, "arrays within each other", maxDepth)
	}
	if err := c.cost(int(n) * elementCost); err != nil { // they are allocated at once
		return nil, err
	}
	list := make([]any, n)
	for i := range list {
		var err error
		if list[i], err = c.element(depth + 1); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (c *conn) cost(n int) error {
	if c.reply += n; c.reply > maxReply {
		return tooMuch("a reply", c.reply, "bytes", maxReply)
	}
	if c.round == endless {
		return nil
	}
	if c.round += n; c.round > maxRound {
		return tooMuch("the replies of one round trip", c.round, "bytes", maxRound)
	}
	return nil
}

func tooMuch[N int | uint64](what string, n N, unit string, most int) error {
	return fmt.Errorf("%w: %s of %d %s, more than %d", untrusted.ErrTooLong, what, n, unit, most)
}

var errNoRedis = errors.New("what answers there does not speak Redis' protocol")
