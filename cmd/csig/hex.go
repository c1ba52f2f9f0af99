package main

import (
	"errors"
	"fmt"
)

// errNoHex is parseHex's error for a text without digits.
var errNoHex = errors.New("no hexadecimal digits")

// parseHex reads bytes as people paste them: two hexadecimal digits each, with
// any spaces, tabs, line ends, colons and hyphens between bytes, and with 0x or
// 0X in front of the first. Errors name the character, counted from 1.
func parseHex(text string) ([]byte, error) {
	var (
		out   = make([]byte, 0, len(text)/2)
		chars = []rune(text)
		high  = -1 // the first digit of a byte, when it waits for the second
		fail  = func(i int, what string) ([]byte, error) {
			return nil, fmt.Errorf("character %d: %s", i+1, what)
		}
	)
	start := 0
	for start < len(chars) && isSeparator(chars[start]) {
		start++
	}
	if start+1 < len(chars) && chars[start] == '0' && (chars[start+1] == 'x' || chars[start+1] == 'X') {
		start += 2
	}
	for i := start; i < len(chars); i++ {
		c := chars[i]
		digit := hexDigit(c)
		switch {
		case digit >= 0 && high < 0:
			high = digit
		case digit >= 0:
			out = append(out, byte(high<<4|digit))
			high = -1
		case (c == 'x' || c == 'X') && high == 0:
			return fail(i-1, fmt.Sprintf("%q may only stand in front of the first byte", string(chars[i-1:i+1])))
		case !isSeparator(c):
			return fail(i, fmt.Sprintf("%q is not a hexadecimal digit", c))
		case high >= 0:
			return fail(i-1, fmt.Sprintf("%q is half a byte: a byte has two digits", chars[i-1]))
		}
	}
	switch {
	case high >= 0:
		return fail(len(chars)-1, fmt.Sprintf("%q is half a byte: a byte has two digits", chars[len(chars)-1]))
	case len(out) == 0:
		return nil, errNoHex
	}
	return out, nil
}

func isSeparator(c rune) bool {
	switch c {
	case ' ', '\t', '\r', '\n', ':', '-':
		return true
	}
	return false
}

// hexDigit is the digit's value, or -1.
func hexDigit(c rune) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
