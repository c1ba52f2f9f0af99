package inventory

import (
	"slices"
	"strings"
	"testing"
)

const planted = "hunter22"

// TestInlineSecretsAreNotShown writes a secret into the file in every way that a
// person may, and then some.
func TestInlineSecretsAreNotShown(t *testing.T) {
	for _, text := range []string{
		`snmp: {version: 2c, community: hunter22}`,
		`snmp: {version: 2c, community: "hunter22", prot: 161}`,
		`snmp: {community: 'hunter22', version: 4}`,
		`snmp: {"version": "2c", "community":"hunter22"}`,
		`snmp: {version: 2c, community hunter22}`,
		`snmp: {version: 2c, community=hunter22}`,
		`snmp: {version: 2c, community:hunter22}`,
		`snmp: {version: 2c, comunity: hunter22}`,
		`snmp: {version: 2c, Community: hunter22}`,
		`snmp: {version: 2c, read: hunter22}`,
		`snmp: {version: 2c, community: [hunter22]}`,
		`snmp: {version: 2c, community: {hunter22}}`,
		`snmp: {version: 2c, community: {value: hunter22}}`,
		`snmp: {version: 2c, community: {env: hunter22-}}`,
		`snmp: {version: 2c, community: {env: [hunter22]}}`,
		`snmp: {version: 2c, community: {file: hunter22}}`,
		`snmp: {version: 2c, community: {file: {hunter22: 1}}}`,
		`snmp: {version: 2c, community: {command: hunter22}}`,
		`snmp: {version: 2c, community: *hunter22}`,
		`snmp: {version: 2c, community: !hunter22}`,
		`snmp: {version: 2c, community: !hunter22 x}`,
		`snmp: {version: 2c, community: &hunter22}`,
		`snmp: {version: 2c, community: @hunter22}`,
		`snmp: {version: 2c, community: "hunter22}`,
		`snmp: {version: 2c, community: "\\hunter22"}`,
		`snmp: {version: 2c, community: "\phunter22"}`,
		`snmp: {version: 2c, community: #hunter22`,
		`snmp: {version: 3, user: u, auth: hunter22}`,
		`snmp: {version: 3, user: u, auth: {protocol: sha, key: hunter22, x: y}}`,
		`snmp: {version: 3, user: u, auth: {protocol: sha, pass: hunter22}}`,
		`snmp: {version: 3, user: u, authkey: hunter22}`,
		`snmp: {version: 3, user: u, auth: {protocol: sha, key: {env: A}}, priv: {protocol: aes, key: hunter22}}`,
		`snmp: hunter22`,
		`community: hunter22`,
		`community: hunter22 # for now`,
		"snmp:\n        version: 2c\n        community: hunter22",
		"snmp:\n        version: 2c\n        community: |\n          hunter22\n          hunter22",
		"snmp:\n        version: 2c\n        community: >-\n          hunter22\n        x: y",
		"snmp:\n        version: 2c\n        community:\n          hunter22",
		"snmp:\n        version: 2c\n        community:\n          - hunter22",
		"snmp:\n        version: 2c\n        community:\n          env: [hunter22]",
		"snmp:\n        version: 2c\n        community:\n          value: hunter22",
		"snmp:\n        version: 2c\n        community: \"a\n          hunter22\"",
		"snmp:\n        version: 2c\n        community: 'a\n\n          hunter22', x: y",
		"snmp:\n        version: 2c\n        community: a\n          hunter22",
		"snmp:\n        version: 2c\n        community hunter22",
		"snmp:\n        version: 2c\n       community: hunter22",
		"snmp:\n        version: 2c\n\tcommunity: hunter22",
		"snmp:\n        version: 2c\n        ? community\n        : hunter22",
		"snmp: {version: 2c,\n        community: hunter22, x: y}",
		"snmp: {version: 2c, community:\n        hunter22, x: y}",
		"snmp: {version: 2c, community: \"a\n      hunter22\", x: y}",
		"community:\n        hunter22",
		`gnmi: {username: u, password: hunter22}`,
		`gnmi: {username: u, passwd: hunter22}`,
		`gnmi: {username: u, token: hunter22, plaintext: maybe}`,
		`gnmi: {username: u, password: {env: P}, bearer: {token: hunter22}}`,
		"gnmi:\n        password: hunter22\x01",
		"gnmi:\n        password: hunter22\xff",
	} {
		t.Run(text, func(t *testing.T) {
			file := strings.Replace(good, "    local: true", "    address: a\n    counters:\n      source: snmp\n      "+text, 1)
			_, err := Parse("fleet.yaml", []byte(file))
			if err == nil {
				t.Fatal("it was read")
			}
			for _, part := range []string{planted, planted[1:], planted[:7]} {
				if strings.Contains(err.Error(), part) {
					t.Fatalf("%q is shown:\n%v", part, err)
				}
			}
		})
	}
	for _, text := range []string{"password: hunter22", "community: hunter22\nx: y", "- {name: a, secret: hunter22, x: y}", "format: csig.fleet/v1\nsnmp_community: hunter22"} {
		if _, err := Parse("fleet.yaml", []byte(text)); strings.Contains(err.Error(), planted) {
			t.Errorf("outside of its place it is shown:\n%v", err)
		}
	}
}

