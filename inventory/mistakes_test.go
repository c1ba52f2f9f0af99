package inventory

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// good is a right file; each mistake changes a part of it.
const good = `format: csig.fleet/v1
profile:
  name: lab
  tpid: 0x9900
  layout: draft-00
  interval: 100ms
  signals:
    abw: {buckets: log-10G}
    abwc: {buckets: log}
  locator:
    - {name: stage, bits: 2, values: {tor: 1, spine: 2}}
    - {name: port, bits: 5}
policy:
  on_stale: conservative
  schedule: "@every 100ms"
devices:
  - name: s1
    platform: linux
    local: true
    ports:
      - {name: swp1, speed: 10G, action: update, lm: {stage: tor, port: 1}, peer: "s2:swp1"}
      - {name: swp2, speed: 10G, action: strip, peer: h1}
      - {name: swp3, lm: 17, action: passthrough}
  - name: s2
    platform: linux
    ports:
      - {name: swp1, speed: 10G, lm: {stage: spine, port: 1}, peer: "s1:swp1"}
`

// port1 and the like are the lines that the table below changes.
const (
	port1 = `{name: swp1, speed: 10G, action: update, lm: {stage: tor, port: 1}, peer: "s2:swp1"}`
	port3 = `{name: swp3, lm: 17, action: passthrough}`
	abw   = `abw: {buckets: log-10G}`
	stage = `{name: stage, bits: 2, values: {tor: 1, spine: 2}}`
)

// onTCP adds hosts to a fleet whose TPID is that of TCP.
func onTCP(hosts string) []string {
	return []string{"tpid: 0x9900", "tpid: 0x88a8", "policy:", "vlan_tpids: [0x8100]\n" + hosts + "\npolicy:"}
}

