package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// plainColumns is the width of text that does not go to a terminal.
const plainColumns = 80

// screen shows texts. On a terminal it has a block of lines at the end, which is
// redrawn in its place, and lines above it that stay and scroll away.
type screen struct {
	w    io.Writer
	size func() (columns, rows int, ok bool) // of the terminal; not ok: there is none
	used bool                                // a text was drawn

	above         []string // what stays, as far back as any terminal shows
	drawn         int      // lines of the block on the screen
	width, height int      // of the terminal when they were drawn
}

// kept is how many of the lines that stay are remembered, for a terminal whose
// size changes.
const kept = 200

func newScreen(w io.Writer) *screen {
	s := &screen{w: w, size: func() (int, int, bool) { return 0, 0, false }}
	under := w
	if c, ok := under.(*checkedWriter); ok {
		under = c.w
	}
	if a, ok := under.(asciiWriter); ok {
		under = a.w
	}
	// A terminal without cursor movement (an editor's shell, a serial log) gets plain lines.
	if f, ok := under.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		s.size = func() (int, int, bool) {
			columns, rows, err := term.GetSize(int(f.Fd()))
			return columns, rows, err == nil && columns > 1 && rows > 1
		}
	}
	return s
}

func (s *screen) terminal() bool {
	_, _, ok := s.size()
	return ok
}

// columns is how long a line may be.
func (s *screen) columns() int {
	if columns, _, ok := s.size(); ok {
		return columns - 1 // a full last column leaves the cursor where terminals do not agree
	}
	return plainColumns
}

// remark prints a sentence on standard error, on a terminal broken between words.
func (s *screen) remark(format string, args ...any) {
	text := printableLines(fmt.Sprintf("csig: "+format, args...))
	if s.terminal() {
		text = strings.TrimSuffix(wrap(text, s.columns(), 2), "\n")
	}
	fmt.Fprintln(s.w, text)
}

// draw shows a text. One that is to be followed by others takes the place of the one
// before on a terminal, where what does not fit is counted in the last row; elsewhere
// there is an empty line between them.
func (s *screen) draw(text string, more bool) error {
	if _, rows, ok := s.size(); more && ok {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) > rows-1 {
			left := len(lines) - (rows - 2)
			lines = append(lines[:rows-2:rows-2], fmt.Sprintf("… %d more lines: make the window taller", left))
		}
		return s.redraw("", lines)
	}
	if more && s.used {
		text = "\n" + text
	}
	s.used = true
	_, err := io.WriteString(s.w, text)
	return err
}

// redraw shows lines that stay, if any, and below them the block.
func (s *screen) redraw(above string, block []string) error {
	columns, rows, ok := s.size()
	if !ok {
		columns, rows = plainColumns, 24
	}
	var b strings.Builder
	var fresh []string
	if above != "" {
		for _, line := range strings.Split(above, "\n") {
			text := strings.TrimLeft(line, " ")
			lead := line[:len(line)-len(text)]
			fresh = append(fresh, strings.Split(lead+strings.TrimSuffix(wrap(text, s.columns()-len(lead), 10), "\n"), "\n")...)
		}
	}
	if len(block) > rows-1 {
		block = block[:rows-1]
	}
	switch {
	case s.drawn > 0 && (columns != s.width || rows != s.height):
		// The block's place after a resize is unknown: clear the screen and redraw,
		// with as many of the lines that stay as fit.
		b.WriteString("\x1b[H\x1b[J")
		fit := max(0, rows-1-len(block)-len(fresh))
		again := s.above[max(0, len(s.above)-fit):]
		for _, line := range again {
			b.WriteString(cut(line, columns-1) + "\n")
		}
	case s.drawn > 0:
		fmt.Fprintf(&b, "\r\x1b[%dA\x1b[J", s.drawn)
	}
	for _, line := range fresh {
		b.WriteString(line + "\n")
	}
	for _, line := range block {
		b.WriteString(cut(line, columns-1) + "\n")
	}
	s.above = append(s.above, fresh...)
	s.above = s.above[max(0, len(s.above)-kept):]
	s.drawn, s.width, s.height = len(block), columns, rows
	_, err := io.WriteString(s.w, b.String())
	return err
}

// end takes the block away, below lines that stay.
func (s *screen) end(above string) error {
	err := s.redraw(above, nil)
	s.drawn = 0
	return err
}

// asking is a line that counts the devices that have answered; nothing where
// there is no terminal.
type asking struct {
	screen *screen
	began  time.Time
	drawn  time.Time
}

func newAsking(w io.Writer) *asking { return &asking{screen: newScreen(w), began: time.Now()} }

// answered shows how many have; the last takes the line away.
func (a *asking) answered(done, of int) {
	now := time.Now()
	switch {
	case !a.screen.terminal():
	case done == of:
		_ = a.screen.end("") // the line is no longer needed
	case now.Sub(a.drawn) >= redrawn/2:
		a.drawn = now
		_ = a.screen.redraw("", []string{fmt.Sprintf("%d of %s answered  %v", done, count(of, "device"), now.Sub(a.began).Round(time.Second))})
	}
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
