package ovs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/vendors/ovs/openflow"
	"github.com/csig-agent/csig/vendors/untrusted"
)

// database asks ovsdb-server for the few things that OpenFlow does not tell
// (RFC 7047, §4.1.3 and §5.2).
type database struct {
	c     net.Conn
	limit *untrusted.Reader // of c
	dec   *json.Decoder     // of limit
	id    int
	lock  lockState // of the bridge
}

// What a message of the database's may have: that of a switch with ten thousand
// ports has less.
const (
	maxMessage = 8 << 20 // bytes
	maxDepth   = 32      // brackets within brackets
	maxRows    = 1 << 16 // of a table
	maxText    = 256     // bytes of a name, and of what it says of an error
)

func newDatabase(c net.Conn) database {
	limit := untrusted.NewReader(c, maxMessage)
	return database{c: c, limit: limit, dec: json.NewDecoder(limit)}
}

// receive reads the next message.
func (d *database) receive() (response, error) {
	var text json.RawMessage
	var got response
	d.limit.Reset(maxMessage)
	if err := d.dec.Decode(&text); err != nil {
		return got, err
	}
	if tooDeep(text) {
		return got, fmt.Errorf("its message has more than %d brackets within each other", maxDepth)
	}
	err := json.Unmarshal(text, &got)
	return got, err
}

// tooDeep looks at JSON before it is decoded, which takes time by its depth.
func tooDeep(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

func (d *database) close() error {
	if d.c == nil {
		return nil
	}
	err := d.c.Close()
	d.c, d.lock = nil, lockFree // it goes with the connection
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil // the caller that waited for an answer has reported it, here or through SSH
	}
	return err
}

// isOwn tells whether the bridge was made for csig: it stands between ports and a
// bridge that switches.
func (i *bridgeInfo) isOwn() bool { return len(i.partner) > 0 }

// bridgeInfo is what the database has about the bridge.
type bridgeInfo struct {
	version    string
	vlanLimit  int // as it works; 0: not limited
	datapath   string
	failMode   string
	partner    map[string][]patch     // of a port, the bridge's patch ports that are said to lead to it: one
	own        map[string]normalVLANs // of the bridge's ports, but for the one that bears its name
	beyond     map[string]normalVLANs // of the far ends of the patches of partner
	peersPush  string                 // which of those far ends put tags of CSIG's TPID on
	ports      []*portRow             // the bridge's, the one that bears its name among them
	loose      map[*portRow]int       // of a bridge that is csig's own, the VLANs of ports that NORMAL would join with others
	patchPeers []patchPeer            // of the bridge's patch ports, by their names
	tables     string                 // the first one of csig's there, as it wrote it; "" where it has none
	writer     string                 // who wrote into it that it programs the bridge
	held       bool                   // we are the one that programs it
}

// bridgeRow is what the database has about a bridge.
type bridgeRow struct {
	Name     printable `json:"name"`
	Datapath printable `json:"datapath_type"`
	FailMode optional  `json:"fail_mode"`
	External pairs     `json:"external_ids"`
	Ports    uuids     `json:"ports"`
}

