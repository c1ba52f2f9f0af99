package sonictest

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Release is what of SONiC's releases matters here.
type Release int

// The releases.
const (
	R202311 Release = iota // P4Orch reports in APPL_STATE_DB (202205 to 202311)
	R202405                // it reports in APPL_DB (202405 to 202505)
	R202511                // and stops at the first failure of a batch
	R202605                // it takes rows over ZeroMQ, in their order, and nothing but it writes them
)

// Switch is a fake of the swss container over a real Redis.
type Switch struct {
	stopping sync.Mutex // held while orchagent ends: it may end by itself, too

	Redis   *Redis
	Release Release

	// OnOp is called after every single operation on the ASIC, with the port of the
	// entry; nil for none.
	OnOp func(port string)
	// Refuse may refuse an operation with a status; del is a deletion. nil refuses
	// none.
	Refuse func(key string, del bool) string
	// Mute takes what it is told and carries it out, and answers nothing for the
	// keys it says: over ZeroMQ the answer to a message lacks them, or does not come.
	Mute func(key string) bool

	// Lie answers success for the keys it says, and neither does nor reports
	// anything.
	Lie func(key string) bool

	// Late is called, since 202405, after a row was answered for and taken away, and
	// before it is written again.
	Late func(key string)

	// RefuseTPID is a SAI that does not take the TPID of the ports it says, and
	// TPIDEnds an orchagent that ends over that, as up to 202411.
	RefuseTPID func(port string) bool
	TPIDEnds   bool

	// Dumps is an orchagent that goes on listening while it ends, as one does that
	// writes its core.
	Dumps bool

	// SlowStart is an orchagent that fetches rows from its start on, and looks at
	// them when InitDone is called.
	SlowStart bool

	// NoTeammgrd is a switch without teammgrd, which gives orchagent the
	// aggregates.
	NoTeammgrd bool

	t       testing.TB
	asic    asic
	ports   map[string]bool // guarded by asic.mu
	leaving map[string]bool // CONFIG_DB has them no more, and entries name them; likewise

	thread  chan func() // what is to be written after the answers
	batches sync.Mutex  // held while what was fetched is carried out

	mu      sync.Mutex // guards what follows
	hold    bool       // it does not fetch anything
	ready   bool       // its ports are made
	fetched []any      // before that
	dying   bool       // SAI has refused a TPID
	ends    int        // how often it has ended over one
	subs    redis.Conn
	mq      *endpoint     // nil before 202605
	mark    chan struct{} // one for each mark that was seen
	tpids   tpids
	wait    sync.WaitGroup
	writing sync.WaitGroup
	ops     int
	errors  []string // what it refused, and why
}

// NewSwitch starts a fake switch with these ports, in CONFIG_DB and everywhere
// else where SONiC has them.
func NewSwitch(t testing.TB, r *Redis, release Release, ports ...string) *Switch {
	t.Helper()
	s := &Switch{Redis: r, Release: release, t: t, ports: map[string]bool{}, leaving: map[string]bool{}}
	for _, p := range ports {
		s.ports[p] = true
	}
	s.asic.tables, s.asic.full, s.asic.db = map[string]*table{}, math.MaxInt, &asicDB{do: r.do}
	s.Boot()
	t.Cleanup(s.Stop)
	return s
}

// Boot fills CONFIG_DB and starts orchagent.
func (s *Switch) Boot() {
	s.t.Helper()
	for p := range s.ports {
		s.Redis.Do(4, "HSET", "PORT|"+p, "lanes", "1", "speed", "100000", "admin_status", "up")
	}
	s.Redis.Do(6, "HSET", "SWITCH_CAPABILITY|switch", "PORT_TPID_CAPABLE", "true", "LAG_TPID_CAPABLE", "true")
	s.Start()
}

