package inventory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// places are the devices of a fleet, one a line, and what is wrong with them.
var places = []struct{ name, devices, want string }{
	{"one address, SSH", "{name: a, address: 192.0.2.1, management: {ssh: &s {user: u, agent: true}}}\n{name: b, address: 192.0.2.1, management: {ssh: *s}}", "5:24: device b: 192.0.2.1, SSH port 22, is that of another device, too"},
	{"one address, written in two ways", "{name: a, address: \"2001:db8::7\", management: {ssh: &s {user: u, agent: true}}}\n{name: b, address: \"2001:DB8:0::7\", management: {ssh: *s}}", "5:24: device b: 2001:DB8:0::7, SSH"},
	{"one name of a host, written in two ways", "{name: a, address: leaf.example.net}\n{name: b, address: LEAF.example.net.}", "5:24: device b: address LEAF.example.net. is"},
	{"one machine, its own, by name", "{name: a, address: 127.0.0.1}\n{name: b, address: LocalHost}", "5:24: device b: address LocalHost is"},
	{"one machine, its own, of IPv6", "{name: a, address: localhost}\n{name: b, address: \"::1\"}", "5:24: device b: address ::1 is"},
	{"any address", "{name: a, address: 0.0.0.0}", "4:24: device a: address: \"0.0.0.0\" is the address of no single device"},
	{"all addresses", "{name: a, address: 255.255.255.255}", "is the address of no single device"},
	{"many addresses", "{name: a, address: 224.0.0.1}", "is the address of no single device"},
	{"any address of IPv6", "{name: a, address: \"::\"}", "is the address of no single device"},
	{"many addresses of IPv6", "{name: a, address: \"ff02::1%eth0\"}", "is the address of no single device"},
	{"any address, mapped", "{name: a, address: \"::ffff:0.0.0.0\"}", "is the address of no single device"},
	{"a daemon anywhere", "{name: a, address: 192.0.2.1, management: {ssh: {user: u, agent: true}, daemon: {at: \"::\", port: 7443, tls: {ca: /a, cert: /b, key: /c}}}}", "is the address of no single device"},
	{"SSH at two ports", "{name: a, address: 192.0.2.1, management: {ssh: {user: u, agent: true}}}\n{name: b, address: 192.0.2.1, management: {ssh: {user: u, agent: true, port: 2222}}}", ""},
	{"one daemon", "{name: a, address: 192.0.2.1, management: {daemon: &d {port: 7443, tls: {ca: /a, cert: /b, key: /c}}}}\n{name: b, address: 192.0.2.1, management: {daemon: *d}}", "5:24: device b: 192.0.2.1, daemon port 7443, is"},
	{"two daemons behind one login", "{name: a, address: 192.0.2.1, management: {ssh: &s {user: u, agent: true}, daemon: {socket: /a}}}\n{name: b, address: 192.0.2.1, management: {ssh: *s, daemon: {socket: /b}}}", ""},
	{"one socket", "{name: a, management: {daemon: {socket: /a}}}\n{name: b, management: {daemon: {socket: /a}}}", "device b: socket /a is"},
	{"one SNMP agent", "{name: a, address: 192.0.2.1, counters: &c {source: snmp, snmp: {version: 2c, community: {env: C}}}}\n{name: b, address: 192.0.2.1, counters: *c}", "device b: 192.0.2.1, SNMP port 161, is"},
	{"two SNMP agents", "{name: a, address: 192.0.2.1, counters: {source: snmp, snmp: {version: 2c, community: {env: C}}}}\n{name: b, address: 192.0.2.1, counters: {source: snmp, snmp: {version: 2c, port: 1161, community: {env: C}}}}", ""},
	{"a gateway of gNMI", "{name: a, address: 192.0.2.1, counters: {source: gnmi, gnmi: {port: 1, target: a}}}\n{name: b, address: 192.0.2.1, counters: {source: gnmi, gnmi: {port: 1, target: b}}}", ""},
	{"one gNMI target", "{name: a, address: 192.0.2.1, counters: {source: gnmi, gnmi: {port: 1}}}\n{name: b, address: 192.0.2.1, counters: {source: gnmi, gnmi: {port: 1}}}", "device b: 192.0.2.1, gNMI port 1, is"},
	{"two targets of a machine that csig sets up", "{name: a, platform: srlinux, address: 127.0.0.1, management: {gnmi: {port: 1, plaintext: true}}}\n{name: b, platform: openconfig, address: localhost, management: {gnmi: {port: 2, plaintext: true}}}", ""},
	{"one target that csig sets up", "{name: a, platform: srlinux, address: 127.0.0.1, management: {gnmi: {port: 1, plaintext: true}}}\n{name: b, platform: openconfig, address: localhost, management: {gnmi: {port: 1, plaintext: true}}}", "device b: address localhost is"},
	{"two bridges of a machine", "{name: a, platform: ovs, address: 192.0.2.1, management: {ssh: &s {user: u, agent: true}, ovs: {bridge: a}}}\n{name: b, platform: ovs, address: 192.0.2.1, management: {ssh: *s, ovs: {bridge: b}}}", ""},
	{"one bridge", "{name: a, platform: ovs, address: 192.0.2.1, management: &m {ssh: {user: u, agent: true}, ovs: {bridge: a}}}\n{name: b, platform: ovs, address: 192.0.2.1, management: *m}", "device b: 192.0.2.1, SSH port 22, is"},
	{"one namespace", "{name: a, management: {netns: /run/netns/x}}\n{name: b, management: {netns: /run/netns/x}}", "5:35: device b: network namespace /run/netns/x is that of another device, too"},
	{"one namespace in two spellings", "{name: a, management: {netns: /run/netns/x}}\n{name: b, management: {netns: /var/run/netns/../netns/x}}", "device b: network namespace /var/run/netns/../netns/x is that of another device, too"},
	{"one namespace for a range of devices", "{name: \"s[1-3]\", management: {netns: /run/netns/x}}", "device s2: network namespace /run/netns/x is that of another device, too, by the same line (and 1 more like this)"},
	{"a range of namespaces", "{name: \"s[1-3]\", management: {netns: \"/run/netns/x[1-3]\"}}", ""},
	{"a range of namespaces that is too short", "{name: \"s[1-3]\", management: {netns: \"/run/netns/x[1-2]\"}}", "device s[1-3]: management: netns: 2 namespaces for 3 devices"},
	{"a range of namespaces for one", "{name: s, management: {netns: \"/run/netns/x[1-2]\"}}", "netns: 2 namespaces for 1 devices"},
	{"a range that is none", "{name: s, management: {netns: \"/run/netns/x[a-b]\"}}", "[a-b] is not a range"},
	{"a range in a socket", "{name: \"s[1-2]\", management: {daemon: {socket: \"/run/s[1-2].sock\"}}}", "there are no ranges in this path"},
	{"a range in a bridge", "{name: \"s[1-2]\", platform: ovs, management: {ovs: {bridge: \"br[1-2]\"}}}", "there are no ranges in the name of a bridge"},
	{"this device and its address", "{name: a, local: true, address: 192.0.2.1}\n{name: b, address: 192.0.2.2}", ""},
}

