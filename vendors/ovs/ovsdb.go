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

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/protocol/untrusted"
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
	maxMessage = 8<<20 - 1<<10 // bytes: the decoder doubles its buffer, which ends below 8 MiB
	maxRows    = 1 << 16       // of a table
	maxText    = 256           // bytes of a name, and of what it says of an error
)

func newDatabase(c net.Conn) database {
	limit := untrusted.NewReader(c, maxMessage)
	return database{c: c, limit: limit, dec: json.NewDecoder(limit)}
}

// receive reads the next message.
func (d *database) receive() (got response, err error) {
	d.limit.Reset(maxMessage)
	err = d.dec.Decode(&got)
	return got, err
}

func (d *database) close() error {
	if d.c == nil {
		return nil
	}
	err := d.c.Close()
	*d = database{} // the lock goes with the connection, and what was received of a message
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil // the caller that waited for an answer has reported it, here or through SSH
	}
	return err
}

// isOwn reports whether the bridge was made for csig: it stands between ports and a
// bridge that switches.
func (i *bridgeInfo) isOwn() bool { return len(i.partner) > 0 }

// bridgeInfo is what the database has about the bridge.
type bridgeInfo struct {
	version    string
	vlanLimit  int // as it works; 0: not limited
	datapath   string
	failMode   string
	partner    map[string][]patch  // of a port, the bridge's patch ports that are said to lead to it: one
	beyond     map[string]*portRow // the far ends of the patches of partner
	ports      []*portRow          // the bridge's, the one that bears its name among them
	loose      map[*portRow]int    // of a bridge that is csig's own, the VLANs of ports that NORMAL would join with others
	patchPeers []patchPeer         // of the bridge's patch ports, by their names
	tables     string              // the first one of csig's there, as it wrote it; "" where it has none
	writer     string              // who wrote into it that it programs the bridge
	held       bool                // we are the one that programs it
}

// bridgeRow is what the database has about a bridge.
type bridgeRow struct {
	Name     values `json:"name"`
	Datapath values `json:"datapath_type"`
	FailMode values `json:"fail_mode"`
	External values `json:"external_ids"`
	Ports    values `json:"ports"`
}

// switchRow is what it has about the switch.
type switchRow struct {
	Version values `json:"ovs_version"`
	Other   values `json:"other_config"`
}

// patchRow is what it has about a patch port's interface.
type patchRow struct {
	ID       values `json:"_uuid"`
	Name     values `json:"name"`
	External values `json:"external_ids"`
	Options  values `json:"options"`
	Number   values `json:"ofport"`
}

// patch is the patch as OpenFlow and csig know it.
func (r *patchRow) patch() patch {
	number, err := strconv.ParseUint(r.Number.one(), 10, 32)
	if err != nil || number >= ofp.PortMax { // -1 where it has none
		number = 0
	}
	return patch{r.Name.one(), uint32(number)}
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

// rows are those of a table, no more than maxRows: an empty one is three bytes here, and
// many in memory.
type rows[T any] []*T

func (r *rows[T]) UnmarshalJSON(text []byte) error {
	*r = nil
	var table struct {
		Rows json.RawMessage `json:"rows"`
	}
	if err := json.Unmarshal(text, &table); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(table.Rows))
	if open, err := dec.Token(); err != nil || open != json.Delim('[') {
		return errors.New("no rows")
	}
	for dec.More() {
		if len(*r) == maxRows {
			return fmt.Errorf("a table with more than %d rows", maxRows)
		}
		row := new(T)
		if err := dec.Decode(row); err != nil {
			return err
		}
		*r = append(*r, row)
	}
	return nil
}

// values are what a column has (RFC 7047, §5.1): an atom, those of a set, the name of a
// row, or the keys and values of a map in turn, as texts that are safe to print.
type values []string

func (v *values) UnmarshalJSON(text []byte) error {
	*v = nil
	var of [2]json.RawMessage
	var kind string
	if json.Unmarshal(text, &of) == nil {
		_ = json.Unmarshal(of[0], &kind) // what is no text is neither of these
	}
	list := []json.RawMessage{text}
	var err error
	switch kind {
	case "set":
		err = json.Unmarshal(of[1], &list)
	case "map":
		var pairs [][2]json.RawMessage
		err = json.Unmarshal(of[1], &pairs)
		list = list[:0]
		for i := range pairs {
			list = append(list, pairs[i][:]...)
		}
	}
	for _, one := range list {
		if err == nil {
			err = v.add(one)
		}
	}
	return err
}

// add appends an atom, or the name of a row.
func (v *values) add(text json.RawMessage) error {
	var row [2]string
	switch isRow := json.Unmarshal(text, &row) == nil; {
	case isRow && row[0] == "uuid":
		*v = append(*v, untrusted.Text(row[1], maxText))
		return nil
	case isRow, len(text) == 0, text[0] == '[', text[0] == '{':
		return errors.New("no value of a column")
	}
	atom := string(text) // of a number
	_ = json.Unmarshal(text, &atom)
	*v = append(*v, untrusted.Text(atom, maxText))
	return nil
}

// one is the only value, "" where there is not one.
func (v values) one() string {
	if len(v) != 1 {
		return ""
	}
	return v[0]
}

