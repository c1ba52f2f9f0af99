package draw

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/csig-agent/csig/inventory"
)

// Sizes in pixels.
const (
	leastWide = 1200.0
	cellWide  = 54.0 // of the longest row, where that is wider
	margin    = 20.0
	rowGap    = 130.0
	lineGap   = 56.0 // between the lines of a long row
	boxHeight = 30.0
	perLine   = 40 // boxes of one row that stand side by side
)

// SVG writes a fleet as a picture that needs nothing else. A box is a device,
// coloured by its level; each end of a link has a dot with the colour of what
// that port does with the tag. Long rows take several lines.
func SVG(w io.Writer, f *inventory.Fleet) error {
	p := newPicture(f)
	width, height, box := p.place()
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(b, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", escape(p.title))
	fmt.Fprintf(b, "<text x=\"%.0f\" y=\"22\" font-size=\"14\">%s</text>\n", margin, escape(p.title))
	p.legend(b)

	fmt.Fprintf(b, "<g stroke=\"#556\" stroke-opacity=\"%.2f\">\n", min(0.9, math.Max(0.25, 60/float64(len(p.edges)+1))))
	for _, e := range p.edges {
		x1, y1, x2, y2 := p.line(e)
		about := e.about
		if e.links > 1 {
			about = fmt.Sprintf("%d links: %s, …", e.links, e.about)
		}
		fmt.Fprintf(b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke-width=\"%.1f\"><title>%s</title></line>\n", x1, y1, x2, y2, 1+min(2, math.Log2(float64(e.links))/2), escape(about))
	}
	fmt.Fprintln(b, "</g>")
	radius := 3.5
	if len(p.edges) > 400 {
		radius = 1.8
	}
	for _, e := range p.edges {
		x1, y1, x2, y2 := p.line(e)
		// A little up the link, or the dots of one box would cover each other.
		along := math.Min(14/math.Max(1, math.Hypot(x2-x1, y2-y1)), 0.3)
		dot(b, x1+(x2-x1)*along, y1+(y2-y1)*along, radius, e.actionA)
		dot(b, x2+(x1-x2)*along, y2+(y1-y2)*along, radius, e.actionB)
	}
	for i := range p.nodes {
		p.box(b, &p.nodes[i], box[p.nodes[i].tier])
	}
	fmt.Fprintln(b, "</svg>")
	return b.Flush()
}

// place gives the nodes their pixels and returns the picture's size, and of each
// row the width of its boxes.
func (p *picture) place() (width, height float64, box []float64) {
	rows := p.rows()
	box = make([]float64, len(rows))
	lines := make([]int, len(rows))
	total := 70.0
	for k, row := range rows {
		lines[k] = max(1, (len(row)+perLine-1)/perLine)
		if len(row) == 0 {
			continue // hosts that are not drawn
		}
		total += rowGap + float64(lines[k]-1)*lineGap
	}
	width = leastWide
	for k, row := range rows {
		width = max(width, 2*margin+cellWide*float64((len(row)+lines[k]-1)/lines[k]))
	}
	height = total - rowGap + 60
	y := height - 40
	for k, row := range rows {
		side := (len(row) + lines[k] - 1) / lines[k]
		if side == 0 {
			continue
		}
		cell := (width - 2*margin) / float64(side)
		box[k] = math.Min(140, cell*0.9)
		for n, i := range row {
			// Neighbours in the row stand in different lines of it.
			line, col := n%lines[k], n/lines[k]
			shift := cell * float64(line) / float64(lines[k]) * 0.5
			p.nodes[i].x = margin + cell*(float64(col)+0.5) + shift - cell*0.25*float64(lines[k]-1)/float64(lines[k])
			p.nodes[i].y = y - float64(line)*lineGap
		}
		y -= rowGap + float64(lines[k]-1)*lineGap
	}
	return width, height, box
}

// line is where a link runs: from the upper side of the lower box to the lower
// side of the upper.
func (p *picture) line(e edge) (x1, y1, x2, y2 float64) {
	a, b := &p.nodes[e.a], &p.nodes[e.b]
	x1, y1, x2, y2 = a.x, a.y, b.x, b.y
	switch {
	case y1 > y2:
		y1, y2 = y1-boxHeight/2, y2+boxHeight/2
	case y1 < y2:
		y1, y2 = y1+boxHeight/2, y2-boxHeight/2
	}
	return x1, y1, x2, y2
}

func dot(b io.Writer, x, y, r float64, action string) {
	if action == "" {
		return
	}
	fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"/>\n", x, y, r, actionColours[action])
}

func (p *picture) box(b io.Writer, n *node, w float64) {
	fmt.Fprintf(b, "<g><title>%s</title>", escape(n.about))
	if !n.host {
		fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"4\" fill=\"%s\" stroke=\"#333\"/>", n.x-w/2, n.y-boxHeight/2, w, boxHeight, levelColours[n.level])
	}
	label, up := n.label, 0.0
	if n.hosts > 0 {
		up = 6
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"8\" fill=\"#555\">%s</text>", n.x, n.y+11, n.hostsText(""))
		for k, action := range n.edge {
			dot(b, n.x+8*(float64(k)-float64(len(n.edge)-1)/2), n.y+boxHeight/2+5, 3, action)
		}
	}
	// A letter takes some 0.6 of its height.
	size := math.Min(12, (w-4)/0.6/float64(max(1, len([]rune(label)))))
	switch {
	case size >= 6:
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"%.1f\">%s</text>", n.x, n.y+size*0.35-up, size, escape(label))
	case w >= 5: // upright where the box is narrow
		size = math.Min(8, w*0.8)
		fmt.Fprintf(b, "<text transform=\"translate(%.1f %.1f) rotate(-60)\" font-size=\"%.1f\">%s</text>", n.x+size*0.3, n.y+boxHeight*0.4, size, escape(label))
	}
	fmt.Fprintln(b, "</g>")
}

// legend explains the colours that the picture has.
func (p *picture) legend(b io.Writer) {
	levels, actions := p.used()
	x := margin
	label := func(text string) {
		fmt.Fprintf(b, "<text x=\"%.0f\" y=\"44\">%s</text>\n", x, escape(text))
		x += float64(len(text))*6.6 + 16
	}
	for _, l := range levels {
		fmt.Fprintf(b, "<rect x=\"%.0f\" y=\"33\" width=\"14\" height=\"14\" rx=\"3\" fill=\"%s\" stroke=\"#333\"/>", x, levelColours[l])
		x += 20
		label("level " + l.String())
	}
	for _, a := range actions {
		dot(b, x+4, 40, 4, a)
		x += 14
		label(a)
	}
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}