// Start starts orchagent and portmgrd.
func (s *Switch) Start() {
	s.t.Helper()
	for p := range s.ports {
		s.showPort(p)
	}
	c, err := redis.Dial("unix", s.Redis.Socket)
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.ready, s.fetched = !s.SlowStart, nil
	s.mu.Unlock()
	if !s.SlowStart {
		s.Redis.Do(0, "HSET", portInit, "lanes", "0")
	}
	channels := []any{"PORT_TABLE_CHANNEL@0", markChannel}
	if s.Release < R202605 {
		channels = append(channels, "P4RT_TABLE_CHANNEL@0")
	}
	ps := redis.PubSubConn{Conn: c}
	if err := ps.Subscribe(channels...); err != nil {
		s.t.Fatal(err)
	}
	patterns := []any{keyspace + "PORT|*", keyspace + "PORTCHANNEL|*", keyspace + "PORTCHANNEL_MEMBER|*"}
	if err := ps.PSubscribe(patterns...); err != nil {
		s.t.Fatal(err)
	}
	for range len(channels) + len(patterns) {
		if err, ok := ps.Receive().(error); ok {
			s.t.Fatal(err)
		}
	}
	if s.Release >= R202605 {
		s.serve()
	}
	s.mu.Lock()
	s.subs, s.mark = c, make(chan struct{})
	s.tpids = tpids{map[string]uint16{}, map[string]string{}, map[string]uint16{}}
	s.mu.Unlock()
	for _, pattern := range []string{"PORT|*", "PORTCHANNEL|*", "PORTCHANNEL_MEMBER|*"} {
		for _, key := range s.Redis.Keys(4, pattern) {
			s.configured(key, "hset")
		}
	}
	s.thread = make(chan func(), 1<<16)
	s.wait.Go(func() { s.listen(ps) })
	s.writing.Go(func() {
		for f := range s.thread {
			f()
		}
	})
	s.drain() // what waits already
	s.die()
}

const portInit = "PORT_TABLE:PortInitDone"

// InitDone ends a slow start: what was fetched is carried out.
func (s *Switch) InitDone() {
	s.t.Helper()
	s.Redis.Do(0, "HSET", portInit, "lanes", "0")
	s.mu.Lock()
	s.ready = true
	s.mu.Unlock()
	s.drain()
	s.wake()
}

// Ends is how often a TPID has ended orchagent.
func (s *Switch) Ends() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends
}

// die ends orchagent where SAI has refused a TPID.
func (s *Switch) die() {
	s.mu.Lock()
	dying := s.dying && !s.Dumps
	s.hold = s.hold || s.dying && s.Dumps
	if s.dying {
		s.ends++
	}
	s.dying = false
	s.mu.Unlock()
	if dying {
		s.Stop()
	}
}

// showPort writes what orchagent writes of a port that it has made.
func (s *Switch) showPort(p string) {
	_, _ = s.Redis.do(0, "HSET", "PORT_TABLE:"+p, "speed", "100000", "oper_status", "up", "admin_status", "up")
	_, _ = s.Redis.do(2, "HSETNX", "COUNTERS_PORT_NAME_MAP", p, fmt.Sprintf("oid:0x%x", 0x1000000000000+uint64(crc32.ChecksumIEEE([]byte(p)))))
	_, _ = s.Redis.do(1, "HSET", s.portObject(p), "SAI_PORT_ATTR_ADMIN_STATE", "true")
}

// SetOnOp sets OnOp while orchagent runs.
func (s *Switch) SetOnOp(f func(port string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.OnOp = f
}

// Stop ends orchagent; the ASIC goes on with what it has.
func (s *Switch) Stop() {
	s.stopping.Lock()
	defer s.stopping.Unlock()
	s.mu.Lock()
	c := s.subs
	s.subs = nil
	s.mu.Unlock()
	if c != nil {
		_ = c.Close()
		s.hangUp()
		s.wait.Wait()
		s.unsubscribed()
		close(s.thread)
	}
	s.writing.Wait()
}

// unsubscribed waits until Redis has noticed that orchagent's connection has ended: the next
// one would be a second listener.
func (s *Switch) unsubscribed() {
	Await(s.t, "Redis does not notice that orchagent has ended", func() bool {
		n, err := redis.IntMap(s.Redis.do(0, "PUBSUB", "NUMSUB", markChannel))
		return err != nil || n[markChannel] == 0 // it is gone, or Redis is
	})
}

// Restart is that of the swss container: the databases that swss.sh flushes are
// empty, and so is the ASIC.
func (s *Switch) Restart() {
	s.t.Helper()
	s.Stop()
	s.Forget()
	for _, db := range []int{0, 1, 2, 5, 14} {
		s.Redis.Do(db, "FLUSHDB")
	}
	s.Start()
}

// Forget empties the ASIC, and orchagent's own memory.
func (s *Switch) Forget() {
	s.asic.mu.Lock()
	defer s.asic.mu.Unlock()
	s.asic.forget()
}

// Lose takes an entry, by its row's key, from the ASIC and from orchagent's
// memory; its row stays.
func (s *Switch) Lose(key string) {
	s.asic.mu.Lock()
	defer s.asic.mu.Unlock()
	if status, why := s.asic.process(key, nil, s.ports); status != success {
		s.t.Errorf("%s: %s %s", key, status, why)
	}
}

// Hold makes orchagent fetch nothing, until it is called with false.
func (s *Switch) Hold(hold bool) {
	s.mu.Lock()
	s.hold = hold
	s.mu.Unlock()
	if !hold {
		s.drain()
		s.wake()
	}
}

// Ops is how many operations have changed the ASIC.
func (s *Switch) Ops() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ops
}

