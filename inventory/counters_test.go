package inventory

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestCounters reads what a device says about its counters.
func TestCounters(t *testing.T) {
	twenty := uint8(20)
	rows := []struct {
		name, text string
		want       Counters
	}{
		{"nothing", "{}", Counters{}},
		{"the kernel, with an overhead", "{source: linux, overhead: 20}", Counters{Source: LinuxSource, Overhead: &twenty}},
		{"the kernel, of a driver that fetches each second", "{source: linux, refresh: 1s}", Counters{Source: LinuxSource, Refresh: time.Second}},
		{"SNMPv2c with the defaults", "{source: snmp, snmp: {version: 2c, community: {env: SNMP_COMMUNITY}}}", Counters{Source: SNMPSource, SNMP: &SNMP{
			Version: "2c", Port: 161, Community: Secret{Env: "SNMP_COMMUNITY"}, Timeout: 2 * time.Second, Retries: 2, Discards: "learn",
		}}},
		{"SNMPv3 with everything", `{source: snmp, snmp: {version: 3, port: 1161, user: "csig poller",
      auth: {protocol: sha256, key: {file: "/etc/csig/my key"}}, priv: {protocol: aes192c, key: {command: [pass, show, "sw 1/priv", ""]}},
      context: vrf-1, timeout: 500ms, retries: 0, recheck: 10s, discards: excluded}}`, Counters{Source: SNMPSource, SNMP: &SNMP{
			Version: "3", Port: 1161, User: "csig poller",
			Auth:    SNMPAuth{"sha256", Secret{File: "/etc/csig/my key"}},
			Priv:    SNMPPriv{"aes192c", Secret{Command: []string{"pass", "show", "sw 1/priv", ""}}},
			Context: "vrf-1", Timeout: 500 * time.Millisecond, Recheck: 10 * time.Second, Discards: "excluded",
		}}},
		{"SNMPv3 without a key", "{source: snmp, snmp: {version: '3', user: u}}", Counters{Source: SNMPSource, SNMP: &SNMP{
			Version: "3", Port: 161, User: "u", Timeout: 2 * time.Second, Retries: 2, Discards: "learn",
		}}},
		{"gNMI with the defaults", "{source: gnmi, gnmi: {}}", Counters{Source: GNMISource, GNMI: &GNMI{Port: 9339, Mode: "auto", Timeout: 5 * time.Second}}},
		{"gNMI with everything", `{source: gnmi, gnmi: {port: 57400, tls: {ca: /c/ca.pem, cert: /c/me.pem, key: /c/me.key, server_name: leaf-1.example.net},
      username: csig, password: {env: P}, target: leaf-1, mode: get, timeout: 1s}}`, Counters{Source: GNMISource, GNMI: &GNMI{
			Port: 57400, TLS: TLS{CA: "/c/ca.pem", Cert: "/c/me.pem", Key: "/c/me.key", ServerName: "leaf-1.example.net"},
			Username: "csig", Password: Secret{Env: "P"}, Target: "leaf-1", Mode: "get", Timeout: time.Second,
		}}},
		{"gNMI with any certificate", "{source: gnmi, gnmi: {tls: {insecure_skip_verify: true}}}", Counters{Source: GNMISource, GNMI: &GNMI{
			Port: 9339, TLS: TLS{InsecureSkipVerify: true}, Mode: "auto", Timeout: 5 * time.Second,
		}}},
		{"gNMI of a lab", "{source: gnmi, gnmi: {plaintext: true, username: u, password: {env: P}, allow_plaintext_password: true, mode: sample}}", Counters{Source: GNMISource, GNMI: &GNMI{
			Port: 9339, Plaintext: true, Username: "u", Password: Secret{Env: "P"}, AllowPlaintextPassword: true, Mode: "sample", Timeout: 5 * time.Second,
		}}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			f := parse(t, strings.Replace(good, "local: true", "address: 192.0.2.7\n    counters: "+row.text, 1))
			if got := f.Devices[0].Counters; !reflect.DeepEqual(got, row.want) {
				t.Errorf("got  %+v, %+v, %+v\nwant %+v, %+v, %+v", got, got.SNMP, got.GNMI, row.want, row.want.SNMP, row.want.GNMI)
			}
			roundTrip(t, f)
		})
	}
}