// TestPlacesOfDevices has fleets whose devices are at one place, by mistake or
// because they share a machine.
func TestPlacesOfDevices(t *testing.T) {
	for _, row := range places {
		t.Run(row.name, func(t *testing.T) {
			text := "format: csig.fleet/v1\nprofile: {name: lab, tpid: 0x9900, interval: 1s, signals: {abw: {buckets: log-10G}}}\ndevices:\n"
			for line := range strings.SplitSeq(row.devices, "\n") {
				if !strings.Contains(line, "platform:") {
					line = strings.TrimSuffix(line, "}") + ", platform: linux}"
				}
				text += "  - " + strings.TrimSuffix(line, "}") + ", ports: [{name: p, action: passthrough}]}\n"
			}
			f, err := Parse("fleet.yaml", []byte(text))
			switch {
			case row.want == "" && err != nil:
				t.Errorf("%v", err)
			case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
				t.Errorf("got %v, want %q", err, row.want)
			}
			if strings.HasPrefix(row.name, "one ") && err != nil && !strings.Contains(err.Error(), "hint: the first is on line 4, column ") && !strings.Contains(err.Error(), "by the same line") {
				t.Errorf("the first place is missing: %v", err)
			}
			if row.name != "a range of namespaces" || f == nil {
				return
			}
			for i := range f.Devices {
				if want := fmt.Sprintf("/run/netns/x%d", i+1); f.Devices[i].Management.NetNS != want {
					t.Errorf("device %d is %s, want %s", i, f.Devices[i].Management.NetNS, want)
				}
			}
		})
	}
}

