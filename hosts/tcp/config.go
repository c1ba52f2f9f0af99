package tcp

import (
	"fmt"
	"strings"

	"github.com/csig-agent/csig/inventory"
)

// TPID is the only one that tags of TCP have: the kernel merges and cuts super-frames of no other.
const TPID = 0x88a8

// Config is a host whose connections have tags.
type Config struct {
	Fleet *inventory.Fleet
	Host  *inventory.Host // this machine, with TCP
}

// programmed is all of a configuration that the programs have; the rest is for people to read.
func (cfg *Config) programmed() any {
	peers, port := map[string]bool{}, uint16(0)
	if m := cfg.Fleet.Mesh; m != nil {
		port = m.Port
		for i := range cfg.Fleet.Hosts {
			if h := &cfg.Fleet.Hosts[i]; h.CSIG {
				peers[h.Address] = true
			}
		}
	}
	var room *headroom // the capacities of ports are in it
	if cfg.wantsControl() {
		room, _ = cfg.headroom() // without one there is no control, and loading it says why
	}
	return []any{*cfg.Host, cfg.Fleet.Profile, port, peers, room}
}

// Local is the host of a fleet that is this machine.
func Local(f *inventory.Fleet) (*Config, error) {
	var local *inventory.Host
	var with []string
	for i := range f.Hosts {
		h := &f.Hosts[i]
		if h.Local && local != nil {
			return nil, fmt.Errorf("%s: the hosts %s and %s are both marked local: leave it with the one that is this machine", f.Path, local.Name, h.Name)
		}
		if h.Local {
			local = h
		}
		if h.TCP != nil && len(with) < 3 {
			with = append(with, h.Name)
		}
	}
	switch {
	case local == nil && len(with) > 0:
		return nil, fmt.Errorf("%s: no host is marked local: add local: true, and its interface, to the one that is this machine (%s has tcp)", f.Path, strings.Join(with, ", "))
	case local == nil:
		return nil, fmt.Errorf("%s: no host is marked local: add this machine, e.g. hosts: [{name: h1, csig: true, local: true, interface: eth0, tcp: {to: [10.0.0.0/16]}}]", f.Path)
	case local.TCP == nil:
		return nil, fmt.Errorf("%s: host %s has no tcp: add the prefixes of the hosts that expect tags, e.g. tcp: {to: [10.0.0.0/16]}", f.Path, local.Name)
	}
	return &Config{Fleet: f, Host: local}, nil
}
