package sonic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
)

// What a ProducerStateTable uses (sonic-swss-common common/table.h,
// common/producerstatetable.cpp and common/consumer_state_table_pops.lua): the
// keys that wait, those of them that are to be deleted first, the rows that wait,
// and the channel that wakes the consumer.
const (
	keySet    = p4rtTable + "_KEY_SET"
	delSet    = p4rtTable + "_DEL_SET"
	waiting   = "_" + p4rtTable + ":" // getStateHashPrefix and the key
	rows      = p4rtTable + ":"
	responses = "APPL_DB_" + p4rtTable + "_RESPONSE_CHANNEL" // orchagent/response_publisher.cpp
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

// tableThere tells whether orchagent refused to define a table since it has it: a
// definition cannot change (orchagent/p4orch/acl_table_manager.cpp). A SAI that has
// no such table is told by the same status, in other words.
func (e *StatusError) tableThere() bool {
	return e.Status == rcUnimplemented && strings.Contains(e.Message, "CREATE_ONLY")
}

// bySAI tells whether it was SAI that refused, and not orchagent by what it knows
// (orchagent/response_publisher.cpp, PrependedComponent).
func (e *StatusError) bySAI() bool { return strings.HasPrefix(e.Message, "[SAI]") }

// rowOp is one change of a row of P4RT_TABLE.
type rowOp struct {
	key    string   // below P4RT_TABLE
	fields []string // nil deletes it
}

// setRow is what a ProducerStateTable sends for the rows of one batch: all of it
// or nothing, as its Lua scripts do.
func setRows(channel string, batch []rowOp) [][]string {
	out := [][]string{{sonicdb.Appl, "MULTI"}}
	for _, op := range batch {
		out = append(out, []string{sonicdb.Appl, "SADD", keySet, op.key})
		if op.fields == nil {
			out = append(out, []string{sonicdb.Appl, "SADD", delSet, op.key}, []string{sonicdb.Appl, "DEL", waiting + op.key})
			continue
		}
		out = append(out, append([]string{sonicdb.Appl, "HSET", waiting + op.key}, op.fields...))
	}
	return append(out, []string{sonicdb.Appl, "PUBLISH", channel, "G"}, []string{sonicdb.Appl, "EXEC"})
}

// chain is operations that have to be carried out in their order, each only
// when the one before was.
type chain struct {
	port string
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
	db       *sonicdb.Client
	sub      *sonicdb.Subscription
	channel  string        // that wakes P4Orch
	patience time.Duration // for one answer
	now      func() time.Time
}

// newOrchSession listens for answers. It refuses where no process reads P4RT_TABLE from
// Redis, and where another client waits for the answers.
func newOrchSession(ctx context.Context, db *sonicdb.Client, patience time.Duration, now func() time.Time) (*orchSession, error) {
	layout, err := db.Layout(ctx)
	if err != nil {
		return nil, err
	}
	id, err := layout.ID(sonicdb.Appl)
	if err != nil {
		return nil, err
	}
	t := &orchSession{db: db, channel: channelOf(id), patience: patience, now: now}
	if err := t.checkListeners(ctx); err != nil {
		return nil, err
	}
	if t.sub, err = db.Subscribe(ctx, responses, sonicdb.Appl, sonicdb.ApplState); err != nil {
		return nil, err
	}
	if err := t.checkListeners(ctx); err != nil { // of two that begin together, each sees the other now
		t.close()
		return nil, err
	}
	return t, nil
}

// channelOf is the channel of P4RT_TABLE in the APPL_DB of this number.
func channelOf(id int) string { return p4rtTable + "_CHANNEL@" + strconv.Itoa(id) }

// orchState is what the databases tell of orchagent.
type orchState struct {
	p4rt, ports int  // how many take rows of P4RT_TABLE, and of PORT_TABLE
	waiting     int  // how many wait for answers, we among them
	ready       bool // it has made its ports, and answers
}

// running tells whether it takes rows of any kind; onlyPorts, whether of no P4RT_TABLE.
func (o *orchState) running() bool   { return o.p4rt > 0 || o.ports > 0 }
func (o *orchState) onlyPorts() bool { return o.p4rt == 0 && o.ports > 0 }

// portInit is written when all ports of the configuration are made: before, P4Orch
// takes rows and leaves them (sonic-swss portsyncd/portsyncd.cpp; orchagent/p4orch/p4orch.cpp,
// doTask: allPortsReady). It goes with APPL_DB at a cold start.
const portInit = "PORT_TABLE:PortInitDone"

// errStarting is of an orchagent that has not made its ports.
var errStarting = fmt.Errorf("%w yet: it is starting, and makes its ports first (APPL_DB has no %s)", ErrSilent, portInit)

// orchPause is between two looks at an orchagent that starts.
const orchPause = 100 * time.Millisecond

func (t *orchSession) orchagent(ctx context.Context) (orchState, error) {
	ports := "PORT_TABLE_CHANNEL" + t.channel[len(p4rtTable+"_CHANNEL"):]
	answers, err := t.db.Do(ctx, []string{sonicdb.Appl, "PUBSUB", "NUMSUB", t.channel, ports, responses}, []string{sonicdb.Appl, "EXISTS", portInit})
	if err == nil {
		err = firstError(answers)
	}
	if err != nil {
		return orchState{}, err
	}
	n, err := numSub(answers[0])
	return orchState{p4rt: n[t.channel], ports: n[ports], waiting: n[responses], ready: answers[1] == int64(1)}, err
}

// checkListeners checks that P4Orch takes rows from Redis, and that no other client
// writes them.
func (t *orchSession) checkListeners(ctx context.Context) error {
	o, err := t.orchagent(ctx)
	for end := t.now().Add(t.patience); err == nil && o.onlyPorts() && o.ready && t.now().Before(end); {
		// A warm restart finds its ports made, and subscribes one table after the other.
		if err = wait(ctx, orchPause); err == nil {
			o, err = t.orchagent(ctx)
		}
	}
	if err != nil {
		return err
	}
	others := o.waiting
	if t.sub != nil {
		others--
	}
	switch {
	case o.running() && !o.ready:
		return errStarting
	case o.onlyPorts():
		return &vendors.PermanentError{Err: errors.New("its orchagent does not take P4RT_TABLE from Redis: SONiC 202605 and later take it over ZeroMQ (ipc:///zmq_swss/p4orch_zmq_swss_ep), which csig does not speak, and images without P4Orch not at all; csig needs 202205 to 202511")}
	case o.p4rt == 0:
		return t.noListener(ctx)
	case o.p4rt > 1:
		return &vendors.PermanentError{Err: fmt.Errorf("%d programs listen to %s: they would take rows from each other", o.p4rt, t.channel)}
	case others > 0:
		answers, err := t.db.Do(ctx, []string{sonicdb.Appl, "CLIENT", "LIST", "TYPE", "pubsub"})
		if err != nil {
			return err
		}
		list, _ := redis.String(answers[0], nil) // "" where Redis has no such command
		if t.sub != nil {
			others++ // we are among those of our name
		}
		if strings.Count(list, " name="+sonicdb.ClientName+" ") >= others {
			return &vendors.PermanentError{Err: errOtherCSIG}
		}
		return &vendors.PermanentError{Err: fmt.Errorf("another program waits for orchagent's answers on %s, most likely p4rt_app, which takes P4RT_TABLE for its own and fails over answers to others: stop it (config feature state p4rt disabled)", responses)}
	}
	return nil
}

// noListener is the error of a switch where no process takes P4RT_TABLE: it names
// where APPL_DB was expected, and whether anything is there.
func (t *orchSession) noListener(ctx context.Context) error {
	layout, err := t.db.Layout(ctx)
	if err != nil {
		return err
	}
	what := "is the swss container running?"
	if answers, err := t.db.Do(ctx, []string{sonicdb.Appl, "DBSIZE"}); err == nil && answers[0] == int64(0) {
		what = "that database is empty: is it the right one, and is the swss container running?"
	}
	return fmt.Errorf("no process listens to %s, which is APPL_DB's by %s: %w; %s", t.channel, layout.From, ErrSilent, what)
}

var errOtherCSIG = errors.New("another csig writes this switch's entries: where it is csig agent on the switch, drive it through that (management: daemon), or stop it first")

func numSub(answer any) (map[string]int, error) {
	list, err := redis.Values(answer, nil)
	if err != nil || len(list)%2 != 0 {
		return nil, fmt.Errorf("PUBSUB NUMSUB: %w", cmp.Or(err, errors.ErrUnsupported))
	}
	out := map[string]int{}
	for i := 0; i < len(list); i += 2 {
		name, err1 := redis.String(list[i], nil)
		n, err2 := redis.Int(list[i+1], nil)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("PUBSUB NUMSUB: %w", err)
		}
		out[name] = n
	}
	return out, nil
}

