package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds on a file. The parser's memory is some 70 times the text, its time
// grows with the square of a mapping's keys and of the empty values, and its
// stack with the nesting: these keep a hostile file to seconds and a fleet file
// is nowhere near them.
const (
	MaxFileSize = 4 << 20  // bytes, without blocks of cables; some 40,000 ports
	maxWhole    = 32 << 20 // bytes, with the blocks of cables, which the parser does not see
	maxDepth    = 24
	maxKeys     = 1024 // of one mapping
	maxEmpty    = 256  // values that are not there
	maxArrows   = 256  // "<" in a row, of which the lexer looks at all, at each
)

// parseYAML reads the one document of a fleet file into its syntax tree. We
// walk that tree ourselves, since the library's decoder stops at the first
// mistake.
func parseYAML(src source, text string) (root ast.Node, failure *Error) {
	defer func() {
		// A parser of bytes from outside must not end a daemon that reloads.
		if p := recover(); p != nil {
			root, failure = nil, src.errorAt(position{1, 1}, "simplify the file until it is read, and report this", fmt.Sprintf("the YAML parser failed: %v", p))
		}
	}()
	if i := strings.Index(text, strings.Repeat("<", maxArrows+1)); i >= 0 {
		line, from := 1+strings.Count(text[:i], "\n"), 1+strings.LastIndexByte(text[:i], '\n')
		return nil, src.errorAt(position{line, 1 + utf8.RuneCountInString(text[from:i])}, "shorten it", fmt.Sprintf("more than %d times %q in a row", maxArrows, "<"))
	}
	tokens := lexer.Tokenize(text)
	if err := checkShape(src, tokens); err != nil {
		return nil, err
	}
	// Keys that are there twice are reported by our own walk, all of them.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxError(src, err)
	}
	var docs []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.DirectiveType {
			docs = append(docs, doc.Body)
		}
	}
	switch {
	case len(docs) == 0:
		return nil, src.errorAt(position{1, 1}, src.begin(), "the file is empty")
	case len(docs) > 1:
		return nil, src.errorAt(place(docs[1]), `remove what follows "---"`, "a "+src.called+" holds one YAML document")
	}
	return docs[0], nil
}

// prepare checks the bytes of a file and gives every line the same end, which
// the library's line numbers need.
func prepare(name string, data []byte, of fileFormat) (source, string, *Error) {
	tooLong := func(n, most int) (source, string, *Error) {
		src := newSource(name, "", of)
		return src, "", src.errorAt(position{1, 1}, "split it, and include the parts", fmt.Sprintf("the file is %d bytes long, a %s has at most %d", n, of.called, most))
	}
	if len(data) > maxWhole {
		return tooLong(len(data), maxWhole)
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if strings.TrimSpace(text) != "" && !strings.Contains(text, of.prefix()) {
		// Not even its first line is shown: it may be /etc/shadow.
		src := newSource(name, "", of)
		failure := src.errorAt(position{1, 1}, of.begin(), "this is no "+of.called+": it names no format")
		if broken := brokenYAML(name, text); broken != nil {
			failure, broken.Hint = broken, cmp.Or(broken.Hint, failure.Hint)
			failure.Msg += "; and no format is named"
		}
		failure.Snippet = ""
		return src, "", failure
	}
	src := newSource(name, text, of)
	for n, line := range src.lines {
		if !utf8.ValidString(line) {
			col := 1
			for _, r := range line {
				if r == utf8.RuneError {
					break
				}
				col++
			}
			return src, "", src.errorAt(position{n + 1, col}, "save the file as UTF-8", "this is not UTF-8 text")
		}
		if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); i >= 0 {
			return src, "", src.errorAt(position{n + 1, utf8.RuneCountInString(line[:i]) + 1}, "", "control characters are not allowed")
		}
	}
	if text = withoutCables(src.lines, text); len(text) > MaxFileSize {
		return tooLong(len(text), MaxFileSize)
	}
	return src, text, nil
}

