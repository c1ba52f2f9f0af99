package saitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

// Databases by their numbers.
const (
	applDB, asicDB, countersDB, stateDB = 0, 1, 2, 6
)

// Switch is a SONiC switch whose chip does CSIG.
type Switch struct {
	Redis *sonictest.Redis

	// Lacks are attributes that its SAI does not implement; Keeps the values that it has of some, whatever they are set to; Enums the values that it has of an attribute, nil: all. It is asked
	// which ones in vain, as the virtual switch is, unless AnswersEnums.
	Lacks        map[string]bool
	Keeps        map[string]string
	Enums        map[string][]string
	AnswersEnums bool

	// Reverses are lists that it has in another order than they were set in.
	Reverses map[string]bool

	// Virtual has it tell as little as the virtual switch: nothing that can only be read, and of the rest what was set.
	Virtual bool

	ASIC string

	// Syncd and Orchagent are the arguments that those run with.
	Syncd, Orchagent []string

	syncd *exec.Cmd // of RunProcess

	t     testing.TB
	ports []string
	ln    net.Listener
	wg    sync.WaitGroup

	turn  sync.Mutex // one request at a time
	late  []func()   // what syncd writes to ASIC_DB behind its answer
	stuck bool       // nothing is answered any more

	mu      sync.Mutex
	conns   map[net.Conn]bool
	objects map[uint64]*object
	portIDs map[string]uint64
	next    uint64
	died    error // why orchagent ended
	starts  int
	log     []string // commands with their keys

	before, after func(words []string) error

	chip    plane
	stopped chan struct{}
	once    sync.Once
}

// plane is what forwards frames as the objects say; nil: nothing does.
type plane interface{ follow(s *Switch) error }

// program has the chip do what the objects say.
func (s *Switch) program() {
	if s.chip == nil {
		return
	}
	if err := s.chip.follow(s); err != nil {
		s.t.Errorf("the chip: %v", err)
	}
}

type object struct {
	kind  string
	attrs map[string]string
}

// SwitchID is the switch object's.
const SwitchID = 33 << 48

// New starts a switch with ports of these names.
func New(t testing.TB, ports ...string) *Switch {
	t.Helper()
	s := &Switch{Redis: sonictest.StartRedis(t), Lacks: map[string]bool{}, Keeps: map[string]string{}, Reverses: map[string]bool{}, Enums: map[string][]string{}, Syncd: []string{"-u", "-s", "-p", "/etc/sai.d/sai.profile"}, Orchagent: []string{"-d", "/var/log/swss", "-b", "1024", "-s"}, t: t, stopped: make(chan struct{})}
	s.ports = ports
	s.cold()
	s.portsMade()
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// cold is the switch as a cold start leaves it: numbers begin anew.
func (s *Switch) cold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, db := range []int{applDB, asicDB, countersDB} {
		s.Redis.Do(db, "FLUSHDB")
	}
	s.late, s.portIDs = nil, map[string]uint64{}
	s.objects = map[uint64]*object{SwitchID: {"SAI_OBJECT_TYPE_SWITCH", map[string]string{"SAI_SWITCH_ATTR_CSIG_BW_TIME_INTERVAL_IN_USEC": "4:64,128,256,1000"}}}
	s.next = 1
	s.show(SwitchID)
	for i, name := range s.ports {
		s.addPort(name, 1<<48|uint64(i+2))
	}
	s.program()
}

func (s *Switch) addPort(name string, id uint64) {
	s.portIDs[name] = id
	s.objects[id] = &object{"SAI_OBJECT_TYPE_PORT", map[string]string{"SAI_PORT_ATTR_SPEED": "100000"}}
	s.Redis.Do(countersDB, "HSET", "COUNTERS_PORT_NAME_MAP", name, oid(id))
	s.Redis.Do(applDB, "HSET", "PORT_TABLE:"+name, "admin_status", "up", "oper_status", "up", "speed", "400000")
	s.show(id)
}

