package inventory

import (
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/csig-agent/csig/quantize"
)

// table is one kind of mapping in a fleet file: the keys that it takes. The
// reader refuses what is not in it and reports what is missing, and Schema is
// made from it, so that editors and csig agree.
type table struct {
	doc    string
	fields []field
}

// field is one key of a mapping.
type field struct {
	key  string
	doc  string
	form form
	need bool
	hint string // for the message that a needed one is missing
}

func (t *table) keys() []string {
	out := make([]string, len(t.fields))
	for i, f := range t.fields {
		out[i] = f.key
	}
	return out
}

// mapping reads a mapping with the keys of a table. It reports those that are
// not known and those that are needed and missing.
func (r *reader) mapping(n ast.Node, what string, t *table) (object, bool) {
	o, ok := r.object(n, what, t.keys()...)
	if !ok {
		return o, false
	}
	for _, f := range t.fields {
		if f.need {
			o.need(f.key, f.hint)
		}
	}
	return o, true
}

// without returns a table without some of its keys.
func (t *table) without(doc string, keys ...string) *table {
	return &table{doc, slices.DeleteFunc(slices.Clone(t.fields), func(f field) bool { return slices.Contains(keys, f.key) })}
}

// The words of fields that take one of a set.
var (
	layoutWords   = []string{quantize.Draft00.String(), quantize.UEC.String()}
	staleWords    = []string{string(Conservative), string(StaleStrip), string(StalePassthrough)}
	actionWords   = []string{"update", "passthrough", "strip"}
	methodWords   = []string{string(Raw), string(EWMA), string(DRE)}
	levelWords    = []string{LevelAuto.String(), string(LevelNative), string(LevelSoftware), string(LevelPassthrough), string(LevelDiscard)}
	sourceWords   = []string{string(LinuxSource), string(SNMPSource), string(GNMISource), string(SONiCSource), string(OVSSource)}
	versionWords  = []string{"2c", "3"}
	authWords     = []string{"md5", "sha", "sha224", "sha256", "sha384", "sha512"}
	privWords     = []string{"des", "aes", "aes192", "aes256", "aes192c", "aes256c"}
	discardsWords = []string{"learn", "included", "excluded"}
	modeWords     = []string{"auto", "sample", "target-defined", "get"}
)

// Limits of numbers, for the reader and the schema.
const (
	maxOverhead = 64    // bytes of a frame's overhead
	maxRetries  = 10    // of SNMP
	minMTU      = 576   // bytes
	maxMTU      = 65535 // bytes
)

var fileTable = &table{"A fleet file of csig: one CSIG domain, or a part of one that another file includes.", []field{
	{key: "format", doc: "The format of this file.", form: oneWord(Format), need: true, hint: `add "format: ` + Format + `" as the first line`},
	{key: "include", doc: "Files that belong to this one, relative to it; * and ? stand for letters of a name.", form: oneOrMany(text(""))},
	{key: "profile", doc: "What all devices of the domain share.", form: mappingOf(profileTable)},
	{key: "policy", doc: "The domain's behaviour outside of the profile's hash.", form: mappingOf(policyTable)},
	{key: "vlan_tpids", doc: "TPIDs of the domain's ordinary VLANs.", form: listOf(tpidForm())},
	{key: "defaults", doc: "What holds for every device that says nothing else, and none of its groups does.", form: mappingOf(defaultsTable)},
	{key: "groups", doc: "What the devices of a group have in common, by the group's name.", form: mapOf(mappingOf(groupTable))},
	{key: "devices", doc: "The switches.", form: listOf(mappingOf(deviceTable))},
	{key: "hosts", doc: "The ends of the network.", form: listOf(anyOf(text(patternRegexp), mappingOf(hostTable)))},
	{key: "links", doc: `The cables: "leaf1:swp49 - spine1:swp1", one an entry or one a line.`, form: anyOf(listOf(text("")), text(""))},
}}

