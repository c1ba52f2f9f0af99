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
// The parts with more than one form:
//
//   - buckets is a preset's name (quantize.PresetNames), or a list of 33 bounds
//     (the low ends of the 32 buckets, then the upper end of the last), or a
//     list of 32 pairs [low, high). Values carry their unit: 1Gbit/s, 0.5%, 50us.
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
//   - A device may override interval, schedule and estimator, and say with
//     counters: {overhead: 24} how many bytes a frame takes on the wire beyond
//     what its octet counter counts, and with refresh: 1s how often the vendor
//     says that its counters are refreshed, where they are read less often.
//   - estimator is raw (over the interval), or ewma or dre, which need a
//     time_constant. damping advertises a worse bucket at once, and a better one when it
//     has held for that many readings and is that far inside of its bucket, in
//     steps of 0.1% of the bucket's width. Neither is in the profile's hash.
//   - source: snmp goes with snmp: {version, port, timeout, retries, recheck,
//     discards}; version 2c with community, version 3 with user and, as they
//     are needed, context, auth and priv, the last two each {protocol, key}.
//   - source: gnmi goes with gnmi: {port, target, mode, timeout}, and either
//     plaintext: true or tls: {ca, cert, key, server_name, insecure_skip_verify};
//     username and password go together, and under plaintext with
//     allow_plaintext_password: true alone. All have defaults: gnmi: {} is TLS
//     with the system's authorities.
//   - community, password and the keys of auth and priv are secrets, and a
//     secret is never in the file. The file says where it is: {env: NAME},
//     {file: /PATH}, which others may not read (0600, or 0640), or
//     {command: [PROGRAM, ARGUMENT]}, run without a shell. Paths are absolute.
//   - action is update (the default), passthrough or strip. An update port
//     without lm, or with some fields of it, is allocated one; a field whose
//     values have names is never chosen.
//   - peer is "device:port", or a host's name.
//   - Aliases (&name, *name) work for whole values; there are no merge keys.
//
// Reading finds all mistakes in one run. Each is an Error with file, line and
// column, the offending line and a hint. A secret that is in the file after all
// is a mistake whose Error shows <hidden> in its place. Files are bounded in size
// and depth, so that a hostile one costs a moment and no more.
//
// Sources: draft-ravi-ippm-csig-00 §5.3.2, §5.3.3 and §5.5.1 say what a domain
// has to agree on.
package inventory
