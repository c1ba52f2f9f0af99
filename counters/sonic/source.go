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

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// Redis runs commands in the databases of a switch: each is the database's name,
// the command's and its arguments, and all of them are one round trip. An answer
// is as redigo has it; a redis.Error is of its command alone.
type Redis interface {
	Do(ctx context.Context, commands ...[]string) ([]any, error)
	// Scan lists the keys of a database that begin with a prefix, sorted, each once.
	Scan(ctx context.Context, db, prefix string) ([]string, error)
	Close() error
}

// Config says what to read.
type Config struct {
	Redis Redis    // the source closes it
	Ports []string // in the order in which Read returns them, as SONiC calls them: Ethernet0, or PortChannel1 for an aggregate

	// Overhead is what each packet costs on the wire beyond its octets, in bytes;
	// nil is preamble and gap, 20.
	Overhead *uint8
}

// wireOverhead is preamble and interframe gap, in bytes.
const wireOverhead = 20

// ErrNoPort is in the error of a port that the switch does not count.
var ErrNoPort = errors.New("COUNTERS_DB has no such port")

// Source reads one switch. It is not safe for concurrent use.
type Source struct {
	cfg   Config
	ports []port            // that are read: the members of aggregates among them
	lags  []lag             // in the order of the configuration
	asked time.Time         // who their members are
	read  []counters.Sample // of ports, where there are aggregates
	poll  time.Duration     // of the flex counter
	off   bool              // the flex counter is disabled

	within time.Duration // half of what the last reading took
}

var (
	_ counters.Source   = (*Source)(nil)
	_ counters.LAGs     = (*Source)(nil)
	_ counters.Detailed = (*Source)(nil)
)

// port is what is known of one port.
type port struct {
	name  string
	oid   string // its object; "" where COUNTERS_PORT_NAME_MAP does not have it
	epoch uint64 // how often that has changed
}

// New returns a source that connects at the first reading.
func New(cfg Config) (*Source, error) {
	if len(cfg.Ports) == 0 {
		return nil, errors.New("sonic counters: no ports given")
	}
	s := &Source{cfg: cfg}
	for _, name := range cfg.Ports {
		if strings.ContainsAny(name, "|: \t\r\n") {
			return nil, fmt.Errorf("sonic counters: %q is no name of a port", name)
		}
		if isAggregate(name) {
			s.lags = append(s.lags, lag{name: name})
			continue
		}
		s.ports = append(s.ports, port{name: name})
	}
	return s, nil
}

// Close ends the connection.
func (s *Source) Close() error { return s.cfg.Redis.Close() }

// The databases, by their names in database_config.json.
const (
	applDB     = "APPL_DB"
	countersDB = "COUNTERS_DB"
	configDB   = "CONFIG_DB"
	stateDB    = "STATE_DB"
)

// fields of a port's counters, in the order of HMGET.
var fields = []string{
	"SAI_PORT_STAT_IF_OUT_OCTETS", "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", "SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS",
	"SAI_PORT_STAT_IF_OUT_MULTICAST_PKTS", "SAI_PORT_STAT_IF_OUT_BROADCAST_PKTS",
}

// attempts is how often a reading is taken again since ports had other objects.
const attempts = 3

// Read takes one reading of every port, in one round trip; in two where the
// switch has given ports other objects since the last, or aggregates may have other
// members. A port that the switch does not count, or for which an answer lacks
// something, has Err set. An aggregate is the sum of its members, and Degraded.
func (s *Source) Read(ctx context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	if err := s.findMembers(ctx); err != nil {
		return dst[:0], err
	}
	if len(s.ports) == 0 {
		return s.sums(dst[:0], nil, time.Now()), nil
	}
	for try := 1; ; try++ {
		from := time.Now()
		answers, err := s.cfg.Redis.Do(ctx, s.commands()...)
		if err != nil {
			return dst[:0], fmt.Errorf("sonic counters: %w", err)
		}
		s.within = time.Since(from) / 2
		at := from.Add(s.within)
		moved, err := s.objects(answers[0])
		if err != nil {
			return dst[:0], err
		}
		if moved && try < attempts {
			continue
		}
		s.flexCounter(answers[1])
		if len(s.lags) == 0 {
			return s.samples(dst[:0], answers[2:], at, moved), nil
		}
		s.read = s.samples(s.read[:0], answers[2:], at, moved)
		return s.sums(dst[:0], s.read, at), nil
	}
}

// commands asks for everything at once; counters by the objects that ports had
// at the last reading.
func (s *Source) commands() [][]string {
	names := []string{countersDB, "HMGET", "COUNTERS_PORT_NAME_MAP"}
	for i := range s.ports {
		names = append(names, s.ports[i].name)
	}
	cmds := [][]string{names, {configDB, "HMGET", "FLEX_COUNTER_TABLE|PORT", "POLL_INTERVAL", "FLEX_COUNTER_STATUS"}}
	for i := range s.ports {
		cmds = append(cmds, append([]string{countersDB, "HMGET", "COUNTERS:" + s.ports[i].oid}, fields...))
	}
	for i := range s.ports {
		cmds = append(cmds, []string{applDB, "HMGET", "PORT_TABLE:" + s.ports[i].name, "oper_status", "speed"})
	}
	for i := range s.ports {
		cmds = append(cmds, []string{stateDB, "HMGET", "PORT_TABLE|" + s.ports[i].name, "speed"})
	}
	return cmds
}

