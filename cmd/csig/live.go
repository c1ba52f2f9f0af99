package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// live is a block of lines at the end of what a terminal shows. Lines that stay
// go above it and scroll away; the block is redrawn in its place.
type live struct {
	w    io.Writer
	size func() (columns, rows int, ok bool)

	above         []string // what stays, as far back as any terminal shows
	drawn         int      // lines of the block on the screen
	width, height int      // of the terminal when they were drawn
}

// kept is how many of the lines that stay are remembered, for a terminal whose
// size changes.
const kept = 200

// columns is how long a line may be.
func (l *live) columns() int {
	columns, _, ok := l.size()
	if !ok {
		return plainColumns
	}
	// A full last column leaves the cursor where terminals do not agree.
	return columns - 1
}

// draw shows lines that stay, if any, and below them the block.
func (l *live) draw(above string, block []string) error {
	columns, rows, ok := l.size()
	if !ok {
		columns, rows = plainColumns, 24
	}
	var b strings.Builder
	var fresh []string
	if above != "" {
		for _, line := range strings.Split(above, "\n") {
			text := strings.TrimLeft(line, " ")
			lead := line[:len(line)-len(text)]
			fresh = append(fresh, strings.Split(lead+strings.TrimSuffix(wrap(text, l.columns()-len(lead), 10), "\n"), "\n")...)
		}
	}
	if len(block) > rows-1 {
		block = block[:rows-1]
	}
	switch {
	case l.drawn > 0 && (columns != l.width || rows != l.height):
		// The block's place after a resize is unknown: clear the screen and redraw,
		// with as many of the lines that stay as fit.
		b.WriteString("\x1b[H\x1b[J")
		fit := max(0, rows-1-len(block)-len(fresh))
		again := l.above[max(0, len(l.above)-fit):]
		for _, line := range again {
			b.WriteString(cut(line, columns-1) + "\n")
		}
	case l.drawn > 0:
		fmt.Fprintf(&b, "\r\x1b[%dA\x1b[J", l.drawn)
	}
	for _, line := range fresh {
		b.WriteString(line + "\n")
	}
	for _, line := range block {
		b.WriteString(cut(line, columns-1) + "\n")
	}
	l.above = append(l.above, fresh...)
	l.above = l.above[max(0, len(l.above)-kept):]
	l.drawn, l.width, l.height = len(block), columns, rows
	_, err := io.WriteString(l.w, b.String())
	return err
}

// end takes the block away, below lines that stay.
func (l *live) end(above string) error {
	err := l.draw(above, nil)
	l.drawn = 0
	return err
}

// asking is a line that counts the devices that have answered; nothing where
// there is no terminal.
type asking struct {
	live  *live
	began time.Time
	drawn time.Time
}

func newAsking(w io.Writer) *asking {
	a := &asking{began: time.Now()}
	if s := newScreen(w); s != nil {
		if _, _, ok := s.size(); ok {
			a.live = &live{w: w, size: s.size}
		}
	}
	return a
}

// answered shows how many have; the last takes the line away.
func (a *asking) answered(done, of int) {
	now := time.Now()
	switch {
	case a.live == nil:
	case done == of:
		_ = a.live.end("") // the line is no longer needed
	case now.Sub(a.drawn) >= redrawn/2:
		a.drawn = now
		_ = a.live.draw("", []string{fmt.Sprintf("%d of %s answered  %v", done, count(of, "device"), now.Sub(a.began).Round(time.Second))})
	}
}
