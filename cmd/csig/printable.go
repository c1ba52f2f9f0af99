package main

import (
	"strings"
	"unicode"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// printableLines is a text for a terminal: its lines and their blanks stay, and what else
// does not print is written as untrusted.Text does. It is where texts leave csig, which may
// have any of a plan, a journal or an agent's answer in them.
func printableLines(text string) string {
	var b strings.Builder
	for rest := text; rest != ""; {
		at := strings.IndexFunc(rest, func(r rune) bool { return r == unicode.ReplacementChar || r != '\n' && !unicode.IsPrint(r) })
		if at < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:at])
		rest = rest[at:]
		n := 1
		for n < len(rest) && n < 4 && rest[n]&0xc0 == 0x80 { // the bytes of its rune
			n++
		}
		switch {
		case rest[0] == '\t':
			b.WriteByte(' ')
		default:
			b.WriteString(untrusted.Text(rest[:n], maxShown))
		}
		rest = rest[n:]
	}
	return b.String()
}
