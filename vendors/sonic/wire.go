package sonic

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/protocol/sonicmq"
)

// wire is how rows reach P4Orch, and how its answers come back.
type wire interface {
	// send sends the rows of one batch.
	send(ctx context.Context, batch []rowOp) error

	// answers are messages for parse. It is closed when the connection is lost, and why
	// is the error then.
	answers() <-chan []byte
	why() error

	// parse reads a message. last is that what was sent and not answered by now is not
	// answered any more. After an error nothing is known of what was sent.
	parse(msg []byte) (rs []response, last bool, err error)

	// withdraw takes back what orchagent was sent and has not fetched: of each key whether.
	withdraw(ctx context.Context, keys []string) ([]bool, error)

	// lost is asked while nothing is under way.
	lost() bool
	close()
}

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

// redisWire is P4Orch up to SONiC 202511, a ConsumerStateTable.
type redisWire struct {
	db      *sonicdb.Client
	sub     *sonicdb.Subscription // the session's
	channel string                // that wakes P4Orch
}

// setRows is what a ProducerStateTable sends for the rows of one batch: all of it
// or nothing, as its Lua scripts do.
func setRows(channel string, batch []rowOp) [][]string {
	out := [][]string{{sonicdb.Appl, "MULTI"}}
	for _, op := range batch {
		out = append(out, []string{sonicdb.Appl, "SADD", keySet, op.key})
		if op.to == nil {
			out = append(out, []string{sonicdb.Appl, "SADD", delSet, op.key}, []string{sonicdb.Appl, "DEL", waiting + op.key})
			continue
		}
		out = append(out, append([]string{sonicdb.Appl, "HSET", waiting + op.key}, op.to.words()...))
	}
	return append(out, []string{sonicdb.Appl, "PUBLISH", channel, "G"}, []string{sonicdb.Appl, "EXEC"})
}

func (w *redisWire) send(ctx context.Context, batch []rowOp) error {
	_, err := w.db.All(ctx, setRows(w.channel, batch)...)
	return err
}

func (w *redisWire) answers() <-chan []byte { return w.sub.C }

func (w *redisWire) why() error {
	return errors.New("the switch's Redis: the connection on which answers come was lost")
}

func (w *redisWire) parse(msg []byte) ([]response, bool, error) {
	r, err := parseResponse(msg)
	if err != nil {
		return nil, false, nil // it is not orchagent's
	}
	return []response{r}, false, nil
}

func (w *redisWire) withdraw(ctx context.Context, keys []string) ([]bool, error) {
	cmds := [][]string{{sonicdb.Appl, "MULTI"}}
	for _, key := range keys {
		cmds = append(cmds, []string{sonicdb.Appl, "SREM", keySet, key}, []string{sonicdb.Appl, "SREM", delSet, key}, []string{sonicdb.Appl, "DEL", waiting + key})
	}
	answers, err := w.db.All(ctx, append(cmds, []string{sonicdb.Appl, "EXEC"})...)
	if err != nil {
		return nil, err
	}
	removed, err := redis.Ints(answers[len(answers)-1], nil)
	if err != nil || len(removed) != 3*len(keys) {
		return nil, fmt.Errorf("EXEC: %w", cmp.Or(err, errors.ErrUnsupported))
	}
	out := make([]bool, len(keys))
	for i := range keys {
		out[i] = removed[3*i] == 1
	}
	return out, nil
}

func (w *redisWire) lost() bool { return false } // it is the session's subscription
func (w *redisWire) close()     {}

// mqWire is P4Orch since SONiC 202605, behind a REP socket: one message at a time, and one
// answer to all rows of it.
type mqWire struct{ *sonicmq.Conn }

func (w mqWire) send(ctx context.Context, batch []rowOp) error {
	list := make([]sonicmq.Row, 0, len(batch))
	for _, op := range batch {
		r := sonicmq.Row{Key: op.key}
		for _, name := range sortedKeys(op.to) {
			r.Fields = append(r.Fields, [2]string{name, op.to[name]})
		}
		list = append(list, r)
	}
	body, err := sonicmq.Encode(sonicdb.Appl, p4rtTable, list)
	if err == nil {
		err = w.Send(ctx, body)
	}
	if err != nil {
		return fmt.Errorf("orchagent's ZeroMQ socket: %w", err)
	}
	return nil
}

func (w mqWire) answers() <-chan []byte { return w.C }

func (w mqWire) why() error {
	return fmt.Errorf("orchagent's ZeroMQ socket: the connection was lost: %w", cmp.Or(w.Err(), errors.New("csig closed it")))
}

// parse reads the answer to a message. Of each row it has as the first field the status and
// its text, and then the fields that were asked for (sonic-swss
// orchagent/response_publisher.cpp, publish).
func (w mqWire) parse(msg []byte) ([]response, bool, error) {
	database, table, list, err := sonicmq.Decode(msg)
	switch {
	case err != nil:
		return nil, true, fmt.Errorf("orchagent's answer: %w", err)
	case database != sonicdb.Appl || table != p4rtTable:
		return nil, true, fmt.Errorf("orchagent's answer: %w: it is of another table", sonicmq.ErrProtocol)
	}
	out := make([]response, 0, len(list))
	for _, r := range list {
		if len(r.Fields) == 0 {
			return nil, true, fmt.Errorf("orchagent's answer: %w: a row without a status", sonicmq.ErrProtocol)
		}
		fields := row{}
		for _, f := range r.Fields[1:] {
			fields[f[0]] = f[1]
		}
		out = append(out, newResponse(r.Fields[0][0], r.Key, r.Fields[0][1], fields))
	}
	return out, true, nil
}

// withdraw ends the connection: what was sent cannot be taken back, and is carried out
// later where orchagent has not ended. See fence.
func (w mqWire) withdraw(_ context.Context, keys []string) ([]bool, error) {
	w.Close()
	return make([]bool, len(keys)), nil
}

// lost is also of an answer to nothing: the next one would be taken for another's.
func (w mqWire) lost() bool {
	select {
	case <-w.C:
		return true
	default:
		return w.Closed()
	}
}

func (w mqWire) close() { w.Close() }
