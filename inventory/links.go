package inventory

import (
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// link is one cable, as the file has it.
type link struct {
	a, b      Peer
	at, right originID // of the cable, and of b
}

// cables are all of the files, in their order.
func (c *compiler) cables() iter.Seq[link] {
	return func(yield func(link) bool) {
		for _, some := range c.links {
			for _, l := range some {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// links reads cables: a list of texts, or a block of lines.
func (r *reader) links(n ast.Node) {
	if text, ok := n.(*ast.StringNode); ok && text.Value == cablesBelow {
		if at := place(n); cables.MatchString(r.src.lines[at.line-1]) {
			r.linkBlock(at.line)
			return
		}
	}
	if _, ok := n.(*ast.SequenceNode); !ok {
		r.c.lostLinks = true
		r.errorf(n, `write a list of "leaf1:swp49 - spine1:swp1", or "links: |" and one cable a line`, "links: want a list or a block of lines here, found %s", foundText(n))
		return
	}
	list, _ := r.list(n, "links")
	for _, item := range list {
		if text, ok := r.text(item, "links"); ok {
			quote := 0 // characters in front of the text
			if t := item.GetToken().Type; t == token.SingleQuoteType || t == token.DoubleQuoteType {
				quote = 1
			}
			r.link(place(item), quote, text)
		}
	}
}

// linkBlock reads the lines below "links: |", which the parser did not see.
func (r *reader) linkBlock(head int) {
	for i := head; i < len(r.src.lines) && !r.full(); i++ {
		line := r.src.lines[i]
		if line != "" && line[0] != ' ' {
			break // back in the first column: the block is over
		}
		text := strings.TrimLeft(line, " ")
		lead := len(line) - len(text)
		text, _, _ = strings.Cut(text, "#")
		if text = strings.TrimRight(text, " \t"); text != "" {
			r.link(position{i + 1, lead + 1}, 0, text)
		}
	}
}

// link reads "leaf1:swp49 - spine1:swp1"; ranges on both sides run together.
func (r *reader) link(at position, quote int, text string) {
	id := r.c.origins.add(r.file, r.layer, at)
	wrong := func(col int, hint, format string, args ...any) {
		r.c.lostLinks = true
		r.errorfAt(position{at.line, at.col + col}, hint, format, args...)
	}
	left, right, ok := strings.Cut(text, " - ")
	left, right = strings.TrimSpace(left), strings.TrimSpace(right)
	rightCol := quote + utf8.RuneCountInString(text) - utf8.RuneCountInString(right)
	if !ok || left == "" || right == "" || strings.ContainsAny(left+right, " \t") {
		wrong(0, `two ends with " - " between them, e.g. leaf1:swp49 - spine1:swp1`, "links: %q is not a cable", text)
		return
	}
	as, err := expand(left)
	if err != nil {
		wrong(0, "", "links: %v", err)
		return
	}
	bs, err := expand(right)
	if err != nil {
		wrong(rightCol, "", "links: %v", err)
		return
	}
	if len(as) != len(bs) {
		wrong(0, "ranges on both sides run together: give both as many", "links: the left side is %d, the right side %d", len(as), len(bs))
		return
	}
	rightAt := r.c.origins.add(r.file, r.layer, position{at.line, at.col + rightCol})
	links := make([]link, 0, len(as))
	defer func() { r.c.links, r.c.cabled = append(r.c.links, links), r.c.cabled+len(links) }()
	for i := range as {
		l := link{at: id, right: rightAt}
		var aOK, bOK bool
		if l.a, aOK = parsePeer(as[i]); !aOK {
			wrong(0, "write DEVICE:PORT, or a host's name", "links: %q is not the end of a cable", as[i])
			return
		}
		if l.b, bOK = parsePeer(bs[i]); !bOK {
			wrong(rightCol, "write DEVICE:PORT, or a host's name", "links: %q is not the end of a cable", bs[i])
			return
		}
		if r.c.cabled+len(links) >= maxPorts {
			wrong(0, "", "links: more than %d cables", maxPorts)
			return
		}
		links = append(links, l)
	}
}
