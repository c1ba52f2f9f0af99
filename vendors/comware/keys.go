package comware

import "github.com/csig-agent/csig/inventory"

// Platform is what fleet files say of switches of Comware.
var Platform = inventory.Platform{
	Name: "comware", Key: "comware", Doc: "Which tag of a frame CSIG's is, for the platform comware.", Keys: (*Keys)(nil),
	PortName: portName,
}

// Keys are what a device's configuration cannot say.
type Keys struct {
	Tag string `key:"tag,need" words:"inner outer" hint:"tag: inner, or tag: outer" doc:"inner: behind a VLAN tag, whose VID chooses the VLAN that frames are bridged in, as without this key. outer: it is the only one, and its VID does."`
}

// Place is nothing: the switch is at the device's address.
func (*Keys) Place(func(string) string) (string, bool) { return "", false }
