package openflow

import (
	"context"
	"strings"
	"testing"

	"github.com/csig-agent/csig/protocol/ofp"
)

// TestFewTables: what is advised to a switch without csig's tables is what it has.
func TestFewTables(t *testing.T) {
	for _, tc := range []struct {
		tables uint8
		want   string // "": it has them
	}{
		{0, ""}, // it does not say
		{13, ""},
		{12, "set management: {openflow: {table: 9}} or less"},
		{4, "set management: {openflow: {table: 1}} or less"},
		{3, "it needs 4, one of them the operator's: declare its forwarding"},
		{1, "it needs 4, one of them the operator's: declare its forwarding"},
	} {
		d, err := Open(Config{Connect: func(context.Context) (*ofp.Conn, error) {
			return &ofp.Conn{Datapath: ofp.Datapath{Tables: tc.tables}}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.connect(t.Context()); (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%d tables: %v", tc.tables, err)
		}
	}
}