// brokenYAML is the syntax error of a text that is perhaps no fleet file; nil where it has none,
// or is something else than YAML.
func brokenYAML(name, text string) *Error {
	if len(text) > MaxFileSize || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' || r == 0x7f }) {
		return nil
	}
	if _, failure := parseYAML(newSource(name, text, fleetFile), text); failure != nil && strings.HasPrefix(failure.Msg, syntaxPrefix) {
		return failure
	}
	return nil
}

// syntaxPrefix begins the message of a syntax error.
const syntaxPrefix = "YAML syntax: "

var cables = regexp.MustCompile(`^links:[ ]*\|[+-]?[ ]*(#.*)?$`)

// cablesBelow stands in the text for a block of cables.
const cablesBelow = "(cables)"

// withoutCables empties the lines of a block of cables, "links: |": they are the
// most of a large fleet, and the parser would take longer for them than we for
// everything. The lines stay, for the places of what follows.
func withoutCables(lines []string, text string) string {
	if !strings.Contains(text, "links:") {
		return text
	}
	var out strings.Builder
	inside := false
	for i, line := range lines {
		inside = inside && (line == "" || line[0] == ' ')
		switch {
		case inside:
		case cables.MatchString(line):
			inside = true
			out.WriteString("links: " + cablesBelow)
		default:
			out.WriteString(line)
		}
		if i < len(lines)-1 {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// syntaxError gives the library's errors our shape.
func syntaxError(src source, err error) *Error {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil {
		// Not err.Error(): the library's takes time by the square of the file.
		return src.errorAt(position{1, 1}, "", "this is not YAML")
	}
	msg, hint := strings.ReplaceAll(e.GetMessage(), "character '\t'", "a tab"), ""
	at := tokenPlace(e.GetToken())
	switch {
	case at.line >= 1 && at.line <= len(src.lines) && strings.HasPrefix(strings.TrimLeft(src.lines[at.line-1], " "), "\t"):
		hint = "indent with spaces: YAML does not take tabs"
	case strings.Contains(msg, "mapping value is not allowed"):
		hint = `put quotes around text that contains ": ", and begin each key on a line of its own`
	case strings.Contains(msg, "non-map value"):
		hint = `want "key: value" here; is the colon missing, or the indentation wrong?`
	case strings.Contains(msg, "must be specified"), strings.Contains(msg, "value is not allowed in this context"):
		hint = "is a quote, brace or bracket still open above this place?"
	case strings.Contains(msg, "cannot start any token"), strings.Contains(msg, "reserved character"):
		hint = "put quotes around text that starts with a special character"
	case strings.Contains(msg, "unexpected key name"):
		hint = "is the colon behind the key missing?"
	}
	return src.errorAt(at, hint, syntaxPrefix+longQuote.ReplaceAllLiteralString(msg, hidden))
}

// longQuote is more of the file than a character, in a message of the library's.
var longQuote = regexp.MustCompile(`(?s)"[^"]{3,}.*"`)

func tokenPlace(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{t.Position.Line, t.Position.Column}
}

// place is where a node starts. A block mapping's own token is the colon
// behind its first key.
func place(n ast.Node) position {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return place(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return place(n.Key)
	case *ast.AnchorNode:
		if n.Start != nil {
			return tokenPlace(n.Start)
		}
	}
	return tokenPlace(n.GetToken())
}

// level is one open collection, in block or in flow style.
type level struct {
	col     int  // block style: where its keys or dashes are
	keys    int  // of a mapping
	mapping bool // flow style: braces, not brackets
	colon   bool // flow style: the current entry has one
}

// shape follows the nesting of a text, token by token.
type shape struct {
	blocks, flows []level
	empty         int
	directive     int // the line of the one before, which its words are on
	begun, ended  bool
}

// checkShape refuses, before anything recursive runs, texts that are too deep
// or too wide for the parser.
func checkShape(src source, tokens token.Tokens) *Error {
	var s shape
	for _, t := range tokens {
		if t.Position == nil {
			continue
		}
		if s.another(t) {
			return src.errorAt(tokenPlace(t), `remove what follows "---"`, "a "+src.called+" holds one YAML document")
		}
		keys := s.step(t)
		var problem string
		switch {
		case t.Type == token.MappingKeyType:
			return src.errorAt(tokenPlace(t), `write "key: value"`, `keys that begin with "?" are not of the fleet format`)
		case keys > maxKeys:
			problem = fmt.Sprintf("more than %d keys in one mapping", maxKeys)
		case len(s.blocks)+len(s.flows) > maxDepth:
			problem = fmt.Sprintf("nested more than %d deep", maxDepth)
		case s.empty > maxEmpty:
			problem = fmt.Sprintf("more than %d values are empty", maxEmpty)
		default:
			continue
		}
		return src.errorAt(tokenPlace(t), "", problem)
	}
	return nil
}

// another reports whether a token begins a second document.
func (s *shape) another(t *token.Token) bool {
	switch t.Type {
	case token.CommentType:
	case token.DirectiveType:
		s.directive = t.Position.Line
	case token.DocumentHeaderType, token.DocumentEndType:
		s.ended = s.begun
	default:
		if t.Position.Line == s.directive {
			break
		}
		s.begun = true
		return s.ended
	}
	return false
}

// step takes in one token and returns the number of keys of the mapping that
// it belongs to.
func (s *shape) step(t *token.Token) (keys int) {
	col := t.Position.Column
	flow := &level{}
	if len(s.flows) > 0 {
		flow = &s.flows[len(s.flows)-1]
	}
	switch t.Type {
	case token.SequenceStartType, token.MappingStartType:
		s.flows = append(s.flows, level{mapping: t.Type == token.MappingStartType})
	case token.SequenceEndType, token.MappingEndType:
		s.flows = s.flows[:max(0, len(s.flows)-1)]
	case token.CollectEntryType:
		if flow.mapping && !flow.colon {
			s.empty++ // {a, b}
		}
		flow.colon = false
		flow.keys++
		keys = flow.keys
		if !flow.mapping {
			keys = 0 // entries of a list may be many
		}
	case token.TagType:
		if t.Next == nil || t.Next.Position == nil || t.Next.Position.Line > t.Position.Line {
			s.empty++ // or its value is below, which costs as much
		}
	case token.SequenceEntryType:
		if len(s.flows) == 0 {
			s.open(col)
		}
		s.countEmpty(t, col)
	case token.MappingValueType:
		if t.Prev != nil && t.Prev.Position != nil && t.Prev.Position.Line == t.Position.Line {
			col = t.Prev.Position.Column
		}
		s.countEmpty(t, col)
		flow.colon = true
		if len(s.flows) == 0 {
			l := s.open(col)
			l.keys++
			keys = l.keys
		}
	}
	return keys
}

// open returns the block collection at a column, closing those right of it.
func (s *shape) open(col int) *level {
	for len(s.blocks) > 0 && s.blocks[len(s.blocks)-1].col > col {
		s.blocks = s.blocks[:len(s.blocks)-1]
	}
	if len(s.blocks) == 0 || s.blocks[len(s.blocks)-1].col < col {
		s.blocks = append(s.blocks, level{col: col})
	}
	return &s.blocks[len(s.blocks)-1]
}

func (s *shape) countEmpty(t *token.Token, col int) {
	if followedByNothing(t, col) {
		s.empty++
	}
}

// followedByNothing reports whether the key or list entry that ends with t, and
// starts at col, has no value; comments do not count.
func followedByNothing(t *token.Token, col int) bool {
	next := t.Next
	for next != nil && next.Type == token.CommentType {
		next = next.Next
	}
	if next == nil || next.Position == nil {
		return true
	}
	switch next.Type {
	case token.CollectEntryType, token.MappingEndType, token.SequenceEndType, token.MappingValueType:
		return true
	case token.SequenceEntryType:
		// "ports:" may have its list at its own column.
		return next.Position.Line > t.Position.Line && (next.Position.Column < col || t.Type == token.SequenceEntryType && next.Position.Column == col)
	}
	return next.Position.Line > t.Position.Line && next.Position.Column <= col
}