// TestPasswordsInAddresses: a password in front of a host's name, as URLs have it, is no more shown than
// one of an anchor that a person meant as a password.
func TestPasswordsInAddresses(t *testing.T) {
	for _, text := range []string{
		`address: "admin:hunter22@192.0.2.1"`, `address: admin:hunter22@leaf`, `address: 'https://admin:hunter22@leaf:8443/x'`,
		`address: "admin:hunter22@192.0.2.[1-2]"`, `address: "admin:it's hunter22@leaf"`,
		`peer: admin:hunter22@leaf`, "admin:hunter22@leaf: x", "address: a\n    management: {ssh: {user: u, password: &hunter22 a}}\n    counters: {source: gnmi, gnmi: {password: &hunter22 a}}",
	} {
		file := strings.Replace(good, "    local: true", "    "+text, 1)
		if _, err := Parse("fleet.yaml", []byte(file)); err == nil || strings.Contains(err.Error(), planted) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestCaretBehindWhatIsHidden: where the excerpt cannot show the place, it says so.
func TestCaretBehindWhatIsHidden(t *testing.T) {
	file := strings.Replace(good, "    local: true", "    address: a\n    counters: {source: gnmi, gnmi: {password: {env: P, x: y}, mode: hunter22}}", 1)
	_, err := Parse("fleet.yaml", []byte(file))
	if err == nil || !strings.Contains(err.Error(), " is behind what is hidden") {
		t.Errorf("got %v", err)
	}
}

// TestHideSecrets looks at the lines behind a secret's key, where few mistakes have
// their place.
func TestHideSecrets(t *testing.T) {
	rows := []struct {
		name, text string
		want       []int
	}{
		{"block of text", "password: |\n  one\n\n  two: three\nname: x", []int{10, 2, -1, 2, -1}},
		{"text that goes on", "secret: one\n  two: three\nname: x", []int{8, 2, -1}},
		{"quotes that go on", "token: 'one\nname: two'\nname: x", []int{7, 0, -1}},
		{"reference behind", "password:\n  # where it is\n  env: NAME\nname: x", []int{-1, 2, -1, -1}},
		{"something else behind", "password:\n  value: one\nname: x", []int{-1, 2, -1}},
		{"counters end", "counters:\n  reed: one\nreed: two", []int{-1, 8, -1}},
		{"line too long", "password: {env: NAME} #" + strings.Repeat("a", longLine), []int{0}},
		{"long line without a hint", strings.Repeat("a", 2*longLine), []int{-1}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := hideSecrets(strings.Split(row.text, "\n")); !slices.Equal(got, row.want) {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}

// TestSlipsShowNoSecret makes every slip of one key press in a file that has its
// secrets inline.
func TestSlipsShowNoSecret(t *testing.T) {
	const text = `devices:
  - name: s
    counters:
      snmp:
        community: hunter22
        auth: {protocol: sha, key: "hunter22", port: 0}
        priv:
          key: 'hunter22'
          x: y
    ports: []
  - counters: {gnmi: {password: hunter22, mode: x}, overhead: 400}
    local: x
`
	keys := []string{"community", "key", "password"}
	for at := range text {
		if within(text, at, planted) {
			continue
		}
		for n, slip := range []string{"", " ", "\n", "\t", "{", "}", "]", ":", ",", "\"", "'", "#", " #", "&", "*", "!", "|", "-", "x", "? "} {
			for i, one := range []string{text[:at] + slip + text[at+1:], text[:at] + slip + text[at:]} {
				if (at+n)%shorter > 0 {
					continue
				}
				if i == 0 && slip != "" && text[at] != ':' && text[at] != ' ' {
					continue // one key for another only where it matters most
				}
				broken := false // a key that is none any more, and its value cannot be known by it
				for _, key := range keys {
					broken = broken || strings.Count(one, key) < strings.Count(text, key)
				}
				_, err := Parse("fleet.yaml", []byte(one))
				if err == nil {
					t.Fatalf("it was read:\n%s", one)
				}
				if !broken && strings.Contains(err.Error(), planted) {
					t.Errorf("%q at %d (%q): it is shown:\n%v", slip, at, text[max(0, at-10):at+10], err)
				}
			}
		}
	}
}

// within reports whether an index is inside of an occurrence of a word.
func within(text string, at int, word string) bool {
	for from := max(0, at-len(word)+1); from <= at; from++ {
		if strings.HasPrefix(text[from:], word) {
			return true
		}
	}
	return false
}

// TestSnippetsShowReferences makes mistakes next to references, which can be
// shown.
func TestSnippetsShowReferences(t *testing.T) {
	for _, line := range []string{
		`      snmp: {version: 2c, community: {env: SNMP_COMMUNITY}, prot: 161}`,
		`      snmp: {version: 2c, community: {'file': '/etc/csig/key'}, port: 0}`,
		`      snmp: {version: 2c, community: {command: [pass, show, snmp]}, port: 0}`,
		`      snmp: {version: 2c, community: &c {env: C}, port: 0}`,
		"      snmp: {version: 3, auth: {protocol: sha, key: &c {env: C}}, priv: {protocol: aes, key: *c}, port: 0}",
		"      gnmi:\n        password: &p\n          env: P\n        port: 0\n        x: *p",
		`      snmp: &s {version: 2c, community: {env: C}, port: 0}`,
		`      gnmi: {port: 0, tls: {ca: /etc/csig/ca.pem}}`,
		"      snmp:\n        version: 2c\n        community:\n          env: C\n        port: 0",
		"      snmp:\n        version: 2c\n        community:\n          command:\n            - pass\n            - show\n        port: 0",
		"      snmp: {version: 2c, community: {command: [pass,\n        show]}, port: 0}",
		"      # the password is in the vault\n      port: 0",
	} {
		for i, cut := range hideSecrets(strings.Split("    counters:\n"+line, "\n")) {
			if cut >= 0 && !strings.Contains(line, "prot") {
				t.Errorf("%q: line %d is hidden from %d on", line, i+1, cut)
			}
		}
	}
	lines := strings.Split(good, "\n")
	for i, cut := range hideSecrets(lines) {
		if cut >= 0 {
			t.Errorf("hidden: %s", lines[i])
		}
	}
}
