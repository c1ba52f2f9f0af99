package ovs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
)

// database asks ovsdb-server for the few things that OpenFlow does not tell
// (RFC 7047, §4.1.3 and §5.2).
type database struct {
	c   net.Conn
	dec *json.Decoder
	id  int
}

func (d *database) close() error {
	if d.c == nil {
		return nil
	}
	err := d.c.Close()
	d.c = nil
	return err
}

// bridgeInfo is what the database has about the bridge.
type bridgeInfo struct {
	version    string
	vlanLimit  int // as it works; 0: not limited
	datapath   string
	failMode   string
	controlled bool              // it has an OpenFlow controller
	partner    map[string]string // of a port, the patch port that leads to it
}

// partnerKey is the key of a patch port's external_ids that names the port
// whose frames it brings.
const partnerKey = "csig-port"

type selectOp struct {
	Op      string   `json:"op"`
	Table   string   `json:"table"`
	Where   [][3]any `json:"where"`
	Columns []string `json:"columns"`
}

type request struct {
	Method string `json:"method"`
	Params []any  `json:"params"`
	ID     int    `json:"id"`
}

type response struct {
	Method string            `json:"method"`
	Params json.RawMessage   `json:"params"`
	ID     json.RawMessage   `json:"id"`
	Result []json.RawMessage `json:"result"`
	Error  json.RawMessage   `json:"error"`
}

type rows[T any] struct {
	Rows    []T    `json:"rows"`
	Error   string `json:"error"`
	Details string `json:"details"`
}

// pairs is a map of the database: ["map", [[key, value], …]].
type pairs map[string]string

func (p *pairs) UnmarshalJSON(text []byte) error {
	*p = pairs{}
	var outer []json.RawMessage
	if err := json.Unmarshal(text, &outer); err != nil {
		return err
	}
	if len(outer) != 2 {
		return errors.New("not a map")
	}
	var list [][2]string
	if err := json.Unmarshal(outer[1], &list); err != nil {
		return err
	}
	for _, kv := range list {
		(*p)[kv[0]] = kv[1]
	}
	return nil
}

// optional is a text that may be missing: "x", or ["set", […]] with at most
// one.
type optional string

func (o *optional) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		*o = optional(s)
		return nil
	}
	*o = ""
	return nil
}

// ask reads what there is to know about a bridge. ctx bounds it.
func (d *database) ask(ctx context.Context, bridge string) (bridgeInfo, error) {
	info := bridgeInfo{vlanLimit: 1, partner: map[string]string{}}
	stop := context.AfterFunc(ctx, func() { d.c.Close() })
	defer stop()
	d.id++
	err := json.NewEncoder(d.c).Encode(request{Method: "transact", ID: d.id, Params: []any{"Open_vSwitch",
		selectOp{Op: "select", Table: "Open_vSwitch", Where: [][3]any{}, Columns: []string{"ovs_version", "other_config"}},
		selectOp{Op: "select", Table: "Bridge", Where: [][3]any{{"name", "==", bridge}}, Columns: []string{"datapath_type", "fail_mode", "controller"}},
		selectOp{Op: "select", Table: "Interface", Where: [][3]any{{"type", "==", "patch"}}, Columns: []string{"name", "external_ids"}},
	}})
	if err != nil {
		return info, err
	}
	var got response
	for {
		got = response{}
		if err := d.dec.Decode(&got); err != nil {
			return info, err
		}
		if got.Method == "echo" {
			if err := json.NewEncoder(d.c).Encode(map[string]json.RawMessage{"id": got.ID, "result": got.Params, "error": json.RawMessage("null")}); err != nil {
				return info, err
			}
			continue
		}
		if string(got.ID) == strconv.Itoa(d.id) {
			break
		}
	}
	if len(got.Result) < 3 {
		return info, fmt.Errorf("the database refuses: %s", got.Error)
	}
	var sw rows[struct {
		Version optional `json:"ovs_version"`
		Other   pairs    `json:"other_config"`
	}]
	var br rows[struct {
		Datapath   string          `json:"datapath_type"`
		FailMode   optional        `json:"fail_mode"`
		Controller json.RawMessage `json:"controller"`
	}]
	var ifs rows[struct {
		Name     string `json:"name"`
		External pairs  `json:"external_ids"`
	}]
	for i, to := range []any{&sw, &br, &ifs} {
		if err := json.Unmarshal(got.Result[i], to); err != nil {
			return info, fmt.Errorf("the database's answer: %w", err)
		}
	}
	if len(br.Rows) == 0 {
		return info, fmt.Errorf("%w %s: ovs-vsctl list-br shows those that there are", errNoBridge, bridge)
	}
	if len(sw.Rows) > 0 {
		info.version = string(sw.Rows[0].Version)
		if limit, err := strconv.Atoi(sw.Rows[0].Other["vlan-limit"]); err == nil {
			info.vlanLimit = limit
		}
	}
	b := br.Rows[0]
	info.datapath, info.failMode = b.Datapath, string(b.FailMode)
	info.controlled = string(b.Controller) != `["set",[]]`
	for _, i := range ifs.Rows {
		if port := i.External[partnerKey]; port != "" {
			info.partner[port] = i.Name
		}
	}
	return info, nil
}

var errNoBridge = errors.New("there is no bridge")
