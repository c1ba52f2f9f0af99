package inventory

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// hidden stands for what is not shown.
const hidden = "<hidden>"

// Credentials belong outside of the file. A user may write one into it all the
// same, and mail the error about it to a colleague: so no snippet shows
// what may be one. That is decided from the text, line by line, since files
// that are not YAML have errors, too; and it rather hides too much, from the
// place on to the end of the line.

var (
	// pair is a key in front of its value, however a person may type it.
	pair = regexp.MustCompile(`["']?([A-Za-z_][A-Za-z0-9_-]*)["']?\s*[:=]\s*`)
	// bare is a secret's key without its colon, bareInBlock one with anything else
	// in its place.
	bare        = regexp.MustCompile(`(?:community|password|passphrase)["']?\s()\s*[^\s:=#]`)
	bareInBlock = regexp.MustCompile(`(?:^|[{,])\s*["']?(?:community|pass|key)[\w-]*["']?[^\w:="'-]()\s*\S`)

	// login is a user's name and a password in front of a host's name, as in URLs; rather too much.
	login = regexp.MustCompile(`([A-Za-z0-9._%+-]+:)\S.*@`)

	anchor    = regexp.MustCompile(`&([^\s,\[\]{}]+)`)
	anchored  = regexp.MustCompile(`^&([^\s,\[\]{}]+)\s*`)
	alias     = regexp.MustCompile(`\*([^\s,\[\]{}]+)`)
	aliased   = regexp.MustCompile(`^\*([^\s,\[\]{}]+)\s*(?:[,}#]|$)`)
	yesNo     = regexp.MustCompile(`^(?:true|false)\s*(?:[,}#]|$)`)
	reference = regexp.MustCompile(`^["']?(?:env["']?\s*:\s*["']?[A-Za-z_][A-Za-z0-9_]*["']?\s*(?:[,}#]|$)|file["']?\s*:\s*["']?/|command["']?\s*:\s*(?:\[|$))`)
)

// blockKeys are the keys of the counters and management blocks, and what they mean
// here.
type blockKeys struct {
	mappings map[string]bool // their value is a mapping
	outer    map[string]bool // and they begin a block
	shown    map[string]bool // their value can be shown
	hints    []string        // what a line outside of all blocks needs to have a secret
}

var blocks = sync.OnceValue(func() *blockKeys {
	b := &blockKeys{make(map[string]bool), make(map[string]bool), make(map[string]bool),
		[]string{"community", "pass", "secret", "credential", "token", "key", "psk"}}
	devices := keysOf[deviceKeys]()
	for _, name := range []string{"counters", "management"} {
		b.add(devices.key(name), 0)
	}
	for i := range keysOf[Secret]().keys {
		b.add(&keysOf[Secret]().keys[i], 2)
	}
	return b
})

func (b *blockKeys) add(k *key, depth int) {
	switch {
	case k.kind.keys != nil:
		b.mappings[k.name] = true
		b.hints = append(b.hints, k.name)
		if depth < 2 {
			b.outer[k.name] = true
		}
		for i := range k.kind.keys.keys {
			b.add(&k.kind.keys.keys[i], depth+1)
		}
	case !k.kind.secret:
		b.shown[k.name] = true
	}
}

// secretKey reports whether a key's name promises a secret.
func secretKey(key string) bool {
	for _, part := range []string{"community", "passw", "passphrase", "secret", "credential", "token"} {
		if strings.Contains(key, part) {
			return true
		}
	}
	return strings.HasSuffix(key, "key") || strings.HasSuffix(key, "pass") || strings.HasSuffix(key, "psk")
}

// longLine is how many bytes of a line are looked at; what is longer, and may
// have a secret, is not shown at all.
const longLine = 4096

func hinted(line string) bool {
	line = strings.ToLower(line)
	return slices.ContainsFunc(blocks().hints, func(hint string) bool { return strings.Contains(line, hint) })
}

// hider goes through the lines of a file.
type hider struct {
	anchors, aliases map[string]bool

	block   int  // column of the key of a counters or management block that we are in, -1 outside
	secret  int  // column of a secret's key that goes on in deeper lines, or -1
	command int  // column of a command that goes on in deeper lines, or -1
	quote   byte // that a secret's text still needs at its end, or 0
	awaits  bool // the line before ends with a secret's key
}