// TakePort takes a port away, as a change of its breakout does, and returns what brings it back: with another object.
func (s *Switch) TakePort(name string) (back func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.portIDs[name]
	delete(s.objects, id)
	delete(s.portIDs, name)
	s.Redis.Do(asicDB, "DEL", "ASIC_STATE:SAI_OBJECT_TYPE_PORT:"+oid(id))
	s.Redis.Do(countersDB, "HDEL", "COUNTERS_PORT_NAME_MAP", name)
	s.Redis.Do(applDB, "DEL", "PORT_TABLE:"+name)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.addPort(name, id+1<<12)
		s.program()
	}
}

// PortID is the object of a port.
func (s *Switch) PortID(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return oid(s.portIDs[name])
}

func (s *Switch) portsMade() { s.Redis.Do(applDB, "HSET", "PORT_TABLE:PortInitDone", "lanes", "0") }

// Reload ends orchagent, and starts it again as config reload does, or a restart of swss: until the function that it returns is called
// the ports are not made.
func (s *Switch) Reload() (made func()) {
	s.Kill()
	s.cold()
	s.Start()
	return s.portsMade
}

// WarmRestart ends orchagent, and starts it again over what there is. Until the function that it returns is called it restores; then
// syncd takes away what orchagent has not asked for.
func (s *Switch) WarmRestart() (done func()) {
	state := func(is string) { s.Redis.Do(stateDB, "HSET", "WARM_RESTART_TABLE|orchagent", "state", is) }
	s.Kill()
	state("initialized")
	s.Start()
	return func() {
		s.mu.Lock()
		for id, o := range s.objects {
			switch o.kind {
			case "SAI_OBJECT_TYPE_TAM", "SAI_OBJECT_TYPE_TAM_INT":
				delete(s.objects, id)
				s.Redis.Do(asicDB, "DEL", "ASIC_STATE:"+o.kind+":"+oid(id))
			case "SAI_OBJECT_TYPE_PORT", "SAI_OBJECT_TYPE_SWITCH":
				for _, name := range []string{"SAI_PORT_ATTR_INT_DELETE", "SAI_PORT_ATTR_INT_METADATA", "SAI_SWITCH_ATTR_TAM_OBJECT_ID"} {
					delete(o.attrs, name)
					s.Redis.Do(asicDB, "HDEL", "ASIC_STATE:"+o.kind+":"+oid(id), name)
				}
			}
		}
		s.program()
		s.mu.Unlock()
		state("reconciled")
	}
}

// Do carries out a request of another program than csig: its answer's words.
func (s *Switch) Do(words ...string) []string {
	s.t.Helper()
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.DoIn(words...)
}

// DoIn is Do for the functions of On, which a request waits for.
func (s *Switch) DoIn(words ...string) []string {
	s.t.Helper()
	s.writeRows()
	out, err := s.carryOut(words)
	if err != nil {
		s.t.Error(err)
	}
	s.writeRows()
	return out
}

func oid(id uint64) string { return fmt.Sprintf("oid:0x%x", id) }

// Socket is ServerSai's.
func (s *Switch) Socket() string { return filepath.Join(s.Redis.Dir, "saiServer") }

// Names are those that its SAI has.
func (s *Switch) Names() map[string]bool {
	out := map[string]bool{}
	for kind, attrs := range metadata {
		out[kind] = true
		for name, a := range attrs {
			out[name] = true
			for _, v := range a.values {
				out[v] = true
			}
		}
	}
	return out
}

// Start starts orchagent, with the objects that there are.
func (s *Switch) Start() {
	s.t.Helper()
	_ = os.Remove(s.Socket())
	ln, err := net.Listen("unix", s.Socket())
	if err != nil {
		s.t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	s.mu.Lock()
	s.ln, s.conns, s.died, s.stuck = ln, map[net.Conn]bool{}, nil, false
	s.starts++
	s.mu.Unlock()
	s.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			alive := s.ln == ln
			if alive {
				s.conns[c] = true
			}
			s.mu.Unlock()
			if !alive {
				c.Close()
				return
			}
			s.wg.Go(func() {
				defer c.Close()
				if err := sonictest.ServeREP(c, s.take); errors.Is(err, errThrown) {
					s.end(err)
				} else if !sonictest.Gone(err) && !errors.Is(err, errHungUp) {
					s.t.Errorf("orchagent's ServerSai: %v", err)
				}
			})
		}
	})
}

