package sonictest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strconv"
	"strings"
)

// The statuses of orchagent/return_code.h that the fake gives.
const (
	success       = "SWSS_RC_SUCCESS"
	invalid       = "SWSS_RC_INVALID_PARAM"
	notFound      = "SWSS_RC_NOT_FOUND"
	full          = "SWSS_RC_FULL"
	unimplemented = "SWSS_RC_UNIMPLEMENTED"
	notExecuted   = "SWSS_RC_NOT_EXECUTED"
)

// What a table has to match, and its one action, in the words of
// ACL_TABLE_DEFINITION_TABLE: the fake takes tables of csig's shape alone.
var matches = map[string]string{
	"match/out_port": `{"format":"STRING","kind":"sai_field","sai_field":"SAI_ACL_TABLE_ATTR_FIELD_OUT_PORT"}`,
	"match/vlan_id":  `{"bitwidth":12,"format":"HEX_STRING","kind":"sai_field","sai_field":"SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_ID"}`,
	"match/vlan_pri": `{"bitwidth":3,"format":"HEX_STRING","kind":"sai_field","sai_field":"SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_PRI"}`,
}

const setVID = `[{"action":"SAI_ACL_ENTRY_ATTR_ACTION_SET_OUTER_VLAN_ID","param":"vlan_id"}]`

// strict decodes JSON without unknown keys and without anything behind it.
func strict(text string, into any) error {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind it")
	}
	return nil
}

// define interprets a row of ACL_TABLE_DEFINITION_TABLE.
func define(row map[string]string) (*table, error) {
	t := &table{entries: map[string]*entry{}}
	left := maps.Clone(row)
	take := func(field string) string {
		defer delete(left, field)
		return left[field]
	}
	if stage := take("stage"); stage != "EGRESS" {
		return nil, fmt.Errorf("stage %q: csig's table is at EGRESS", stage)
	}
	_, err1 := strconv.ParseUint(take("priority"), 10, 31)
	size, err2 := strconv.ParseUint(take("size"), 10, 31)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if size == 0 {
		return nil, errors.New("a table without room")
	}
	t.size = int(size)
	for field, want := range matches {
		if got := take(field); got != want {
			return nil, fmt.Errorf("%s: %s", field, got)
		}
	}
	for field, value := range left {
		name, is := strings.CutPrefix(field, "action/")
		if !is || value != setVID || t.action != "" {
			return nil, fmt.Errorf("%s: %s", field, value)
		}
		t.action = name
	}
	if t.action == "" {
		return nil, errors.New("a table without an action")
	}
	return t, nil
}

var hexDigits = regexp.MustCompile(`^0x[0-9a-f]+$`)

// hex reads a HEX_STRING of so many bits.
func hex(text string, bits int) (uint16, error) {
	if !hexDigits.MatchString(text) || len(text) != 2+(bits+3)/4 {
		return 0, fmt.Errorf("%q is not 0x and %d lower-case digits", text, (bits+3)/4)
	}
	v, err := strconv.ParseUint(text[2:], 16, 16)
	if err != nil || v >= 1<<bits {
		return 0, fmt.Errorf("%q does not fit %d bits", text, bits)
	}
	return uint16(v), nil
}

// ternary reads a value and its mask; nil is none.
func ternary(text *string, bits int) (value, mask uint16, err error) {
	if text == nil {
		return 0, 0, nil
	}
	v, m, _ := strings.Cut(*text, "&")
	value, err1 := hex(v, bits)
	mask, err2 := hex(m, bits)
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, err
	}
	if mask == 0 || value&^mask != 0 {
		return 0, 0, fmt.Errorf("%q: bad mask", *text)
	}
	return value, mask, nil
}

// rule interprets an entry's key and fields; canonical is the key by which P4Orch
// knows it, however its JSON is written. known tells which ports there are.
func (t *table) rule(key string, row map[string]string, known map[string]bool) (canonical string, e *entry, status string, err error) {
	var k struct {
		Port     string  `json:"match/out_port"`
		VID      *string `json:"match/vlan_id"`
		PCP      *string `json:"match/vlan_pri"`
		Priority uint32  `json:"priority"`
	}
	if err := strict(key, &k); err != nil {
		return "", nil, invalid, err
	}
	e = &entry{port: k.Port, priority: k.Priority}
	var err1, err2 error
	e.vid, e.vidMask, err1 = ternary(k.VID, 12)
	e.pcp, e.pcpMask, err2 = ternary(k.PCP, 3)
	switch err := errors.Join(err1, err2); {
	case err != nil:
		return "", nil, invalid, err
	case e.priority == 0:
		return "", nil, invalid, errors.New("the entry is missing priority")
	case e.port == "":
		return "", nil, invalid, errors.New("csig's entries are of one port")
	case !known[e.port]:
		// Of an aggregate P4Orch would give SAI no object at all
		// (acl_rule_manager.cpp, setMatchValue: m_port_id).
		return "", nil, notFound, fmt.Errorf("failed to locate port %q", e.port)
	}
	canonical = fmt.Sprintf("%s/%03x&%03x/%x&%x/%d", e.port, e.vid, e.vidMask, e.pcp, e.pcpMask, e.priority)
	if row == nil {
		return canonical, e, success, nil
	}
	e.set, err = hex(row["param/vlan_id"], 12)
	switch {
	case err != nil:
		return "", nil, invalid, err
	case row["action"] != t.action || len(row) != 2:
		return "", nil, invalid, fmt.Errorf("action %q with %d fields", row["action"], len(row))
	case e.set == 0 || e.set == 4095:
		return "", nil, invalid, fmt.Errorf("SAI takes no VID %d", e.set)
	}
	return canonical, e, success, nil
}