var profileTable = &table{"What all devices of a domain have to agree on.", []field{
	{key: "name", doc: "It appears in status and plans.", form: text(plainName.String()), need: true, hint: "it appears in status and plans"},
	{key: "tpid", doc: "TPID of the compact tag.", form: profileTPIDForm(), need: true, hint: "IEEE has assigned none: choose one that nothing else in the domain uses, e.g. 0x9900"},
	{key: "wide_tpid", doc: "TPID of the wide tag.", form: profileTPIDForm()},
	{key: "retired_tpids", doc: "TPIDs of the compact tag in earlier profiles: stripped at every port that faces a host, until they are taken out.", form: listOf(tpidForm())},
	{key: "retired_wide_tpids", doc: "TPIDs of the wide tag in earlier profiles.", form: listOf(tpidForm())},
	{key: "layout", doc: "Which bits are what; draft-00 unless given.", form: oneWord(layoutWords...)},
	{key: "interval", doc: "The averaging window Δt.", form: durationForm(), need: true, hint: "the averaging window Δt, e.g. 100ms"},
	{key: "signals", doc: "The signals that the domain carries.", form: mappingOf(signalsTable), need: true, hint: "say which signals the domain carries, e.g. abw: {buckets: log-10G}"},
	{key: "locator", doc: "The bit fields of the compact locator, most significant first.", form: listOf(mappingOf(locatorTable))},
	{key: "wide_locator", doc: "The bit fields of the wide locator.", form: listOf(mappingOf(locatorTable))},
}}

var signalsTable = &table{"The signals of a domain.", []field{
	{key: "abw", doc: "Least available bandwidth.", form: mappingOf(signalTable)},
	{key: "abwc", doc: "Least available bandwidth relative to capacity.", form: mappingOf(signalTable)},
	{key: "pd", doc: "Largest delay of one hop.", form: mappingOf(signalTable)},
	{key: "nqd", doc: "Largest queue depth (uec).", form: mappingOf(signalTable)},
}}

var signalTable = &table{"How one signal is written.", []field{
	{key: "buckets", doc: "A preset's name, 33 bounds or 32 pairs.", form: anyOf(text(""), listOf(anyOf(text(""), listOf(text(""))))), need: true, hint: "a preset, e.g. log, or a list of 33 bounds"},
	{key: "quantum", doc: "What one step of the wide tag's S stands for.", form: text("")},
	{key: "initial_s", doc: "What senders start with.", form: numberForm(0, quantize.NumBuckets-1)},
	{key: "locator", doc: "A locator of its own.", form: listOf(mappingOf(locatorTable))},
	{key: "wide_locator", doc: "A wide locator of its own.", form: listOf(mappingOf(locatorTable))},
}}

var locatorTable = &table{"A bit field of a locator.", []field{
	{key: "name", doc: "Its name.", form: text(fieldName.String()), need: true},
	{key: "bits", doc: "How many bits it takes.", form: numberForm(1, 16), need: true, hint: "how many bits of the locator the field takes"},
	{key: "values", doc: "Names of its values. csig never chooses one of these by itself.", form: mapOf(numberForm(0, 1<<16-1))},
}}

var policyTable = &table{"The domain's behaviour outside of the profile's hash.", []field{
	{key: "on_stale", doc: "What frames carry when the agent is gone or the counters are stale; conservative unless given.", form: oneWord(staleWords...)},
	{key: "schedule", doc: `When to sample: five cron fields, or "@every 100ms".`, form: text("")},
	{key: "estimator", doc: "How readings become a rate; raw unless given.", form: mappingOf(estimatorTable)},
	{key: "damping", doc: "Holds good news back until it has proved itself; off unless given.", form: mappingOf(dampingTable)},
}}

var estimatorTable = &table{"How readings become a rate.", []field{
	{key: "method", doc: "Its name.", form: oneWord(methodWords...), need: true, hint: "raw, ewma or dre"},
	{key: "time_constant", doc: "Of ewma and dre.", form: durationForm()},
}}

var dampingTable = &table{"When better news is told.", []field{
	{key: "hold", doc: "Readings for which it has to hold.", form: numberForm(0, maxHold)},
	{key: "margin", doc: "How far past a bucket's edge it has to be, of the bucket's width.", form: text(`^[0-9]`)},
}}

