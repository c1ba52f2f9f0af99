package inventory

import (
	"strings"
	"testing"
)

// everything is a device with a value of each kind.
const everything = `    address: 192.0.2.7
    management:
      ssh: {user: admin, port: 2222, key: /k, passphrase: {env: A}, agent: true, password: {file: /p}, known_hosts: /kh, sudo: {password: {command: [pass, show]}}}
      daemon: {port: 7443, tls: {ca: /ca, cert: /cert, key: /key, server_name: leaf.example}}
      ovs: {bridge: br0, run_dir: /run/ovs, table: 70}
      redis: {socket: /s, databases: /d.json, password: {env: RP}}
    level: {is: native, reason: by hand, profile: 0123456789ab}
    tags: [a, b]
    counters: {source: snmp, overhead: 20, refresh: 1s, snmp: {version: 3, user: u, auth: {protocol: sha, key: {env: K}}, priv: {protocol: aes, key: {file: /f}}, retries: 3}}
`

// TestHashStays: plans and journals carry the hash, so that another version of csig
// has to give the same.
func TestHashStays(t *testing.T) {
	const want = "c3879afbd0e8564b0ae54ecf26ef23001ee98babcb621625a24c702b557390da"
	f := parse(t, strings.Replace(good, "    local: true\n", everything, 1))
	if got := f.Hash(); got != want {
		t.Errorf("the hash of a fleet is %s, and was %s", got, want)
	}
}

// TestDriftCheck: fleets without the key keep their hash, and one with it is read again as it is.
func TestDriftCheck(t *testing.T) {
	with := parse(t, strings.Replace(good, "  on_stale: conservative\n", "  on_stale: conservative\n  drift_check: 30 2 * * *\n", 1))
	if with.Policy.DriftCheck != "30 2 * * *" || with.Hash() == parse(t, good).Hash() || with.DeviceView(&with.Devices[0]).Policy.DriftCheck == "" {
		t.Errorf("%+v", with.Policy)
	}
	roundTrip(t, with)
}
