package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Error is one mistake in a fleet file, with its place.
type Error struct {
	File    string `json:"file"`
	Line    int    `json:"line"`    // from 1
	Col     int    `json:"col"`     // from 1, in characters
	Msg     string `json:"message"` // what is wrong, naming the device and port
	Hint    string `json:"hint"`    // what to do about it, "" where there is nothing to add
	Snippet string `json:"snippet"` // the line with its number, and a caret under the place

	file int // number of the file, in the order of reading
	more int // how often it was found again
}

// Error returns "file:line:col: message", then the snippet and the hint on
// lines of their own.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg)
	if e.Snippet != "" {
		b.WriteString("\n" + e.Snippet)
	}
	if e.Hint != "" {
		b.WriteString("\n  hint: " + e.Hint)
	}
	return b.String()
}

// Errors is every mistake found in a fleet file, in the order of the files.
type Errors []*Error

// Error returns all of them, separated by empty lines.
func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, one := range e {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "\n\n")
}

// Unwrap gives errors.As and errors.Is each mistake.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i, one := range e {
		out[i] = one
	}
	return out
}

// maxErrors bounds what one run reports: a file with more mistakes than this
// is of another kind altogether, and the first ones say so.
const maxErrors = 500

// maxMistakes is how many mistakes of a file are reported.
const maxMistakes = 5

// Mistakes is the error of a fleet file in a few lines: a mistake each, with its place and
// without the lines of the file.
func Mistakes(err error) string {
	var list Errors
	if !errors.As(err, &list) {
		return err.Error()
	}
	var out []string
	for i, e := range list {
		if i == maxMistakes {
			out = append(out, fmt.Sprintf("and %d more: csig inventory check shows them", len(list)-i))
			break
		}
		out = append(out, fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg))
	}
	return strings.Join(out, "\n")
}

// position is a place in the file, from 1; col counts characters.
type position struct{ line, col int }

// source is the text being read, for positions and snippets.
type source struct {
	fileFormat
	name   string
	number int // in the order of reading
	lines  []string
	cuts   func() []int // hideSecrets of the lines, once one is shown
}

// fileFormat is what a file is to be.
type fileFormat struct {
	called string
	format string // that it names, e.g. csig.fleet/v1
}

var fleetFile = fileFormat{"fleet file", Format}

// prefix is the format without its version.
func (f fileFormat) prefix() string { return f.format[:strings.LastIndexByte(f.format, 'v')] }

func (f fileFormat) begin() string { return `start with "format: ` + f.format + `"` }

func newSource(name, text string, of fileFormat) source {
	s := source{fileFormat: of, name: name, lines: strings.Split(text, "\n")}
	s.cuts = sync.OnceValue(func() []int { return hideSecrets(s.lines) })
	return s
}

// errorAt builds an Error; a position outside the text is moved into it.
func (s source) errorAt(at position, hint, msg string) *Error {
	at.line = min(max(at.line, 1), len(s.lines))
	text := s.lines[at.line-1]
	at.col = min(max(at.col, 1), utf8.RuneCountInString(text)+1)
	e := &Error{file: s.number, File: printable(s.name), Line: at.line, Col: at.col, Msg: shortened(msg), Hint: shortened(hint)}
	shown := at
	if cut := s.cuts()[at.line-1]; cut >= 0 {
		shown.col = min(at.col, utf8.RuneCountInString(text[:cut])+1)
		text = text[:cut] + hidden
	}
	e.Snippet = snippet(shown, []rune(text))
	if shown != at {
		e.Snippet += fmt.Sprintf(" column %d is behind what is hidden", at.col)
	}
	return e
}

// snippet shows at most this many characters of a line, and this many of them
// in front of the caret.
const snippetWidth, snippetLead = 100, 60

func snippet(at position, line []rune) string {
	caret := at.col - 1
	from := max(0, caret-snippetLead)
	to := min(len(line), from+snippetWidth)
	lead, tail := "", ""
	if from > 0 {
		lead = "…"
	}
	if to < len(line) {
		tail = "…"
	}
	number := fmt.Sprintf("%4d", at.line)
	pad := strings.Repeat(" ", len(number))
	gap := strings.Repeat(" ", len([]rune(lead))+caret-from)
	return number + " | " + lead + printable(string(line[from:to])) + tail + "\n" + pad + " | " + gap + "^"
}

// maxMessage is how long a message or a hint may be, in bytes.
const maxMessage = 600

// shortened is printable for a message, which may quote what a file says at any
// length: its ends say what is wrong, and of what is between them a part is left
// out. What may be a password in front of a host's name is hidden.
func shortened(msg string) string {
	msg = login.ReplaceAllString(msg, "${1}"+hidden+"@")
	if len(msg) > maxMessage {
		msg = strings.ToValidUTF8(msg[:maxMessage/2], "") + " … " + strings.ToValidUTF8(msg[len(msg)-maxMessage/3:], "")
	}
	return printable(msg)
}

// printable keeps what a file says from driving the terminal that shows it,
// one character for one so that carets stay in place.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '·'
		}
		return r
	}, text)
}

// finish orders the mistakes as the file has them and drops repetitions: what
// is wrong with one lm is wrong for each signal.
func (e Errors) finish() Errors {
	for _, one := range e {
		if one.more > 0 {
			one.Msg += fmt.Sprintf(" (and %d more like this)", one.more)
			one.more = 0
		}
	}
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	seen := make(map[Error]bool, len(e))
	return slices.DeleteFunc(e, func(one *Error) bool {
		again := seen[*one]
		seen[*one] = true
		return again
	})
}
