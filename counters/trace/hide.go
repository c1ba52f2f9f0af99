package trace

import (
	"net/netip"
	"slices"
	"strings"
)

const (
	hiddenAddress = "[address]"
	hiddenWord    = "[hidden]"
	punctuation   = "\"'`(){}<>,;:.!?="
)

// hide takes network addresses, and the given words, out of the text of an error: what
// went wrong can be mailed, where the device is and as whom it was asked cannot.
func hide(text string, words []string) string {
	var b strings.Builder
	for len(text) > 0 {
		end := strings.IndexAny(text, " \t\n")
		if end < 0 {
			end = len(text)
		}
		for i, word := range strings.Split(text[:end], "->") { // of a socket's two ends
			if i > 0 {
				b.WriteString("->")
			}
			b.WriteString(hideWord(word, words))
		}
		if end < len(text) {
			b.WriteByte(text[end])
			end++
		}
		text = text[end:]
	}
	return b.String()
}

// hideWord is hide for a word with the punctuation around it.
func hideWord(word string, words []string) string {
	core := strings.TrimLeft(word, punctuation)
	before := word[:len(word)-len(core)]
	core = strings.TrimRight(core, punctuation)
	after := word[len(before)+len(core):]
	switch host, _, _ := strings.Cut(core, ":"); {
	case core == "":
	case isAddress(core), isAddress(strings.TrimRight(word[len(before):], ",;")):
		return before + hiddenAddress + after
	case slices.Contains(words, core), slices.Contains(words, host):
		return before + hiddenWord + after
	}
	return word
}

// isAddress reports whether text is an IP address, with or without a port.
func isAddress(text string) bool {
	if _, err := netip.ParseAddrPort(text); err == nil {
		return true
	}
	_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return err == nil
}