func numbers(n int, unit string) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%d%s", i, unit)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func pairs(change map[int]string) string {
	out := make([]string, 32)
	for i := range out {
		out[i] = fmt.Sprintf("[%dGbps, %dGbps]", i, i+1)
		if c, ok := change[i]; ok {
			out[i] = c
		}
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// onS1 and the like put a line into the right file.
func onS1(line string) []string { return []string{"    local: true", "    local: true\n    " + line} }
func onS2(lines string) []string {
	return []string{"  - name: s2\n    platform: linux", "  - name: s2\n    " + lines}
}
func inPolicy(line string) []string {
	return []string{"  on_stale: conservative", "  on_stale: conservative\n  " + line}
}
func snmp(block string) []string {
	return onS1("address: 192.0.2.7\n    counters:\n      source: snmp\n      snmp: " + block)
}
func facts(lines string) []string {
	return []string{"    local: true", "    local: true\n    facts: x", "devices:\n", "facts:\n  x:\n    platform: linux\n    model: M\n    version: V\n    date: 2026-11-22\n    tpids: [0x9900]\n    " + lines + "\ndevices:\n"}
}
func gnmi(block string) []string {
	return onS1("address: 192.0.2.7\n    counters:\n      source: gnmi\n      gnmi: " + block)
}

// firstField calls the locator's first field otherwise, and makes further changes.
func firstField(field string, changes ...string) []string {
	return append([]string{"stage, bits: 2, values: {tor: 1, spine: 2}", field}, changes...)
}

// mistakes are pairs of what to replace in good; "" is the whole file.
var mistakes = []struct {
	name    string
	changes []string
}{
	{"empty file", []string{"", ""}},
	{"only comments", []string{"", "# nothing\n"}},
	{"not a mapping", []string{"", "- a\n- b\n"}},
	{"plain text", []string{"", "hello\n"}},
	{"two documents", []string{"", good + "---\n" + good}},
	{"unclosed brace", []string{port3, `{name: swp3, lm: 17`}},
	{"unclosed quote", []string{`"@every 100ms"`, `"@every 100ms`}},
	{"tab indentation", []string{"  name: lab", "\tname: lab"}},
	{"colon in plain text", []string{"name: lab", "name: lab: two"}},
	{"missing colon", []string{"  name: lab", "  name lab"}},
	{"at sign without quotes", []string{`"@every 100ms"`, "@every 100ms"}},
	{"not UTF-8", []string{"name: lab", "name: l\xe4b"}},
	{"control character", []string{"name: lab", "name: l\x1b[31mb"}},
	{"format missing", []string{"format: csig.fleet/v1\n", ""}},
	{"format of the future", []string{"csig.fleet/v1", "csig.fleet/v2"}},
	{"format of something else", []string{"csig.fleet/v1", "v1"}},
	{"profile missing", []string{"", "format: csig.fleet/v1\n"}},
	{"profile empty", []string{"", "format: csig.fleet/v1\nprofile:\ndevices: []\n"}},
	{"unknown key at the top", []string{"policy:", "polcy:"}},
	{"unknown key in a port", []string{"{name: swp2, speed: 10G", "{name: swp2, sped: 10G"}},
	{"unknown key far from any", []string{"local: true", "colour: blue"}},
	{"key twice", []string{"  name: lab", "  name: lab\n  name: lab2"}},
	{"key twice in a port", []string{"{name: swp2, speed: 10G", "{name: swp2, speed: 10G, speed: 1G"}},
	{"merge key", []string{port3, `{<<: {lm: 17}, name: swp3, action: passthrough}`}},
	{"YAML tag", []string{"lm: 17", "lm: !!str 17"}},
	{"alias without anchor", []string{"lm: 17", "lm: *nowhere"}},
	{"anchor twice", []string{"name: swp2", "name: &a swp2", "name: swp3", "name: &a swp3"}},
	{"value missing", []string{"  layout: draft-00", "  layout:"}},
	{"list where a word belongs", []string{"name: lab", "name: [lab]"}},
	{"truth where a word belongs", []string{"name: lab", "name: true"}},
	{"word where a list belongs", []string{"  locator:\n    - " + stage + "\n    - {name: port, bits: 5}\n", "  locator: stage\n"}},
	{"empty list entry", []string{"- " + port3, "-"}},
	{"profile name with a space", []string{"name: lab", "name: my lab"}},
	{"tpid missing", []string{"  tpid: 0x9900\n", ""}},
	{"tpid without 0x", []string{"tpid: 0x9900", "tpid: 9900"}},
	{"tpid too long", []string{"tpid: 0x9900", "tpid: 0x99000"}},
	{"tpid is a length", []string{"tpid: 0x9900", "tpid: 0x0500"}},
	{"tpid of VLANs", []string{"tpid: 0x9900", "tpid: 0x8100"}},
	{"tpid of IPv6", []string{"tpid: 0x9900", "tpid: 0x86dd"}},
	{"tpid of QinQ", []string{"tpid: 0x9900", "tpid: 0x88a8"}},
	{"wide tpid the same", []string{"  layout", "  wide_tpid: 0x9900\n  layout"}},
	{"wide tpid of QinQ and no quantum", []string{"  layout", "  wide_tpid: 0x88a8\n  layout"}},
	{"retired tpid the profile's", []string{"  layout", "  retired_tpids: [0x9900]\n  layout"}},
	{"retired tpid the wide one's", []string{"  layout", "  wide_tpid: 0x9901\n  retired_wide_tpids: [0x9901]\n  layout"}},
	{"retired tpid twice", []string{"  layout", "  retired_tpids: [0x9902, 0x9903]\n  retired_wide_tpids: [0x9902]\n  layout"}},
	{"retired tpid of VLANs", []string{"  layout", "  retired_tpids: [0x8100, 0x88a8]\n  layout"}},
	{"retired tpid is a length", []string{"  layout", "  retired_tpids: [0x0500]\n  layout"}},
	{"retired tpid not in a list", []string{"  layout", "  retired_tpids: 0x9902\n  layout"}},
	{"too many retired tpids", []string{"  layout", "  retired_tpids: [0x9902, 0x9903, 0x9904, 0x9905, 0x9906, 0x9907, 0x9908, 0x9909, 0x990a]\n  layout"}},
	{"strip_retired no truth", []string{"{name: swp2, speed: 10G", "{name: swp2, strip_retired: maybe, speed: 10G"}},
	{"level with a profile that is no hash", []string{"local: true", "local: true\n    level: {is: native, profile: lab}"}},
	{"level with a profile that csig gives", []string{"local: true", "local: true\n    level: {is: software, profile: 0123456789ab}"}},
	{"vlan tpid unknown", []string{"policy:", "vlan_tpids: [0x8100, 0x9100, 0x8100]\npolicy:"}},
	{"layout unknown", []string{"layout: draft-00", "layout: draft-0"}},
	{"interval missing", []string{"  interval: 100ms\n", ""}},
	{"interval without unit", []string{"interval: 100ms", "interval: 100"}},
	{"interval too short", []string{"interval: 100ms", "interval: 10us"}},
	{"interval negative", []string{"interval: 100ms", "interval: -1s"}},
	{"signal unknown", []string{"abwc: {", "abcw: {"}},
	{"no signals", []string{"  signals:\n    " + abw + "\n    abwc: {buckets: log}\n", "  signals: {}\n"}},
	{"nqd in draft-00", []string{"abwc: {", "nqd: {"}},
	{"buckets missing", []string{abw, "abw: {initial_s: 30}"}},
	{"preset unknown", []string{"log-10G", "log-10g"}},
	{"preset of another signal", []string{"log-10G", "linear"}},
	{"too few bounds", []string{"log-10G", numbers(32, "Gbps")}},
	{"bound with the wrong unit", []string{"log-10G", strings.Replace(numbers(33, "Gbps"), "5Gbps", "5ms", 1)}},
	{"bounds out of order", []string{"log-10G", strings.Replace(numbers(33, "Gbps"), "7Gbps", "3Gbps", 1)}},
	{"ranges with a gap and an overlap", []string{"log-10G", pairs(map[int]string{3: "[3Gbps, 3.5Gbps]", 9: "[8Gbps, 10Gbps]"})}},
	{"range with one end", []string{"log-10G", pairs(map[int]string{3: "[3Gbps]"})}},
	{"bounds and ranges", []string{"log-10G", "[0, 1Gbps, [1Gbps, 2Gbps]]"}},
	{"initial_s too large", []string{abw, "abw: {buckets: log-10G, initial_s: 32}"}},
	{"initial_s is the worst", []string{abw, "abw: {buckets: log-10G, initial_s: 0}"}},
	{"locator too wide", []string{"name: port, bits: 5", "name: port, bits: 6"}},
	{"locator field twice", []string{"name: port, bits: 5", "name: stage, bits: 5"}},
	{"locator value too large", []string{"spine: 2", "spine: 4"}},
	{"locator values share a number", []string{"spine: 2", "spine: 1"}},
	{"locator field with a signal's name", []string{"name: port, bits: 5", "name: abw, bits: 5"}},
	{"locator field with a bad name", []string{"name: port, bits: 5", "name: 7th, bits: 5"}},
	{"locator field without bits", []string{"name: port, bits: 5", "name: port, bits: 0"}},
	{"on_stale unknown", []string{"on_stale: conservative", "on_stale: discard"}},
	{"drift_check too often", []string{"on_stale: conservative", "on_stale: conservative\n  drift_check: \"@every 5s\""}},
	{"drift_check not cron", []string{"on_stale: conservative", "on_stale: conservative\n  drift_check: at night"}},
	{"schedule not cron", []string{`"@every 100ms"`, "often"}},
	{"schedule zone only", []string{`"@every 100ms"`, "TZ=UTC"}},
	{"schedule too fast", []string{`"@every 100ms"`, `"@every 100us"`}},
	{"schedule never due", []string{`"@every 100ms"`, `"0 0 30 2 *"`}},
	{"schedule longer than the interval", []string{`"@every 100ms"`, `"@every 1s"`}},
	{"cron longer than the interval", []string{`"@every 100ms"`, `"*/5 * * * *"`}},
	{"device interval below the schedule", []string{"    local: true", "    local: true\n    interval: 50ms"}},
	{"device schedule above the interval", []string{"    local: true", "    local: true\n    schedule: '@every 200ms'"}},
	{"device name missing", []string{"  - name: s1\n    platform", "  - platform"}},
	{"device name with a colon", []string{"- name: s1", `- name: "s1:a"`}},
	{"device twice", []string{"- name: s2", "- name: s1"}},
	{"platform missing", []string{"    platform: linux\n    local: true\n", "    local: true\n"}},
	{"two local devices", []string{"- name: s2\n", "- name: s2\n    local: true\n"}},
	{"local is a word", []string{"local: true", "local: yes"}},
	{"overhead too large", []string{"    local: true", "    local: true\n    counters: {overhead: 400}"}},
	{"refresh longer than an hour", []string{"    local: true", "    local: true\n    counters: {refresh: 2h}"}},
	{"address with a port", onS1("address: 192.0.2.7:161")},
	{"address of a network", onS1("address: 192.0.2.0/24")},
	{"address out of range", onS1("address: 192.0.2.256")},
	{"address with a space", onS1("address: leaf 1")},
	{"source unknown", onS1("counters: {source: snpm}")},
	{"unknown key in counters", onS1("counters: {sorce: snmp}")},
	{"counters are a word", onS1("counters: snmp")},
	{"snmp missing", onS1("address: a\n    counters: {source: snmp}")},
	{"gnmi missing", onS1("address: a\n    counters: {source: gnmi}")},
	{"snmp without source", onS1("counters: {snmp: {version: 2c, community: {env: C}}}")},
	{"gnmi under another source", onS1("address: a\n    counters: {source: snmp, snmp: {version: 2c, community: {env: C}}, gnmi: {}}")},
	{"snmp for the kernel", onS1("counters: {source: linux, snmp: {version: 2c, community: {env: C}}}")},
	{"address missing for snmp", onS1("counters: {source: snmp, snmp: {version: 2c, community: {env: C}}}")},
	{"address missing for gnmi", onS1("counters: {source: gnmi, gnmi: {}}")},
	{"snmp is a word", snmp("public")},
	{"snmp version missing", snmp("{community: {env: C}}")},
	{"snmp version 1", snmp("{version: 1, community: {env: C}}")},
	{"snmp version with a v", snmp("{version: v2c, community: {env: C}}")},
	{"snmp port 0", snmp("{version: 2c, community: {env: C}, port: 0}")},
	{"snmp port too large", snmp("{version: 2c, community: {env: C}, port: 65536}")},
	{"community missing", snmp("{version: 2c}")},
	{"community with version 3", snmp("{version: 3, user: u, community: {env: C}}")},
	{"user, auth and priv with version 2c", snmp("{version: 2c, community: {env: C}, user: u, auth: {protocol: sha, key: {env: A}}, priv: {protocol: aes, key: {env: P}}}")},
	{"user missing", snmp("{version: 3}")},
	{"user too long", snmp("{version: 3, user: " + strings.Repeat("u", 33) + "}")},
	{"priv without auth", snmp("{version: 3, user: u, priv: {protocol: aes, key: {env: P}}}")},
	{"auth protocol unknown", snmp("{version: 3, user: u, auth: {protocol: sha-256, key: {env: A}}}")},
	{"auth protocol missing", snmp("{version: 3, user: u, auth: {key: {env: A}}}")},
	{"auth key missing", snmp("{version: 3, user: u, auth: {protocol: sha}}")},
	{"auth is a word", snmp("{version: 3, user: u, auth: hunter22}")},
	{"priv protocol unknown", snmp("{version: 3, user: u, auth: {protocol: sha, key: {env: A}}, priv: {protocol: aes128, key: {env: P}}}")},
	{"snmp timeout without unit", snmp("{version: 2c, community: {env: C}, timeout: 1}")},
	{"snmp timeout zero", snmp("{version: 2c, community: {env: C}, timeout: 0s}")},
	{"snmp retries too many", snmp("{version: 2c, community: {env: C}, retries: 11}")},
	{"snmp context of version 2c", snmp("{version: 2c, community: {env: C}, context: vrf-1}")},
	{"snmp context too long", snmp("{version: 3, user: u, context: a-context-name-of-more-than-32-bytes}")},
	{"snmp recheck negative", snmp("{version: 2c, community: {env: C}, recheck: -1s}")},
	{"snmp discards unknown", snmp("{version: 2c, community: {env: C}, discards: maybe}")},
	{"unknown key in snmp", snmp("{version: 2c, comunity: hunter22}")},
	{"secret inline", snmp("{version: 2c, community: hunter22}")},
	{"secret inline in quotes", snmp("{version: 2c, community: 'hunter22', prot: 161}")},
	{"secret inline as a block of text", snmp("\n        version: 2c\n        community: |\n          hunter22")},
	{"secret inline in a list", snmp("{version: 2c, community: [hunter22]}")},
	{"secret inline as a truth", snmp("{version: 2c, community: true}")},
	{"secret inline as an alias", snmp("{version: 2c, community: *hunter22}")},
	{"secret inline as a tag", snmp("{version: 2c, community: !hunter22 x}")},
	{"secret inline in braces", snmp("{version: 2c, community: {hunter22}}")},
	{"secret inline without colon", snmp("{version: 2c, community hunter22}")},
	{"secret inline and a syntax error", snmp("{version: 2c, community: hunter22")},
	{"secret in two places", snmp("{version: 2c, community: {env: C, file: /c}}")},
	{"secret in an unknown place", snmp("{version: 2c, community: {vault: c}}")},
	{"secret's variable is no name", snmp("{version: 2c, community: {env: hunter-22}}")},
	{"secret's variable missing", snmp("{version: 2c, community: {env: }}")},
	{"secret's file relative", snmp("{version: 2c, community: {file: hunter22}}")},
	{"secret's command is a line", snmp("{version: 2c, community: {command: pass show snmp}}")},
	{"secret's command empty", snmp("{version: 2c, community: {command: []}}")},
	{"secret's command in lists", snmp("{version: 2c, community: {command: [pass, [show]]}}")},
	{"unknown key in gnmi", gnmi("{timout: 1s}")},
	{"gnmi password inline", gnmi("{username: u, password: hunter22}")},
	{"gnmi password without username", gnmi("{password: {env: P}}")},
	{"gnmi username without password", gnmi("{username: u}")},
	{"gnmi plaintext with a password", gnmi("{plaintext: true, username: u, password: {env: P}}")},
	{"gnmi plaintext with tls", gnmi("{plaintext: true, tls: {ca: /ca.pem}}")},
	{"gnmi certificate without key", gnmi("{tls: {cert: /c.pem}}")},
	{"gnmi key without certificate", gnmi("{tls: {key: /c.key}}")},
	{"gnmi certificate relative", gnmi("{tls: {ca: certs/ca.pem}}")},
	{"gnmi certificates not looked at", gnmi("{tls: {ca: /ca.pem, insecure_skip_verify: true}}")},
	{"gnmi server name with a space", gnmi("{tls: {server_name: leaf 1}}")},
	{"gnmi target with a line break", gnmi(`{target: "leaf\n1"}`)},
	{"gnmi mode unknown", gnmi("{mode: poll}")},
	{"gnmi timeout too long", gnmi("{timeout: 1h}")},
	{"estimator unknown", inPolicy("estimator: {method: emwa, time_constant: 1s}")},
	{"estimator without method", inPolicy("estimator: {time_constant: 1s}")},
	{"estimator without time constant", inPolicy("estimator: {method: ewma}")},
	{"raw estimator with a time constant", inPolicy("estimator: {method: raw, time_constant: 1s}")},
	{"time constant zero", inPolicy("estimator: {method: dre, time_constant: 0s}")},
	{"time constant without unit", onS1("estimator: {method: dre, time_constant: 500}")},
	{"damping hold negative", inPolicy("damping: {hold: -1}")},
	{"damping margin without unit", inPolicy("damping: {margin: 2}")},
	{"damping margin too large", inPolicy("damping: {margin: 101%}")},
	{"damping margin too fine", inPolicy("damping: {margin: 0.05%}")},
	{"no ports", []string{"", strings.SplitAfter(good, "    local: true\n")[0]}},
	{"ports empty", []string{"", strings.SplitAfter(good, "    local: true\n")[0] + "    ports: []\n"}},
	{"port twice", []string{"name: swp2", "name: swp1"}},
	{"port name too long", []string{"name: swp3", "name: HundredGigE1/0/1"}},
	{"port name with a slash", []string{"name: swp3", "name: Gi0/1"}},
	{"speed without unit", []string{port1, strings.Replace(port1, "10G", "10", 1)}},
	{"speed overridden without a unit", []string{port1, strings.Replace(port1, "10G", "{override: 10}", 1)}},
	{"speed overridden by zero", []string{port1, strings.Replace(port1, "10G", "{override: 0}", 1)}},
	{"speed overridden by nothing", []string{port1, strings.Replace(port1, "10G", "{}", 1)}},
	{"speed overridden twice", []string{port1, strings.Replace(port1, "10G", "{override: 10G, override: 1G}", 1)}},
	{"speed with an unknown key", []string{port1, strings.Replace(port1, "10G", "{overide: 10G}", 1)}},
	{"speed overridden by a list", []string{port1, strings.Replace(port1, "10G", "{override: [10G]}", 1)}},
	{"speed as a list", []string{port1, strings.Replace(port1, "10G", "[10G]", 1)}},
	{"overridden speeds of a link differ", []string{port1, strings.Replace(port1, "10G", "{override: 1G}", 1)}},
	{"speed as time", []string{port1, strings.Replace(port1, "10G", "10ms", 1)}},
	{"speed zero", []string{port1, strings.Replace(port1, "10G", "0", 1)}},
	{"action unknown", []string{"action: strip", "action: stripp"}},
	{"lm missing", []string{"lm: {stage: tor, port: 1}, ", ""}},
	{"lm reserved for none", []string{"lm: 17", "lm: 126"}},
	{"lm reserved for stale", []string{"lm: 17", "lm: 125"}},
	{"lm zero", []string{"lm: 17", "lm: 0"}},
	{"lm fields give zero", []string{"{stage: tor, port: 1}", "{stage: 0, port: 0}"}},
	{"lm fields give none", []string{"{stage: tor, port: 1}", "{stage: 3, port: 30}"}},
	{"lm too large", []string{"lm: 17", "lm: 128"}},
	{"lm octal", []string{"lm: 17", "lm: 017"}},
	{"lm beyond its fields", []string{"bits: 5", "bits: 3", "lm: 17", "lm: 40"}},
	{"lm field unknown", []string{"{stage: tor, port: 1}", "{stag: tor, port: 1}"}},
	{"lm field with names missing", []string{"{stage: tor, port: 1}", "{port: 1}"}},
	{"field capacity with names, and no speed", firstField("capacity, bits: 2, values: {s10G: 1, s25G: 2}", "speed: 10G, action: update, lm: {stage: tor, port: 1}", "lm: {port: 1}", "lm: {stage: spine, port: 1}", "lm: {capacity: 3}")},
	{"field capacity without a name for the speed", firstField("capacity, bits: 2, values: {s1G: 1, s25G: 2}", "lm: {stage: tor, port: 1}", "lm: {port: 1}", "lm: {stage: spine, port: 1}", "lm: {capacity: 3}")},
	{"field capacity with two names for the speed", firstField("capacity, bits: 2, values: {s10G: 1, cap-10G: 2}", "lm: {stage: tor, port: 1}", "lm: {port: 1}", "lm: {stage: spine, port: 1}", "lm: {capacity: 3}")},
	{"field capacity without a number for the speed", firstField("capacity, bits: 4", "speed: 10G, action: update, lm: {stage: tor, port: 1}", "speed: 48bit/s", "port, bits: 5", "port, bits: 3", "speed: 10G, lm: {stage: spine, port: 1}", "lm: {capacity: 3}", "lm: 17, ", "")},
	{"field capacity with too few bits", firstField("capacity, bits: 2", "lm: {stage: tor, port: 1}", "lm: {port: 1}", "lm: {stage: spine, port: 1}", "lm: {port: 1}")},
	{"field stage with too few bits", firstField("stage, bits: 1", "lm: {stage: tor, port: 1}", "lm: {stage: 0}", "lm: {stage: spine, port: 1}", "lm: {port: 1}")},
	{"field orientation with too few bits", firstField("orientation, bits: 1", "action: strip, peer: h1", "lm: {port: 2}, peer: h1", "lm: {stage: tor, port: 1}", "lm: {port: 1}", "lm: {stage: spine, port: 1}", "lm: {orientation: 0}")},
	{"field orientation with names, and no cable", firstField("orientation, bits: 2, values: {up: 1, down: 2}", "lm: {stage: tor, port: 1}", "lm: {orientation: up}", "lm: {stage: spine, port: 1}", "lm: {orientation: down}", "lm: 17, action: passthrough", "mtu: 9000")},
	{"field orientation with names, and no way to a host", firstField("orientation, bits: 2, values: {up: 1, down: 2}", "peer: h1", "mtu: 9000", "lm: {stage: tor, port: 1}", "lm: {port: 1}", "lm: {stage: spine, port: 1}", "lm: {orientation: down}")},
	{"field orientation with names, and a device of another fleet", []string{"", strings.Replace(derivedHead("[{name: orientation, bits: 2, values: {up: 1, down: 2}}, {name: port, bits: 5}]"), "sonic", "linux", 1) + "devices:\n  - {name: s1, ports: [{name: p1, peer: h1}, {name: p2, peer: 's2:p1'}]}\n"}},
	{"field orientation without a name for the side", []string{"", derivedHead("[{name: orientation, bits: 2, values: {up: 1, down: 2}}, {name: port, bits: 5}]") + "devices:\n  - {name: s1, ports: [{name: p1, peer: h1}, {name: p2, peer: 's2:p2'}]}\n  - {name: s2, ports: [{name: p1, peer: h2}, {name: p2, peer: 's1:p2'}]}\n"}},
	{"field orientation with names of another language", firstField("orientation, bits: 2, values: {north: 1, south: 2}", "lm: {stage: tor, port: 1}", "lm: {port: 1}", "lm: {stage: spine, port: 1}", "lm: {orientation: south}")},
	{"derived fields are a reserved locator", []string{"", derivedHead("[{name: capacity, bits: 5, values: {s10G: 31}}, {name: orientation, bits: 2}]") + "devices:\n  - {name: s1, ports: [{name: p1, speed: 10G, peer: h1}]}\n"}},
	{"derived fields of which none is known", []string{"", derivedHead("[{name: capacity, bits: 5}, {name: orientation, bits: 2}]") + "devices:\n  - {name: s1, ports: [{name: p1}]}\n"}},
	{"derived fields and one locator twice", []string{"", derivedHead("[{name: capacity, bits: 4}, {name: port, bits: 3}]") + "devices:\n  - {name: s1, ports: [{name: p1, speed: 10G, lm: {port: 1}}, {name: p2, speed: 10G, lm: {port: 1}}, {name: p3, speed: 25G, lm: {port: 1}}]}\n"}},
	{"lm value unknown", []string{"{stage: tor,", "{stage: spin,"}},
	{"lm value too large", []string{"{stage: tor, port: 1}", "{stage: tor, port: 32}"}},
	{"lm for one signal only", []string{"lm: 17, action: passthrough", "lm: {abw: 17}"}},
	{"lm for a signal that is not carried", []string{"lm: 17", "lm: {abw: 17, abwc: 17, pd: 17}"}},
	{"lm twice in a device", []string{"lm: 17", "lm: {stage: tor, port: 1}"}},
	{"lm twice for one signal", []string{"lm: 17", "lm: {abw: 17, abwc: 33}"}},
	{"mtu with a leading zero", []string{port3, strings.Replace(port3, "lm: 17", "mtu: 09216, lm: 17", 1)}},
	{"speed negative", []string{port1, strings.Replace(port1, "10G", "-25G", 1)}},
	{"interval too long", []string{"interval: 100ms", "interval: 100000h"}},
	{"cable twice", []string{"", good + "links:\n  - s1:swp3 - h7\n  - s1:swp3 - h7\n"}},
	{"cable twice, between devices", []string{"", good + "links: ['s1:swp1 - s2:swp1', 's1:swp1 - s2:swp1']\n"}},
	{"cable twice, the other way round", []string{"", good + "links: ['s1:swp1 - s2:swp1', 's2:swp1 - s1:swp1']\n"}},
	{"host on the right is another number", []string{"", good + "hosts: [h1, h2]\nlinks: ['s1:swp3 - h5']\n"}},
	{"mesh without a key", []string{"", good + "mesh: {}\n"}},
	{"mesh key in the file", []string{"", good + "mesh: {key: s3cret}\n"}},
	{"collector without a port", []string{"", good + "mesh: {key: {env: KEY}, collector: 192.0.2.7}\n"}},
	{"tls of a mesh without a collector", []string{"", good + "mesh: {key: {env: KEY}, tls: {ca: /ca.pem, cert: /c.pem, key: /c.key}}\n"}},
	{"no room above a mesh's port", []string{"", good + "mesh: {key: {env: KEY}, port: 65532}\n"}},
	{"tls of a mesh without a certificate", []string{"", good + "mesh: {key: {env: KEY}, collector: \"192.0.2.7:9918\", tls: {ca: /ca.pem}}\n"}},
	{"mesh that is too fast", []string{"", good + "mesh: {key: {env: KEY}, interval: 1ms}\n"}},
	{"host's address is a name", []string{"", good + "hosts: [{name: h1, address: h1.example.net}]\n"}},
	{"one address for two hosts", []string{"", good + "hosts: [{name: 'h[1-2]', address: 192.0.2.1}]\n"}},
	{"two hosts at one address", []string{"", good + "hosts: [{name: h1, address: 192.0.2.1}, {name: h2, address: '::ffff:192.0.2.1'}]\n"}},
	{"TCP with another TPID", []string{"", good + "hosts: [{name: h1, csig: true, tcp: {to: [10.0.0.0/8]}}]\n"}},
	{"TCP of a host without CSIG", onTCP("hosts: [{name: h1, tcp: {to: [10.0.0.0/8]}}]")},
	{"TCP to nobody", onTCP("hosts: [{name: h1, csig: true, tcp: {ports: [443]}}]")},
	{"TCP to an empty list", onTCP("hosts: [{name: h1, csig: true, tcp: {to: []}}]")},
	{"TCP to what is no prefix", onTCP("hosts: [{name: h1, csig: true, tcp: {to: [10.0.0.7]}}]")},
	{"TCP to a prefix with bits behind it", onTCP("hosts: [{name: h1, csig: true, tcp: {to: [10.0.0.7/24]}}]")},
	{"TCP to a mapped prefix", onTCP("hosts: [{name: h1, csig: true, tcp: {to: ['::ffff:10.0.0.0/104']}}]")},
	{"TCP with ports backwards", onTCP("hosts: [{name: h1, csig: true, tcp: {to: [10.0.0.0/8], ports: [443, 9000-8000]}}]")},
	{"TCP with a share above all", onTCP("hosts: [{name: h1, csig: true, tcp: {to: [10.0.0.0/8], tag: 2/1}}]")},
	{"TCP under a control that csig has not", onTCP("hosts: [{name: h1, csig: true, tcp: {to: [10.0.0.0/8], control: bbr}}]")},
	{"TCP with a share of nothing", onTCP("hosts: [{name: h1, csig: true, tcp: {to: [10.0.0.0/8], control: csig, jump: 1/0, ramp: 0.5, ewma: 2/3}}]")},
	{"TCP with shares that the system's control has not", onTCP("hosts: [{name: h1, csig: true, tcp: {to: [10.0.0.0/8], jump: 1/4}}, {name: h2, csig: true, tcp: {to: [10.0.0.0/8], control: native, ramp: all}}]")},
	{"TCP with the option of another RFC", onTCP("hosts: [{name: h1, csig: true, tcp: {to: [10.0.0.0/8], option: 172}}]")},
	{"TCP with an option of the kernel", onTCP("hosts: [{name: h1, csig: true, tcp: {to: [10.0.0.0/8], option: 8}}]")},
	{"TCP of a control group without its path", onTCP("hosts: [{name: h1, csig: true, tcp: {to: [10.0.0.0/8], cgroup: system.slice}}]")},
	{"host on the right is a slip", []string{"", good + "hosts: [h1, gpu-1]\nlinks: ['s1:swp3 - gup-1']\n"}},
	{"ovs without a bridge", onS2("platform: ovs")},
	{"ovs without a bridge, by a group", []string{"    platform: linux\n    ports:\n      - {name: swp1, speed: 10G, lm: {stage: spine", "    groups: ovs\n    ports:\n      - {name: swp1, speed: 10G, lm: {stage: spine", "devices:\n", "groups:\n  ovs: {platform: ovs, management: {daemon: {socket: /run/a.sock}}}\ndevices:\n"}},
	{"ovs with a table and no bridge", onS2("platform: ovs\n    management: {ovs: {table: 60}}")},
	{"peer without port", []string{`"s2:swp1"`, `"s2:"`}},
	{"facts that are not there", onS1("facts: x")},
	{"facts misspelt", []string{"    local: true", "    local: true\n    facts: leaf-switch", "devices:\n", "facts: {leaf-swich: {platform: linux, model: M, version: V, date: 2026-11-22, tpids: [0x9900]}}\ndevices:\n"}},
	{"facts without what they are of", []string{"    local: true", "    local: true\n    facts: x", "devices:\n", "facts: {x: {passthrough: true}}\ndevices:\n"}},
	{"facts with a name of two words", []string{"devices:\n", "facts: {a b: {}}\ndevices:\n"}},
	{"facts: key unknown", facts("hitles: true")},
	{"facts: not a truth", facts("hitless: maybe")},
	{"facts: not a day", []string{"devices:\n", "facts: {x: {platform: linux, model: M, version: V, date: 22.11.2026, tpids: [0x9900]}}\ndevices:\n", "    local: true", "    local: true\n    facts: x"}},
	{"facts: a field that no tag has", facts("loses: [DEI, TTL]")},
	{"facts: fields not in a list", facts("loses: DEI")},
	{"facts: VIDs backwards", facts("dropped_vids: [4095-3968]")},
	{"facts: no such VID", facts("dropped_vids: [0, 4096]")},
	{"facts: VIDs octal", facts("dropped_vids: [012]")},
	{"facts: entries negative", facts("entries: -1")},
	{"facts: duration without unit", facts("ack_to_wire: 12")},
	{"facts: a depth that passed and failed", facts("tags_in_front: 2\n    tags_in_front_fail: 2")},
	{"facts: nothing to wait for", facts("ack_to_wire: 0s")},
	{"facts: a fallback at once", facts("fallback_after: 0s")},
	{"facts: a fallback without a lease", facts("lease: false\n    fallback_after: 1s")},
	{"facts: a reason of nothing", facts("reasons: {hitless: a frame had neither value}")},
	{"facts: a reason of an unknown key", facts("hitless: false\n    reasons: {hitles: a frame had neither value}")},
	{"facts: a reason that is too long", facts("hitless: false\n    reasons: {hitless: " + strings.Repeat("a", 301) + "}")},
	{"experimental is a word", onS1("experimental: please")},
	{"updates by another way", onS1("updates: netconf")},
	{"updates are a list", onS1("updates: [cli]")},
	{"lease is a time", onS1("lease: 30s")},
	{"several at once", []string{"tpid: 0x9900", "tpid: 9900", "log-10G", "log-10", "speed: 10G, action: strip", "speed: fast, action: drop", "port: 1}, peer: \"s1", "port: 40}, peer: \"s1"}},
}

// A device of Open vSwitch that csig sets nothing up on needs no bridge, and one
// with a bridge is right.
func TestBridgeOfOpenVSwitch(t *testing.T) {
	for _, lines := range []string{
		"platform: ovs\n    management: {ovs: {bridge: csig}}",
		"platform: ovs\n    level: {is: passthrough, reason: it is told nothing}",
	} {
		if _, err := Parse("fleet.yaml", []byte(mistaken(t, onS2(lines)))); err != nil {
			t.Errorf("%s: %v", lines, err)
		}
	}
	// One mistake is not two.
	_, err := Parse("fleet.yaml", []byte(mistaken(t, onS2("platform: ovs\n    management: {ovs: csig}"))))
	var list Errors
	if !errors.As(err, &list) || len(list) != 1 || strings.Contains(err.Error(), "is missing") {
		t.Errorf("a bridge that cannot be read: %v", err)
	}
}

func mistaken(t testing.TB, changes []string) string {
	t.Helper()
	text := good
	for i := 0; i < len(changes); i += 2 {
		if changes[i] == "" {
			text = changes[i+1]
			continue
		}
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("the right file does not contain %q", changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	return text
}

// TestMistakes compares the exact messages with testdata/mistakes.golden.
func TestMistakes(t *testing.T) {
	if _, err := Parse("good.yaml", []byte(good)); err != nil {
		t.Fatalf("the right file is refused: %v", err)
	}
	var got strings.Builder
	for _, m := range mistakes {
		_, err := Parse("fleet.yaml", []byte(mistaken(t, m.changes)))
		var list Errors
		if !errors.As(err, &list) || len(list) == 0 {
			t.Errorf("%s: got %v, want Errors", m.name, err)
			continue
		}
		fmt.Fprintf(&got, "== %s\n%s\n\n", m.name, err)
	}
	compareGolden(t, "testdata/mistakes.golden", got.String())
}
