package sai

import "fmt"

// stamp stands where recordings have the time, which saiplayer does not read: the same
// changes make the same text.
const stamp = "0000-00-00.00:00:00.000000"

// Record writes calls as lines of a recording of sairedis.
func Record(ops []Op) []byte {
	var out []byte
	for i := range ops {
		o := &ops[i].Object
		out = fmt.Appendf(out, "%s|%c|%s:%s", stamp, ops[i].Kind, o.Type, o.OID)
		for _, a := range o.Attrs {
			out = fmt.Appendf(out, "|%s=%s", a.Name, a.Value)
		}
		out = append(out, '\n')
	}
	return out
}