// TestSharedCredentials gives two devices one block by an alias.
func TestSharedCredentials(t *testing.T) {
	const block = "    address: 192.0.2.7\n    counters: "
	f := parse(t, strings.NewReplacer(
		"    local: true\n", block+"&polled {source: snmp, snmp: {version: 2c, community: &public {env: C}}}\n",
		"name: s2\n", "name: s2\n"+strings.Replace(block, "2.7", "2.8", 1)+"*polled\n").Replace(good))
	if a, b := f.Devices[0].Counters, f.Devices[1].Counters; b.SNMP == nil || !reflect.DeepEqual(a, b) {
		t.Errorf("got %+v and %+v", a, b)
	}
}

func TestAddress(t *testing.T) {
	long := strings.Repeat("a123456789.", 23)
	for text, want := range map[string]bool{
		"192.0.2.7": true, "2001:db8::7": true, "fe80::1%eth0": true, "::1": true, "::ffff:192.0.2.7": true,
		"leaf-1": true, "leaf-1.example.net": true, "leaf-1.example.net.": true, "1e3": true, "7up.example": true, long[:252]: true,
		"": false, ".": false, "a..b": false, "-a": false, "a-": false, "a_b": false, "a b": false, "[::1]": false, "[::1]:161": false,
		"192.0.2.7:161": false, "192.0.2.256": false, "192.0.2.0/24": false, "1.2.3": false, "42": false, "http://a": false,
		"fe80::1%a b": false, "fe80::1%a\"": false, "leaf-é": false, long + "a": false, strings.Repeat("a", 64): false,
	} {
		if err := checkAddress(text); (err == nil) != want {
			t.Errorf("checkAddress(%q) = %v", text, err)
		}
	}
}

// TestEstimator reads the policy's estimator and damping, and a device's own;
// neither is part of what the domain has to agree on.
func TestEstimator(t *testing.T) {
	const policy = "  on_stale: conservative\n"
	f := parse(t, strings.NewReplacer(policy, policy+"  estimator: {method: ewma, time_constant: 500ms}\n  damping: {hold: 3, margin: 2.5%}\n",
		"    local: true\n", "    estimator: {method: dre, time_constant: 1s}\n",
		"name: s2\n", "name: s2\n    estimator: {method: raw}\n").Replace(good))
	ewma := Estimator{EWMA, 500 * time.Millisecond}
	if want := (Policy{OnStale: Conservative, Schedule: "@every 100ms", Estimator: ewma, Damping: Damping{3, 25_000}}); !reflect.DeepEqual(f.Policy, want) {
		t.Errorf("got %+v, want %+v", f.Policy, want)
	}
	if a, b := f.Devices[0].Estimator, f.Devices[1].Estimator; a != (Estimator{DRE, time.Second}) || b != raw {
		t.Errorf("got %v and %v", a, b)
	}
	roundTrip(t, f)

	if a, b := f.Profile.Hash(), parse(t, good).Profile.Hash(); a != b {
		t.Errorf("the policy changed the profile's hash from %v to %v", b, a)
	}
	f = parse(t, strings.Replace(good, policy, "  estimator: {method: ewma, time_constant: 500ms}\n", 1))
	if got := f.Devices[1].Estimator; got != ewma {
		t.Errorf("a device that says nothing has %v, want the policy's %v", got, ewma)
	}
}

// TestMarshalZeroEstimator writes a fleet made in code, where the zero value
// is Raw.
func TestMarshalZeroEstimator(t *testing.T) {
	f := parse(t, good)
	f.Policy.Estimator, f.Devices[0].Estimator = Estimator{}, Estimator{}
	text, err := Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if want := parse(t, good); !reflect.DeepEqual(plain(parse(t, string(text))), plain(want)) {
		t.Errorf("got\n%s", text)
	}
	f.Devices[0].Counters.SNMP = &SNMP{Version: "2c", Port: 161, Community: Secret{Env: "A", File: "/b"}}
	if _, err := Marshal(f); err == nil {
		t.Error("a secret in two places was written")
	}
}

var (
	seconds    = rapid.SampledFrom([]time.Duration{time.Millisecond, 1500 * time.Millisecond, 2 * time.Second, time.Minute})
	lineOfText = rapid.StringOfN(rapid.SampledFrom([]rune("aZ09 /.:-_'\"\\{}[],#&*!|>%@`$?=~éß漢")), 1, 8, -1)
)

