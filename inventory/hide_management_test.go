package inventory

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestManagementShowsNoSecret writes a secret into a management block in every
// way that a person may.
func TestManagementShowsNoSecret(t *testing.T) {
	for _, text := range []string{
		`{ssh: {user: a, password: hunter22}}`, `{ssh: {user: a, passwd: hunter22}}`, `{ssh: {user: a, pass hunter22}}`, `{ssh: {user: a, password hunter22}}`,
		`{ssh: {user: a, key: hunter22}}`, `{ssh: {user: a, key: /a, passphrase: hunter22}}`, `{ssh: {user: a, password: {env: hunter22-}}}`,
		`{ssh: {user: a, password: {file: hunter22}}}`, `{ssh: {user: a, password: {command: hunter22}}}`, `{ssh: {user: a, secret: hunter22}}`,
		`{ssh: {user: a, key: /a, sudo: hunter22}}`, `{ssh: {user: a, key: /a, sudo hunter22}}`, `{ssh: {user: a, key: /a, sudo: {password: hunter22}}}`,
		`{ssh: {user: a, key: /a, sudo: {hunter22}}}`, `{ssh: {user: a, key: /a, sudo: [hunter22]}}`, `{ssh: {user: a, key: /a, sudo: true hunter22}}`,
		"\n      ssh:\n        user: a\n        key: /a\n        sudo: hunter22", "\n      ssh:\n        user: a\n        key: /a\n        sudo:\n          password: hunter22",
		"\n      ssh:\n        user: a\n        key: /a\n        sudo:\n          hunter22",
		`{ssh: hunter22}`, `hunter22`, `{password: hunter22}`, `{daemon: hunter22}`, `{daemon: {token: hunter22}}`,
		`{daemon: {port: 1, tls: {ca: /a, cert: /b, key: hunter22}}}`, `{sssh: {user: a, password: hunter22}}`,
		"\n      ssh:\n        user: a\n        password: hunter22", "\n      ssh:\n        user: a\n        password: |\n          hunter22\n        x: y",
		"\n      ssh:\n        user: a\n        password hunter22", "\n      ssh:\n        user: a\n        password:\n          hunter22",
		"\n      ssh:\n        user: a\n        key: /a\n        passphrase: \"a\n          hunter22\"",
		"\n      ssh:\n        hunter22",
	} {
		t.Run(text, func(t *testing.T) {
			file := strings.Replace(good, "    local: true", "    address: a\n    colour: red\n    management: "+text, 1)
			_, err := Parse("fleet.yaml", []byte(file))
			if err == nil {
				t.Fatal("it was read")
			}
			if strings.Contains(err.Error(), planted) {
				t.Fatalf("it is shown:\n%v", err)
			}
		})
	}
}

// TestReferencesAreAllThereIs resolves no secret of a fleet that has all kinds,
// and looks for their values in every form of the fleet that may be printed.
func TestReferencesAreAllThereIs(t *testing.T) {
	t.Setenv("CSIG_TEST_SECRET", planted)
	f := parse(t, strings.Replace(good, "    local: true", `    address: 192.0.2.7
    management:
      ssh: {user: a, key: /k, passphrase: {env: CSIG_TEST_SECRET}, password: {command: [echo, `+planted+`]}, sudo: {password: {command: [echo, `+planted+`]}}}
    counters:
      source: snmp
      snmp: {version: 2c, community: {env: CSIG_TEST_SECRET}}`, 1))
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	ssh := f.Devices[0].Management.SSH
	for _, text := range []string{string(data), fmt.Sprint(f), fmt.Sprintf("%+v %v %#v", *ssh, ssh.Password, ssh.Password), fmt.Sprintf("%+v %#v", *ssh.Sudo, *ssh.Sudo), f.Hash(), fmt.Sprint(f.DeviceOrigins("s1"))} {
		if strings.Contains(text, planted) {
			t.Errorf("the secret, or an argument of its command, is shown: %s", text)
		}
	}
}
