package gnmiset

import (
	"bytes"
	"fmt"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/openconfig/ygot/ygot"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/setuponly"
)

// Commands is the Set that Apply(want) sends to a device for which Observe returns have, a
// path and its value in a line, without csig's record.
func Commands(p setuponly.Platform, m *Model, have, want vendors.Setup) ([]byte, error) {
	edits, given, err := p.Edits(have, want)
	if err != nil || len(edits)+len(given) == 0 {
		return nil, err
	}
	req, err := m.request(&setuponly.Edit{Ports: edits}, nil)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("# one gNMI Set, with csig's record of what was there before\n")
	for _, path := range req.GetDelete() {
		if err := line(&b, "delete", path, nil); err != nil {
			return nil, err
		}
	}
	for _, u := range req.GetUpdate() {
		if err := line(&b, "update", u.GetPath(), u.GetVal().GetJsonIetfVal()); err != nil {
			return nil, err
		}
	}
	for _, port := range given {
		fmt.Fprintf(&b, "# %s: the TPID that it had before csig\n", port)
	}
	return b.Bytes(), nil
}

func line(b *bytes.Buffer, what string, path *pb.Path, value []byte) error {
	text, err := ygot.PathToString(path)
	if err != nil {
		return err
	}
	b.WriteString(what + " " + text)
	if value != nil {
		b.WriteString(" " + string(value))
	}
	b.WriteByte('\n')
	return nil
}
