package untrusted

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		name, in string
		most     int
		want     string
	}{
		{"clean text stays", "Arista vEOS 4.31, größer", 64, "Arista vEOS 4.31, größer"},
		{"empty", "", 64, ""},
		{"white space folds", " a\r\n\tb  c ", 64, "a b c"},
		{"escape sequences show", "\x1b[31mred\x1b]8;;http://x\x07", 64, `\x1b[31mred\x1b]8;;http://x\x07`},
		{"bidirectional override shows", "a\u202eb", 64, `a\u202eb`},
		{"invalid UTF-8 shows", "a\xffb", 64, `a\xffb`},
		{"a real replacement character stays", "a\ufffdb", 64, "a\ufffdb"},
		{"C1 control shows", "a\u009bb", 64, `a\u009bb`},
		{"tag character shows", "a\U000e0041", 64, `a\U000e0041`},
		{"exactly as long", "abcdef", 6, "abcdef"},
		{"cut at a character", "ääääää", 8, "ää…"},
		{"cut before an escape", "ab\x1bcd", 7, "ab…"},
	} {
		if got := Text(c.in, c.most); got != c.want {
			t.Errorf("%s: Text(%q, %d) = %q, want %q", c.name, c.in, c.most, got, c.want)
		}
	}
}

func TestError(t *testing.T) {
	if got := Error(io.EOF); got != io.EOF { //nolint:errorlint // the same error, not one that wraps it
		t.Errorf("a clean error: %v", got)
	}
	err := Error(fmt.Errorf("no\x1b[2J\n%s: %w", strings.Repeat("x", 2000), io.EOF))
	if !errors.Is(err, io.EOF) || len(err.Error()) > maxError || !strings.HasPrefix(err.Error(), `no\x1b[2J xxx`) {
		t.Errorf("got %q", err)
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b[0m\n", 8)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = 3 + (most&0xff+256)%256
		got := Text(s, most)
		if len(got) > most || !utf8.ValidString(got) {
			t.Fatalf("Text(%q, %d) = %q: %d bytes", s, most, got, len(got))
		}
		if strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("Text(%q, %d) = %q does not print", s, most, got)
		}
		if again := Text(got, most); again != got {
			t.Fatalf("Text is not idempotent: %q, then %q", got, again)
		}
	})
}

func TestReader(t *testing.T) {
	for _, c := range []struct {
		in   string
		most int64
		err  error
	}{{"abc", 4, nil}, {"abcd", 4, nil}, {"abcde", 4, ErrTooLong}, {"", 0, nil}, {"a", 0, ErrTooLong}} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(c.in), "bytes": iotest.OneByteReader(strings.NewReader(c.in))} {
			got, err := ReadAll(r, c.most)
			if !errors.Is(err, c.err) || err == nil && string(got) != c.in {
				t.Errorf("%s: ReadAll(%q, %d) = %q, %v; want error %v", name, c.in, c.most, got, err, c.err)
			}
		}
	}
	r := NewReader(strings.NewReader("abcdef"), 3)
	if _, err := io.ReadFull(r, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	r.Reset(3)
	if got, err := io.ReadAll(r); err != nil || string(got) != "def" {
		t.Errorf("after Reset: %q, %v", got, err)
	}
}
