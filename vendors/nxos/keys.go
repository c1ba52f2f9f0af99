package nxos

import (
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors/cli/setup"
)

// Platform is what fleet files say of Nexus switches.
var Platform = inventory.Platform{
	Name: "nxos", Key: "nxos", Doc: "Which tag of a frame CSIG's is, for the platform nxos.", Keys: (*setup.Keys)(nil),
	PortName: portName,
}
