package openflow

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
)

// Commands is, as ovs-ofctl(8) writes flows, what a switch has after Apply(want) that
// Observe finds to be have: for a person to read, or to write with a controller of
// their own, from the last table to the first. It needs no device. The lease is the
// agent's and no part of it. Ports stand with their names, of which the flows have the
// numbers.
func Commands(cfg Config, have, want vendors.Setup) ([]byte, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	changes, err := Diff(have, want)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	pipe, err := newPipeline(cfg.Table, &want)
	if err != nil {
		return nil, &vendors.PermanentError{Err: err}
	}
	s := &state{portNames: newPortNames(nil), base: cfg.Table}
	for i, p := range want.Ports {
		s.names[uint32(i+1)] = p.Port // a number that stands for the port's
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# csig's flows are those whose cookie begins with %#x, in tables %d to %d: these, and\n# one that sends frames on for each port that is not here. The operator's own hand frames over:\n# write_metadata:PORT/%#x,goto_table:%d\n", uint64(cookie)>>32, cfg.Table, cfg.Table+tables-1, portMask, cfg.Table)
	for _, w := range s.constant(pipe) {
		fmt.Fprintf(&b, "%s\n", flowText(&w.flow, w.name))
	}
	return b.Bytes(), nil
}

// flowText is a flow as ovs-ofctl(8) takes it, with a port's name for its number.
func flowText(f *ofp.Flow, name string) string {
	parts := []string{fmt.Sprintf("cookie=%#x,table=%d,priority=%d", f.Cookie, f.Table, f.Priority)}
	m := &f.Match
	port := "{" + strings.NewReplacer("{", "", "}", "").Replace(name) + "}"
	switch {
	case m.Metadata.Mask == 0:
	case portOf(f) != 0:
		parts = append(parts, fmt.Sprintf("metadata=%s/%#x", port, portMask))
	default:
		parts = append(parts, fmt.Sprintf("metadata=%#x/%#x", m.Metadata.Value, m.Metadata.Mask))
	}
	if m.VIDMask != 0 {
		parts = append(parts, fmt.Sprintf("vlan_vid=%#04x/%#04x", m.VID, m.VIDMask))
	}
	if m.MatchPCP {
		parts = append(parts, fmt.Sprintf("vlan_pcp=%d", m.PCP))
	}
	var actions []string
	if text := f.Actions.Text(); text != "" {
		if number := portOf(f); number != 0 {
			text = strings.Replace(text, fmt.Sprintf("output:%d", number), "output:"+port, 1)
		}
		actions = append(actions, text)
	}
	if f.Goes {
		actions = append(actions, fmt.Sprintf("goto_table:%d", f.Goto))
	}
	if actions == nil {
		actions = []string{"drop"}
	}
	return strings.Join(parts, ",") + ",actions=" + strings.Join(actions, ",")
}
