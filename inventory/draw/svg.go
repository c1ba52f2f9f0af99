package draw

import (
	"bufio"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vlanrules"
)

// Sizes in pixels.
const (
	leastWide = 1200.0
	letter    = 6.8 // of a label, on average
	mostBox   = 230.0
	boxGap    = 14.0
	margin    = 20.0
	rowGap    = 130.0
	lineGap   = 64.0 // between the lines of a long row
	boxHeight = 30.0
	perLine   = 40 // boxes of one row that stand side by side, at most
	rowLines  = 4  // of a row that has room for all its boxes in so many
)

// style has fonts that exist on the systems of readers. A count of links has a rim in the colour
// of the background, so that links do not run through it.
const style = `<style>text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",Arial,sans-serif}.n{paint-order:stroke;stroke:#fff;stroke-width:3px;font-size:10px}</style>` + "\n"

// SVG writes a fleet as a picture that needs nothing else. A box is a device,
// coloured by its level; each end of a link has a mark with the shape and colour of what
// that port does with the tag. Long rows take several lines; parallel links are one line with
// their number.
func SVG(w io.Writer, f *inventory.Fleet) error {
	p := newPicture(f)
	width, height, box := p.place()
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" style="min-width:%.0fpx" font-family="sans-serif" font-size="12">`+"\n", width, height, width*0.7)
	fmt.Fprintf(b, "<title>%s</title>\n%s<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", escape(p.title), style)
	fmt.Fprintf(b, "<text x=\"%.0f\" y=\"22\" font-size=\"14\">%s</text>\n", margin, escape(p.title))
	p.legend(b)

	fmt.Fprintf(b, "<g stroke=\"#556\" stroke-opacity=\"%.2f\">\n", min(0.9, math.Max(0.25, 60/float64(len(p.edges)+1))))
	lines := p.fan(box)
	for i, e := range p.edges {
		x1, y1, x2, y2 := lines[i][0], lines[i][1], lines[i][2], lines[i][3]
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
	for i, e := range p.edges {
		x1, y1, x2, y2 := lines[i][0], lines[i][1], lines[i][2], lines[i][3]
		// A little up the link, or the dots of one box would cover each other.
		along := math.Min(14/math.Max(1, math.Hypot(x2-x1, y2-y1)), 0.3)
		dot(b, x1+(x2-x1)*along, y1+(y2-y1)*along, radius, e.actionA)
		dot(b, x2+(x1-x2)*along, y2+(y1-y2)*along, radius, e.actionB)
		if e.links > 1 {
			if y1 < y2 {
				x1, y1, x2, y2 = x2, y2, x1, y1
			}
			// Just above the lower end, where no box of another line of the row covers it.
			along = math.Min(18/math.Max(1, math.Abs(y2-y1)), 0.5)
			fmt.Fprintf(b, "<text class=\"n\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">×%d</text>\n", x1+(x2-x1)*along, y1+(y2-y1)*along-2, e.links)
		}
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
	sides := make([]int, len(rows))
	lines := make([]int, len(rows))
	total := 70.0
	width = leastWide
	for k, row := range rows {
		lines[k] = 1
		if len(row) == 0 {
			continue // hosts that are not drawn
		}
		for _, i := range row {
			box[k] = max(box[k], min(mostBox, 12+letter*float64(len([]rune(p.nodes[i].label)))))
		}
		box[k] = max(box[k], 60)
		fit := int((leastWide - 2*margin) / (box[k] + boxGap)) // as many make the picture no wider
		sides[k] = min(len(row), perLine, max(fit, (len(row)+rowLines-1)/rowLines))
		lines[k] = (len(row) + sides[k] - 1) / sides[k]
		total += rowGap + float64(lines[k]-1)*lineGap
		// Lines of a row are shifted against each other by up to half a box.
		width = max(width, 2*margin+(box[k]+boxGap)*(float64(sides[k])+0.5*float64(min(1, lines[k]-1))))
	}
	height = total - rowGap + 60
	y := height - 40
	for k, row := range rows {
		if len(row) == 0 {
			continue
		}
		side := (len(row) + lines[k] - 1) / lines[k]
		cell := (width - 2*margin) / (float64(side) + 0.5*float64(min(1, lines[k]-1)))
		for n, i := range row {
			// Neighbours in the row stand in different lines of it.
			line, col := n%lines[k], n/lines[k]
			p.nodes[i].x = margin + cell*(float64(col)+0.5+0.5*float64(line%2))
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

// dot is a port's action: a circle, a square or a triangle.
func dot(b io.Writer, x, y, r float64, action string) {
	switch action {
	case "":
	case vlanrules.Passthrough.String():
		fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x-r, y-r, 2*r, 2*r, actionColours[action])
	case vlanrules.Strip.String():
		fmt.Fprintf(b, "<path d=\"M%.1f,%.1fl%.1f,%.1fh%.1fz\" fill=\"%s\"/>\n", x, y-1.3*r, 1.3*r, 2.3*r, -2.6*r, actionColours[action])
	default:
		fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"/>\n", x, y, r, actionColours[action])
	}
}

// fan is where links run, their ends side by side along the boxes, in the order of the
// other ends: links and marks of one box do not cover each other.
func (p *picture) fan(box []float64) [][4]float64 {
	type end struct{ edge, at, other int } // at: of x in the line
	ends := map[[2]int][]end{}             // by node, and above it or below
	out := make([][4]float64, len(p.edges))
	for i, e := range p.edges {
		out[i][0], out[i][1], out[i][2], out[i][3] = p.line(e)
		up := 0
		if out[i][1] > out[i][3] {
			up = 1
		}
		ends[[2]int{e.a, up}] = append(ends[[2]int{e.a, up}], end{i, 0, e.b})
		ends[[2]int{e.b, 1 - up}] = append(ends[[2]int{e.b, 1 - up}], end{i, 2, e.a})
	}
	for key, list := range ends {
		n := &p.nodes[key[0]]
		slices.SortStableFunc(list, func(a, b end) int { return cmp.Compare(p.nodes[a.other].x, p.nodes[b.other].x) })
		for k, e := range list {
			room := min(box[n.tier]*0.85, 16*float64(len(list)))
			out[e.edge][e.at] = n.x + room*((float64(k)+0.5)/float64(len(list))-0.5)
		}
	}
	return out
}

func (p *picture) box(b io.Writer, n *node, w float64) {
	fmt.Fprintf(b, "<g><title>%s</title>", escape(n.about))
	if !n.host {
		fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"4\" fill=\"%s\" stroke=\"#333\" %s/>", n.x-w/2, n.y-boxHeight/2, w, boxHeight, levelColours[n.level], levelBorders[n.level])
	}
	label, up := n.label, 0.0
	if n.hosts > 0 {
		up = 6
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"8\" fill=\"#555\">%s</text>", n.x, n.y+11, n.hostsText(""))
		for k, action := range n.edge {
			dot(b, n.x+8*(float64(k)-float64(len(n.edge)-1)/2), n.y+boxHeight/2+5, 3, action)
		}
	}
	size := 12.0
	if most := int((w - 8) / letter); len([]rune(label)) > most { // the whole name is in the title
		half := max(1, (most-1)/2)
		r := []rune(label)
		label = string(r[:half]) + "…" + string(r[len(r)-half:])
	}
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"%.0f\">%s</text>", n.x, n.y+size*0.35-up, size, escape(label))
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
		fmt.Fprintf(b, "<rect x=\"%.0f\" y=\"33\" width=\"14\" height=\"14\" rx=\"3\" fill=\"%s\" stroke=\"#333\" %s/>", x, levelColours[l], levelBorders[l])
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
