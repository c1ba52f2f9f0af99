package sonic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/protocol/sonicdb"
)

// The statuses of orchagent that csig tells apart (orchagent/return_code.h).
const (
	rcSuccess       = "SWSS_RC_SUCCESS"
	rcFull          = "SWSS_RC_FULL"
	rcNoMemory      = "SWSS_RC_NO_MEMORY"
	rcNotFound      = "SWSS_RC_NOT_FOUND"
	rcInvalid       = "SWSS_RC_INVALID_PARAM"
	rcUnimplemented = "SWSS_RC_UNIMPLEMENTED"
	rcNotExecuted   = "SWSS_RC_NOT_EXECUTED"
)

// ErrFull is in the error of a port whose entries do not fit the table.
var ErrFull = errors.New("the switch has no room for another ACL entry")

// ErrSilent is in the error of what orchagent did not answer in time.
var ErrSilent = errors.New("orchagent does not answer")

// errUnbegun is of what was not sent since orchagent is silent, errSlow of what has
// no time left in this cycle.
var (
	errUnbegun = fmt.Errorf("%w: nothing more is sent to it in this cycle", ErrSilent)
	errSlow    = errors.New("orchagent is slow: this cycle's time is over, and the change has its turn in the next one")
)

// StatusError is what orchagent answered.
type StatusError struct {
	Status  string // SWSS_RC_…
	Message string
}

func (e *StatusError) Error() string {
	if e.Message == "" {
		return "orchagent answers " + e.Status
	}
	return "orchagent answers " + e.Status + ": " + e.Message
}

// Unwrap is ErrFull for the statuses of a table without room.
func (e *StatusError) Unwrap() error {
	if e.Status == rcFull || e.Status == rcNoMemory {
		return ErrFull
	}
	return nil
}

// tableThere reports whether orchagent refused to define a table since it has it: a
// definition cannot change (orchagent/p4orch/acl_table_manager.cpp). A SAI that has
// no such table is told by the same status, in other words.
func (e *StatusError) tableThere() bool {
	return e.Status == rcUnimplemented && strings.Contains(e.Message, "CREATE_ONLY")
}

// notThere reports whether orchagent refused to delete what it does not have. What begins
// with [SAI] it knows from SAI, and not by itself (orchagent/response_publisher.cpp,
// PrependedComponent).
func (e *StatusError) notThere(op rowOp) bool {
	known := e.Status == rcNotFound || e.Status == rcInvalid && op.key != definedTable // its table is not there either
	return op.to == nil && known && !strings.HasPrefix(e.Message, "[SAI]")
}

// rowOp is one change of a row of P4RT_TABLE.
type rowOp struct {
	key string // below P4RT_TABLE
	to  row    // nil deletes it
	was row    // what orchagent has where it refuses; nil: nothing
}

// chain is operations that have to be carried out in their order, each only
// when the one before was.
type chain struct {
	port string // "" where they are not of one
	ops  []rowOp

	done    int   // how many were carried out
	err     error // why the next one was not
	unknown bool  // the next one was taken, and its outcome is unknown

	until time.Time // it does not begin later; zero is no bound
	due   time.Time // when the answer to ops[done] is late
	tries int       // of ops[done]
}

// notExecutedTries is how often an operation is sent again of which orchagent
// says that it was not tried since another one failed (P4Orch stops a batch at
// its first failure since SONiC 202511).
const notExecutedTries = 16

// orchWindow is how many operations wait for an answer at a time. orchagent
// fetches more at once: its -b, 1024 or 8192 where SONiC starts it (sonic-buildimage
// dockers/docker-orchagent/orchagent.sh; sonic-swss orchagent/orch.cpp, gBatchSize).
const orchWindow = 64

// orchSession is a session with orchagent: rows go out, answers come in.
type orchSession struct {
	wire
	sub      *sonicdb.Subscription // of the answers' channel: it shows that this csig is here
	patience time.Duration         // for one answer
}

// exchange is one run of a session: chains that go out, and their answers.
type exchange struct {
	*orchSession
	window int

	left    []*chain          // that have not begun
	again   []*chain          // whose next operation is to go out
	under   map[string]*chain // by the key under way
	silent  bool              // orchagent did not answer something in time
	overdue int               // how many messages came since an answer was late
}

