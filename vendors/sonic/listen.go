package sonic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/protocol/sonicmq"
	"github.com/csig-agent/csig/vendors"
)

// listen opens the session with orchagent. It refuses where no process takes
// P4RT_TABLE, and where another client writes it.
func (d *Driver) listen(ctx context.Context) error {
	if d.session != nil {
		if !d.session.lost() {
			return nil
		}
		d.hangUp()
	}
	if d.parked != nil && !drain(d.parked) {
		d.leave()
	}
	id, err := d.applID(ctx)
	if err != nil {
		return err
	}
	mq, err := d.checkListeners(ctx)
	for try := 0; try < lingerTries && d.lingers && (errors.Is(err, errEnded) || vendors.IsPermanent(err)) && vendors.Wait(ctx, lingerPause) == nil; try++ {
		mq, err = d.checkListeners(ctx)
	}
	d.lingers = false
	if err != nil {
		d.leave()
		return err
	}
	sub := d.parked
	if d.parked = nil; sub == nil {
		sub, err = d.db.Subscribe(ctx, responses, sonicdb.Appl, sonicdb.ApplState)
	}
	if err != nil {
		if mq != nil {
			mq.Close()
		}
		return err
	}
	d.session = &orchSession{sub: sub, patience: d.cfg.Patience}
	if mq != nil {
		d.session.wire = mqWire{mq}
	} else {
		d.session.wire = &redisWire{db: d.db, sub: sub, channel: channelOf(id)}
	}
	moved, err := d.checkListeners(ctx) // of two that begin together, each sees the other now
	if moved != nil {
		moved.Close()
		err = fmt.Errorf("orchagent takes rows over ZeroMQ, and no longer those of %s: csig looks again", channelOf(id))
	}
	if err != nil {
		d.hangUp()
		d.leave()
		return err
	}
	if mq != nil {
		err = d.fence(ctx)
	}
	if err == nil {
		err = d.waitStable(ctx)
	}
	if err != nil {
		d.hangUp()
	}
	return err
}

// Redis notices a moment later that a connection has ended: until then this driver's own former
// session is taken for another program's.
const (
	lingerTries = 50
	lingerPause = 10 * time.Millisecond
)

// await is listen, which waits for an orchagent that is starting.
func (d *Driver) await(ctx context.Context) error {
	err := d.listen(ctx)
	for end := time.Now().Add(d.starting); errors.Is(err, errStarting) && time.Now().Before(end); {
		if vendors.Wait(ctx, orchPause) != nil {
			return err // which says more than that the time is over
		}
		if next := d.listen(ctx); next == nil || ctx.Err() == nil {
			err = next
		}
	}
	return err
}

// startPatience is how long orchagent may take to make its ports.
const startPatience = 3 * time.Minute

// channelOf is the channel of P4RT_TABLE in the APPL_DB of this number.
func channelOf(id int) string { return p4rtTable + "_CHANNEL@" + strconv.Itoa(id) }

// orchState is what the databases tell of orchagent.
type orchState struct {
	channel     string // that wakes P4Orch
	p4rt, ports int    // how many take rows of P4RT_TABLE, and of PORT_TABLE, from Redis
	waiting     int    // how many wait for answers, we among them
	p4rtApp     int    // how many wait for answers to what p4rt_app alone asks
	ready       bool   // it has made its ports, and answers
}

// running reports whether it takes rows of any kind; onlyPorts, whether of no P4RT_TABLE.
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

// orchagent is what the databases tell of it.
func (d *Driver) orchagent(ctx context.Context) (orchState, error) {
	id, err := d.applID(ctx)
	if err != nil {
		return orchState{}, err
	}
	p4rt, ports := channelOf(id), "PORT_TABLE_CHANNEL@"+strconv.Itoa(id)
	answers, err := d.db.All(ctx, []string{sonicdb.Appl, "PUBSUB", "NUMSUB", p4rt, ports, responses, appResponses}, []string{sonicdb.Appl, "EXISTS", portInit})
	if err != nil {
		return orchState{}, err
	}
	n, err := redis.IntMap(answers[0], nil)
	if err != nil {
		return orchState{}, fmt.Errorf("PUBSUB NUMSUB: %w", err)
	}
	return orchState{channel: p4rt, p4rt: n[p4rt], ports: n[ports], waiting: n[responses], p4rtApp: n[appResponses], ready: answers[1] == int64(1)}, nil
}

