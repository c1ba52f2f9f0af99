package sonicdb

import (
	"strings"
	"testing"
)

const good = `{
  "INSTANCES": {
    "redis": {"hostname": "127.0.0.1", "port": 6379, "unix_socket_path": "/var/run/redis/redis.sock", "persistence_for_warm_boot": "yes"},
    "other": {"hostname": "10.0.0.1", "port": 6380}
  },
  "DATABASES": {
    "APPL_DB": {"id": 0, "separator": ":", "instance": "redis"},
    "CONFIG_DB": {"id": 4, "separator": "|", "instance": "redis"},
    "APPL_STATE_DB": {"id": 3, "separator": ":", "instance": "other"},
    "CHASSIS_APP_DB": {"id": 12, "separator": "|", "instance": "gone"}
  },
  "VERSION": "1.0"
}`

func TestParse(t *testing.T) {
	l, err := Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.find(ApplState)
	if err != nil || p.id != 3 || l.instances[p.instance] != (instance{"tcp", "10.0.0.1:6380"}) {
		t.Errorf("%+v at %+v, %v", p, l.instances[p.instance], err)
	}
	if p, err = l.find(Config); err != nil || l.instances[p.instance] != (instance{"unix", "/var/run/redis/redis.sock"}) {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := l.ID(State); err == nil || !strings.Contains(err.Error(), State) {
		t.Errorf("a database that is not there: %v", err)
	}
	if err := l.move(instance{"unix", "/x"}); err == nil {
		t.Error("two servers are put at one address")
	}
	for name, change := range map[string][2]string{
		"no JSON":            {"{", ""},
		"several ASICs":      {`"VERSION"`, `"INCLUDES": [{"include": "x"}], "VERSION"`},
		"a server not there": {`"instance": "other"`, `"instance": "third"`},
		"another separator":  {`"separator": "|", "instance": "redis"`, `"separator": ":", "instance": "redis"`},
		"a number below 0":   {`"id": 4`, `"id": -4`},
		"none of ours":       {`"DATABASES"`, `"DATABASE"`},
	} {
		if _, err := Parse([]byte(strings.Replace(good, change[0], change[1], 1))); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if id, err := Default().ID(ApplState); err != nil || id != 14 {
		t.Errorf("%d, %v", id, err)
	}
}
