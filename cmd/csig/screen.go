package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// plainColumns is the width of text that does not go to a terminal.
const plainColumns = 80

// screen shows texts one after the other: on a terminal each in the place of
// the one before, elsewhere with an empty line between.
type screen struct {
	w     io.Writer
	size  func() (columns, rows int, ok bool) // of the terminal; not ok: there is none
	drawn bool
}

func newScreen(w io.Writer) *screen {
	s := &screen{w: w, size: func() (int, int, bool) { return 0, 0, false }}
	under := w
	if c, ok := w.(*checkedWriter); ok {
		under = c.w
	}
	if f, ok := under.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.size = func() (int, int, bool) {
			columns, rows, err := term.GetSize(int(f.Fd()))
			return columns, rows, err == nil && columns > 0 && rows > 1
		}
	}
	return s
}

func (s *screen) columns() int {
	if columns, _, ok := s.size(); ok {
		return columns
	}
	return plainColumns
}

// remark prints a sentence on standard error, on a terminal broken between words.
func (s *screen) remark(format string, args ...any) {
	text := fmt.Sprintf("csig: "+format, args...)
	if columns, _, ok := s.size(); ok {
		text = strings.TrimSuffix(wrap(text, columns-1, 2), "\n")
	}
	fmt.Fprintln(s.w, text)
}

// draw shows a text. One that is to be followed by others takes the whole
// terminal; what does not fit is counted in its last row.
func (s *screen) draw(text string, more bool) error {
	columns, rows, ok := s.size()
	var b bytes.Buffer
	switch {
	case more && ok:
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) > rows-1 {
			left := len(lines) - (rows - 2)
			lines = append(lines[:rows-2:rows-2], fmt.Sprintf("… %d more lines: make the window taller", left))
		}
		if !s.drawn {
			b.WriteString("\x1b[2J")
		}
		b.WriteString("\x1b[H")
		for _, l := range lines {
			b.WriteString(cut(l, columns) + "\x1b[K\n")
		}
		b.WriteString("\x1b[J")
	case more && s.drawn:
		b.WriteString("\n" + text)
	default:
		b.WriteString(text)
	}
	s.drawn = true
	_, err := s.w.Write(b.Bytes())
	return err
}

// cut shortens a line to so many columns.
func cut(line string, columns int) string {
	if utf8.RuneCountInString(line) <= columns {
		return line
	}
	return string([]rune(line)[:columns-1]) + "…"
}

// wrap breaks a text at spaces into lines of at most so many columns, the
// second and later ones indented. A longer word stays whole.
func wrap(text string, columns, indent int) string {
	var b strings.Builder
	used := 0
	for rest := text; rest != ""; {
		// Two spaces in a row are meant: keep those inside a line.
		word := rest[len(rest)-len(strings.TrimLeft(rest, " ")):]
		spaces := len(rest) - len(word)
		if i := strings.IndexByte(word, ' '); i >= 0 {
			word = word[:i]
		}
		rest = rest[spaces+len(word):]
		n := utf8.RuneCountInString(word)
		switch {
		case used == 0:
		case used+spaces+n > columns:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			used = indent
		default:
			b.WriteString(strings.Repeat(" ", spaces))
			used += spaces
		}
		b.WriteString(word)
		used += n
	}
	b.WriteByte('\n')
	return b.String()
}
