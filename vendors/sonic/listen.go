package sonic

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/sonic/sonicdb"
)

// listen opens the session with orchagent. It refuses where no process reads P4RT_TABLE
// from Redis, and where another client waits for the answers.
func (d *Driver) listen(ctx context.Context) error {
	if d.session != nil {
		return nil
	}
	id, err := d.applID(ctx)
	if err != nil {
		return err
	}
	if err := d.checkListeners(ctx); err != nil {
		return err
	}
	sub, err := d.db.Subscribe(ctx, responses, sonicdb.Appl, sonicdb.ApplState)
	if err != nil {
		return err
	}
	d.session = &orchSession{db: d.db, sub: sub, channel: channelOf(id), patience: d.cfg.Patience, now: d.cfg.Now}
	err = d.checkListeners(ctx) // of two that begin together, each sees the other now
	if err == nil {
		err = d.waitStable(ctx)
	}
	if err != nil {
		d.hangUp()
	}
	return err
}

// await is listen, which waits for an orchagent that is starting.
func (d *Driver) await(ctx context.Context) error {
	err := d.listen(ctx)
	for end := d.cfg.Now().Add(startPatience); errors.Is(err, errStarting) && d.cfg.Now().Before(end); {
		if wait(ctx, orchPause) != nil {
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
	p4rt, ports int    // how many take rows of P4RT_TABLE, and of PORT_TABLE
	waiting     int    // how many wait for answers, we among them
	ready       bool   // it has made its ports, and answers
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

// orchagent is what the databases tell of it.
func (d *Driver) orchagent(ctx context.Context) (orchState, error) {
	id, err := d.applID(ctx)
	if err != nil {
		return orchState{}, err
	}
	p4rt, ports := channelOf(id), "PORT_TABLE_CHANNEL@"+strconv.Itoa(id)
	answers, err := d.db.All(ctx, []string{sonicdb.Appl, "PUBSUB", "NUMSUB", p4rt, ports, responses}, []string{sonicdb.Appl, "EXISTS", portInit})
	if err != nil {
		return orchState{}, err
	}
	n, err := redis.IntMap(answers[0], nil)
	if err != nil {
		return orchState{}, fmt.Errorf("PUBSUB NUMSUB: %w", err)
	}
	return orchState{channel: p4rt, p4rt: n[p4rt], ports: n[ports], waiting: n[responses], ready: answers[1] == int64(1)}, nil
}

// applID is the number of APPL_DB.
func (d *Driver) applID(ctx context.Context) (int, error) {
	layout, err := d.db.Layout(ctx)
	if err != nil {
		return 0, err
	}
	return layout.ID(sonicdb.Appl)
}

// checkListeners checks that P4Orch takes rows from Redis, and that no other client
// writes them.
func (d *Driver) checkListeners(ctx context.Context) error {
	o, err := d.orchagent(ctx)
	for end := d.cfg.Now().Add(d.cfg.Patience); err == nil && o.onlyPorts() && o.ready && d.cfg.Now().Before(end); {
		// A warm restart finds its ports made, and subscribes one table after the other.
		if err = wait(ctx, orchPause); err == nil {
			o, err = d.orchagent(ctx)
		}
	}
	if err != nil {
		return err
	}
	others, ours := o.waiting, 0
	if d.session != nil {
		others, ours = others-1, 1
	}
	switch {
	case o.running() && !o.ready:
		return errStarting
	case o.onlyPorts():
		return &vendors.PermanentError{Err: errors.New("its orchagent does not take P4RT_TABLE from Redis: SONiC 202605 and later take it over ZeroMQ (ipc:///zmq_swss/p4orch_zmq_swss_ep), which csig does not speak, and images without P4Orch not at all; csig needs 202205 to 202511")}
	case o.p4rt == 0:
		return d.noListener(ctx, o.channel)
	case o.p4rt > 1:
		return &vendors.PermanentError{Err: fmt.Errorf("%d programs listen to %s: they would take rows from each other", o.p4rt, o.channel)}
	case others > 0:
		answers, err := d.db.Do(ctx, []string{sonicdb.Appl, "CLIENT", "LIST", "TYPE", "pubsub"})
		if err != nil {
			return err
		}
		list, _ := redis.String(answers[0], nil) // "" where Redis has no such command
		if strings.Count(list, " name="+sonicdb.ClientName+" ") >= others+ours {
			return &vendors.PermanentError{Err: errOtherCSIG}
		}
		return &vendors.PermanentError{Err: fmt.Errorf("another program waits for orchagent's answers on %s, most likely p4rt_app, which takes P4RT_TABLE for its own and fails over answers to others: stop it (config feature state p4rt disabled)", responses)}
	}
	return nil
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

var errOtherCSIG = errors.New("another csig writes this switch's entries: where it is csig agent on the switch, drive it through that (management: daemon), or stop it first")