// get is the value of a map's key, "" where it is not there.
func (v values) get(key string) string {
	for i := 0; i+1 < len(v); i += 2 {
		if v[i] == key {
			return v[i+1]
		}
	}
	return ""
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
	var switches rows[switchRow]
	var bridges rows[bridgeRow]
	var ports rows[portRow]
	var patches rows[patchRow]
	result, err := d.call("transact", "Open_vSwitch",
		selectOp{Op: "select", Table: "Open_vSwitch", Where: [][3]any{}, Columns: []string{"ovs_version", "other_config"}},
		selectOp{Op: "select", Table: "Bridge", Where: [][3]any{}, Columns: []string{"name", "datapath_type", "fail_mode", "external_ids", "ports"}},
		selectOp{Op: "select", Table: "Port", Where: [][3]any{}, Columns: []string{"_uuid", "name", "interfaces", "vlan_mode", "tag", "trunks", "cvlans", "other_config", "external_ids"}},
		selectOp{Op: "select", Table: "Interface", Where: [][3]any{{"type", "==", "patch"}}, Columns: []string{"_uuid", "name", "external_ids", "options", "ofport"}},
	)
	if err != nil {
		return bridgeInfo{}, err
	}
	var got []json.RawMessage
	if err := json.Unmarshal(result, &got); err != nil || len(got) < 4 {
		return bridgeInfo{}, fmt.Errorf("the database refuses: %s", untrusted.Text(string(result[:min(len(result), maxText)]), maxText))
	}
	for i, to := range []any{&switches, &bridges, &ports, &patches} {
		if err := json.Unmarshal(got[i], to); err != nil {
			return bridgeInfo{}, fmt.Errorf("the database's answer: %w", err)
		}
	}
	at := slices.IndexFunc(bridges, func(b *bridgeRow) bool { return b.Name.one() == bridge })
	if at < 0 {
		return bridgeInfo{}, fmt.Errorf("%w %s: ovs-vsctl list-br shows those that there are", errNoBridge, bridge)
	}
	b := bridges[at]
	info := bridgeInfo{
		vlanLimit: 1, datapath: b.Datapath.one(), failMode: b.FailMode.one(), partner: map[string][]patch{}, beyond: map[string]*portRow{},
		writer: b.External.get(writerKey), tables: b.External.get(setupKey), held: d.lock == lockHeld,
	}
	if len(switches) > 0 {
		info.version = switches[0].Version.one()
		if limit, err := strconv.Atoi(switches[0].Other.get("vlan-limit")); err == nil {
			info.vlanLimit = limit
		}
	}
	here := map[string]bool{}
	for _, id := range b.Ports {
		here[id] = true
	}
	for _, p := range ports {
		if here[p.ID.one()] {
			info.ports = append(info.ports, p)
		}
	}
	info.readPatches(b, bridges, ports, patches)
	if info.isOwn() {
		info.loose, err = isolation(info.ports)
	}
	return info, err
}

// readPatches finds out where the patch ports of a bridge lead to.
func (i *bridgeInfo) readPatches(bridge *bridgeRow, bridges rows[bridgeRow], ports rows[portRow], patches rows[patchRow]) {
	whose := map[string]*bridgeRow{} // of a port
	for _, b := range bridges {
		for _, id := range b.Ports {
			whose[id] = b
		}
	}
	of := map[string]*portRow{} // of an interface
	for _, p := range ports {
		for _, id := range p.Interfaces {
			of[id] = p
		}
	}
	named := map[string]*portRow{} // of a patch's name
	for _, p := range patches {
		if port := of[p.ID.one()]; port != nil && whose[port.ID.one()] != nil {
			named[p.Name.one()] = port
		}
	}
	net := bridgeLinks{count: map[link]int{}, neighbors: map[*bridgeRow][]*bridgeRow{}}
	var ways []link // of i.patchPeers
	for _, p := range patches {
		near, far := named[p.Name.one()], named[p.Options.get("peer")]
		if near == nil {
			continue
		}
		l := link{from: whose[near.ID.one()]}
		partner := p.External.get(partnerKey)
		if far != nil {
			l.to = whose[far.ID.one()]
			net.add(l)
			if l.from == bridge {
				i.patchPeers = append(i.patchPeers, patchPeer{patch: p.patch(), isPartner: partner != "", lowRecircLimit: strings.HasPrefix(i.version, "2.8.")})
				ways = append(ways, l)
			}
		}
		if partner == "" || l.from != bridge {
			continue
		}
		i.partner[partner] = append(i.partner[partner], p.patch())
		if far != nil {
			i.beyond[far.Name.one()] = far
		}
	}
	for _, list := range i.partner {
		slices.SortFunc(list, func(a, b patch) int { return cmp.Compare(a.name, b.name) })
	}
	behind := map[link][]string{}
	for n, l := range ways {
		if _, known := behind[l]; !known {
			behind[l] = net.reachable(l)
		}
		i.patchPeers[n].next = behind[l]
	}
	slices.SortFunc(i.patchPeers, func(a, b patchPeer) int { return cmp.Compare(a.name, b.name) })
}

var errNoBridge = errors.New("there is no bridge")
