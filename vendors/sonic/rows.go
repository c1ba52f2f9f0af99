package sonic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vlanrules"
)

// The rows of P4RT_TABLE that are ours (orchagent/p4orch/p4orch_util.h has the
// words, acl_util.h the fields).
const (
	p4rtTable    = "P4RT_TABLE"
	definitions  = "ACL_TABLE_DEFINITION_TABLE"
	aclTable     = "ACL_CSIG_EGRESS_TABLE" // csig's alone: p4rt_app names its own after its P4 program
	setAction    = "csig_update"
	matchPort    = "match/out_port"
	matchVID     = "match/vlan_id"
	matchPCP     = "match/vlan_pri"
	keyPriority  = "priority"
	paramVID     = "param/vlan_id"
	definedTable = definitions + ":" + aclTable
)

// row is the fields of a row of a database.
type row map[string]string

// words are the names and values, as commands have them.
func (r row) words() (out []string) {
	for _, name := range sortedKeys(r) {
		out = append(out, name, r[name])
	}
	return out
}

// definition is the row that makes our ACL table: at egress, matching the egress
// port and the PCP and VID of the outer tag, setting its VID. SAI's attributes of
// a table are all CREATE_ONLY: a definition never changes in place.
type definition struct {
	size     int // entries
	priority int // among the tables of the stage
}

func (d definition) row() row {
	return row{
		"stage":               "EGRESS",
		"priority":            strconv.Itoa(d.priority),
		"size":                strconv.Itoa(d.size),
		matchPort:             `{"format":"STRING","kind":"sai_field","sai_field":"SAI_ACL_TABLE_ATTR_FIELD_OUT_PORT"}`,
		matchVID:              `{"bitwidth":12,"format":"HEX_STRING","kind":"sai_field","sai_field":"SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_ID"}`,
		matchPCP:              `{"bitwidth":3,"format":"HEX_STRING","kind":"sai_field","sai_field":"SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_PRI"}`,
		"action/" + setAction: `[{"action":"SAI_ACL_ENTRY_ATTR_ACTION_SET_OUTER_VLAN_ID","param":"vlan_id"}]`,
	}
}

// parseDefinition reads the row back; ok is false for any other one.
func parseDefinition(r row) (d definition, ok bool) {
	var err1, err2 error
	d.size, err1 = strconv.Atoi(r["size"])
	d.priority, err2 = strconv.Atoi(r["priority"])
	return d, err1 == nil && err2 == nil && maps.Equal(r, d.row())
}

// entryKey is the key of an entry's row below P4RT_TABLE: JSON with its keys in
// order and without spaces, as the writers of this table have it. p4orch itself
// knows an entry by its matches and priority, however the JSON is written.
func entryKey(port string, e *vlanrules.Entry) string {
	name, _ := json.Marshal(port) // a string always can
	b := append(make([]byte, 0, 160), aclTable+`:{"`+matchPort+`":`...)
	b = append(b, name...)
	if f := e.Match.VID; f.Kind == vlanrules.Ternary {
		b = append(b, `,"`+matchVID+`":"0x`...)
		b = append(hex3(b, f.Value), "&0x"...)
		b = append(hex3(b, f.Mask), '"')
	}
	if f := e.Match.PCP; f.Kind == vlanrules.Ternary {
		b = append(b, `,"`+matchPCP+`":"0x`...)
		b = append(strconv.AppendUint(b, uint64(f.Value), 16), "&0x"...)
		b = append(strconv.AppendUint(b, uint64(f.Mask), 16), '"')
	}
	b = append(b, `,"`+keyPriority+`":`...)
	return string(append(strconv.AppendInt(b, int64(priority(e)), 10), '}'))
}

// hex3 appends a value of 12 bits as three digits.
func hex3(b []byte, v uint16) []byte {
	const digits = "0123456789abcdef"
	return append(b, digits[v>>8&15], digits[v>>4&15], digits[v&15])
}

// priority is that of an entry in SAI, where more is higher and what two
// overlapping entries of one priority do is nowhere said: the more bits an entry
// tests, the higher it is. Those of one number of bits never overlap, unless they
// are of two layouts while one takes the place of the other: those of the UEC
// layout, which alone test the VID's last bit, come above all others.
func priority(e *vlanrules.Entry) int {
	mask := e.Match.VID.Mask
	return 10 + bits.OnesCount16(mask) + 16*int(mask&1)
}

// entryRow is an entry's row.
func entryRow(e *vlanrules.Entry) row {
	return row{"action": setAction, paramVID: fmt.Sprintf("0x%03x", e.VID)}
}

// rowsOf are the rows of a port's table.
func rowsOf(port string, t vlanrules.Table) map[string]row {
	out := make(map[string]row, len(t))
	for i := range t {
		out[entryKey(port, &t[i])] = entryRow(&t[i])
	}
	return out
}

// sameRows compares tables by what stands in their rows.
func sameRows(port string, a, b vlanrules.Table) bool {
	return maps.EqualFunc(rowsOf(port, a), rowsOf(port, b), maps.Equal[row, row])
}