func (t *orchSession) close() {
	if t.sub != nil {
		t.sub.Close()
	}
}

// run carries out chains, several side by side, the first ones first. Once orchagent
// was silent no other chain begins: each would wait as long again. The error
// is for all of them: a connection was lost, or ctx ended; then chains with an
// operation under way are unknown.
func (t *orchSession) run(ctx context.Context, chains []*chain, window int) error {
	next := 0
	under := map[string]*chain{} // by the key under way
	defer func() {
		for _, c := range under {
			c.unknown = true
		}
	}()
	var again []*chain
	silent, overdue := false, 0
	for {
		var batch []rowOp
		send := func(c *chain) {
			op := c.ops[c.done]
			batch, under[op.key] = append(batch, op), c
			c.tries++
			c.due = t.now().Add(t.patience)
		}
		for _, c := range again {
			send(c)
		}
		again = again[:0]
		for ; next < len(chains) && (len(under) < window || silent); next++ {
			switch c := chains[next]; {
			case len(c.ops) == 0:
			case silent:
				c.err = errUnbegun
			case !c.until.IsZero() && t.now().After(c.until):
				c.err = errSlow
			default:
				send(c)
			}
		}
		if len(batch) > 0 {
			answers, err := t.db.Do(ctx, setRows(t.channel, batch)...)
			if err == nil {
				err = firstError(answers)
			}
			if err != nil {
				return err
			}
		}
		if len(under) == 0 {
			return nil
		}
		patience := t.soonest(under).Sub(t.now())
		switch {
		case patience > 0:
			overdue = 0
		case overdue == lateMessages: // messages of others without an end do not put it off
			n := len(under)
			if err := t.giveUp(ctx, under); err != nil {
				return err
			}
			silent, overdue = silent || len(under) < n, 0
			continue
		default: // an answer may wait behind what came while this machine stood still
			overdue++
			patience = time.Millisecond
		}
		late := time.NewTimer(patience)
		select {
		case msg, ok := <-t.sub.C:
			late.Stop()
			if !ok {
				return errors.New("the switch's Redis: the connection on which answers come was lost")
			}
			r, err := parseResponse(msg)
			if err != nil {
				continue // not orchagent's
			}
			c := under[r.key]
			if c == nil || !r.answers(c.ops[c.done]) {
				continue // another program's, or one that came late
			}
			delete(under, r.key)
			switch {
			case r.code == rcSuccess:
				c.done++
				c.tries = 0
				if c.done < len(c.ops) {
					again = append(again, c)
				}
			case r.code == rcNotExecuted && c.tries < notExecutedTries:
				again = append(again, c)
			default:
				c.err = &StatusError{Status: r.code, Message: r.message}
			}
		case <-late.C:
			n := len(under)
			if err := t.giveUp(ctx, under); err != nil {
				return err
			}
			silent = silent || len(under) < n
		case <-ctx.Done():
			late.Stop()
			return context.Cause(ctx)
		}
	}
}

