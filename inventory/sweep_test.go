package inventory

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// construct is a piece of YAML that a file may have any number of.
type construct struct{ name, before, one, after string }

// numbered in one stands for the number of the repetition.
const numbered = "%N"

func (c construct) text(size int) string {
	var b strings.Builder
	b.WriteString("# " + Format + "\n" + c.before)
	for i := 0; b.Len() < size; i++ {
		b.WriteString(strings.ReplaceAll(c.one, numbered, fmt.Sprint(i)))
	}
	return b.String() + c.after
}

// constructs are those of YAML, each alone, as far as they can be repeated.
var constructs = []construct{
	{"explicit keys", "", "? a\n", ""},
	{"explicit keys and values", "", "? a%N\n: b\n", ""},
	{"explicit keys, indented", "x:\n", "  ? a\n", ""},
	{"explicit keys in entries", "", "- ? a\n", ""},
	{"explicit keys in braces", "{", "? a, ", "}"},
	{"explicit keys in brackets", "[", "? a, ", "]"},
	{"explicit keys that are lists", "", "? [a, b]\n", ""},
	{"explicit keys of blocks", "", "? |\n  a\n", ""},
	{"explicit keys, empty", "", "?\n", ""},
	{"explicit keys in mappings", "", "a%N:\n  ? b\n", ""},
	{"keys that are lists", "", "[a, b]: c\n", ""},
	{"keys that are mappings", "", "{a: b}: c\n", ""},
	{"keys that are mappings, in braces", "{", "{a: b}: c, ", "}"},
	{"keys in quotes", "", "\"a%N\": c\n", ""},
	{"keys with anchors", "", "&a%N b%N: c\n", ""},
	{"keys that are aliases", "x: &a b\n", "*a : c\n", ""},
	{"keys with tags", "", "!!str b%N: c\n", ""},
	{"empty keys", "", ": c\n", ""},
	{"merge keys", "a: &a {b: c}\n", "<<: *a\n", ""},
	{"merge keys in entries", "a: &a {b: c}\nl:\n", "  - <<: *a\n", ""},
	{"merge keys of a list", "a: &a {b: c}\nl:\n  <<: [", "*a, ", "]\n"},
	{"anchors", "l:\n", "  - &a%N b\n", ""},
	{"anchors in brackets", "[", "&a%N b, ", "]"},
	{"anchors without values", "l:\n", "  - &a%N\n", ""},
	{"anchors of mappings", "l:\n", "  - &a%N {b: c}\n", ""},
	{"anchors in a row", "a: ", "&a ", "b"},
	{"anchors on lines of their own", "a:\n", "  &a\n", "  b"},
	{"one anchor, long", "a: &", "a", " b"},
	{"aliases", "a: &a b\nl:\n", "  - *a\n", ""},
	{"aliases in brackets", "a: &a b\nl: [", "*a, ", "]"},
	{"aliases of nothing", "l:\n", "  - *a\n", ""},
	{"aliases in a chain", "a: &a0 b\nl:\n", "  - &b%N *a0\n", ""},
	{"aliases in a row", "a: ", "*a ", ""},
	{"tags", "l:\n", "  - !a b\n", ""},
	{"tags of yaml.org", "l:\n", "  - !!str b\n", ""},
	{"tags, verbatim", "l:\n", "  - !<tag:yaml.org,2002:str> b\n", ""},
	{"tags in brackets", "[", "!a b, ", "]"},
	{"tags of binary", "l:\n", "  - !!binary YQ==\n", ""},
	{"tags of sets", "l:\n", "  - !!set {a}\n", ""},
	{"tags of mappings", "l:\n", "  - !!map {a: b}\n", ""},
	{"tags of merge", "l:\n", "  - !!merge a\n", ""},
	{"tags in a row", "a: ", "!a ", "b"},
	{"tags without values", "l:\n", "  - !a\n", ""},
	{"one tag, long", "a: !", "a", " b"},
	{"a list in brackets", "[", "a, ", "]"},
	{"a list in brackets over lines", "[\n", "  a,\n", "]"},
	{"a list in brackets with comments", "[\n", "  a, # b\n", "]"},
	{"a list in brackets, open", "[", "a, ", ""},
	{"lists in brackets", "[", "[a], ", "]"},
	{"lists in brackets in entries", "", "- [a, b]\n", ""},
	{"lists in brackets, open", "", "- [a\n", ""},
	{"pairs in brackets", "[", "a: b, ", "]"},
	{"mappings in brackets", "[", "{a: b}, ", "]"},
	{"mappings in brackets, open", "", "- {a: b\n", ""},
	{"mappings in entries", "", "- {a: b, c: d}\n", ""},
	{"empty braces", "[", "{}, ", "]"},
	{"empty braces in entries", "", "- {}\n", ""},
	{"braces that close nothing", "", "}", ""},
	{"brackets that close nothing", "", "]", ""},
	{"colons", "", ":", ""},
	{"colons with spaces", "", ": ", ""},
	{"colons in brackets", "[", ": ,", "]"},
	{"commas", "", ",", ""},
	{"dashes", "", "-", ""},
	{"dashes on lines of their own", "l:\n", "  -\n", ""},
	{"dashes and spaces", "", "- ", ""},
	{"keys", "", "a%N: b\n", ""},
	{"the same key", "", "a: b\n", ""},
	{"keys in braces", "{", "a%N: b, ", "}"},
	{"keys in many mappings", "l:\n", "  - a: b\n    c: d\n", ""},
	{"keys of mappings in entries", "", "- a:\n    b: c\n", ""},
	{"keys without values, in entries", "", "- a:\n", ""},
	{"one key, long", "", "a", ": b"},
	{"one key with spaces", "", "a ", ": b"},
	{"one key in quotes, long", "\"", "a", "\": b"},
	{"entries", "", "- a\n", ""},
	{"entries of numbers", "", "- 1\n", ""},
	{"entries of hex numbers", "", "- 0x9900\n", ""},
	{"entries of floats", "", "- 1.5e3\n", ""},
	{"entries of nothing said", "", "- null\n", ""},
	{"entries of yes and no", "", "- true\n", ""},
	{"entries of dates", "", "- 2001-12-14t21:59:43.10-05:00\n", ""},
	{"a number, long", "a: ", "1", ""},
	{"a number with underscores", "a: ", "1_", ""},
	{"entries, each deeper", "", "- - - a\n", ""},
	{"plain text over lines", "a: b\n", "  c\n", ""},
	{"plain text over lines, with tabs", "a: b\n", "  c\t\n", ""},
	{"plain text over empty lines", "a: b\n", "\n  c\n", ""},
	{"plain text without a key", "", "a\n", ""},
	{"plain text, long", "a: ", "b", ""},
	{"plain words", "a: ", "b ", ""},
	{"plain text with #", "a: ", "b#", ""},
	{"plain texts, long", "", "- " + strings.Repeat("abc ", 500) + "\n", ""},
	{"a block of text", "a: |\n", "  b\n", ""},
	{"a block of text, folded", "a: >\n", "  b\n", ""},
	{"a block of text, folded, deeper", "a: >\n", "  b\n    c\n", ""},
	{"a block of text, kept", "a: |+\n", "  b\n\n", ""},
	{"a block of empty lines", "a: |+\n  b\n", "\n", ""},
	{"a block of spaces", "a: |\n  b\n", "   \n", ""},
	{"a block in one line", "a: |\n  ", "b", "\n"},
	{"blocks of text", "l:\n", "  - |\n    b\n", ""},
	{"blocks of text with indentation", "l:\n", "  - |2-\n      b\n", ""},
	{"blocks of text, empty", "l:\n", "  - |\n", ""},
	{"blocks with comments", "l:\n", "  - | # c\n    b\n", ""},
	{"text in quotes", "a: \"", "b", "\""},
	{"text in quotes over lines", "a: \"", "b\n  ", "\""},
	{"text in quotes over empty lines", "a: \"", "\n\n", "\""},
	{"text in quotes with escapes", "a: \"", "\\x41", "\""},
	{"text in quotes with escaped line ends", "a: \"", "b\\\n  ", "\""},
	{"text in quotes of unknown escapes", "a: \"", "\\q", "\""},
	{"text in quotes with surrogates", "a: \"", "\\uD83D\\uDE00", "\""},
	{"text in quotes, open", "a: \"", "b\n", ""},
	{"texts in quotes", "", "- \"b\"\n", ""},
	{"texts in quotes in a row", "a: ", "\"b\" ", ""},
	{"texts in quotes, open in turn", "", "- \"b\n", ""},
	{"text in apostrophes", "a: '", "b", "'"},
	{"text in apostrophes over lines", "a: '", "b\n  ", "'"},
	{"text in apostrophes of them", "a: '", "''", "'"},
	{"text in apostrophes, open", "a: '", "b\n", ""},
	{"texts in apostrophes", "", "- 'b'\n", ""},
	{"texts in apostrophes in a row", "a: ", "'b' ", ""},
	{"comments", "", "# a\n", ""},
	{"comments, indented", "a:\n", "  # a\n", "  b: c\n"},
	{"comments behind values", "", "- a # b\n", ""},
	{"comments before entries", "", "# b\n- a\n", ""},
	{"comments in mappings", "", "- a: b\n  # c\n  d: e\n", ""},
	{"comments at the end", "a: b\n", "# c\n", ""},
	{"comments behind keys", "", "- a: # b\n    c\n", ""},
	{"a comment, long", "# ", "a", "\na: b\n"},
	{"comments, each deeper or not", "a: b\n", "# c\n  # d\n", ""},
	{"documents", "", "---\na: b\n", ""},
	{"documents, empty", "", "---\n", ""},
	{"documents, ended", "", "---\na: b\n...\n", ""},
	{"ends of documents", "", "...\n", ""},
	{"ends of documents behind one", "a: b\n", "...\n", ""},
	{"documents with text", "", "--- a\n", ""},
	{"directives", "", "%YAML 1.2\n", "---\na: b\n"},
	{"directives of tags", "", "%TAG !e! tag:e,2000:\n", "---\na: b\n"},
	{"directives of documents", "", "%YAML 1.2\n---\na: b\n...\n", ""},
	{"directives, unknown", "", "%a\n", ""},
	{"a directive, long", "%", "a", "\n---\na: b\n"},
	{"tabs", "", "\t", ""},
	{"tabs before keys", "", "\ta: b\n", ""},
	{"tabs behind values", "", "- a\t\n", ""},
	{"tabs behind colons", "", "- a:\tb\n", ""},
	{"tabs on lines of their own", "a: b\n", "\t\n", ""},
	{"spaces", "", " ", ""},
	{"spaces on lines of their own", "a: b\n", "   \n", ""},
	{"spaces behind values", "- a", " ", "\n"},
	{"empty lines", "a: b\n", "\n", "c: d\n"},
	{"line ends of Windows", "", "- a\r\n", ""},
	{"line ends of old Macs", "", "- a\r", ""},
	{"line ends of Unicode", "a: ", "b\u2028", ""},
	{"wide characters", "a: ", "字", ""},
	{"emoji in keys", "", "- 😀: a\n", ""},
	{"marks that combine", "a: e", "\u0301", ""},
	{"byte order marks", "a: ", "\ufeff", ""},
	{"byte order marks before lines", "", "\ufeff- a\n", ""},
	{"reserved characters", "", "@", ""},
	{"reserved characters in entries", "", "- @a\n", ""},
	{"backquotes", "", "- `a\n", ""},
	{"exclamation marks", "", "!", ""},
	{"ampersands", "", "&", ""},
	{"stars", "", "*", ""},
	{"question marks", "", "?", ""},
	{"bars", "", "|", ""},
	{"bars in entries", "", "- |", ""},
	{"greater-than signs", "", ">", ""},
	{"percent signs", "", "%", ""},
	{"hashes", "", "#", ""},
	{"left arrows", "", "<<", ""},
	{"mappings that step in and out", "", "- a:\n    b:\n      c: d\n  e: f\n", ""},
	{"cables", "links:\n", "  - a:b - c:d\n", ""},
	{"a block of cables", "links: |\n", "  a%N:b - c:d\n", ""},
	{"blocks of cables", "", "links: |\n  a:b - c:d\n", ""},
	{"includes", "include:\n", "  - a%N\n", ""},
	{"secrets", "devices:\n", "  - counters: {snmp: {community: a}}\n", ""},
	{"secrets over lines", "devices:\n  - counters:\n      snmp:\n        community: \"a\n", "         b\n", ""},
	{"secrets with anchors", "devices:\n", "  - counters: {snmp: {community: &a%N b}}\n", ""},
	{"ranges", "devices:\n", "  - {name: \"a[1-2]\"}\n", ""},
	{"devices", good[:strings.Index(good, "devices:")] + "devices:\n", "  - {name: d%N, platform: linux, ports: [{name: a, action: passthrough}]}\n", ""},
	{"devices in turn at one address", good[:strings.Index(good, "devices:")] + "devices:\n", "  - {name: d%N, platform: linux, address: 192.0.2.1, ports: []}\n", ""},
	{"ports", good[:strings.Index(good, "devices:")] + "devices:\n  - name: s1\n    platform: linux\n    ports:\n", "      - {name: p%N, action: passthrough}\n", ""},
	{"groups of a device", good[:strings.Index(good, "devices:")] + "devices:\n  - name: s1\n    platform: linux\n    groups: [", "g%N, ", "]\n    ports: []\n"},
	{"tags of a device", good[:strings.Index(good, "devices:")] + "devices:\n  - name: s1\n    platform: linux\n    tags: [", "g%N, ", "]\n    ports: []\n"},
	{"hosts", good + "hosts:\n", "  - h%N\n", ""},
}