// lowers tells why the table cannot be that of SONiC, "" where it can.
func lowers(t vlanrules.Table) string {
	for i := range t {
		e := &t[i]
		switch {
		case e.Type != vlanrules.RewriteVID:
			return "an entry does something else than setting the VID"
		case e.Match.DEI.Kind != vlanrules.Any || e.Match.VID.Kind == vlanrules.Range || e.Match.PCP.Kind == vlanrules.Range:
			return "an entry matches what the ACL table has no field for"
		case e.Priority != 0:
			return "an entry has a priority of its own"
		}
	}
	return ""
}

// parseEntry is the inverse of entryKey and entryRow: key is that of the row
// below P4RT_TABLE. The error says what we never write.
func parseEntry(key string, fields row) (port string, e vlanrules.Entry, err error) {
	text, ours := strings.CutPrefix(key, aclTable+":")
	if !ours {
		return "", e, errors.New("it is of another table")
	}
	dec := json.NewDecoder(strings.NewReader(text))
	var k struct {
		Port     string  `json:"match/out_port"`
		VID      string  `json:"match/vlan_id"`
		PCP      string  `json:"match/vlan_pri"`
		Priority *uint16 `json:"priority"`
	}
	dec.DisallowUnknownFields()
	if err := dec.Decode(&k); err != nil {
		return "", e, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return "", e, errors.New("there is more behind the key's JSON")
	}
	if k.Priority == nil || k.Port == "" {
		return "", e, errors.New("it has no priority or no egress port")
	}
	e = vlanrules.Entry{Type: vlanrules.RewriteVID}
	if e.Match.VID, err = parseTernary(k.VID, 3, 0xfff); err != nil {
		return "", e, fmt.Errorf("%s: %w", matchVID, err)
	}
	if e.Match.PCP, err = parseTernary(k.PCP, 1, 7); err != nil {
		return "", e, fmt.Errorf("%s: %w", matchPCP, err)
	}
	if len(fields) != 2 || fields["action"] != setAction {
		return "", e, errors.New("its action is not ours")
	}
	vid, err := parseHex(fields[paramVID], 3, 0xfff)
	if err != nil {
		return "", e, fmt.Errorf("%s: %w", paramVID, err)
	}
	if e.VID = vid; entryKey(k.Port, &e) != key {
		return "", e, errors.New("its key is written in another way than csig does")
	}
	return k.Port, e, nil
}

func parseTernary(text string, digits int, most uint16) (vlanrules.Field, error) {
	if text == "" {
		return vlanrules.Field{}, nil
	}
	v, m, two := strings.Cut(text, "&")
	if !two {
		return vlanrules.Field{}, errors.New("it has no mask")
	}
	value, err1 := parseHex(v, digits, most)
	mask, err2 := parseHex(m, digits, most)
	if err := errors.Join(err1, err2); err != nil {
		return vlanrules.Field{}, err
	}
	if mask == 0 || value&^mask != 0 {
		return vlanrules.Field{}, fmt.Errorf("%s: the mask does not cover the value", text)
	}
	return vlanrules.Field{Kind: vlanrules.Ternary, Value: value, Mask: mask}, nil
}

// parseHex reads p4orch's HEX_STRING: 0x, and one lower-case digit for each 4
// bits of the field (orchagent/p4orch/acl_util.h, Format).
func parseHex(text string, digits int, most uint16) (uint16, error) {
	h, ok := strings.CutPrefix(text, "0x")
	v, err := strconv.ParseUint(h, 16, 16)
	if !ok || err != nil || len(h) != digits || strings.ToLower(h) != h || uint16(v) > most {
		return 0, fmt.Errorf("%q is not 0x and %d hexadecimal digits", text, digits)
	}
	return uint16(v), nil
}

// sorted puts the rows of a port in the one order, so that IDs are given alike.
func sorted(t vlanrules.Table) vlanrules.Table {
	slices.SortStableFunc(t, func(a, b vlanrules.Entry) int {
		return cmp.Or(int(a.Match.PCP.Value)-int(b.Match.PCP.Value), int(a.Match.VID.Value)-int(b.Match.VID.Value), int(a.Match.VID.Mask)-int(b.Match.VID.Mask))
	})
	return t
}

// response is one answer of orchagent, to one row. Up to 202511 ResponsePublisher::publish sends, over a
// NotificationProducer, a JSON array of the status, the row's key, "err_str" and
// the message, and then the fields that were asked for, none for a deletion
// (orchagent/response_publisher.cpp; sonic-swss-common common/json.cpp).
type response struct {
	status StatusError // SWSS_RC_SUCCESS, or why not
	key    string
	fields row
}

// parseResponse reads one message of the response channel.
func parseResponse(msg []byte) (response, error) {
	var list []string
	dec := json.NewDecoder(bytes.NewReader(msg))
	if err := dec.Decode(&list); err != nil {
		return response{}, err
	}
	if len(list) < 4 || len(list)%2 != 0 || list[2] != "err_str" {
		return response{}, fmt.Errorf("%d words, without a status, a key and an err_str at their beginning", len(list))
	}
	fields := row{}
	for i := 4; i < len(list); i += 2 {
		fields[list[i]] = list[i+1]
	}
	return newResponse(list[0], list[1], list[3], fields), nil
}

func newResponse(status, key, message string, fields row) response {
	return response{status: StatusError{untrusted.Text(status, 64), untrusted.Text(message, 512)}, key: key, fields: fields}
}