// patch is a patch port of the bridge.
type patch struct {
	name   string // in full: OpenFlow has 15 bytes of it
	number uint32 // of OpenFlow; 0: it has none yet
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
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

type rows[T any] struct {
	Rows fewRows[T] `json:"rows"`
}

// fewRows takes no more rows than maxRows: an empty one is three bytes here, and
// many in memory.
type fewRows[T any] []T

func (r *fewRows[T]) UnmarshalJSON(text []byte) error {
	*r = nil
	dec := json.NewDecoder(bytes.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('[') {
		return errors.New("no rows")
	}
	for dec.More() {
		if len(*r) == maxRows {
			return fmt.Errorf("a table with more than %d rows", maxRows)
		}
		var row T
		if err := dec.Decode(&row); err != nil {
			return err
		}
		*r = append(*r, row)
	}
	return nil
}

// printable is a text of the database's, made safe to print.
type printable string

func (t *printable) UnmarshalJSON(text []byte) error {
	var s string
	err := json.Unmarshal(text, &s)
	*t = printable(untrusted.Text(s, maxText))
	return err
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
	var list [][2]printable
	if err := json.Unmarshal(outer[1], &list); err != nil {
		return err
	}
	for _, kv := range list {
		(*p)[string(kv[0])] = string(kv[1])
	}
	return nil
}

// optional is a text that may be missing: "x", or ["set", […]] with at most
// one.
type optional string

func (o *optional) UnmarshalJSON(text []byte) error {
	var s printable
	if json.Unmarshal(text, &s) == nil {
		*o = optional(s)
		return nil
	}
	*o = ""
	return nil
}

// uuids are names of rows: ["uuid", x], or ["set", [["uuid", x], …]].
type uuids []string

func (u *uuids) UnmarshalJSON(text []byte) error {
	*u = nil
	var outer [2]json.RawMessage
	var kind, one string
	var many []uuids
	err := json.Unmarshal(text, &outer)
	if err == nil {
		err = json.Unmarshal(outer[0], &kind)
	}
	switch {
	case err != nil:
		return err
	case kind == "uuid":
		err = json.Unmarshal(outer[1], &one)
		*u = uuids{one}
	case kind == "set":
		err = json.Unmarshal(outer[1], &many)
		*u = slices.Concat(many...)
	default:
		return errors.New("no names of rows")
	}
	return err
}

// one is the only name, "" where there is not one.
func (u uuids) one() string {
	if len(u) != 1 {
		return ""
	}
	return u[0]
}

// portNumber is a number of OpenFlow's, or ["set", []] or -1 where there is none
// yet.
type portNumber uint32

func (n *portNumber) UnmarshalJSON(text []byte) error {
	var v int64
	if json.Unmarshal(text, &v) != nil || v < 0 || v >= openflow.PortMax {
		v = 0
	}
	*n = portNumber(v)
	return nil
}

// during carries out what is asked of the database. When ctx ends the connection
// is closed.
func (d *database) during(ctx context.Context, f func() error) error {
	c := d.c // which may be another's, or none, by the time ctx ends
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	return f()
}

// call sends a request and returns its result. What the server says in between
// is answered, or noted.
func (d *database) call(method string, params ...any) (json.RawMessage, error) {
	d.id++
	if err := json.NewEncoder(d.c).Encode(request{Method: method, ID: d.id, Params: params}); err != nil {
		return nil, err
	}
	for {
		got, err := d.receive()
		if err != nil {
			return nil, err
		}
		switch {
		case got.Method == "echo":
			if err := json.NewEncoder(d.c).Encode(map[string]json.RawMessage{"id": got.ID, "result": got.Params, "error": json.RawMessage("null")}); err != nil {
				return nil, err
			}
		case got.Method == "stolen": // the only lock that we ask for
			d.lock = lockStolen
			// It would be ours again when the other one gives it up.
			if err := json.NewEncoder(d.c).Encode(map[string]any{"method": "unlock", "params": got.Params, "id": "stolen"}); err != nil {
				return nil, err
			}
		case got.Method == "" && string(got.ID) == strconv.Itoa(d.id):
			if e := string(got.Error); e != "" && e != "null" {
				return nil, fmt.Errorf("the database refuses %s: %s", method, untrusted.Text(e, maxText))
			}
			return got.Result, nil
		}
	}
}

// ask reads what there is to know about a bridge.
func (d *database) ask(bridge string) (bridgeInfo, error) {
	info := bridgeInfo{vlanLimit: 1, partner: map[string][]patch{}, own: map[string]normalVLANs{}, beyond: map[string]normalVLANs{}}
	result, err := d.call("transact", "Open_vSwitch",
		selectOp{Op: "select", Table: "Open_vSwitch", Where: [][3]any{}, Columns: []string{"ovs_version", "other_config"}},
		selectOp{Op: "select", Table: "Bridge", Where: [][3]any{}, Columns: []string{"name", "datapath_type", "fail_mode", "external_ids", "ports"}},
		selectOp{Op: "select", Table: "Port", Where: [][3]any{}, Columns: []string{"_uuid", "name", "interfaces", "vlan_mode", "tag", "trunks", "cvlans", "other_config", "external_ids"}},
		selectOp{Op: "select", Table: "Interface", Where: [][3]any{{"type", "==", "patch"}}, Columns: []string{"_uuid", "name", "external_ids", "options", "ofport"}},
	)
	if err != nil {
		return info, err
	}
	var got []json.RawMessage
	if err := json.Unmarshal(result, &got); err != nil || len(got) < 4 {
		return info, fmt.Errorf("the database refuses: %s", untrusted.Text(string(result[:min(len(result), maxText)]), maxText))
	}
	var sw rows[struct {
		Version optional `json:"ovs_version"`
		Other   pairs    `json:"other_config"`
	}]
	var br rows[bridgeRow]
	var ports rows[portRow]
	var ifs rows[struct {
		ID       uuids      `json:"_uuid"`
		Name     printable  `json:"name"`
		External pairs      `json:"external_ids"`
		Options  pairs      `json:"options"`
		Number   portNumber `json:"ofport"`
	}]
	for i, to := range []any{&sw, &br, &ports, &ifs} {
		if err := json.Unmarshal(got[i], to); err != nil {
			return info, fmt.Errorf("the database's answer: %w", err)
		}
	}
	at := slices.IndexFunc(br.Rows, func(b bridgeRow) bool { return string(b.Name) == bridge })
	if at < 0 {
		return info, fmt.Errorf("%w %s: ovs-vsctl list-br shows those that there are", errNoBridge, bridge)
	}
	if len(sw.Rows) > 0 {
		info.version = string(sw.Rows[0].Version)
		if limit, err := strconv.Atoi(sw.Rows[0].Other["vlan-limit"]); err == nil {
			info.vlanLimit = limit
		}
	}
	b := br.Rows[at]
	whose := map[string]*bridgeRow{} // of a port
	for i := range br.Rows {
		for _, id := range br.Rows[i].Ports {
			whose[id] = &br.Rows[i]
		}
	}
	info.datapath, info.failMode = string(b.Datapath), string(b.FailMode)
	info.writer, info.held, info.tables = b.External[writerKey], d.lock == lockHeld, b.External[setupKey]
	here := map[string]bool{}
	for _, id := range b.Ports {
		here[id] = true
	}
	of := map[string]*portRow{} // of an interface
	for i := range ports.Rows {
		p := &ports.Rows[i]
		for _, id := range p.Interfaces {
			of[id] = p
		}
		if !here[p.ID.one()] {
			continue
		}
		if info.ports = append(info.ports, p); string(p.Name) != bridge {
			info.own[string(p.Name)] = p.normalVLANs()
		}
	}
	named := map[string]*portRow{} // of a patch's name
	ends := map[string]*portRow{}
	for _, i := range ifs.Rows {
		named[string(i.Name)] = of[i.ID.one()]
	}
	links, neighbors := map[link]int{}, map[*bridgeRow][]*bridgeRow{}
	var ways []link // of info.far
	for _, i := range ifs.Rows {
		near := named[string(i.Name)]
		if far := named[i.Options["peer"]]; near != nil && far != nil && whose[near.ID.one()] != nil && whose[far.ID.one()] != nil {
			l := link{whose[near.ID.one()], whose[far.ID.one()]}
			if links[l]++; links[l] == 1 {
				neighbors[l.from] = append(neighbors[l.from], l.to)
			}
			if l.from == &br.Rows[at] {
				info.patchPeers = append(info.patchPeers, patchPeer{patch: patch{string(i.Name), uint32(i.Number)}, isPartner: i.External[partnerKey] != "", lowRecircLimit: strings.HasPrefix(info.version, "2.8.")})
				ways = append(ways, l)
			}
		}
		port := i.External[partnerKey]
		if port == "" || near == nil || !here[near.ID.one()] {
			continue
		}
		info.partner[port] = append(info.partner[port], patch{string(i.Name), uint32(i.Number)})
		if far := named[i.Options["peer"]]; far != nil {
			info.beyond[string(far.Name)], ends[string(far.Name)] = far.normalVLANs(), far
		}
	}
	for _, p := range info.partner {
		slices.SortFunc(p, func(a, b patch) int { return cmp.Compare(a.name, b.name) })
	}
	behind := map[link][]string{}
	for i, l := range ways {
		if _, known := behind[l]; !known {
			behind[l] = reachableBridges(links, neighbors, l)
		}
		info.patchPeers[i].next = behind[l]
	}
	slices.SortFunc(info.patchPeers, func(a, b patchPeer) int { return cmp.Compare(a.name, b.name) })
	info.peersPush = peersPushingCSIG(ends)
	if info.isOwn() {
		info.loose, err = isolation(info.ports)
	}
	return info, err
}

var errNoBridge = errors.New("there is no bridge")