// run carries out chains, several side by side, the first ones first. Once orchagent
// was silent no other chain begins: each would wait as long again. The error
// is for all of them: a connection was lost, or ctx ended; then chains with an
// operation under way are unknown.
func (t *orchSession) run(ctx context.Context, chains []*chain, window int) error {
	x := exchange{orchSession: t, window: window, left: chains, under: map[string]*chain{}}
	defer func() {
		for _, c := range x.under {
			c.unknown = true
		}
	}()
	for {
		if err := x.send(ctx); err != nil || len(x.under) == 0 {
			return err
		}
		if err := x.receive(ctx); err != nil {
			return err
		}
	}
}

// send sends the next operations.
func (x *exchange) send(ctx context.Context) error {
	next := x.again
	for x.again = nil; len(x.left) > 0 && (len(next)+len(x.under) < x.window || x.silent); x.left = x.left[1:] {
		switch c := x.left[0]; {
		case len(c.ops) == 0:
		case x.silent:
			c.err = errUnbegun
		case !c.until.IsZero() && time.Now().After(c.until):
			c.err = errSlow
		default:
			next = append(next, c)
		}
	}
	if len(next) == 0 {
		return nil
	}
	var batch []rowOp
	due := time.Now().Add(x.patience)
	for _, c := range next {
		op := c.ops[c.done]
		batch, x.under[op.key] = append(batch, op), c
		c.tries++
		c.due = due
	}
	return x.wire.send(ctx, batch)
}

// lateMessages is how many messages are looked at after an answer is late.
const lateMessages = 1 << 10

// receive waits for an answer, or until one is late.
func (x *exchange) receive(ctx context.Context) error {
	first := slices.MinFunc(slices.Collect(maps.Values(x.under)), func(a, b *chain) int { return a.due.Compare(b.due) })
	patience := time.Until(first.due)
	switch {
	case patience > 0:
		x.overdue = 0
	case x.overdue == lateMessages: // messages of others without an end do not put it off
		return x.giveUp(ctx)
	default: // an answer may wait behind what came while this machine stood still
		x.overdue++
		patience = time.Millisecond
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case msg, ok := <-x.answers():
		if !ok {
			return x.why()
		}
		rs, last, err := x.parse(msg)
		for i := range rs {
			x.answered(&rs[i])
		}
		if last {
			x.unanswered()
		}
		return err
	case <-late.C:
		return x.giveUp(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answered takes in an answer, unless it is another program's, or to an earlier
// operation on the same row that came late.
func (x *exchange) answered(r *response) {
	c := x.under[r.key]
	if c == nil || !maps.Equal(r.fields, c.ops[c.done].to) {
		return
	}
	delete(x.under, r.key)
	switch {
	case r.status.Status == rcSuccess:
		c.done++
		c.tries = 0
		if c.done < len(c.ops) {
			x.again = append(x.again, c)
		}
	case r.status.Status == rcNotExecuted && c.tries < notExecutedTries:
		x.again = append(x.again, c)
	default:
		c.err = &r.status
	}
}

// unanswered ends what no answer will come for any more.
func (x *exchange) unanswered() {
	for key, c := range x.under {
		delete(x.under, key)
		x.silent = true
		c.err, c.unknown = fmt.Errorf("%w for this row in its answer to several: outcome unknown", ErrSilent), true
	}
}

// giveUp takes back what orchagent was too late for. What it has not fetched is
// not carried out any more; the outcome of what it has fetched is unknown.
func (x *exchange) giveUp(ctx context.Context) error {
	x.overdue = 0
	keys := slices.DeleteFunc(sortedKeys(x.under), func(key string) bool { return time.Now().Before(x.under[key].due) })
	if len(keys) == 0 {
		return nil
	}
	x.silent = true
	withdrawn, err := x.withdraw(ctx, keys)
	if err != nil {
		return err
	}
	for i, key := range keys {
		c := x.under[key]
		delete(x.under, key)
		if withdrawn[i] {
			c.err = fmt.Errorf("%w for %v: the change is taken back", ErrSilent, x.patience)
			continue
		}
		c.err, c.unknown = fmt.Errorf("%w for %v to what it has fetched: outcome unknown", ErrSilent, x.patience), true
	}
	return nil
}

// lost reports whether a connection has ended, or is of no use. Messages of others that wait
// at Redis are dropped, as many as may have come since the last cycle.
func (t *orchSession) lost() bool { return t.wire.lost() || !drain(t.sub) }

// drain drops what waits, and reports whether the subscription holds.
func drain(sub *sonicdb.Subscription) bool {
	for range lateMessages {
		select {
		case _, ok := <-sub.C:
			if !ok {
				return false
			}
		default:
			return true
		}
	}
	return true
}
