package inventory

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"
)

// parts is a right fleet in files, with all that a fleet can have.
const parts = `-- fleet.yaml --
format: csig.fleet/v1
include: [pods/*.yaml]
profile:
  name: dc
  tpid: 0x9900
  interval: 1s
  signals:
    abw: {buckets: log-100G}
    abwc: {buckets: log}
  locator:
    - {name: stage, bits: 2, values: {leaf: 1, spine: 2}}
    - {name: port, bits: 5}
defaults:
  platform: linux
  management:
    ssh: {user: csig, key: /etc/csig/id}
    daemon: {socket: /run/csig/agent.sock}
  port: {mtu: 9216}
groups:
  leaf:
    tags: [tor]
    port: {lm: {stage: leaf}}
    ports:
      - {name: "swp[1-2]", speed: 25G}
      - {name: "swp[49-50]", speed: 100G}
  spine:
    port: {lm: {stage: spine}}
    ports: [{name: "swp[1-2]", speed: 100G}]
  canary: {tags: [canary], level: software}
-- pods/a.yaml --
format: csig.fleet/v1
devices:
  - {name: leaf-1, groups: [leaf, canary], address: 192.0.2.11}
  - {name: leaf-2, groups: [leaf], address: 192.0.2.12}
hosts:
  - {name: "gpu-[1-2]", mtu: 9000, csig: true}
  - web-1
links: |
  # to hosts
  leaf-1:swp[1-2] - gpu-[1-2]
  leaf-2:swp1 - web-1
  leaf-1:swp[49-50] - spine-[1-2]:swp1   # up
  leaf-2:swp[49-50] - spine-[1-2]:swp2
-- pods/b.yaml --
format: csig.fleet/v1
devices:
  - {name: "spine-[1-2]", groups: [spine], address: "192.0.2.[1-2]"}
`

