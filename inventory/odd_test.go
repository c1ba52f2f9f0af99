package inventory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// oddly changes a part of the right file, once.
func oddly(old, with string) string { return strings.Replace(good, old, with, 1) }

// ports3 replaces the last port of the first device.
func ports3(with string) string { return oddly(port3, with) }

const bigPort = "{name: \"p[1-4000]\", action: passthrough}"

// oddFile is one, and what csig says of it.
type oddFile struct{ name, text, want string }

// odd are files as people and programs really write them, or would to harm: what
// csig says, "" where it takes them.
func odd() []oddFile {
	return []oddFile{
		{"lines of Windows", strings.ReplaceAll(good, "\n", "\r\n"), ""},
		{"lines of an old Macintosh", strings.ReplaceAll(good, "\n", "\r"), "control characters are not allowed"},
		{"lines of both kinds", strings.Replace(good, "\n", "\r\n", 3), ""},
		{"a byte order mark", "\ufeff" + good, ""},
		{"two byte order marks", "\ufeff\ufeff" + good, "fleet.yaml:1:1"},
		{"UTF-16", "\xff\xfef\x00o\x00r\x00m\x00a\x00t\x00", "this is no fleet file"},
		{"UTF-16 with the format in a comment", "\xff\xfe" + good, "this is not UTF-8 text"},
		{"a NUL at the end", good + "\x00", "control characters"},
		{"a NUL in a name", oddly("name: s1", "name: s\x001"), "control characters"},
		{"a NUL that is written", oddly("name: s1", `name: "s\0001"`), "is not a name"},
		{"an escape that is written", oddly("name: s1", `name: "s\e[31m1"`), `"s\x1b[31m1" has a [ without its ]`},
		{"a line separator in a name", oddly("name: s1", "name: s\u20281"), "is not a name"},
		{"letters that look like others", oddly("name: s1", "name: ѕ1"), "is not a name"},
		{"a name that turns around", oddly("name: s1", "name: \"s\u202e1\""), "is not a name"},
		{"tabs between key and value", oddly("name: lab", "name:\tlab"), ""},
		{"tabs that indent", oddly("    local: true", "\t\tlocal: true"), "YAML does not take tabs"},
		{"a tab behind a value", oddly("name: lab", "name: lab\t"), ""},
		{"blanks at the ends of lines", strings.ReplaceAll(good, "\n", "  \n"), ""},
		{"no newline at the end", strings.TrimSuffix(good, "\n"), ""},
		{"a marker in front and behind", "---\n" + good + "...\n", ""},
		{"a second document", good + "---\nformat: csig.fleet/v1\n", "one YAML document"},
		{"a directive", "%YAML 1.2\n---\n" + good, ""},
		{"JSON", `{"format": "csig.fleet/v1", "profile": {"name": "lab", "tpid": "0x9900", "interval": "1s", "signals": {"abw": {"buckets": "log-10G"}}}, "devices": [{"name": "s1", "platform": "linux", "ports": [{"name": "p", "lm": 1}]}]}`, ""},
		{"JSON, with a key twice", `{"format": "csig.fleet/v1", "format": "csig.fleet/v1"}`, "is there twice"},
		{"a template", oddly("name: s1", "name: {{ inventory_hostname }}"), "fleet.yaml:17:12: YAML syntax"},
		{"a template of Jinja", "{% for i in range(3) %}\n" + good + "{% endfor %}\n", "YAML syntax"},
		{"a variable of a shell", oddly("name: s1", "name: ${HOSTNAME}"), "is not a name"},
		{"key twice in profile", oddly("  name: lab", "  name: lab\n  tpid: 0x9900"), `"tpid" is there twice`},
		{"devices twice", good + "devices: []\n", `"devices" is there twice`},
		{"keys that differ in case", oddly("    local: true", "    Local: true"), "unknown key"},
		{"a key of a number", oddly("    local: true", "    1: true"), "unknown key"},
		{"a key of nothing", oddly("    local: true", "    ~: true"), "is not a key of the fleet format"},
		{"a key that is a list", oddly("    local: true", "    ? [a, b]\n    : true"), `keys that begin with "?"`},
		{"an MTU like 9e3", ports3("{name: swp3, mtu: 9e3, lm: 17}"), "want 576 to 65535"},
		{"an MTU like 0x2400", ports3("{name: swp3, mtu: 0x2400, lm: 17}"), ""},
		{"an MTU like 010000", ports3("{name: swp3, mtu: 010000, lm: 17}"), "without leading zeros"},
		{"an MTU like 0o10000", ports3("{name: swp3, mtu: 0o10000, lm: 17}"), "without leading zeros"},
		{"an MTU like 9_000", ports3("{name: swp3, mtu: 9_000, lm: 17}"), "without leading zeros"},
		{"an MTU like 1:30", ports3("{name: swp3, mtu: \"1:30\", lm: 17}"), "want 576 to 65535"},
		{"the largest MTU", ports3("{name: swp3, mtu: 65535, lm: 17}"), ""},
		{"an MTU of 2^16", ports3("{name: swp3, mtu: 65536, lm: 17}"), "want 576 to 65535"},
		{"the smallest MTU", ports3("{name: swp3, mtu: 576, lm: 17}"), ""},
		{"an MTU of 575", ports3("{name: swp3, mtu: 575, lm: 17}"), "want 576 to 65535"},
		{"an MTU below zero", ports3("{name: swp3, mtu: -1, lm: 17}"), "want 576 to 65535"},
		{"an MTU of 2^64 + 1500", ports3("{name: swp3, mtu: 18446744073709553116, lm: 17}"), "want 576 to 65535"},
		{"an MTU of a megabyte", ports3("{name: swp3, mtu: " + strings.Repeat("9", 1<<20/shorter) + ", lm: 17}"), "want 576 to 65535"},
		{"an MTU without end", ports3("{name: swp3, mtu: .inf, lm: 17}"), "want 576 to 65535"},
		{"a locator of 2^16 + 17", ports3("{name: swp3, lm: 65553, action: passthrough}"), "too large"},
		{"a locator like 1e1", ports3("{name: swp3, lm: 1e1, action: passthrough}"), "want a whole number"},
		{"a TPID that is a number", oddly("0x9900", "39168"), "TPID in hexadecimal"},
		{"a TPID of 2^16", oddly("0x9900", "0x19900"), "TPID in hexadecimal"},
		{"a Δt of 1e3s", oddly("interval: 100ms", "interval: 1e3s"), "is not a duration"},
		{"a Δt that overflows", oddly("interval: 100ms", "interval: 9999999999h"), "is not a duration"},
		{"a Δt of a number", oddly("interval: 100ms", "interval: 100"), "write it with its unit"},
		{"a speed of 1e30 G", oddly("speed: 10G, action: update", "speed: 1e30G, action: update"), "speed"},
		{"a speed of 2^64 bit/s and one", oddly("speed: 10G, action: update", "speed: 18446744073709551617, action: update"), "speed"},
		{"a truth of Norway", oddly("local: true", "local: no"), "want true or false"},
		{"a truth of 1", oddly("local: true", "local: 1"), "want true or false"},
		{"a date", oddly("name: lab", "name: 2026-01-01"), ""},
		{"a range without end", ports3("{name: \"swp[1-999999999]\"}"), "more than 4096 names"},
		{"a range of 20 digits", ports3("{name: \"swp[1-99999999999999999999]\"}"), "is not a range"},
		{"a product of ranges", ports3("{name: \"swp[1-4096][1-4096][1-4096]\"}"), "stands for more than 4096 names"},
		{"a range of nothing", ports3("{name: \"swp[]\"}"), "is not a range"},
		{"a range in a range", ports3("{name: \"swp[[1-2]-3]\"}"), "is not a range"},
		{"a range that runs backwards", ports3("{name: \"swp[9-1]\"}"), "runs backwards"},
		{"a range below zero", ports3("{name: \"swp[-1-3]\"}"), "is not a range"},
		{"a megabyte of commas in a range", ports3("{name: \"swp[" + strings.Repeat("1,", 1<<19/shorter) + "1]\"}"), "or is too long"},
		{"many ranges of one", ports3("{name: \"" + strings.Repeat("[1]", 1<<16/shorter) + "\"}"), "more than 8 ranges"},
		{"many large ranges by aliases", oddly(port3, "&b "+bigPort) + strings.Repeat("  - {name: x, platform: linux, ports: [*b]}\n", 500/shorter), "is there twice"},
		{"a megabyte of groups", oddly("    local: true", "    groups: ["+strings.Repeat("g, ", 1<<16/shorter)+"g]"), "groups: more than 256 entries"},
		{"a megabyte of tags", oddly("    local: true", "    tags: ["+strings.Repeat("t, ", 1<<16/shorter)+"t]\n    local: true"), "tags: more than 256 entries"},
		{"a comment of three megabytes", good + "# " + strings.Repeat("x", 3<<20/shorter), ""},
		{"a line of cables of three megabytes", good + "links: |\n  " + strings.Repeat("x", 3<<20/shorter), "fleet.yaml:29:3: links: "},
		{"a line of cables with many ranges", good + "links: |\n  s1:swp" + strings.Repeat("[1-9]", 1<<16/shorter) + " - s2:swp1\n", "more than 8 ranges"},
		{"many cables", good + "links: |\n" + strings.Repeat("  a - b\n", 1<<17/shorter), "are both hosts"},
		{"long names, many times", good + "groups:\n  g: {ports: [{name: \"" + strings.Repeat("a", 4000) + "[1-4096]\"}]}\n", "too long for a text with ranges"},
		{"more names than may be", good + "groups:\n  g:\n    ports:\n" + manyPorts(max(600, 2000/shorter)), "stand for more than 2097152 names"},
		{"a tree of aliases", good + "groups:\n  g: &g {tags: &t [a]}\n" + strings.Repeat("  - *g\n", 4), "YAML syntax"},
		{"an alias of a device", good + "  - &d {name: s3, platform: linux, ports: [{name: p}]}\n  - *d\n", "s3 is there twice"},
	}
}

