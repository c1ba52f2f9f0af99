package ovs

import (
	"strings"

	"github.com/csig-agent/csig/inventory"
)

// Platform is what fleet files say of bridges of Open vSwitch.
var Platform = inventory.Platform{
	Name: "ovs", Key: "ovs", Doc: "Which bridge of Open vSwitch it is, for the platform ovs.", Keys: (*Keys)(nil),
	// A program of Open vSwitch has many bridges, and none has the device's name.
	Missing: "it says which bridge is the device",
	Hint:    "management: {ovs: {bridge: NAME}}, of ovs-vsctl list-br; or the level that it has",
	PortName: func(name string) string {
		if len(name) > 15 {
			return "OpenFlow has 15 bytes of a port's name"
		}
		return ""
	},
}

// Keys are a bridge of Open vSwitch.
type Keys struct {
	Bridge string `key:"bridge,need" is:"line 64" hint:"the name of the bridge: ovs-vsctl list-br" doc:"Its name."`
	RunDir string `key:"run_dir" is:"path" default:"/var/run/openvswitch" doc:"Folder of Open vSwitch's sockets; /var/run/openvswitch unless given."` // on the device
	Table  uint8  `key:"table" range:"1 249" default:"60" low:"every frame begins in table 0, which is the bridge's own" hint:"1 or more, e.g. table: 60" doc:"The first of csig's six flow tables; 60 unless given."`
	Role   string `key:"role" words:"equal master" hash:"late" doc:"equal unless given; master makes every other controller of the bridge a slave, and is for bridges without one: csig-controller then fences owners of before."`
}

// IsMaster reports whether csig is to make slaves of all other controllers.
func (k *Keys) IsMaster() bool { return k.Role == "master" }

// Check wants the bridge of one device.
func (k *Keys) Check(m inventory.Mapping) {
	if strings.ContainsAny(k.Bridge, "[]") {
		m.WrongValue("bridge", "write an entry for each device; ranges work in names, addresses, netns, peers and links", "there are no ranges in the name of a bridge")
	}
}

// Place is the bridge: bridges of one machine are devices of their own.
func (k *Keys) Place(path func(string) string) (string, bool) {
	return "bridge " + k.Bridge + " of " + path(k.RunDir), true
}