// lateMessages is how many messages are looked at after an answer is late.
const lateMessages = 1 << 10

// soonest is when the first answer is late.
func (t *orchSession) soonest(under map[string]*chain) time.Time {
	var first time.Time
	for _, c := range under {
		if first.IsZero() || c.due.Before(first) {
			first = c.due
		}
	}
	return first
}

// giveUp takes back what orchagent was too late for. What it has not fetched is
// not carried out any more; the outcome of what it has fetched is unknown.
func (t *orchSession) giveUp(ctx context.Context, under map[string]*chain) error {
	var keys []string
	for key, c := range under {
		if !t.now().Before(c.due) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	cmds := [][]string{{sonicdb.Appl, "MULTI"}}
	for _, key := range keys {
		cmds = append(cmds, []string{sonicdb.Appl, "SREM", keySet, key}, []string{sonicdb.Appl, "SREM", delSet, key}, []string{sonicdb.Appl, "DEL", waiting + key})
	}
	answers, err := t.db.Do(ctx, append(cmds, []string{sonicdb.Appl, "EXEC"})...)
	if err == nil {
		err = firstError(answers)
	}
	if err != nil || len(keys) == 0 {
		return err
	}
	removed, err := redis.Ints(answers[len(answers)-1], nil)
	if err != nil || len(removed) != 3*len(keys) {
		return fmt.Errorf("EXEC: %w", cmp.Or(err, errors.ErrUnsupported))
	}
	for i, key := range keys {
		c := under[key]
		delete(under, key)
		if removed[3*i] == 1 {
			c.err = fmt.Errorf("%w for %v: the change is taken back", ErrSilent, t.patience)
			continue
		}
		c.err, c.unknown = fmt.Errorf("%w for %v to what it has fetched: it is not known what came of it", ErrSilent, t.patience), true
	}
	return nil
}

// answers tells whether a response is to this operation, and not to an earlier
// one on the same row that came late.
func (r *response) answers(op rowOp) bool {
	if len(r.fields) != len(op.fields) {
		return false
	}
	for i := 0; i < len(op.fields); i += 2 {
		at := slices.Index(r.fields, op.fields[i])
		if at < 0 || at%2 != 0 || r.fields[at+1] != op.fields[i+1] {
			return false
		}
	}
	return true
}

// firstError is the first refusal among answers; those in a transaction come
// within EXEC's.
func firstError(answers []any) error {
	for _, a := range answers {
		switch a := a.(type) {
		case redis.Error:
			return fmt.Errorf("it refuses: %w", a)
		case []any:
			if err := firstError(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// lost tells whether the connection on which answers come has ended. Messages of
// others that wait there are dropped, as many as may have come since the last cycle.
func (t *orchSession) lost() bool {
	for range lateMessages {
		select {
		case _, ok := <-t.sub.C:
			if !ok {
				return true
			}
		default:
			return false
		}
	}
	return false
}
