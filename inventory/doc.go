// Package inventory reads fleet files, the one file format of csig: from YAML
// to a validated, typed Fleet. It looks at nothing but the file: not at the
// environment, the network or the machine it runs on.
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
//	vlan_tpids: [0x8100, 0x88a8]
//	devices:
//	  - name: s1
//	    platform: linux
//	    local: true          # the device that csig agent runs on
//	    ports:
//	      - {name: swp1, speed: 10G, action: update, lm: {stage: tor, port: 1}, peer: "s2:swp1"}
//
// The parts with more than one form:
//
//   - buckets is a preset's name (quantize.PresetNames), or a list of 33 bounds
//     (the low ends of the 32 buckets, then the upper end of the last), or a
//     list of 32 pairs [low, high). Values carry their unit: 1Gbps, 0.5%, 50us.
//   - A signal also takes initial_s (what senders start with), and a locator of
//     its own in place of the profile's.
//   - A domain with wide tags has wide_tpid and may have wide_locator beside
//     locator; each signal then needs quantum, what one step of the wide S
//     stands for.
//   - lm is a number, or a value for each field of the locator format, or one of
//     these for each signal: {abw: 17, abwc: {stage: tor, port: 1}}.
//   - schedule is a cron expression of five fields, a descriptor such as
//     @hourly, or "@every 100ms"; by default "@every" Δt. It says when to sample
//     and may not be longer than Δt.
//   - A device may override interval and schedule, and say with
//     counters: {overhead: 24} how many bytes a frame takes on the wire beyond
//     what its octet counter counts.
//   - action is update (the default), passthrough or strip. An update port
//     needs an lm, unique in its device.
//   - peer is "device:port", or a host's name.
//   - Aliases (&name, *name) work for whole values; there are no merge keys.
//
// Reading finds all mistakes in one run. Each is an Error with file, line and
// column, the offending line and a hint. Files are bounded in size and depth,
// so that a hostile one costs a moment and no more.
//
// Sources: draft-ravi-ippm-csig-00 §5.3.2, §5.3.3 and §5.5.1 say what a domain
// has to agree on.
package inventory