// manyPorts are n entries of a list of ports, each a range.
func manyPorts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "      - {name: \"p%dx[1-4000]\"}\n", i)
	}
	return b.String()
}

// oddBytes is what reading any of these may allocate, and oddTime how long
// processors may work on it; however busy the machine, it ends within oddPatience.
const (
	oddBytes    = 2 << 30
	oddTime     = 15 * time.Second
	oddPatience = 5 * time.Minute
)

// boundedRead fails where reading takes more than the bounds.
func boundedRead(t *testing.T, read func() error) error {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := processor()
	ended := make(chan error, 1)
	go func() { ended <- read() }()
	select {
	case err := <-ended:
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > oddBytes {
			t.Errorf("it takes %d MiB", n>>20)
		}
		if d := processor() - start; d > oddTime {
			t.Errorf("it takes %v", d)
		}
		return err
	case <-time.After(oddPatience):
		t.Fatal("it does not end")
		return nil
	}
}

func TestOddFiles(t *testing.T) {
	for _, row := range odd() {
		if shorter > 1 && row.name == "more names than may be" {
			continue // TestLongHuge has these two million names
		}
		t.Run(row.name, func(t *testing.T) {
			err := boundedRead(t, func() error { _, err := Parse("fleet.yaml", []byte(row.text)); return err })
			switch {
			case row.want == "" && err != nil:
				t.Errorf("%.1000v", err)
			case row.want != "" && err == nil:
				t.Errorf("taken, want %q", row.want)
			case row.want != "":
				checkErrors(t, row.text, err)
				if text := err.Error(); !strings.Contains(text, row.want) {
					t.Errorf("got %.1000s\nwant %q", text, row.want)
				}
				var list Errors
				if !errors.As(err, &list) {
					t.Fatalf("an error without positions: %v", err)
				}
				for _, e := range list {
					if len(e.Msg) > maxMessage+32 || len(e.Hint) > maxMessage+32 {
						t.Errorf("a message of %d bytes, a hint of %d", len(e.Msg), len(e.Hint))
					}
				}
			}
		})
	}
}

