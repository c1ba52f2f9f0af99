// Package docs has the addresses of the pages in this folder, as csig prints them: who reads a message may have
// neither the repository nor the packages, whose /usr/share/doc/csig has the pages, too.
package docs

// Repository is where csig comes from, At where its pages are.
const (
	Repository = "https://github.com/csig-agent/csig"
	At         = Repository + "/blob/main/docs/"
)

// Pages that messages name.
const (
	Comware    = At + "comware.md"
	EOS        = At + "eos.md"
	Hosts      = At + "hosts.md"
	IOSXR      = At + "iosxr.md"
	Junos      = At + "junos.md"
	Legacy     = At + "legacy.md"
	Linux      = At + "linux.md"
	Mesh       = At + "mesh.md"
	NXOS       = At + "nxos.md"
	OpenConfig = At + "openconfig.md"
	OpenFlow   = At + "openflow.md"
	OVS        = At + "ovs.md"
	SAI        = At + "sai.md"
	SONiC      = At + "sonic.md"
	SRLinux    = At + "srlinux.md"
	VRP        = At + "vrp.md"
)