// deviceTable has what a device can say. Groups and the defaults say the same,
// without what only one device can have.
var deviceTable = &table{"A switch.", []field{
	{key: "name", doc: "Its name; leaf-[1-4] stands for four.", form: text(patternRegexp), need: true},
	{key: "groups", doc: "The groups it is in. What an earlier one says goes before what a later one says.", form: oneOrMany(text(plainName.String()))},
	{key: "platform", doc: "What runs on it, e.g. linux.", form: text(plainName.String())},
	{key: "local", doc: "csig agent runs on this device.", form: boolForm()},
	{key: "address", doc: "Of its management port: an IP address or a host's name.", form: text("")},
	{key: "management", doc: "How csig gets at it.", form: mappingOf(managementTable)},
	{key: "level", doc: "What it does with the tag; auto unless given: csig assess finds out.", form: anyOf(oneWord(levelWords...), mappingOf(levelTable))},
	{key: "tags", doc: "Words to choose devices by, e.g. for the waves of a rollout. Those of groups and defaults add up.", form: oneOrMany(text(plainName.String()))},
	{key: "interval", doc: "Its averaging window Δt, in place of the profile's.", form: durationForm()},
	{key: "schedule", doc: "When to sample it, in place of the policy's.", form: text("")},
	{key: "estimator", doc: "In place of the policy's.", form: mappingOf(estimatorTable)},
	{key: "counters", doc: "Where its counters are read.", form: mappingOf(countersTable)},
	{key: "port", doc: "What holds for each of its ports that says nothing else.", form: mappingOf(portDefaultsTable)},
	{key: "ports", doc: "Its egress ports.", form: listOf(mappingOf(portTable))},
}}

var groupTable = deviceTable.without("What devices have in common.", "name", "groups", "local", "address")

var defaultsTable = deviceTable.without("What every device has unless it or a group says otherwise.", "name", "groups", "local", "address", "ports")

const profileRegexp = `^[0-9a-f]{12,64}$`

var levelTable = &table{"An asserted level.", []field{
	{key: "is", doc: "The level.", form: oneWord(levelWords...), need: true, hint: "want " + oneOf(levelWords)},
	{key: "reason", doc: "Why: plans and assessments repeat it.", form: text("")},
	{key: "profile", doc: "Hash of the profile that a native device is configured for, or its first 12 digits or more.", form: text(profileRegexp)},
}}

var portTable = &table{"An egress port.", []field{
	{key: "name", doc: "The device's own name of the port; swp[1-32] stands for 32.", form: text(""), need: true, hint: "the device's own name of the port"},
	{key: "speed", doc: "Its capacity, e.g. 100G; asked of the device unless given.", form: text(`^[0-9.]+ *[A-Za-z/]+$`)},
	{key: "mtu", doc: "Its MTU in bytes, as the device's own configuration has it.", form: numberForm(minMTU, maxMTU)},
	{key: "action", doc: "What it does with the tag; update unless given.", form: oneWord(actionWords...)},
	{key: "lm", doc: "Its locator, or values of some of the locator's fields; csig allots what is not given.", form: lmForm()},
	{key: "strip_retired", doc: "Whether tags of the profile's retired TPIDs end here; so it is, unless given, where the peer is no device of the fleet. A port with action: strip removes them in any case.", form: boolForm()},
	{key: "peer", doc: `The other end of its cable: "DEVICE:PORT", or a host's name.`, form: text("")},
}}

var portDefaultsTable = portTable.without("What ports have in common.", "name", "peer", "strip_retired")

var hostTable = &table{"An end of the network.", []field{
	{key: "name", doc: "Its name; gpu-[1-8] stands for eight.", form: text(patternRegexp), need: true},
	{key: "mtu", doc: "Of its network card, in bytes.", form: numberForm(minMTU, maxMTU)},
	{key: "csig", doc: "Whether it reads and writes the tag.", form: boolForm()},
	{key: "interface", doc: "The network card that csig apply --probe sends from and listens at.", form: text("")},
	{key: "local", doc: "It is the machine that csig runs on.", form: boolForm()},
	{key: "management", doc: "How csig gets at it.", form: mappingOf(hostManagementTable)},
}}

