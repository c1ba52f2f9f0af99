package main

import (
	"bytes"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"
)

func TestParseHex(t *testing.T) {
	want := []byte{0x99, 0x00, 0x23, 0x8a}
	for _, text := range []string{
		"9900238a", "9900238A", "0x9900238a", "0X9900238A", " 0x9900 238a ", "99 00 23 8a", "99:00:23:8a", "99-00-23-8A",
		"9900\t238a", "9900\r\n238a\n", "99: 00\t-23 8a:",
	} {
		if got, err := parseHex(text); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q: % x, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":               "no hexadecimal digits",
		" :-\t":          "no hexadecimal digits",
		"0x":             "no hexadecimal digits",
		"xyz":            `character 1: 'x' is not`,
		"9900 zz":        `character 6: 'z' is not`,
		"0x9900 0x238a":  `character 8: "0x" may only stand in front of the first byte`,
		"99000X23":       `character 5: "0X" may only stand`,
		"0x0x99":         `character 3: "0x" may only stand`,
		"99x0":           `character 3: 'x' is not`,
		"990":            `character 3: '0' is half a byte`,
		"9 9":            `character 1: '9' is half a byte`,
		"99 0 0 23":      `character 4: '0' is half a byte`,
		"9900.238a":      `character 5: '.' is not`,
		"99\u00a000":     `character 3: '\u00a0' is not`,
		"9900–238a":      `character 5: '–' is not`,
		"99 00 \x00\xff": `character 7: '\x00' is not`,
	} {
		if got, err := parseHex(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: % x, %v, want %q", text, got, err, want)
		}
	}
}

// FuzzParseHex compares with a grammar and the library's decoder of plain
// digits.
func FuzzParseHex(f *testing.F) {
	for _, s := range []string{"9900238a", " 0X99:00-23\t8a\r\n", "0x", "9 9", "0x990x", "ÿ"} {
		f.Add(s)
	}
	grammar := regexp.MustCompile(`^[ \t\r\n:-]*(?:0[xX])?((?:[0-9a-fA-F]{2}|[ \t\r\n:-])*)$`)
	separators := regexp.MustCompile(`[ \t\r\n:-]`)
	f.Fuzz(func(t *testing.T, text string) {
		var want []byte
		if m := grammar.FindStringSubmatch(text); m != nil {
			var err error
			if want, err = hex.DecodeString(separators.ReplaceAllString(m[1], "")); err != nil {
				t.Fatal(err)
			}
		}
		got, err := parseHex(text)
		if (err == nil) != (len(want) > 0) || !bytes.Equal(got, want) {
			t.Fatalf("%q: % x, %v, want % x", text, got, err, want)
		}
	})
}