// objects takes in which object each port has now, and reports whether one is
// another than it was.
func (s *Source) objects(answer any) (moved bool, err error) {
	list, err := redis.Strings(answer, nil)
	if err != nil || len(list) != len(s.ports) {
		return false, fmt.Errorf("sonic counters: COUNTERS_PORT_NAME_MAP: %d answers for %d ports: %w", len(list), len(s.ports), cmp.Or(err, errors.ErrUnsupported))
	}
	for i, oid := range list {
		oid, p := untrusted.Text(oid, 64), &s.ports[i]
		if oid == p.oid {
			continue
		}
		p.oid, moved = oid, moved || oid != ""
		if oid != "" {
			p.epoch++
		}
	}
	return moved, nil
}

// defaultPoll is how often the switch refreshes where CONFIG_DB does not say.
const defaultPoll = time.Second

// flexCounter takes in how often the switch refreshes. The longest of what CONFIG_DB can hold is
// 30 s (sonic-flex_counter.yang).
func (s *Source) flexCounter(answer any) {
	s.poll, s.off = defaultPoll, false
	list, err := redis.Strings(answer, nil)
	if err != nil || len(list) != 2 {
		return
	}
	if ms, err := strconv.ParseUint(list[0], 10, 31); err == nil && ms > 0 {
		s.poll = time.Duration(ms) * time.Millisecond
	}
	s.off = list[1] == "disable"
}

// samples makes samples of the answers: each port's counters, then each port's
// status, then the speed of each port's link.
func (s *Source) samples(dst []counters.Sample, answers []any, at time.Time, moved bool) []counters.Sample {
	n := len(s.ports)
	for i := range s.ports {
		out := counters.Sample{Port: s.ports[i].name, At: at, Within: s.within, Cache: s.poll, Bits: 64, Epoch: s.ports[i].epoch, Overhead: wireOverhead}
		if s.cfg.Overhead != nil {
			out.Overhead = *s.cfg.Overhead
		}
		err := s.count(&out, i, answers[i], moved)
		if err == nil {
			err = s.status(&out, answers[n+i], answers[2*n+i])
		}
		if err != nil {
			out = counters.Sample{Port: out.Port, At: at, Err: err}
		}
		dst = append(dst, out)
	}
	return dst
}

func (s *Source) count(out *counters.Sample, i int, answer any, moved bool) error {
	p := &s.ports[i]
	switch {
	case p.oid == "":
		return fmt.Errorf("%w: is its name right, and is orchagent running?", ErrNoPort)
	case moved:
		return errors.New("the switch gives its ports other objects: the next reading tries again")
	case s.off:
		return errors.New("the switch does not count (FLEX_COUNTER_TABLE|PORT is disabled): counterpoll port enable")
	}
	list, err := redis.Strings(answer, nil)
	if err != nil || len(list) != len(fields) {
		return fmt.Errorf("COUNTERS:%s cannot be read: %w", p.oid, cmp.Or(err, errors.ErrUnsupported))
	}
	var v [5]uint64
	for k, text := range list {
		if text == "" {
			continue // missed below where it is needed
		}
		if v[k], err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("COUNTERS:%s %s: %q is no count", p.oid, fields[k], untrusted.Text(text, 32))
		}
	}
	others := v[2] // not unicast
	if list[2] == "" {
		others = v[3] + v[4]
	}
	switch {
	case list[0] == "":
		return fmt.Errorf("COUNTERS:%s has no %s yet", p.oid, fields[0])
	case list[1] == "" || list[2] == "" && (list[3] == "" || list[4] == ""):
		out.Degraded = "the switch does not count this port's packets: what they cost on the wire beyond their octets is not in its load"
	default:
		out.Packets = v[1] + others
	}
	out.Octets = v[0]
	return nil
}

func (s *Source) status(out *counters.Sample, status, link any) error {
	list, err := redis.Strings(status, nil)
	if err != nil || len(list) != 2 {
		return fmt.Errorf("PORT_TABLE:%s cannot be read: %w", out.Port, cmp.Or(err, errors.ErrUnsupported))
	}
	if list[0] == "" {
		return fmt.Errorf("PORT_TABLE:%s has no oper_status: orchagent has not set the port up", out.Port)
	}
	out.Up = list[0] == "up"
	if out.Speed = linkSpeed(link); out.Up && out.Speed != 0 || list[1] == "" {
		return nil
	}
	mbps, err := strconv.ParseUint(list[1], 10, 32)
	if err != nil {
		return fmt.Errorf("PORT_TABLE:%s speed: %q is no number of Mbit/s", out.Port, untrusted.Text(list[1], 32))
	}
	out.Speed = mbps * megabit
	return nil
}

const megabit = 1_000_000

// linkSpeed is the speed that STATE_DB has of a link in bit/s, 0 where it has none: "N/A" is what the
// ASIC does not say.
func linkSpeed(answer any) uint64 {
	list, err := redis.Strings(answer, nil)
	if err != nil || len(list) != 1 {
		return 0
	}
	mbps, err := strconv.ParseUint(list[0], 10, 32)
	if err != nil {
		return 0
	}
	return mbps * megabit
}

// Details says how the switch counts, for a person.
func (s *Source) Details() (details, limitations []string) {
	if s.poll > 0 { // there was a reading
		details = append(details, fmt.Sprintf("COUNTERS_DB, refreshed by the switch every %v (counterpoll port interval)", s.poll))
	}
	return details, []string{"when the switch read its counters: COUNTERS_DB does not say, and csig learns it from when they change"}
}
