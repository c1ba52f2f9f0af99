package inventory

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// FuzzParse wants of every text: no panic, and either errors with their places
// in the text or a fleet that can be written and read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	for _, m := range mistakes {
		if m.changes[0] == "" {
			f.Add([]byte(m.changes[1]))
		}
	}
	for _, counters := range []string{
		"{source: snmp, overhead: 20, snmp: {version: 2c, community: {env: C}, retries: 0}}",
		"{source: snmp, snmp: {version: '3', user: u, auth: {protocol: sha256, key: {file: /a}}, priv: {protocol: aes, key: {command: [a, \"b c\"]}}}}",
		"{source: gnmi, gnmi: {tls: {ca: /a, cert: /b, key: /c, server_name: d}, username: u, password: {env: P}, mode: get}}",
		"{source: gnmi, gnmi: {plaintext: true}}",
	} {
		f.Add([]byte(strings.NewReplacer("    local: true", "    address: fe80::1%eth0\n    estimator: {method: ewma, time_constant: 1s}\n    counters: "+counters,
			"  on_stale: conservative", "  damping: {hold: 2, margin: 2.5%}").Replace(good)))
	}
	f.Add([]byte(mistaken(f, facts("loses: [DEI]\n    dropped_vids: [0, 3968-4095]\n    hitless: false\n    ack_to_wire: 12ms\n    reasons: {hitless: a frame had neither value}"))))
	for _, text := range []string{
		"a: &a [*a]", "&a a: *a", "? a\n: b", "<<: *a", "- - -", "a: !!str", "%YAML 1.2\n---\na", "a: |2\n   b", "\ufeffa",
		"a: \"\\x", "a: >-\n b\n\n c", "{a, b: }", "[a: b]", "a:\r\n- b\r\n", "&\n", "*", "? {a: b}\n: c", "!a &b c", "-\t- a", "a: 'b\n\n c'",
	} {
		f.Add([]byte(text))
	}
	examples, err := filepath.Glob("../examples/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range examples {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fleet, err := Parse("fuzz.yaml", text)
		if err != nil {
			checkErrors(t, string(text), err)
			_ = err.Error()
			return
		}
		roundTrip(t, fleet)
	})
}

// FuzzParseSchedule wants no panic, and of every schedule taken that its next
// instant is later and its longest gap positive.
func FuzzParseSchedule(f *testing.F) {
	for _, text := range []string{"@every 100ms", "@hourly", "* * * * *", "TZ=UTC 1 2 3 4 5", "CRON_TZ=", "0 0 29 2 *", "*/7 1-5,9 * jan mon-fri", "@every 9223372036s", "@every -1s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSchedule(text)
		if err != nil {
			return
		}
		gap := LongestGap(s)
		if gap <= 0 {
			t.Errorf("longest gap %s", gap)
		}
		now := epoch.Add(1234567)
		if next := s.Next(now); !next.After(now) || next.Sub(now) > gap {
			t.Errorf("after %s comes %s, the longest gap is %s", now, next, gap)
		}
	})
}

// FuzzLoad wants of every fleet in files: no panic, and either errors with their
// places in the files or a fleet that is the same when it is read again. The
// files are in one text, each behind a line with its name.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(parts))
	for _, m := range partMistakes {
		text := parts
		for i := 0; i < len(m.changes); i += 2 {
			text = strings.Replace(text, m.changes[i], m.changes[i+1], 1)
		}
		f.Add([]byte(text))
	}
	f.Add([]byte("-- fleet.yaml --\ninclude: '*'\n-- a --\ninclude: '*'\n-- b --\nlinks: |\n a - b\n"))
	f.Add([]byte("-- fleet.yaml --\nformat: csig.fleet/v1\nlinks: |\nlinks: |\n  a - b\n \n\tc"))
	f.Fuzz(func(t *testing.T, text []byte) {
		files := make(fstest.MapFS)
		for part := range strings.SplitSeq("\n"+string(text), "\n-- ") {
			name, data, ok := strings.Cut(part, " --\n")
			if ok && fs.ValidPath(name) && name == printable(name) {
				files[name] = &fstest.MapFile{Data: []byte(data)}
			}
		}
		fleet, err := loadFS(files, "fleet.yaml")
		var list Errors
		switch {
		case errors.As(err, &list):
			for _, e := range list {
				lines := strings.Split(strings.ReplaceAll(strings.TrimPrefix(string(files[e.File].Data), "\ufeff"), "\r\n", "\n"), "\n")
				if e.Line < 1 || e.Line > len(lines) || e.Col < 1 || e.Col > len([]rune(lines[e.Line-1]))+1 {
					t.Errorf("%s:%d:%d is not in the text", e.File, e.Line, e.Col)
				}
			}
		case err == nil:
			again, err := loadFS(files, "fleet.yaml")
			if err != nil || again.Hash() != fleet.Hash() {
				t.Errorf("read again: %v, %v", again, err)
			}
			if fleet.Links() == nil || len(fleet.Tiers()) != len(fleet.Devices) {
				t.Error("no links or tiers")
			}
			for sig := range fleet.Profile.Signals {
				_ = fleet.Ambiguity(sig)
			}
			if _, err := Marshal(fleet); err != nil && !strings.Contains(err.Error(), "a fleet file has at most") {
				t.Errorf("%v", err)
			}
		}
	})
}

// FuzzExpand wants no panic, and of every text taken as many names as its ranges
// stand for, all different unless the text repeats a number.
func FuzzExpand(f *testing.F) {
	for _, text := range []string{"a", "a[1-3]", "[08-10]x[1,2]", "a[", "]", "[1-2][3-4][5-6]", "[1-9999]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := expand(text)
		if err == nil && (len(list) == 0 || len(list) > maxExpand) {
			t.Errorf("%q gives %d names", text, len(list))
		}
		for _, name := range list {
			if strings.ContainsAny(name, "[]") {
				t.Errorf("%q gives %q", text, name)
			}
		}
	})
}