// applID is the number of APPL_DB.
func (d *Driver) applID(ctx context.Context) (int, error) {
	layout, err := d.db.Layout(ctx)
	if err != nil {
		return 0, err
	}
	return layout.ID(sonicdb.Appl)
}

// checkListeners checks that P4Orch takes rows, and that no other client writes them. Where
// it takes them over ZeroMQ and the session does not have that connection, it is returned.
func (d *Driver) checkListeners(ctx context.Context) (mq *sonicmq.Conn, err error) {
	defer func() {
		if err != nil && mq != nil {
			mq.Close()
			mq = nil
		}
	}()
	o, err := d.orchagent(ctx)
	over := d.session.overMQ()
	if err == nil && !over && o.onlyPorts() && o.ready {
		mq, o, err = d.findMQ(ctx)
	}
	if err != nil {
		return mq, err
	}
	over = over || mq != nil
	others, ours := o.waiting, 0
	if d.session != nil || d.parked != nil {
		others, ours = others-1, 1
	}
	if over {
		others += o.p4rtApp
	}
	switch {
	case o.running() && !o.ready:
		return mq, errStarting
	case over && o.p4rt > 0:
		return mq, fmt.Errorf("a process listens to %s since csig opened orchagent's ZeroMQ socket: csig looks again", o.channel)
	case over && o.ports > 0: // there
	case o.p4rt == 0:
		return mq, d.noListener(ctx, o.channel)
	case o.p4rt > 1:
		return mq, &vendors.PermanentError{Err: fmt.Errorf("%d programs listen to %s: they would take rows from each other", o.p4rt, o.channel)}
	}
	if others == 0 {
		return mq, nil
	}
	answers, err := d.db.Do(ctx, []string{sonicdb.Appl, "CLIENT", "LIST", "TYPE", "pubsub"})
	if err != nil {
		return mq, err
	}
	list, _ := redis.String(answers[0], nil) // "" where Redis has no such command
	if ours == 0 {                           // else it is another's to end this one's
		if any, err := d.db.EndOthers(ctx, list); any || err != nil {
			return mq, cmp.Or(err, errEnded)
		}
	}
	if strings.Count(list, " name="+sonicdb.ClientName+" ")+strings.Count(list, " name="+sonicdb.SharedName+" ") >= others+ours {
		return mq, &vendors.PermanentError{Err: errOtherCSIG}
	}
	channel := responses
	if over && o.p4rtApp > 0 {
		channel = appResponses
	}
	return mq, &vendors.PermanentError{Err: fmt.Errorf("another program waits for orchagent's answers on %s, most likely p4rt_app, which takes P4RT_TABLE for its own and fails over answers to others: stop it (config feature state p4rt disabled)", channel)}
}

// noListener is the error of a switch where no process takes P4RT_TABLE: it names
// where APPL_DB was expected, and whether anything is there.
func (d *Driver) noListener(ctx context.Context, channel string) error {
	layout, err := d.db.Layout(ctx)
	if err != nil {
		return err
	}
	what := "is the swss container running?"
	if answers, err := d.db.Do(ctx, []string{sonicdb.Appl, "DBSIZE"}); err == nil && answers[0] == int64(0) {
		what = "that database is empty: is it the right one, and is the swss container running?"
	}
	return fmt.Errorf("no process listens to %s, which is APPL_DB's by %s: %w; %s", channel, layout.From, ErrSilent, what)
}

// errEnded passes by itself: the next try finds none.
var errEnded = errors.New("the session of the switch's former owner was ended: csig goes on at its next cycle")

// errOtherCSIG passes, too: the one of a machine that was lost writes until sshd gives its connection up.
var errOtherCSIG error = otherCSIG{}

type otherCSIG struct{}

func (otherCSIG) Error() string {
	return "another csig writes this switch's entries: where it is csig agent on the switch, drive it through that (management: daemon), or stop it first"
}

func (otherCSIG) Unwrap() error { return &vendors.HeldError{By: "another csig"} }