// TestOddPlaces includes what is no file, and files that include each other.
func TestOddPlaces(t *testing.T) {
	including := func(pattern string) string {
		return strings.Replace(good, "devices:", "include: \""+pattern+"\"\ndevices:", 1)
	}
	part := func(include string) string { return "format: csig.fleet/v1\ninclude: " + include + "\n" }
	for _, row := range []struct {
		name, pattern string
		make          func(dir string) error
		want          string
	}{
		{"a FIFO", "fifo", func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600) }, "it is not a plain file"},
		{"a FIFO that a pattern finds", "*.part", func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "x.part"), 0o600) }, "it is not a plain file"},
		{"a folder", "folder", func(dir string) error { return os.Mkdir(filepath.Join(dir, "folder"), 0o700) }, "it is not a plain file"},
		{"a file of the kernel's that waits", "/proc/kmsg", nil, "it is not a plain file"},
		{"a device without end", "/dev/zero", nil, "it is not a plain file"},
		{"a device that is empty", "/dev/null", nil, "it is not a plain file"},
		{"a process's memory", "/proc/self/mem", nil, "include: "},
		{"a file of the kernel's", "/proc/self/status", nil, "it is not a plain file"},
		{"a link to itself", "loop", func(dir string) error { return os.Symlink("loop", filepath.Join(dir, "loop")) }, "include: "},
		{"a link to a FIFO", "link", func(dir string) error {
			return errors.Join(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Symlink("pipe", filepath.Join(dir, "link")))
		}, "it is not a plain file"},
		{"a file by another name", "again.yaml", func(dir string) error { return os.Symlink("fleet.yaml", filepath.Join(dir, "again.yaml")) }, "files include each other"},
		{"a ring", "a.part", func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "a.part"), []byte(part("b.part")), 0o600), os.WriteFile(filepath.Join(dir, "b.part"), []byte(part("a.part")), 0o600))
		}, "files include each other"},
		{"a chain that is too long", "0.part", func(dir string) (err error) {
			for i := range 40 {
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.part", i)), []byte(part(fmt.Sprintf("%d.part", i+1))), 0o600))
			}
			return err
		}, "more than 16 deep"},
		{"more files than may be", "*.part", func(dir string) (err error) {
			for i := range maxFiles + 1 {
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.part", i)), []byte("format: csig.fleet/v1\n"), 0o600))
			}
			return err
		}, "more than 4096 files"},
		{"a pattern of a megabyte", strings.Repeat("*a", 1<<19), nil, "include: "},
		{"a pattern without end", strings.Repeat("*/", 2000), nil, "include: "},
		{"a pattern over the machine", "/proc/*/*/csig-test.yaml", nil, "include: "},
		{"a file without permission to be a name", "a\\0b", nil, "include: "},
	} {
		if shorter > 1 && (row.name == "more files than may be" || row.name == "a pattern of a megabyte") {
			continue // TestLongHuge has them
		}
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			if row.make != nil {
				if err := row.make(dir); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, "fleet.yaml")
			if err := os.WriteFile(path, []byte(including(row.pattern)), 0o600); err != nil {
				t.Fatal(err)
			}
			err := boundedRead(t, func() error { _, err := Load(path); return err })
			var list Errors
			if !errors.As(err, &list) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %.1000v, want %q", err, row.want)
			}
		})
	}
	for _, path := range []string{t.TempDir(), "/dev/null", "/dev/zero", "/proc/self/mem", "/proc/self/status", "/nowhere", "a\x00b"} {
		if err := boundedRead(t, func() error { _, err := Load(path); return err }); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%s: %.1000v", path, err)
		}
	}
}

// TestDepth has files as deep as one may be, and one deeper.
func TestDepth(t *testing.T) {
	for depth, refused := range map[int]bool{maxDepth - 1: false, maxDepth: true} { // in a mapping
		_, err := Parse("fleet.yaml", []byte("format: csig.fleet/v1\ndevices: "+strings.Repeat("[", depth)+strings.Repeat("]", depth)))
		if err == nil || strings.Contains(err.Error(), "nested more") != refused {
			t.Errorf("%d deep: %.300v", depth, err)
		}
	}
}