func filesOf(text string) fstest.MapFS {
	out := make(fstest.MapFS)
	for _, f := range txtar.Parse([]byte(text)).Files {
		out[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return out
}

func loadParts(t *testing.T, changes ...string) *Fleet {
	t.Helper()
	f, err := loadFS(filesOf(changed(t, parts, changes)), "fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func changed(t *testing.T, text string, changes []string) string {
	t.Helper()
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("the right fleet does not contain %q", changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	return text
}

const (
	leaf1 = "  - {name: leaf-1, groups: [leaf, canary], address: 192.0.2.11}\n"
	leaf2 = "  - {name: leaf-2, groups: [leaf], address: 192.0.2.12}\n"
	up2   = "  leaf-2:swp[49-50] - spine-[1-2]:swp2\n"
	user  = "ssh: {user: csig, key: /etc/csig/id}"
	sock  = "daemon: {socket: /run/csig/agent.sock}"
)

func addLink(line string) []string { return []string{up2, up2 + "  " + line + "\n"} }

// partMistakes are pairs of what to replace in parts.
var partMistakes = []struct {
	name    string
	changes []string
}{
	{"include of nothing", []string{"pods/*.yaml", "pod/*.yaml"}},
	{"include that is no pattern", []string{"pods/*.yaml", "\"pods/[a\""}},
	{"include of itself", []string{"pods/*.yaml", "fleet.yaml"}},
	{"include in a ring", []string{"hosts:\n", "include: b.yaml\nhosts:\n", "-- pods/b.yaml --\nformat: csig.fleet/v1\n", "-- pods/b.yaml --\nformat: csig.fleet/v1\ninclude: a.yaml\n"}},
	{"include leaves the file system", []string{"pods/*.yaml", "../x.yaml"}},
	{"include that is a mapping", []string{"[pods/*.yaml]", "{pods: a}"}},
	{"included file without format", []string{"-- pods/b.yaml --\nformat: csig.fleet/v1\n", "-- pods/b.yaml --\n"}},
	{"included file is not YAML", []string{"-- pods/b.yaml --\nformat: csig.fleet/v1\n", "-- pods/b.yaml --\nformat: {\n"}},
	{"mistakes in two files", []string{leaf1, strings.Replace(leaf1, "groups", "group", 1), "groups: [spine]", "groups: [spin]"}},
	{"profile twice", []string{"hosts:\n", "profile: {name: dc}\nhosts:\n"}},
	{"policy twice", []string{"defaults:", "policy: {on_stale: strip}\ndefaults:", "hosts:\n", "policy: {on_stale: strip}\nhosts:\n"}},
	{"defaults twice", []string{"hosts:\n", "defaults: {platform: sonic}\nhosts:\n"}},
	{"no profile in any file", []string{"profile:\n  name: dc\n  tpid: 0x9900\n  interval: 1s\n  signals:\n    abw: {buckets: log-100G}\n    abwc: {buckets: log}\n  locator:\n    - {name: stage, bits: 2, values: {leaf: 1, spine: 2}}\n    - {name: port, bits: 5}\n", ""}},
	{"group twice", []string{"hosts:\n", "groups: {leaf: {tags: a}}\nhosts:\n"}},
	{"group unknown", []string{"[leaf, canary]", "[lief, canary]"}},
	{"group named twice", []string{"[leaf, canary]", "[leaf, leaf]"}},
	{"group with a bad name", []string{"  canary: {", "  \"can ary\": {"}},
	{"group with what only devices have", []string{"  canary: {", "  canary: {address: 192.0.2.1, "}},
	{"group with a peer", []string{`{name: "swp[1-2]", speed: 25G}`, "{name: swp1, speed: 25G, peer: gpu-1}\n      - {name: swp2}"}},
	{"defaults with ports", []string{"  port: {mtu: 9216}", "  ports: [{name: swp1}]"}},
	{"defaults with a peer", []string{"  port: {mtu: 9216}", "  port: {peer: h1}"}},
	{"platform missing everywhere", []string{"  platform: linux\n", ""}},
	{"device twice in two files", []string{`"spine-[1-2]"`, `"leaf-[2-3]"`}},
	{"device range backwards", []string{`"spine-[1-2]"`, `"spine-[2-1]"`}},
	{"device range without its end", []string{`"spine-[1-2]"`, `"spine-[1-2"`}},
	{"device range of letters", []string{`"spine-[1-2]"`, `"spine-[a-b]"`}},
	{"device range of millions", []string{`"spine-[1-2]"`, `"spine-[1-2000000]"`}},
	{"device range of zeros", []string{`"spine-[1-2]"`, `"spine-[01-2]"`}},
	{"one address for two devices", []string{`"192.0.2.[1-2]"`, `192.0.2.1`}},
	{"three addresses for two devices", []string{`"192.0.2.[1-2]"`, `"192.0.2.[1-3]"`}},
	{"address range that leaves IPv4", []string{`"192.0.2.[1-2]"`, `"192.0.2.[255-256]"`}},
	{"tag with a space", []string{"tags: [canary]", "tags: [\"can ary\"]"}},
	{"level unknown", []string{"level: software", "level: hardware"}},
	{"level without is", []string{"level: software", "level: {reason: tested}"}},
	{"mtu too small", []string{"port: {mtu: 9216}", "port: {mtu: 68}"}},
	{"mtu too large", []string{"port: {mtu: 9216}", "port: {mtu: 92160}"}},
	{"management empty", []string{"  management:\n    " + user + "\n    " + sock, "  management: {}"}},
	{"netns relative", []string{user, "netns: s1"}},
	{"netns and ssh", []string{user, user + "\n    netns: /run/netns/s1"}},
	{"ssh without user", []string{user, "ssh: {key: /etc/csig/id}"}},
	{"ssh without credentials", []string{user, "ssh: {user: csig}"}},
	{"ssh key relative", []string{user, "ssh: {user: csig, key: id}"}},
	{"ssh password inline", []string{user, "ssh: {user: csig, password: hunter22}"}},
	{"ssh passphrase without key", []string{user, "ssh: {user: csig, agent: true, passphrase: {env: P}}"}},
	{"sudo with its password inline", []string{user, "ssh: {user: csig, agent: true, sudo: hunter22}"}},
	{"sudo's password inline", []string{user, "ssh: {user: csig, agent: true, sudo: {password: hunter22}}"}},
	{"sudo without its password", []string{user, "ssh: {user: csig, agent: true, sudo: {}}"}},
	{"sudo with a file and no password", []string{user, "ssh: {user: csig, agent: true, sudo: {file: /etc/csig/sudo}}"}},
	{"ssh without address", []string{leaf2, "  - {name: leaf-2, groups: [leaf]}\n"}},
	{"daemon in two places", []string{sock, "daemon: {socket: /s, port: 7443}"}},
	{"daemon nowhere", []string{sock, "daemon: {}"}},
	{"daemon by TCP without TLS", []string{sock, "daemon: {port: 7443}"}},
	{"daemon by TCP with half of TLS", []string{sock, "daemon: {port: 7443, tls: {ca: /ca.pem}}"}},
	{"daemon that anybody may be", []string{sock, "daemon: {port: 7443, tls: {ca: /ca.pem, cert: /c.pem, key: /c.key, insecure_skip_verify: true}}"}},
	{"daemon's socket without ssh", []string{"    " + user + "\n", ""}},
	{"schedule of a group too sparse", []string{"tags: [canary]", "tags: [canary], schedule: \"@every 2s\""}},
	{"host twice", []string{"  - web-1", "  - gpu-2"}},
	{"host with a device's name", []string{"  - web-1", "  - web-1\n  - spine-1"}},
	{"host with a bad name", []string{"  - web-1", "  - \"web 1\""}},
	{"host without an interface", []string{"csig: true", "csig: true, local: true"}},
	{"host in a namespace without an interface", []string{"csig: true", "csig: true, management: {netns: /run/netns/g}"}},
	{"host here and elsewhere", []string{"csig: true", "csig: true, local: true, interface: eth0, management: {netns: /run/netns/g}"}},
	{"host whose interface is none", []string{"csig: true", "interface: \"eth 0\""}},
	{"host that is reached by ssh", []string{"csig: true", "interface: eth0, management: {ssh: {user: a, agent: true}}"}},
	{"host with an unknown key", []string{"csig: true", "csi: true"}},
	{"link with one end", addLink("leaf-2:swp2")},
	{"link without spaces", addLink("leaf-2:swp2-web-1")},
	{"link of three ends", addLink("leaf-2:swp2 - web-1 - web-1")},
	{"link to an unknown device", addLink("leaf-2:swp2 - spine-3:swp1")},
	{"link to an unknown host", addLink("leaf-2:swp2 - web-2")},
	{"link from an unknown port", addLink("leaf-2:swp3 - web-1")},
	{"link to a device without a port", addLink("leaf-2:swp2 - spine-1")},
	{"link of ranges that differ", addLink("leaf-2:swp2 - gpu-[1-2]")},
	{"link with a bad range", addLink("leaf-2:swp[2 - web-1")},
	{"link with a bad end", addLink("leaf-2:swp2 - :swp1")},
	{"link in a circle", addLink("leaf-2:swp2 - leaf-2:swp2")},
	{"link within a device", addLink("leaf-2:swp2 - leaf-2:swp1")},
	{"link between hosts", addLink("gpu-1 - gpu-2")},
	{"link twice", addLink("leaf-2:swp49 - spine-2:swp1")},
	{"link and peer that differ", []string{leaf2, "  - {name: leaf-2, groups: [leaf], address: 192.0.2.12, ports: [{name: swp49, peer: \"spine-2:swp1\"}]}\n"}},
	{"links that are a mapping", []string{"links: |\n", "links: {a: b}\nx: |\n"}},
	{"peers fewer than ports", []string{leaf2, "  - {name: leaf-2, groups: [leaf], address: 192.0.2.12, ports: [{name: \"swp[1-2]\", peer: gpu-1}]}\n"}},
	{"peer is a device", []string{leaf2, "  - {name: leaf-2, groups: [leaf], address: 192.0.2.12, ports: [{name: swp2, peer: spine-1}]}\n"}},
	{"peer is the device itself", []string{leaf2, "  - {name: leaf-2, groups: [leaf], address: 192.0.2.12, ports: [{name: swp2, peer: \"leaf-2:swp1\"}]}\n"}},
	{"peer unknown", []string{leaf2, "  - {name: leaf-2, groups: [leaf], address: 192.0.2.12, ports: [{name: swp2, peer: gpu-3}]}\n"}},
	{"peer of an unknown device", []string{leaf2, "  - {name: leaf-2, groups: [leaf], address: 192.0.2.12, ports: [{name: swp2, peer: \"spin-1:swp9\"}]}\n"}},
	{"peer does not say the same", []string{"  leaf-1:swp[49-50] - spine-[1-2]:swp1   # up\n", "", leaf1, "  - {name: leaf-1, groups: [leaf, canary], address: 192.0.2.11, ports: [{name: swp49, peer: \"spine-1:swp1\"}]}\n"}},
	{"peer says something else", []string{leaf1, "  - {name: leaf-1, groups: [leaf, canary], address: 192.0.2.11, ports: [{name: swp1, peer: \"spine-1:swp1\"}]}\n", "  leaf-1:swp[1-2] - gpu-[1-2]\n", ""}},
	{"speeds of a link differ", []string{`ports: [{name: "swp[1-2]", speed: 100G}]`, `ports: [{name: "swp[1-2]", speed: 40G}]`}},
	{"port names of a group overlap", []string{`"swp[49-50]"`, `"swp[2-3]"`}},
	{"port name with a slash from a link", []string{`ports: [{name: "swp[1-2]", speed: 100G}]`, "tags: a", "leaf-1:swp[49-50] - spine-[1-2]:swp1", "leaf-1:swp[49-50] - spine-[1-2]:swp/1"}},
	{"no ports at all", []string{`    ports: [{name: "swp[1-2]", speed: 100G}]`, "", "  leaf-1:swp[49-50] - spine-[1-2]:swp1   # up\n", "", up2, ""}},
	{"lm stage nowhere", []string{"    port: {lm: {stage: spine}}\n", ""}},
	{"lm of a group for all ports", []string{"    port: {lm: {stage: spine}}\n", "    port: {lm: 70}\n"}},
	{"lm of group and device is reserved", []string{leaf2, "  - {name: leaf-2, groups: [leaf], address: 192.0.2.12, port: {lm: {stage: 3}}, ports: [{name: swp1, lm: {port: 30}}]}\n"}},
	{"lm leaves nothing to choose", []string{"{name: port, bits: 5}", "{name: pad, bits: 4}\n    - {name: port, bits: 1}", "{lm: {stage: spine}}", "{lm: {stage: 3, pad: 15}}"}},
}

// TestPartMistakes compares the exact messages with testdata/parts.golden.
func TestPartMistakes(t *testing.T) {
	if f := loadParts(t); len(f.Warnings()) > 0 {
		t.Fatalf("the right fleet has warnings: %v", f.Warnings())
	}
	var got strings.Builder
	for _, m := range partMistakes {
		_, err := loadFS(filesOf(changed(t, parts, m.changes)), "fleet.yaml")
		var list Errors
		if !errors.As(err, &list) || len(list) == 0 {
			t.Errorf("%s: got %v, want Errors", m.name, err)
			continue
		}
		if strings.Contains(err.Error(), planted) {
			t.Errorf("%s: shows a secret", m.name)
		}
		fmt.Fprintf(&got, "== %s\n%s\n\n", m.name, err)
	}
	compareGolden(t, "testdata/parts.golden", got.String())
}

// partWarnings are odd, but right.
var partWarnings = []struct {
	name    string
	changes []string
	want    string
}{
	{"group without devices", []string{"[leaf, canary]", "[leaf]"}, "group canary: no device is in it"},
	{"host without a link", []string{"  leaf-2:swp1 - web-1\n", ""}, "host web-1: no port is connected to it"},
	{"MTUs of a link differ", []string{`ports: [{name: "swp[1-2]", speed: 100G}]`, `ports: [{name: "swp[1-2]", speed: 100G, mtu: 1500}]`}, "mtu: 9216 here and 1500 at spine-1:swp1"},
	{"MTUs of a link differ the other way", []string{`ports: [{name: "swp[1-2]", speed: 100G}]`, `ports: [{name: "swp[1-2]", speed: 100G, mtu: 9300}]`}, "mtu: 9216 here and 9300 at spine-1:swp1"},
	{"a host's MTU is larger", []string{"mtu: 9000, csig: true", "mtu: 9300"}, "mtu: 9216 here and 9300 at host gpu-1"},
	{"a port that is not listed", []string{leaf2, "  - {name: leaf-2, groups: [leaf], address: 192.0.2.12, ports: [{name: swp2, peer: \"spine-1:swp9\"}]}\n"}, "device spine-1 does not list a port swp9"},
}

func TestPartWarnings(t *testing.T) {
	for _, row := range partWarnings {
		t.Run(row.name, func(t *testing.T) {
			got := loadParts(t, row.changes...).Warnings()
			if len(got) == 0 || !strings.Contains(got.Error(), row.want) {
				t.Errorf("got %v, want %q", got, row.want)
			}
		})
	}
}

func compareGolden(t *testing.T, golden, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	gotCases, wantCases := strings.Split(got, "== "), strings.Split(string(want), "== ")
	for i := range max(len(gotCases), len(wantCases)) {
		switch {
		case i >= len(gotCases):
			t.Errorf("missing: %s", wantCases[i])
		case i >= len(wantCases):
			t.Errorf("not in %s (run with -update and read the difference): %s", golden, gotCases[i])
		case gotCases[i] != wantCases[i]:
			t.Errorf("got  %s\nwant %s", gotCases[i], wantCases[i])
		}
	}
}
