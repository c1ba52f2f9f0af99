package inventory

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("fleet.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("fleet.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validate reads YAML as an editor does and lets the schema judge it.
func validate(t *testing.T, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

// TestSchemaTakesWhatTheReaderTakes validates all examples and right files.
func TestSchemaTakesWhatTheReaderTakes(t *testing.T) {
	s := compileSchema(t)
	texts := map[string][]byte{"good": []byte(good)}
	for name, f := range filesOf(parts) {
		texts[name] = f.Data
	}
	for _, pattern := range []string{"../examples/*.yaml", "../examples/*/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, path := range files {
			if filepath.Base(filepath.Dir(path)) == "scenarios" {
				continue // of csig simulate
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = text
		}
	}
	for name, text := range texts {
		if err := validate(t, s, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSchemaRefuses wants an editor to show what has been let through once.
func TestSchemaRefuses(t *testing.T) {
	s := compileSchema(t)
	for _, row := range []struct {
		name, from, to string
		takes          bool
	}{
		{"tpid of IPv4", "tpid: 0x9900", "tpid: 0x0800", false},
		{"tpid of IPv6, in capitals and quotes", "tpid: 0x9900", "tpid: '0x86DD'", false},
		{"tpid of VLANs", "tpid: 0x9900", "tpid: 0x8100", false},
		{"tpid that nothing has", "tpid: 0x9900", "tpid: 0x9999", true},
		{"lm of all ones", "lm: 17", "lm: 127", false},
		{"lm for stale", "lm: 17", "lm: 125", false},
		{"lm zero", "lm: 17", "lm: 0", false},
		{"the largest lm", "lm: 17", "lm: 124", true},
		{"platform nowhere", "    platform: linux\n    local: true\n", "", false},
		{"platform in the defaults", "devices:\n  - name: s1\n    platform: linux\n", "defaults: {platform: linux}\ndevices:\n  - name: s1\n", true},
		{"platform in a group, perhaps", "    platform: linux\n    local: true\n", "    groups: a\n", true},
		{"platform in another file, perhaps", "devices:\n  - name: s1\n    platform: linux\n", "include: a.yaml\ndevices:\n  - name: s1\n", true},
	} {
		text := strings.Replace(good, row.from, row.to, 1)
		if text == good {
			t.Fatalf("%s: the right file has no %q", row.name, row.from)
		}
		if err := validate(t, s, []byte(text)); (err == nil) != row.takes {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// TestSchemaRefusesMistakes counts the mistakes that an editor shows already:
// those of keys, words and shapes. The others take two places of the file, or
// arithmetic.
func TestSchemaRefusesMistakes(t *testing.T) {
	s := compileSchema(t)
	found := 0
	var missed []string
	for _, m := range mistakes {
		if validate(t, s, []byte(mistaken(t, m.changes))) != nil {
			found++
		} else {
			missed = append(missed, m.name)
		}
	}
	t.Logf("the schema finds %d of %d; not %s", found, len(mistakes), strings.Join(missed, "; "))
	if found*5 < len(mistakes)*2 {
		t.Errorf("the schema finds only %d of %d", found, len(mistakes))
	}
}

// TestSchemaAndReaderAgreeOnKeys gives each mapping a key that it has not, and
// leaves out each that it needs: both refuse.
func TestSchemaAndReaderAgreeOnKeys(t *testing.T) {
	s := compileSchema(t)
	rows := []struct{ name, text string }{
		{"the file", "x: 1\n"}, {"profile", "profile: {x: 1}\n"}, {"policy", "policy: {x: 1}\n"}, {"defaults", "defaults: {x: 1}\n"},
		{"group", "groups: {a: {x: 1}}\n"}, {"device", "devices: [{name: a, x: 1}]\n"}, {"host", "hosts: [{name: a, x: 1}]\n"},
		{"facts", "facts: {a: {x: 1}}\n"}, {"mesh", "mesh: {key: {env: A}, x: 1}\n"},
		{"port", "devices: [{name: a, ports: [{name: b, x: 1}]}]\n"}, {"ssh", "defaults: {management: {ssh: {user: a, x: 1}}}\n"},
		{"counters", "defaults: {counters: {x: 1}}\n"}, {"snmp", "defaults: {counters: {snmp: {version: 3, x: 1}}}\n"},
		{"gnmi", "defaults: {counters: {gnmi: {x: 1}}}\n"}, {"tls", "defaults: {counters: {gnmi: {tls: {x: 1}}}}\n"}, {"secret", "defaults: {counters: {gnmi: {password: {x: 1}}}}\n"},
	}
	for _, row := range rows {
		text := "format: csig.fleet/v1\n" + row.text
		if validate(t, s, []byte(text)) == nil {
			t.Errorf("%s: the schema takes any key", row.name)
		}
		if _, err := Parse("a.yaml", []byte(text)); err == nil {
			t.Errorf("%s: the reader takes any key", row.name)
		}
	}
}

// TestKeysAndReaderAgree wants every key of a definition to be one that the reader
// knows and offers, and documented.
func TestKeysAndReaderAgree(t *testing.T) {
	for name, row := range map[string]struct {
		keys *keySet
		text string // up to the mapping; with an unknown key
	}{
		"counters": {keysOf[Counters](), "{xyzzyx: 1}"},
		"snmp":     {keysOf[SNMP](), "{source: snmp, snmp: {version: 3, xyzzyx: 1}}"},
		"auth":     {keysOf[SNMPAuth](), "{source: snmp, snmp: {version: 3, auth: {xyzzyx: 1}}}"},
		"gnmi":     {keysOf[GNMI](), "{source: gnmi, gnmi: {xyzzyx: 1}}"},
		"tls":      {keysOf[TLS](), "{source: gnmi, gnmi: {tls: {xyzzyx: 1}}}"},
	} {
		_, err := Parse("a.yaml", []byte(strings.Replace(good, "local: true", "address: a\n    counters: "+row.text, 1)))
		if err == nil || !strings.Contains(err.Error(), "want "+oneOf(row.keys.names)) {
			t.Errorf("%s: the reader does not take exactly %v: %v", name, row.keys.names, err)
		}
		if slices.ContainsFunc(row.keys.keys, func(k key) bool { return k.doc == "" }) {
			t.Errorf("%s: a key without documentation", name)
		}
	}
}
