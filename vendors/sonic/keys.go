package sonic

import (
	"fmt"

	"github.com/csig-agent/csig/inventory"
)

// Platform is what fleet files say of SONiC switches.
var Platform = inventory.Platform{
	Name: "sonic", Key: "redis", Doc: "Where the databases of a SONiC switch are, unless they are where SONiC has them.", Keys: (*Keys)(nil),
}

// Keys are where the Redis of a SONiC switch is, seen from the switch itself. The
// zero value is what the switch's own database_config.json says.
type Keys struct {
	Socket    string           `key:"socket" is:"path" doc:"Path of its unix socket."`
	Port      uint16           `key:"port" is:"port" doc:"TCP, at the switch's 127.0.0.1."` // in place of a socket
	Databases string           `key:"databases" is:"path" doc:"Path of database_config.json on the switch."`
	Password  inventory.Secret `key:"password" doc:"Of its AUTH."`
}

// Check wants one of a socket and a port.
func (k *Keys) Check(m inventory.Mapping) {
	if m.Has("port") && k.Socket != "" {
		m.Wrong("port", "leave one of them out", "want a socket or a port, found both")
	}
}

// Place is the Redis: a laboratory has several switches on one machine.
func (k *Keys) Place(func(string) string) (string, bool) {
	return fmt.Sprintf("redis %s %d %s", k.Socket, k.Port, k.Databases), false
}