var errHungUp = errors.New("the connection is lost")

// end ends orchagent.
func (s *Switch) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ln == nil {
		return
	}
	s.ln.Close()
	for c := range s.conns {
		c.Close()
	}
	s.ln, s.died = nil, why
}

// Kill ends orchagent as kill -9 does.
func (s *Switch) Kill() {
	s.writeRows() // syncd lives
	s.end(nil)
}

// Stop ends orchagent, and waits for it.
func (s *Switch) Stop() {
	s.end(nil)
	s.once.Do(func() { close(s.stopped) })
	s.wg.Wait()
}

// Died is why orchagent ended by itself, nil where it did not; Starts counts its starts, 0 while it does not run.
func (s *Switch) Died() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.died
}

// Starts counts orchagent's starts; 0 while it does not run.
func (s *Switch) Starts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ln == nil {
		return 0
	}
	return s.starts
}

// Log takes the requests so far, each its command and key.
func (s *Switch) Log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.log
	s.log = nil
	return out
}

// Object is one of the switch's, by its ID: nil where there is none.
func (s *Switch) Object(id string) map[string]string {
	n, _ := parseOID(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[n]; o != nil {
		return maps.Clone(o.attrs)
	}
	return nil
}

// Objects are the IDs of a type's.
func (s *Switch) Objects(kind string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, o := range s.objects {
		if o.kind == kind {
			out = append(out, oid(id))
		}
	}
	slices.Sort(out)
	return out
}

// On has before called with each request before it is carried out, and after before it is answered, nil: neither. An error
// hangs up on the client, who does not learn the outcome.
func (s *Switch) On(before, after func(words []string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// take carries out one request.
func (s *Switch) take(body []byte) ([]byte, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	var words []string
	if err := json.Unmarshal(body, &words); err != nil {
		return nil, thrown("%q is no array of texts", body)
	}
	if len(words) == 0 || len(words)%2 != 0 {
		return nil, thrown("%d texts", len(words))
	}
	s.writeRows()
	defer s.wg.Go(func() {
		select {
		case <-time.After(rowsBehind):
		case <-s.stopped:
		}
		s.turn.Lock()
		defer s.turn.Unlock()
		s.writeRows()
	})
	s.mu.Lock()
	s.log = append(s.log, words[1]+" "+words[0])
	s.mu.Unlock()
	if words[0] == "" || s.stuck {
		s.stuck = true
		return nil, nil
	}
	s.mu.Lock()
	before, after, start := s.before, s.after, s.starts
	s.mu.Unlock()
	if before != nil && before(words) != nil {
		return nil, errHungUp
	}
	s.mu.Lock()
	alive := s.ln != nil && s.starts == start
	s.mu.Unlock()
	if !alive {
		return nil, errHungUp
	}
	answer, err := s.carryOut(words)
	if err != nil {
		return nil, err
	}
	if after != nil && after(words) != nil {
		return nil, errHungUp
	}
	return json.Marshal(answer)
}

// rowsBehind is how long syncd takes to write to ASIC_DB, at least, unless it is asked for something else.
const rowsBehind = 100 * time.Millisecond

func (s *Switch) writeRows() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, write := range s.late {
		write()
	}
	s.late = nil
}

func (s *Switch) carryOut(words []string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch words[1] {
	case "create", "set", "remove", "get":
		answer, err := s.quad(words)
		if words[1] != "get" && err == nil {
			s.program()
		}
		return answer, err
	case "attribute_capability_query":
		return s.capability(words)
	case "attr_enum_values_capability_query":
		return s.enumValues(words)
	}
	return nil, thrown("the command %q", words[1])
}

// quad is ServerSai's processQuadEvent.
func (s *Switch) quad(words []string) ([]string, error) {
	kind, idText, _ := strings.Cut(words[0], ":")
	attrs, known := metadata[kind]
	if !known {
		return nil, thrown("the object type %q", kind)
	}
	id, err := parseOID(idText)
	if err != nil {
		return nil, err
	}
	command := words[1]
	var names []string
	values := map[string]string{}
	for i := 2; i < len(words); i += 2 {
		a, known := attrs[words[i]]
		if !known {
			return nil, thrown("the attribute %q of %s", words[i], kind)
		}
		v, err := a.deserialize(words[i+1])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", words[i], err)
		}
		if _, twice := values[words[i]]; twice {
			return s.status("SAI_STATUS_INVALID_PARAMETER", command, id), nil
		}
		names, values[words[i]] = append(names, words[i]), v
	}
	if command != "get" {
		for i, name := range names {
			a := attrs[name]
			switch {
			case a.readOnly, command == "set" && a.createOnly:
				return s.status(fmt.Sprintf("SAI_STATUS_INVALID_ATTRIBUTE_%d", i), command, id), nil
			case s.Lacks[name]:
				return s.status(fmt.Sprintf("SAI_STATUS_ATTR_NOT_SUPPORTED_%d", i), command, id), nil
			}
			for _, ref := range a.refs(values[name]) {
				if s.objects[ref] == nil {
					return s.status("SAI_STATUS_ITEM_NOT_FOUND", command, id), nil
				}
			}
			if of := s.Enums[name]; of != nil && !slices.Contains(of, values[name]) {
				return s.status(fmt.Sprintf("SAI_STATUS_INVALID_ATTR_VALUE_%d", i), command, id), nil
			}
		}
	}
	if command == "create" {
		if o := s.objects[id]; o == nil || o.kind != "SAI_OBJECT_TYPE_SWITCH" {
			return s.status("SAI_STATUS_INVALID_PARAMETER", command, id), nil
		}
		for name, a := range attrs {
			if _, given := values[name]; a.mandatory && !given {
				return s.status("SAI_STATUS_MANDATORY_ATTRIBUTE_MISSING", command, id), nil
			}
		}
		id = typeNumbers[kind]<<48 | s.next<<4 | 0xd
		s.next++
		s.objects[id] = &object{kind, values}
		s.showLate(id)
		return s.status("SAI_STATUS_SUCCESS", command, id), nil
	}
	o := s.objects[id]
	if o == nil || o.kind != kind {
		return s.status("SAI_STATUS_ITEM_NOT_FOUND", command, id), nil
	}
	switch command {
	case "remove":
		if kind == "SAI_OBJECT_TYPE_SWITCH" || s.used(id) {
			return s.status("SAI_STATUS_OBJECT_IN_USE", command, id), nil
		}
		delete(s.objects, id)
		s.late = append(s.late, func() { s.Redis.Do(asicDB, "DEL", "ASIC_STATE:"+kind+":"+oid(id)) })
	case "set":
		if len(names) != 1 {
			return nil, thrown("a set of %d attributes", len(names))
		}
		o.attrs[names[0]] = values[names[0]]
		s.showLate(id)
	case "get":
		out := []string{"SAI_STATUS_SUCCESS", "getresponse"}
		for _, name := range names {
			v, set := o.attrs[name]
			if s.Lacks[name] {
				return []string{"SAI_STATUS_ATTR_NOT_SUPPORTED_0", "getresponse"}, nil
			}
			if s.Virtual && (!set || attrs[name].readOnly) {
				return []string{"SAI_STATUS_NOT_IMPLEMENTED", "getresponse"}, nil
			}
			if !set {
				v = attrs[name].initial
			}
			if kept, is := s.Keeps[name]; is {
				v = kept
			}
			if count, rest, list := strings.Cut(v, ":"); list {
				if s.Reverses[name] {
					of := strings.Split(rest, ",")
					slices.Reverse(of)
					v = count + ":" + strings.Join(of, ",")
				}
				n, _ := strconv.Atoi(count)
				room, _, _ := strings.Cut(values[name], ":")
				if most, _ := strconv.Atoi(room); n > most {
					return []string{"SAI_STATUS_BUFFER_OVERFLOW", "getresponse", name, count}, nil
				}
			}
			out = append(out, name, v)
		}
		return out, nil
	}
	return s.status("SAI_STATUS_SUCCESS", command, id), nil
}

// status is sendApiResponse, and of get sendGetResponse without attributes.
func (s *Switch) status(status, command string, id uint64) []string {
	out := []string{status, "getresponse"}
	if command == "create" {
		out = append(out, "oid", oid(id))
	}
	return out
}

// used reports whether an object is referred to.
func (s *Switch) used(id uint64) bool {
	for _, o := range s.objects {
		for name, v := range o.attrs {
			a := metadata[o.kind][name]
			if slices.Contains(a.refs(v), id) {
				return true
			}
		}
	}
	return false
}

// showLate has an object be written to ASIC_DB as it is now.
func (s *Switch) showLate(id uint64) {
	o := s.objects[id]
	is := object{o.kind, maps.Clone(o.attrs)}
	s.late = append(s.late, func() { s.row(id, &is) })
}

// show writes an object to ASIC_DB.
func (s *Switch) show(id uint64) { s.row(id, s.objects[id]) }

func (s *Switch) row(id uint64, o *object) {
	args := []any{"ASIC_STATE:" + o.kind + ":" + oid(id), "NULL", "NULL"}
	for name, v := range o.attrs {
		if !metadata[o.kind][name].readOnly {
			args = append(args, name, v)
		}
	}
	s.Redis.Do(asicDB, "HSET", args...)
}

func (s *Switch) capability(words []string) ([]string, error) {
	if _, err := parseOID(words[0]); err != nil {
		return nil, err
	}
	if len(words) != 6 {
		return []string{"SAI_STATUS_INVALID_PARAMETER", "attribute_capability_response"}, nil
	}
	a, known := metadata[words[3]][words[5]]
	if !known {
		return nil, thrown("the attribute %q of %q", words[5], words[3])
	}
	has := !s.Lacks[words[5]]
	return []string{
		"SAI_STATUS_SUCCESS", "attribute_capability_response",
		"CREATE_IMPLEMENTED", strconv.FormatBool(has && !a.readOnly), "SET_IMPLEMENTED", strconv.FormatBool(has && !a.readOnly && !a.createOnly), "GET_IMPLEMENTED", strconv.FormatBool(has),
	}, nil
}

// enumValues is processAttrEnumValuesCapabilityQuery: a list with a comma behind each, and its count.
func (s *Switch) enumValues(words []string) ([]string, error) {
	const response = "attr_enum_values_capability_response"
	if _, err := parseOID(words[0]); err != nil {
		return nil, err
	}
	if len(words) != 8 {
		return []string{"SAI_STATUS_INVALID_PARAMETER", response}, nil
	}
	a, known := metadata[words[3]][words[5]]
	size, err := strconv.Atoi(words[7])
	switch {
	case !known:
		return nil, thrown("the attribute %q of %q", words[5], words[3])
	case err != nil:
		return nil, thrown("%q is no number", words[7])
	case a.kind != "enum":
		return []string{"SAI_STATUS_INVALID_PARAMETER", response}, nil
	case !s.AnswersEnums:
		return []string{"SAI_STATUS_NOT_SUPPORTED", response}, nil
	}
	text, n := "", 0
	for number, name := range a.values {
		if of := s.Enums[words[5]]; of == nil || slices.Contains(of, name) {
			text += strconv.Itoa(number) + ","
			n++
		}
	}
	if n > size {
		return []string{"SAI_STATUS_BUFFER_OVERFLOW", response}, nil
	}
	return []string{"SAI_STATUS_SUCCESS", response, "ENUM_CAPABILITIES", text, "ENUM_COUNT", strconv.Itoa(n)}, nil
}