func drawEstimator(t *rapid.T) Estimator {
	e := Estimator{Method: rapid.SampledFrom([]Method{Raw, EWMA, DRE}).Draw(t, "method")}
	if e.Method != Raw {
		e.TimeConstant = seconds.Draw(t, "time constant")
	}
	return e
}

func drawSecret(t *rapid.T) Secret {
	switch rapid.IntRange(0, 2).Draw(t, "where") {
	case 0:
		return Secret{Env: rapid.StringMatching(`[A-Za-z_][A-Za-z0-9_]{0,9}`).Draw(t, "env")}
	case 1:
		return Secret{File: "/" + lineOfText.Draw(t, "file")}
	}
	args := rapid.SliceOfN(rapid.OneOf(lineOfText, rapid.SampledFrom([]string{"", "true", "null", "1e3", "0x10", "~"})), 0, 4).Draw(t, "arguments")
	return Secret{Command: append([]string{lineOfText.Draw(t, "program")}, args...)}
}

func drawCounters(t *rapid.T) Counters {
	var c Counters
	if rapid.Bool().Draw(t, "overhead") {
		bytes := rapid.Uint8Range(0, 64).Draw(t, "bytes")
		c.Overhead = &bytes
	}
	c.Refresh = rapid.OneOf(rapid.Just(time.Duration(0)), seconds).Draw(t, "refresh")
	c.Source = rapid.SampledFrom([]Source{PlatformSource, LinuxSource, SNMPSource, GNMISource}).Draw(t, "source")
	switch c.Source {
	case SNMPSource:
		c.SNMP = drawSNMP(t)
	case GNMISource:
		c.GNMI = drawGNMI(t)
	}
	return c
}

func drawSNMP(t *rapid.T) *SNMP {
	s := &SNMP{
		Version: rapid.SampledFrom([]string{"2c", "3"}).Draw(t, "version"), Port: rapid.Uint16Min(1).Draw(t, "port"),
		Timeout: seconds.Draw(t, "timeout"), Retries: rapid.IntRange(0, 10).Draw(t, "retries"),
		Recheck:  rapid.SampledFrom([]time.Duration{0, time.Nanosecond, time.Hour}).Draw(t, "recheck"),
		Discards: rapid.SampledFrom([]string{"learn", "included", "excluded"}).Draw(t, "discards"),
	}
	if s.Version == "2c" {
		s.Community = drawSecret(t)
		return s
	}
	s.User = lineOfText.Draw(t, "user")
	if rapid.Bool().Draw(t, "context") {
		s.Context = lineOfText.Draw(t, "name")
	}
	if rapid.Bool().Draw(t, "auth") {
		s.Auth = SNMPAuth{rapid.SampledFrom([]string{"md5", "sha", "sha512"}).Draw(t, "protocol"), drawSecret(t)}
		if rapid.Bool().Draw(t, "priv") {
			s.Priv = SNMPPriv{rapid.SampledFrom([]string{"des", "aes", "aes256c"}).Draw(t, "protocol"), drawSecret(t)}
		}
	}
	return s
}

func drawGNMI(t *rapid.T) *GNMI {
	g := &GNMI{
		Port: rapid.Uint16Min(1).Draw(t, "port"), Plaintext: rapid.Bool().Draw(t, "plaintext"),
		Mode: rapid.SampledFrom([]string{"auto", "sample", "target-defined", "get"}).Draw(t, "mode"), Timeout: seconds.Draw(t, "timeout"),
	}
	if rapid.Bool().Draw(t, "target") {
		g.Target = lineOfText.Draw(t, "name")
	}
	if rapid.Bool().Draw(t, "password") {
		g.Username, g.Password, g.AllowPlaintextPassword = lineOfText.Draw(t, "username"), drawSecret(t), g.Plaintext
	}
	if g.Plaintext {
		return g
	}
	if g.TLS.InsecureSkipVerify = rapid.Bool().Draw(t, "skip"); !g.TLS.InsecureSkipVerify {
		g.TLS.CA = rapid.SampledFrom([]string{"", "/etc/csig/ca.pem", "/a b"}).Draw(t, "ca")
	}
	if rapid.Bool().Draw(t, "mutual") {
		g.TLS.Cert, g.TLS.Key = "/"+lineOfText.Draw(t, "cert"), "/"+lineOfText.Draw(t, "key")
	}
	g.TLS.ServerName = rapid.SampledFrom([]string{"", "leaf-1", "192.0.2.7"}).Draw(t, "server name")
	return g
}
