package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// errNoHex is parseHex's error for a text without digits.
var errNoHex = errors.New("no hexadecimal digits")

// parseHex reads bytes as people paste them: two hexadecimal digits each, with
// any spaces, tabs, line ends, colons and hyphens between bytes, and with 0x or
// 0X in front of the first. Errors name the character, counted from 1.
func parseHex(text string) ([]byte, error) {
	const separators = " \t\r\n:-"
	separator := func(c rune) bool { return strings.ContainsRune(separators, c) }
	digit := func(c rune) bool { return strings.ContainsRune("0123456789abcdefABCDEF", c) }
	fail := func(i int, format string, args ...any) ([]byte, error) {
		return nil, fmt.Errorf("character %d: "+format, append([]any{i + 1}, args...)...)
	}
	var out []byte
	chars := []rune(text)
	i := len(chars) - len([]rune(strings.TrimLeft(text, separators)))
	if rest := string(chars[i:]); strings.HasPrefix(rest, "0x") || strings.HasPrefix(rest, "0X") {
		i += 2
	}
	for i < len(chars) {
		a, b := chars[i], ' ' // nothing is as a separator
		if i+1 < len(chars) {
			b = chars[i+1]
		}
		switch {
		case separator(a):
			i++
			continue
		case !digit(a):
			return fail(i, "%q is not a hexadecimal digit", a)
		case separator(b):
			return fail(i, "%q is half a byte: a byte has two digits", a)
		case a == '0' && (b == 'x' || b == 'X'):
			return fail(i, "%q may only stand in front of the first byte", string(chars[i:i+2]))
		case !digit(b):
			return fail(i+1, "%q is not a hexadecimal digit", b)
		}
		v, _ := strconv.ParseUint(string(chars[i:i+2]), 16, 8) // two digits
		out = append(out, byte(v))
		i += 2
	}
	if len(out) == 0 {
		return nil, errNoHex
	}
	return out, nil
}