// Refusals is what orchagent did not understand, or could not do.
func (s *Switch) Refusals() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.errors...)
}

func (s *Switch) listen(ps redis.PubSubConn) {
	for {
		switch v := ps.Receive().(type) {
		case redis.Message:
			if key, ok := strings.CutPrefix(v.Channel, keyspace); ok {
				s.configured(key, string(v.Data))
				go s.die()
			} else if v.Channel == markChannel {
				s.mark <- struct{}{}
			} else if v.Channel == "P4RT_TABLE_CHANNEL@0" {
				s.drain()
			}
		case error:
			return
		}
	}
}

// keyspace begins the channels on which Redis tells of changes in CONFIG_DB.
const keyspace = "__keyspace@4__:"

// pop is what a ConsumerStateTable does: up to 128 keys in no order, each row
// moved from where it waits to its place.
var pop = redis.NewScript(3, `
local out = {}
for _, key in ipairs(redis.call('SPOP', KEYS[1], 128)) do
  if redis.call('SREM', KEYS[2], key) == 1 then redis.call('DEL', KEYS[3] .. key) end
  local row = redis.call('HGETALL', '_' .. KEYS[3] .. key)
  for i = 1, #row, 2 do redis.call('HSET', KEYS[3] .. key, row[i], row[i + 1]) end
  redis.call('DEL', '_' .. KEYS[3] .. key)
  table.insert(out, {key, row})
end
return out`)

// drain takes what waits, until nothing does.
func (s *Switch) drain() {
	if s.Release >= R202605 {
		return
	}
	c := s.Redis.conn(0)
	defer c.Close()
	s.batches.Lock()
	defer s.batches.Unlock()
	for {
		s.mu.Lock()
		if s.hold {
			s.mu.Unlock()
			return
		}
		list, err := redis.Values(pop.Do(c, "P4RT_TABLE_KEY_SET", "P4RT_TABLE_DEL_SET", "P4RT_TABLE:"))
		if err == nil && !s.ready {
			s.fetched, list = append(s.fetched, list...), nil
		} else if err == nil {
			s.fetched, list = nil, append(s.fetched, list...)
		}
		s.mu.Unlock()
		if err != nil || len(list) == 0 {
			return
		}
		s.batch(c, list)
		s.letGo()
	}
}

// batch carries out what was fetched as P4Orch does: in the order of the keys
// (consumer.h, m_toSync is a map), definitions before entries (p4orch.cpp,
// m_p4ManagerAddPrecedence). Since 202511 a manager stops at its first failure,
// and so do those behind it; a key without a manager stops no other (enqueue).
func (s *Switch) batch(c redis.Conn, list []any) {
	rows := map[string][]string{}
	for _, item := range list {
		pair, err := redis.Values(item, nil)
		if err != nil || len(pair) != 2 {
			s.t.Errorf("pop: %v", item)
			return
		}
		key, _ := redis.String(pair[0], nil)
		rows[key], _ = redis.Strings(pair[1], nil)
	}
	keys := slices.Sorted(maps.Keys(rows))
	slices.SortStableFunc(keys, func(a, b string) int { return manager(a) - manager(b) })
	to := func(key string, words []string, status, why string) { s.answer(c, key, words, status, why) }
	failed := false
	for _, key := range keys {
		words := rows[key]
		if failed && s.Release >= R202511 {
			s.publish(to, key, words, notExecuted, "")
			continue
		}
		managed := s.managed(key)
		failed = !s.carryOut(to, key, words) && managed || failed
	}
}

// answerTo is where an answer goes.
type answerTo func(key string, words []string, status, why string)

// carryOut carries out one row and answers it; ok is of one that was done.
func (s *Switch) carryOut(to answerTo, key string, words []string) (ok bool) {
	if s.Lie != nil && s.Lie(key) {
		to(key, words, success, success)
		return true
	}
	status, why := s.process(key, words)
	s.publish(to, key, words, status, why)
	return status == success
}

// manager orders those of P4Orch: the tables', then the entries'.
func manager(key string) int {
	if strings.HasPrefix(key, definitions) {
		return 0
	}
	return 1
}

// managed reports whether any manager has the table of a key.
func (s *Switch) managed(key string) bool {
	s.asic.mu.Lock()
	defer s.asic.mu.Unlock()
	name, _, _ := strings.Cut(key, ":")
	return manager(key) == 0 || s.asic.tables[name] != nil
}

const definitions = "ACL_TABLE_DEFINITION_TABLE:"