// A range of hosts has its namespaces, and a group has none of a range.
func TestNamespacesOfHostsAndGroups(t *testing.T) {
	host := func(netns string) string {
		return good + "hosts:\n  - h1\n  - {name: \"g[1-2]\", interface: eth0, management: {netns: \"" + netns + "\"}}\n"
	}
	f := parse(t, host("/run/netns/g[1-2]"))
	if len(f.Hosts) != 3 || f.Hosts[1].NetNS != "/run/netns/g1" || f.Hosts[2].NetNS != "/run/netns/g2" {
		t.Errorf("%+v", f.Hosts)
	}
	for text, want := range map[string]string{
		host("/run/netns/g[1-3]"): "host g[1-2]: management: netns: 3 namespaces for 2 hosts",
		good + "defaults: {management: {netns: \"/run/netns/g[1-2]\"}}\n":                                                                 "the devices of a group have no namespaces of a range in common",
		strings.Replace(good, "  - name: s2\n", "  - name: s2\n    groups: g\n", 1) + "groups: {g: {management: {netns: \"/n[1-2]\"}}}\n": "the devices of a group",
	} {
		if _, err := Parse("fleet.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Nothing of a file that is no fleet file is repeated, by whatever way it came to
// be read, nor a long text of one that is.
func TestForeignFilesAreNotShown(t *testing.T) {
	dir := t.TempDir()
	shadow := "root:$y$j9T$SECRETSECRET:19800:0:99999:7:::\ndaemon:*:SECRET:0:99999:7:::\n"
	for name, text := range map[string]string{
		"shadow": shadow, "binary": "\x7fELF\x00SECRET\xff", "yaml": "password: SECRET\n", "broken": "a: {SECRET\n", "latin": "SECR\xe4ET SECRET\n", "list": "- SECRET\n",
		"include.yaml": strings.Replace(good, "devices:", "include: [shadow, binary, yaml, broken, latin, list]\ndevices:", 1),
		"name.yaml":    strings.Replace(good, "name: s1", "name: \""+strings.Repeat("a", 3<<20/shorter)+"SECRET"+strings.Repeat("a", 1<<19/shorter)+"\"", 1),
		"escape.yaml":  strings.Replace(good, "platform: linux", `platform: "\e]0;evil\a\u202e"`, 1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"shadow", "binary", "yaml", "broken", "latin", "list", "include.yaml", "name.yaml", "escape.yaml"} {
		_, err := Load(filepath.Join(dir, name))
		var list Errors
		if !errors.As(err, &list) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := err.Error()
		if strings.Contains(text, "SECR") || strings.ContainsAny(text, "\x1b\a\u202e") {
			t.Errorf("%s: it shows what is there:\n%.2000s", name, text)
		}
		if most := 2000 * len(list); len(text) > most {
			t.Errorf("%s: a message of %d bytes", name, len(text))
		}
		if name != "include.yaml" && len(list) != 1 && name != "name.yaml" && name != "escape.yaml" || name == "include.yaml" && len(list) < 6 {
			t.Errorf("%s: %d mistakes\n%.2000s", name, len(list), text)
		}
	}
}

// TestBrokenFileWithoutFormat: the syntax error of a file that names no format is reported at its
// place, and shows nothing of the file.
func TestBrokenFileWithoutFormat(t *testing.T) {
	_, err := Parse("fleet.yaml", []byte("password: SECRET\nbroken: [\n"))
	var list Errors
	if !errors.As(err, &list) || len(list) != 1 || list[0].Line != 2 || !strings.Contains(list[0].Msg, "YAML syntax") || !strings.Contains(list[0].Msg, "no format is named") || list[0].Snippet != "" {
		t.Errorf("%v", err)
	}
	if strings.Contains(fmt.Sprint(err), "SECR") {
		t.Errorf("it shows what is there: %v", err)
	}
}
