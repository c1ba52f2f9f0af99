package docs

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// maxWords is how many words a sentence of plainPages has at most.
const maxWords = 30

// plainPages have no sentence of more than maxWords words. Add a page once it has none.
var plainPages = []string{
	"agent.md", "rollout.md", "fleet.md", "openflow.md", "operations.md",
	"counters.md", "controller.md", "ovs.md", "hosts.md", "signal.md",
}

// TestSentencesAreShort: operators read these pages at night, and many have English as a second language.
func TestSentencesAreShort(t *testing.T) {
	for _, page := range plainPages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		all := sentences(string(text))
		if len(all) < 10 {
			t.Errorf("%s: only %d sentences found", page, len(all))
		}
		for _, s := range all {
			if s.words > maxWords {
				t.Errorf("%s:%d: split or shorten this sentence of %d words:\n%s", page, s.line, s.words, s.text)
			}
		}
	}
}

func TestSentencesOfMarkdown(t *testing.T) {
	for _, tc := range []struct {
		name, markdown string
		want           []string // line, words and text of each
	}{
		{"paragraph", "One two.\nThree\nfour? Five (six.) Seven", []string{"1 2 One two.", "2 2 Three four?", "3 2 Five (six.)", "3 1 Seven"}},
		{"paragraphs", "One\n\ntwo\n", []string{"1 1 One", "3 1 two"}},
		{"a code span is one word", "Run `csig a. b`\n`csig c\nd` now. End", []string{"1 4 Run `csig a. b` `csig c d` now.", "3 1 End"}},
		{"a link is its text", "See [the page\nof it](a/b.md#c-d). End", []string{"1 5 See the page of it.", "2 1 End"}},
		{"a link of a code span", "See [`a | b`](c.md).", []string{"1 2 See `a | b`."}},
		{"signs are no words", "a → b = c - d, e.g. f.", []string{"1 6 a → b = c - d, e.g. f."}},
		{"numbers have points", "Some 1.5 s, v2.0.1, `x`.", []string{"1 5 Some 1.5 s, v2.0.1, `x`."}},
		{"list", "These:\n- one\n  two\n- **three.** Four\n\n  five\n1. six", []string{"1 1 These:", "2 2 one two", "4 1 **three.**", "4 1 Four", "6 1 five", "7 1 six"}},
		{"table", "| a b | `c | d` e |\n|---|:-:|\n| f. G \\| h | i |", []string{"1 2 a b", "1 2 `c | d` e", "3 1 f.", "3 2 G | h", "3 1 i"}},
		{"code block", "a\n```text\nb\n```\nc\n- d\n  ````\n  ```\n  e\n  ````\n", []string{"1 1 a", "5 1 c", "6 1 d"}},
		{"heading", "a\n## b c\nd", []string{"1 1 a", "2 2 b c", "3 1 d"}},
		{"generated", "a\n<!-- table: cost -->\nb\n<!-- end -->\nc\n<!-- x: go test -update -->\nd\n<!-- end of x -->\ne", []string{"1 1 a", "5 1 c", "9 1 e"}},
		{"comment", "a\n<!-- no part\nof it -->\nb", []string{"1 1 a", "4 1 b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, s := range sentences(tc.markdown) {
				got = append(got, fmt.Sprintf("%d %d %s", s.line, s.words, s.text))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// sentence is a sentence of a page.
type sentence struct {
	line  int // of its first word
	words int
	text  string
}

var (
	fence     = regexp.MustCompile("^\\s*(```+)")
	item      = regexp.MustCompile(`^\s*([-*+]|[0-9]+\.)\s+`)
	rule      = regexp.MustCompile(`^\|[-:| ]+\|$`)
	generated = regexp.MustCompile(`^<!-- (table: |.* -update -->)`)
	codeSpan  = regexp.MustCompile("`[^`]+`")
	link      = regexp.MustCompile(`!?\[([^\]]*)\]\([^)\s]*\)`)
)

// hidden keeps the spaces, ends of lines and bars of code spans from separating words, lines and cells.
var (
	hidden = strings.NewReplacer(" ", "\x01", "\n", "\x02", "|", "\x03")
	shown  = strings.NewReplacer("\x01", " ", "\x02", " ", "\x03", "|")
)

// sentences returns the sentences of a page. Each heading, list item, paragraph and table cell is a text of its own.
// Code blocks, comments and generated parts have none.
func sentences(page string) []sentence {
	var all []sentence
	var text strings.Builder // of the current paragraph or item
	start := 0               // the line where it begins
	end := func() {
		all = append(all, split(text.String(), start)...)
		text.Reset()
	}
	fenced, until := "", "" // the open fence; what ends the open comment or generated part
	for i, line := range strings.Split(page, "\n") {
		number := i + 1
		trimmed := strings.TrimSpace(line)
		mark := fence.FindStringSubmatch(line)
		switch {
		case fenced != "":
			if trimmed == fenced {
				fenced = ""
			}
		case until != "":
			if strings.Contains(line, until) {
				until = ""
			}
		case mark != nil:
			end()
			fenced = mark[1]
		case generated.MatchString(line):
			end()
			until = "<!-- end"
		case strings.HasPrefix(line, "<!--"):
			end()
			if !strings.Contains(line, "-->") {
				until = "-->"
			}
		case trimmed == "":
			end()
		case rule.MatchString(trimmed):
		case strings.HasPrefix(line, "#"):
			end()
			all = append(all, split(strings.TrimLeft(line, "# "), number)...)
		case strings.HasPrefix(line, "|"):
			end()
			row := codeSpan.ReplaceAllStringFunc(strings.ReplaceAll(line, `\|`, "\x03"), hidden.Replace)
			for cell := range strings.SplitSeq(row, "|") {
				all = append(all, split(cell, number)...)
			}
		default:
			if prefix := item.FindString(line); prefix != "" {
				end()
				line = line[len(prefix):]
			}
			if text.Len() == 0 {
				start = number
			}
			text.WriteString(line + "\n")
		}
	}
	end()
	return all
}

// split returns the sentences of a text that begins in this line.
func split(text string, line int) []sentence {
	text = codeSpan.ReplaceAllStringFunc(text, hidden.Replace)
	text = link.ReplaceAllString(text, "$1")
	var all []sentence
	var s sentence
	for row := range strings.SplitSeq(text, "\n") {
		for _, word := range strings.Fields(row) {
			if s.text == "" {
				s.line = line
			} else {
				s.text += " "
			}
			s.text += shown.Replace(word)
			if strings.IndexFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) >= 0 ||
				strings.HasPrefix(word, "`") {
				s.words++
			}
			line += strings.Count(word, "\x02")
			last := strings.TrimRight(word, `)"'*_`)
			if last != "e.g." && last != "i.e." && last != "vs." && strings.HasSuffix(last, ".") ||
				strings.HasSuffix(last, "?") || strings.HasSuffix(last, "!") {
				all, s = append(all, s), sentence{}
			}
		}
		line++
	}
	if s.text != "" {
		all = append(all, s)
	}
	return all
}
