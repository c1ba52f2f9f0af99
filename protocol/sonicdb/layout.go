package sonicdb

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// The databases that csig reads or writes.
const (
	Appl      = "APPL_DB"
	ASIC      = "ASIC_DB"
	Counters  = "COUNTERS_DB"
	Config    = "CONFIG_DB"
	State     = "STATE_DB"
	ApplState = "APPL_STATE_DB"
)

// DefaultFile is where a switch keeps the map of its databases, and
// DefaultSocket where its Redis listens.
const (
	DefaultFile   = "/var/run/redis/sonic-db/database_config.json"
	DefaultSocket = "/var/run/redis/redis.sock"
)

// place is where a database is.
type place struct {
	instance string
	id       int
}

// instance is one Redis server.
type instance struct{ network, address string }

// Layout is where a switch's databases are.
type Layout struct {
	From string // what says so: a file of the switch, or the default

	instances map[string]instance
	databases map[string]place
}

// Default is the layout of a switch that does not tell: one Redis at
// DefaultSocket, with the numbers of sonic-swss-common common/schema.h.
func Default() *Layout {
	l := &Layout{From: "the numbers that SONiC has by default", instances: map[string]instance{"redis": {"unix", DefaultSocket}}, databases: map[string]place{}}
	for name, id := range map[string]int{Appl: 0, ASIC: 1, Counters: 2, Config: 4, State: 6, ApplState: 14} {
		l.databases[name] = place{"redis", id}
	}
	return l
}

// file is database_config.json as far as csig needs it.
type file struct {
	Includes  []json.RawMessage `json:"INCLUDES"`
	Instances map[string]struct {
		Hostname string `json:"hostname"`
		Port     int    `json:"port"`
		Socket   string `json:"unix_socket_path"`
	} `json:"INSTANCES"`
	Databases map[string]struct {
		ID        int    `json:"id"`
		Separator string `json:"separator"`
		Instance  string `json:"instance"`
	} `json:"DATABASES"`
}

// separators are those that csig writes keys with.
var separators = map[string]string{Appl: ":", ASIC: ":", Counters: ":", Config: "|", State: "|", ApplState: ":"}

// Parse reads a database_config.json. The error says what it lacks.
func Parse(text []byte) (*Layout, error) {
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, errors.New(untrusted.Text(err.Error(), 128))
	}
	if len(f.Includes) > 0 {
		return nil, errors.New("it lists the files of a switch with several ASICs: platform sai takes that of one, as /var/run/redis0/sonic-db/database_config.json, and sonic does not support such switches")
	}
	l := &Layout{instances: map[string]instance{}, databases: map[string]place{}}
	for name, i := range f.Instances {
		switch {
		case i.Socket != "":
			l.instances[name] = instance{"unix", i.Socket}
		case i.Hostname != "" && i.Port > 0 && i.Port < 1<<16:
			l.instances[name] = instance{"tcp", net.JoinHostPort(i.Hostname, strconv.Itoa(i.Port))}
		}
	}
	for name, sep := range separators {
		d, ok := f.Databases[name]
		if !ok {
			continue // missed when it is asked for
		}
		if _, ok := l.instances[d.Instance]; !ok {
			return nil, fmt.Errorf("%s is in Redis instance %q, which has no address", name, d.Instance)
		}
		if d.ID < 0 {
			return nil, fmt.Errorf("%s has number %d", name, d.ID)
		}
		if d.Separator != sep {
			return nil, fmt.Errorf("%s separates its keys with %q: csig knows only %q", name, d.Separator, sep)
		}
		l.databases[name] = place{d.Instance, d.ID}
	}
	if len(l.databases) == 0 {
		return nil, errors.New("it names none of the databases that csig needs")
	}
	return l, nil
}

// move puts every instance that the layout has at another address.
func (l *Layout) move(to instance) error {
	if len(l.instances) > 1 {
		used := map[string]bool{}
		for _, p := range l.databases {
			used[p.instance] = true
		}
		if len(used) > 1 {
			return errors.New("the databases are in several Redis servers, and management.redis names one address: leave its socket or port out")
		}
	}
	for name := range l.instances {
		l.instances[name] = to
	}
	return nil
}

// find is where a database is.
func (l *Layout) find(name string) (place, error) {
	p, ok := l.databases[name]
	if !ok {
		return p, fmt.Errorf("the switch has no %s", name)
	}
	return p, nil
}

// ID is the number of a database.
func (l *Layout) ID(name string) (int, error) {
	p, err := l.find(name)
	return p.id, err
}