// hideSecrets returns, for each line, the byte from which on it is not shown;
// -1 for all of it is.
func hideSecrets(lines []string) []int {
	h := hider{anchors: make(map[string]bool), aliases: make(map[string]bool), block: -1, secret: -1, command: -1}
	for _, line := range lines {
		if len(line) > longLine || !strings.ContainsAny(line, "&*") {
			continue
		}
		for _, m := range anchor.FindAllStringSubmatch(line, -1) {
			h.anchors[m[1]] = true
		}
		for _, m := range alias.FindAllStringSubmatch(line, -1) {
			h.aliases[m[1]] = true
		}
	}
	cuts := make([]int, len(lines))
	for i, line := range lines {
		cuts[i] = h.line(line)
		if strings.IndexByte(line, '@') < 0 { // as nearly all, and the expression costs more than all else
			continue
		}
		if m := login.FindStringSubmatchIndex(line); m != nil && (cuts[i] < 0 || m[3] < cuts[i]) {
			cuts[i] = m[3]
		}
	}
	return cuts
}

func (h *hider) line(line string) int {
	indent := len(line) - len(strings.TrimLeft(line, " \t"))
	rest := line[indent:]
	if h.quote != 0 { // a text in quotes that began on an earlier line
		if strings.IndexByte(line, h.quote) >= 0 {
			h.quote = 0
		}
		return 0
	}
	if rest == "" || rest[0] == '#' && h.secret < 0 {
		return -1
	}
	for _, column := range []*int{&h.block, &h.secret, &h.command} {
		if indent <= *column {
			*column = -1
		}
	}
	switch {
	case h.block < 0 && h.secret < 0 && !h.awaits && !hinted(line):
		return -1
	case len(line) > longLine:
		return 0
	case h.command >= 0:
		return -1
	case h.secret >= 0 && !reference.MatchString(strings.TrimLeft(rest, "{ ")):
		return indent
	}
	awaits := h.awaits
	h.awaits = false
	if awaits {
		if m := pair.FindStringIndex(strings.TrimLeft(rest, "-{ ")); m == nil || m[0] != 0 {
			return indent
		}
	}
	cut, noColon := -1, bare
	if h.block >= 0 || strings.Contains(line, "snmp") || strings.Contains(line, "gnmi") || strings.Contains(line, "ssh") {
		noColon = bareInBlock
	}
	if m := noColon.FindStringSubmatchIndex(line); m != nil {
		cut = m[2]
	}
	found, inFlow := false, false
	for from := 0; ; {
		m := pair.FindStringSubmatchIndex(line[from:])
		if m == nil {
			break
		}
		found = true
		start, value := from+m[0], from+m[1]
		inFlow = inFlow || strings.ContainsAny(line[from:start], "{[")
		column := start
		if inFlow {
			column = indent
		}
		if h.hides(strings.ToLower(line[from+m[2]:from+m[3]]), column, line[value:], inFlow) && (cut < 0 || value < cut) {
			return value
		}
		from = value
	}
	if cut < 0 && !found && h.block >= 0 && strings.Trim(rest, "{}[], ") != "" {
		h.awaits = true
		return indent // what has no key here may be a credential's other half
	}
	return cut
}

// hides reports whether the value of the key at a column has to be hidden, and keeps
// in mind what the key means for the lines behind.
func (h *hider) hides(key string, column int, value string, inFlow bool) bool {
	value = strings.TrimRight(value, " \t")
	if m := anchored.FindStringSubmatch(value); m != nil && (h.aliases[m[1]] || strings.HasPrefix(value[len(m[0]):], "{")) {
		value = value[len(m[0]):]
	}
	if m := aliased.FindStringSubmatch(value); m != nil && h.anchors[m[1]] {
		return false
	}
	nested := value == "" || value == "{"
	switch {
	case blocks().mappings[key]:
		if h.block < 0 && blocks().outer[key] {
			h.block = column
		}
		if key == "sudo" && yesNo.MatchString(value) {
			return false
		}
		return !nested && value[0] != '{' && (value[0] != '#' || inFlow)
	case key == "command" && (h.block >= 0 || h.secret >= 0):
		h.command = column
		return false
	case key == "allow_plaintext_password", !secretKey(key) && (h.block < 0 || blocks().shown[key]):
		return false
	case nested:
		h.secret, h.awaits = column, true
		return false
	case value[0] == '{' && reference.MatchString(strings.TrimLeft(value, "{ ")):
		return false
	}
	h.secret = column
	if q := value[0]; (q == '"' || q == '\'') && strings.IndexByte(value[1:], q) < 0 {
		h.quote = q
	}
	return true
}