var hostManagementTable = &table{"How csig gets at a host.", []field{
	{key: "netns", doc: "Path of the network namespace that is the host, on this machine: a lab's host.", form: pathForm(), need: true, hint: "it is the only way to a host besides local: true"},
}}

var managementTable = &table{"How csig gets at a device.", []field{
	{key: "netns", doc: "Path of the network namespace that is the device, on this machine: a lab's switch.", form: pathForm()},
	{key: "ssh", doc: "With commands from afar, at the device's address.", form: mappingOf(sshTable)},
	{key: "daemon", doc: "Through csig agent on the device.", form: mappingOf(daemonTable)},
	{key: "ovs", doc: "Which bridge of Open vSwitch it is, for the platform ovs.", form: mappingOf(ovsTable)},
	{key: "redis", doc: "Where the databases of a SONiC switch are, unless they are where SONiC has them.", form: mappingOf(redisTable)},
}}

var ovsTable = &table{"A bridge of Open vSwitch.", []field{
	{key: "bridge", doc: "Its name.", form: text(""), need: true, hint: "the name of the bridge: ovs-vsctl list-br"},
	{key: "run_dir", doc: "Folder of Open vSwitch's sockets; /var/run/openvswitch unless given.", form: pathForm()},
	{key: "table", doc: "The first of csig's seven flow tables; 60 unless given.", form: numberForm(1, maxOVSTable)},
}}

var redisTable = &table{"Where the Redis of a SONiC switch is, seen from the switch.", []field{
	{key: "socket", doc: "Path of its unix socket.", form: pathForm()},
	{key: "port", doc: "TCP, at the switch's 127.0.0.1.", form: numberForm(1, 1<<16-1)},
	{key: "databases", doc: "Path of database_config.json on the switch.", form: pathForm()},
	{key: "password", doc: "Of its AUTH.", form: secretForm()},
}}

var sshTable = &table{"How to log in.", []field{
	{key: "user", doc: "The account.", form: text(""), need: true, hint: "the account on the device"},
	{key: "port", doc: "TCP; 22 unless given.", form: numberForm(1, 1<<16-1)},
	{key: "key", doc: "Path of the private key.", form: pathForm()},
	{key: "passphrase", doc: "Of the private key.", form: secretForm()},
	{key: "agent", doc: "Ask the SSH agent of SSH_AUTH_SOCK.", form: boolForm()},
	{key: "password", doc: "Of the account.", form: secretForm()},
	{key: "known_hosts", doc: "Path of the file with the devices' own keys; the user's own unless given.", form: pathForm()},
	{key: "sudo", doc: "The account becomes root by sudo: true where sudo asks for the login's password or for none.", form: anyOf(boolForm(), mappingOf(sudoTable))},
}}

var sudoTable = &table{"How the account becomes root.", []field{
	{key: "password", doc: "That sudo asks for.", form: secretForm(), need: true, hint: "say where it is: {file: /PATH}; or sudo: true, where it is the login's, or sudo asks for none"},
}}

var daemonTable = &table{"How to reach csig agent on the device.", []field{
	{key: "socket", doc: "Path of its unix socket on the device, through SSH.", form: pathForm()},
	{key: "port", doc: "TCP, with certificates of both ends.", form: numberForm(1, 1<<16-1)},
	{key: "tls", doc: "The certificates.", form: mappingOf(daemonTLSTable)},
}}

// daemonTLSTable is without what would let anybody in.
var daemonTLSTable = &table{tlsTable.doc, tlsTable.fields[:4]}

var tlsTable = &table{"How the two ends of a connection know each other.", []field{
	{key: "ca", doc: "PEM file of the authorities to trust instead of the system's.", form: pathForm()},
	{key: "cert", doc: "PEM file of csig's own certificate.", form: pathForm()},
	{key: "key", doc: "PEM file of its key.", form: pathForm()},
	{key: "server_name", doc: "The name in the device's certificate; its address unless given.", form: text("")},
	{key: "insecure_skip_verify", doc: "Take any certificate.", form: boolForm()},
}}
