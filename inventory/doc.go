// Package inventory reads fleet files, the one file format of csig: from YAML
// to a validated, typed Fleet. Reading looks at nothing but the files: not at the
// environment, the network or the machine it runs on. Only Secret.Resolve does,
// when a credential is needed.
//
// A Fleet is what the files come to: includes, ranges, groups and defaults are
// taken in (docs/fleet.md has their rules), links are checked from both ends, and
// ports without a locator have been allocated one. DeviceOrigins and PortOrigins
// say where each value comes from.
//
// A fleet file describes one CSIG domain: the profile that all its devices
// share, the policy, and the devices with their egress ports.
//
//	format: csig.fleet/v1
//	profile:
//	  name: lab
//	  tpid: 0x9900           # of the compact tag, always hexadecimal
//	  layout: draft-00       # or uec; draft-00 unless given
//	  interval: 100ms        # averaging window Δt
//	  signals:               # abw, abwc, pd, nqd: those the domain carries
//	    abw: {buckets: log-10G}
//	    abwc: {buckets: log, initial_s: 30}
//	  locator:               # bit fields, most significant first
//	    - {name: stage, bits: 2, values: {tor: 1, spine: 2}}
//	    - {name: port, bits: 5}
//	policy:
//	  on_stale: conservative # or strip, passthrough; conservative unless given
//	  schedule: "@every 100ms"
//	  estimator: {method: ewma, time_constant: 500ms} # or dre; raw unless given
//	  damping: {hold: 3, margin: 10%}                 # off unless given
//	vlan_tpids: [0x8100, 0x88a8]
//	devices:
//	  - name: s1
//	    platform: linux
//	    local: true          # the device that csig agent runs on
//	    ports:
//	      - {name: swp1, speed: 10G, action: update, lm: {stage: tor, port: 1}, peer: "s2:Ethernet1"}
//	  - name: s2
//	    platform: eos
//	    address: 192.0.2.2   # of its management port
//	    counters:            # asked for there; else they are the platform's own
//	      source: snmp       # or gnmi, linux
//	      snmp: {version: 2c, community: {env: SNMP_COMMUNITY}}
//	    ports:
//	      - {name: Ethernet1, speed: 10G, lm: {stage: spine, port: 1}, peer: "s1:swp1"}
//
// docs/fleet.md explains the keys, and the structs with tags define them (key_tags.go).
//
// Reading finds all mistakes in one run. Each is an Error with file, line and
// column, the offending line and a hint. A secret that is in the file after all
// is a mistake whose Error shows <hidden> in its place. Files are bounded in size
// and depth, so that a hostile one costs a moment and no more.
//
// Sources: draft-ravi-ippm-csig-00 §5.3.2, §5.3.3 and §5.5.1 say what a domain
// has to agree on.
package inventory
