// Package untrusted handles what comes from devices, peers and files: text is
// cleaned where it enters csig, and streams are bounded. It imports nothing of
// ours, so that every package may use it.
package untrusted

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s as one line that is safe for terminals, logs and tables: at
// most most bytes (an ellipsis marks a cut), white space folded into single
// blanks, and every other character that does not print (escape, control,
// bidirectional override, invalid UTF-8) written as a visible escape like
// \x1b or \u202e. Clean text is returned as it is, without allocation.
// Markdown and HTML need their own quoting on top.
func Text(s string, most int) string {
	if len(s) <= most && clean(s) {
		return s
	}
	var b strings.Builder
	blank := false
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		var piece string
		switch {
		case r == utf8.RuneError && n == 1:
			piece = fmt.Sprintf(`\x%02x`, s[i])
		case unicode.IsSpace(r):
			blank = b.Len() > 0
		case unicode.IsPrint(r):
			piece = s[i : i+n]
		case r < 0x80:
			piece = fmt.Sprintf(`\x%02x`, r)
		case r > 0xffff:
			piece = fmt.Sprintf(`\U%08x`, r)
		default:
			piece = fmt.Sprintf(`\u%04x`, r)
		}
		i += n
		if piece == "" {
			continue
		}
		if blank {
			piece, blank = " "+piece, false
		}
		if b.Len()+len(piece) > most-len("…") && (b.Len()+len(piece) > most || strings.TrimSpace(s[i:]) != "") {
			b.WriteString("…")
			break
		}
		b.WriteString(piece)
	}
	return b.String()
}

// clean reports whether s is one line of printable characters with single
// blanks between its words and none at its ends.
func clean(s string) bool {
	previous := ' '
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return false
			}
		}
		if !unicode.IsPrint(r) || r == ' ' && previous == ' ' || r != ' ' && unicode.IsSpace(r) {
			return false
		}
		previous = r
	}
	return s == "" || previous != ' '
}

// Error returns an error that wraps err and whose text is as Text makes it, at
// most 1000 bytes: libraries repeat what a peer has sent.
func Error(err error) error { return ErrorOf(err, maxError) }

const maxError = 1000

// ErrorOf is Error for a text of at most this many bytes, where several of them are
// parts of one error.
func ErrorOf(err error, most int) error {
	if text := err.Error(); text != Text(text, most) {
		return &cleaned{err, most}
	}
	return err
}

type cleaned struct {
	err  error
	most int
}

func (e *cleaned) Error() string { return Text(e.err.Error(), e.most) }
func (e *cleaned) Unwrap() error { return e.err }

// ErrTooLong is what a Reader returns once its source has sent more than its
// limit. What was read until then is not an answer.
var ErrTooLong = errors.New("the answer is longer than csig accepts")

// Reader reads from a source up to a limit. Past the limit every Read fails
// with ErrTooLong, unlike io.LimitedReader, whose io.EOF looks like an end.
type Reader struct {
	r    io.Reader
	left int64
}

// NewReader returns a Reader of at most most bytes of r.
func NewReader(r io.Reader, most int64) *Reader { return &Reader{r: r, left: most} }

// Reset allows the reader another most bytes: one limit a message, on
// a connection that carries many.
func (u *Reader) Reset(most int64) { u.left = most }

// Read implements io.Reader.
func (u *Reader) Read(p []byte) (int, error) {
	if u.left <= 0 {
		// A source that ends exactly at the limit has not exceeded it.
		var one [1]byte
		n, err := u.r.Read(one[:])
		if n > 0 {
			return 0, ErrTooLong
		}
		return 0, err
	}
	if int64(len(p)) > u.left {
		p = p[:u.left]
	}
	n, err := u.r.Read(p)
	u.left -= int64(n)
	return n, err
}

// ReadAll returns all that r has, or ErrTooLong when that is more than most
// bytes.
func ReadAll(r io.Reader, most int64) ([]byte, error) {
	text, err := io.ReadAll(NewReader(r, most))
	if errors.Is(err, ErrTooLong) {
		return nil, err
	}
	return text, err
}
