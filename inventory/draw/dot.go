package draw

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/csig-agent/csig/inventory"
)

// DOT writes a fleet in the language of Graphviz. Colours are those of SVG; each
// end of an edge is labelled with its port's action unless that is update.
func DOT(w io.Writer, f *inventory.Fleet) error {
	p := newPicture(f)
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "graph fleet {\n  label=%s;\n  rankdir=BT;\n  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];\n", quoted(p.title))
	for tier, row := range p.rows() {
		fmt.Fprintf(b, "  { rank=same; // tier %d\n", tier)
		for _, i := range row {
			n := &p.nodes[i]
			if n.host {
				fmt.Fprintf(b, "    n%d [label=%s, shape=plain, style=\"\", tooltip=%s];\n", i, quoted(n.label), quoted(n.about))
				continue
			}
			fmt.Fprintf(b, "    n%d [label=%s, fillcolor=\"%s\", tooltip=%s];\n", i, quoted(n.label+"\n"+n.level.String()+n.hostsText("\n")), levelColours[n.level], quoted(n.about))
		}
		fmt.Fprintln(b, "  }")
	}
	for _, e := range p.edges {
		low, high, lowAction, highAction := e.a, e.b, e.actionA, e.actionB
		if p.nodes[low].tier > p.nodes[high].tier {
			low, high, lowAction, highAction = high, low, highAction, lowAction
		}
		var attrs []string
		for _, end := range []struct{ key, action string }{{"taillabel", lowAction}, {"headlabel", highAction}} {
			if end.action != "" && end.action != "update" {
				attrs = append(attrs, end.key+"="+quoted(end.action))
			}
		}
		if e.links > 1 {
			attrs = append(attrs, "label="+quoted(fmt.Sprintf("×%d", e.links)))
		}
		fmt.Fprintf(b, "  n%d -- n%d", low, high)
		if len(attrs) > 0 {
			fmt.Fprintf(b, " [%s]", strings.Join(attrs, ", "))
		}
		fmt.Fprintln(b, ";")
	}
	fmt.Fprintln(b, "}")
	return b.Flush()
}

func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}

// hostsText says how many hosts a device has, where they are not drawn.
func (n *node) hostsText(before string) string {
	if n.hosts == 0 {
		return ""
	}
	return fmt.Sprintf("%s%d hosts", before, n.hosts)
}