// process is P4Orch: a SET where there are fields, else a deletion.
func (s *Switch) process(key string, words []string) (status, why string) {
	var row map[string]string
	if len(words) > 0 {
		row = map[string]string{}
		for i := 0; i < len(words); i += 2 {
			row[words[i]] = words[i+1]
		}
	}
	if s.Refuse != nil {
		if status := s.Refuse(key, row == nil); status != "" {
			return status, sai + "refused by the test"
		}
	}
	s.asic.mu.Lock()
	before := s.asic.changes
	status, why = s.asic.process(key, row, s.ports)
	changes := s.asic.changes - before
	s.asic.mu.Unlock()
	s.mu.Lock()
	s.ops += changes
	if status != success {
		s.errors = append(s.errors, fmt.Sprintf("%s: %s %s", key, status, why))
	}
	onOp := s.OnOp
	s.mu.Unlock()
	if onOp != nil {
		onOp(portOf(key))
	}
	return status, why
}

// portOf is the egress port of an entry's key, "" for a definition's.
func portOf(key string) string {
	_, rest, _ := strings.Cut(key, `"match/out_port":"`)
	port, _, _ := strings.Cut(rest, `"`)
	return port
}

func (a *asic) process(key string, row map[string]string, ports map[string]bool) (status, why string) {
	name, rest, ok := strings.Cut(key, ":")
	switch {
	case !ok:
		return invalid, "the key has no table"
	case name+":" == definitions:
		return a.defineTable(rest, row)
	}
	t := a.tables[name]
	if t == nil {
		return invalid, "Failed to find P4Orch Manager for " + name + " P4RT DB table"
	}
	canonical, e, status, err := t.rule(rest, row, ports)
	switch {
	case err != nil:
		return status, err.Error()
	case row != nil:
		return a.add(t, canonical, e)
	case t.entries[canonical] == nil:
		return notFound, "ACL rule does not exist"
	}
	a.db.remove(aclEntries + t.entries[canonical].oid)
	delete(t.entries, canonical)
	a.entries--
	a.changes++
	return success, ""
}

func (a *asic) defineTable(name string, row map[string]string) (status, why string) {
	t := a.tables[name]
	switch {
	case row == nil && t == nil:
		return notFound, "ACL table does not exist"
	case row == nil && len(t.entries) > 0:
		return invalid, fmt.Sprintf("ACL table referenced by other objects (ref_count = %d)", len(t.entries))
	case row == nil:
		a.db.remove(aclTables + t.oid)
		delete(a.tables, name)
		a.changes++
		return success, ""
	case t != nil:
		return unimplemented, "All attributes in sai_acl_table_attr_t are CREATE_ONLY."
	}
	t, err := define(row)
	if err != nil {
		return invalid, err.Error()
	}
	a.db.table(t)
	a.tables[name] = t
	a.changes++
	return success, ""
}

// publish answers as ResponsePublisher does. Up to 202311 the state is written
// before; since 202405 another thread takes the row away and writes it again, mostly
// after the answer (orchagent/response_publisher.cpp, dbUpdateThread).
func (s *Switch) publish(to answerTo, key string, words []string, status, why string) {
	if why == "" {
		why = status // return_code.h, message
	}
	if status != success && !strings.HasPrefix(why, sai) {
		why = "[OrchAgent] " + why
	}
	if status == success && s.Release < R202405 {
		s.report(14, key, words)
	}
	if status == success && s.Release >= R202405 {
		s.thread <- func() { s.report(0, key, words) }
	}
	if s.Mute == nil || !s.Mute(key) {
		to(key, words, status, why)
	}
}

// sai begins what SAI has refused, and not P4Orch by itself.
const sai = "[SAI] "

// Settle returns when all that was answered is written.
func (s *Switch) Settle() {
	s.mu.Lock()
	running := s.subs != nil
	s.mu.Unlock()
	s.batches.Lock()   // what is under way is answered
	s.batches.Unlock() //nolint:staticcheck // waited for
	if running {
		done := make(chan struct{})
		s.thread <- func() { close(done) }
		<-done
	}
}

// report writes what P4Orch has, in place of what is there.
func (s *Switch) report(db int, key string, words []string) {
	_, _ = s.Redis.do(db, "DEL", "P4RT_TABLE:"+key)
	if len(words) == 0 {
		return
	}
	if s.Late != nil && db == 0 {
		s.Late(key)
	}
	args := []any{"P4RT_TABLE:" + key}
	for _, w := range words {
		args = append(args, w)
	}
	_, _ = s.Redis.do(db, "HSET", args...)
}

func (s *Switch) answer(c redis.Conn, key string, words []string, status, why string) {
	msg, err := json.Marshal(append([]string{status, key, "err_str", why}, words...))
	if err != nil {
		s.t.Error(err)
		return
	}
	_, _ = c.Do("PUBLISH", "APPL_DB_P4RT_TABLE_RESPONSE_CHANNEL", msg)
}