// nothingAboveLinear reads every construct at two sizes: what it allocates and takes of a
// processor grows no faster than the file. Time has a wide margin, since the garbage collector
// has some of it; what is quadratic is beyond it: 64 times. What is beyond it once is read again.
func nothingAboveLinear(t *testing.T) {
	const small, times = 8 << 10, 8
	const little, least = uint64(1 << 20), 10 * time.Millisecond // what reading costs in any case
	for _, c := range constructs {
		a, b := c.text(small), c.text(times*small)
		ta, ma := cost(a)
		tb, mb := cost(b)
		for range 4 {
			if tb <= 3*times*max(ta, least) && mb <= 3*times/2*max(ma, little) {
				break
			}
			took, bytes := cost(b)
			tb, mb = min(tb, took), min(mb, bytes)
			took, bytes = cost(a)
			ta, ma = max(ta, took), max(ma, bytes)
		}
		if mb > 3*times/2*max(ma, little) {
			t.Errorf("%s: %d times the text allocates %d KiB, %d before", c.name, times, mb>>10, ma>>10)
		}
		if tb > 3*times*max(ta, least) {
			t.Errorf("%s: %d times the text takes %s, %s before", c.name, times, tb, ta)
		}
	}
}

// cost is the time of a processor that a text takes, and what reading it allocates.
func cost(text string) (took time.Duration, bytes uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := processor()
	_, _ = Parse("fleet.yaml", []byte(text)) // a mistake is as good
	took = processor() - start
	runtime.ReadMemStats(&after)
	return took, after.TotalAlloc - before.TotalAlloc
}

// processor is the time that this process has had of processors.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
