package sonictest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
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

const (
	fieldPort = "SAI_ACL_TABLE_ATTR_FIELD_OUT_PORT"
	fieldVID  = "SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_ID"
	fieldPCP  = "SAI_ACL_TABLE_ATTR_FIELD_OUTER_VLAN_PRI"
	setVID    = "SAI_ACL_ENTRY_ATTR_ACTION_SET_OUTER_VLAN_ID"
)

// widths are those of SAI's fields; 0 is a text.
var widths = map[string]int{fieldPort: 0, fieldVID: 12, fieldPCP: 3}

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
	t := &table{match: map[string]string{}, bits: map[string]int{}, actions: map[string]string{}, entries: map[string]*entry{}}
	given := map[string]bool{}
	for _, field := range slices.Sorted(maps.Keys(row)) {
		value := row[field]
		kind, name, _ := strings.Cut(field, "/")
		var err error
		switch {
		case field == "stage":
			if value != "EGRESS" {
				err = fmt.Errorf("stage %q: csig's table is at EGRESS", value)
			}
		case field == "priority":
			t.priority, err = decimal(value)
		case field == "size":
			t.size, err = decimal(value)
		case kind == "match" && name != "":
			err = t.defineMatch(name, value)
		case kind == "action" && name != "":
			err = t.defineAction(name, value)
		default:
			err = errors.New("unknown field")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		given[field] = true
	}
	for _, f := range []string{"stage", "priority", "size"} {
		if !given[f] {
			return nil, fmt.Errorf("%s is missing", f)
		}
	}
	if t.size <= 0 || len(t.match) == 0 || len(t.actions) == 0 {
		return nil, errors.New("a table without room, matches or actions")
	}
	return t, nil
}

func (t *table) defineMatch(name, text string) error {
	var m struct {
		Kind     string `json:"kind"`
		Format   string `json:"format"`
		SAIField string `json:"sai_field"`
		Bitwidth *int   `json:"bitwidth"`
	}
	if err := strict(text, &m); err != nil {
		return err
	}
	width, known := widths[m.SAIField]
	switch {
	case m.Kind != "sai_field":
		return fmt.Errorf("kind %q", m.Kind)
	case !known:
		return fmt.Errorf("%s is not supported", m.SAIField)
	case width == 0 && (m.Format != "STRING" || m.Bitwidth != nil):
		return fmt.Errorf("format %q, which has to be STRING, without a bitwidth", m.Format)
	case width > 0 && (m.Format != "HEX_STRING" || m.Bitwidth == nil || *m.Bitwidth != width):
		return fmt.Errorf("format %q, which has to be HEX_STRING of %d bits", m.Format, width)
	}
	for other, field := range t.match {
		if field == m.SAIField {
			return fmt.Errorf("%s is match/%s already", field, other)
		}
	}
	t.match[name], t.bits[name] = m.SAIField, width
	return nil
}

// decimal reads a number that is not negative, and nothing behind it.
func decimal(text string) (int, error) {
	v, err := strconv.ParseUint(text, 10, 31)
	return int(v), err
}

func (t *table) defineAction(name, text string) error {
	var list []struct {
		Action string `json:"action"`
		Param  string `json:"param"`
	}
	if err := strict(text, &list); err != nil {
		return err
	}
	if len(list) != 1 || list[0].Action != setVID || list[0].Param == "" {
		return errors.New("one action that sets the outer VID is expected")
	}
	t.actions[name] = list[0].Param
	return nil
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

// rule interprets an entry's key and fields; canonical is the key by which P4Orch
// knows it, however its JSON is written. known tells which ports there are.
func (t *table) rule(key string, row map[string]string, known map[string]bool) (canonical string, e *entry, status string, err error) {
	var raw map[string]json.RawMessage
	dec := json.NewDecoder(strings.NewReader(key))
	if err := dec.Decode(&raw); err != nil {
		return "", nil, invalid, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return "", nil, invalid, errors.New("there is more behind the key")
	}
	e = &entry{}
	matched := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if name == "priority" {
			if err := json.Unmarshal(raw[name], &e.priority); err != nil || e.priority == 0 {
				return "", nil, invalid, fmt.Errorf("priority %s", raw[name])
			}
			continue
		}
		var value string
		field, ok := strings.CutPrefix(name, "match/")
		if err := json.Unmarshal(raw[name], &value); err != nil || !ok || t.match[field] == "" {
			return "", nil, invalid, fmt.Errorf("unknown match %s: %s", name, raw[name])
		}
		matched[t.match[field]] = true
		if status, err := e.match(t.match[field], t.bits[field], value, known); err != nil {
			return "", nil, status, fmt.Errorf("%s: %w", name, err)
		}
	}
	if e.priority == 0 {
		return "", nil, invalid, errors.New("the entry is missing priority")
	}
	if !matched[fieldPort] {
		return "", nil, invalid, errors.New("csig's entries are of one port")
	}
	canonical = fmt.Sprintf("%s/%03x&%03x/%x&%x/%d", e.port, e.vid, e.vidMask, e.pcp, e.pcpMask, e.priority)
	if row == nil {
		return canonical, e, success, nil
	}
	param, ok := t.actions[row["action"]]
	if !ok {
		return "", nil, invalid, fmt.Errorf("invalid action %q", row["action"])
	}
	for field := range row {
		if field != "action" && field != "param/"+param {
			return "", nil, invalid, fmt.Errorf("unknown field %s", field)
		}
	}
	if e.set, err = hex(row["param/"+param], 12); err != nil {
		return "", nil, invalid, err
	}
	if e.set == 0 || e.set == 4095 {
		return "", nil, invalid, fmt.Errorf("SAI takes no VID %d", e.set)
	}
	return canonical, e, success, nil
}

func (e *entry) match(field string, bits int, value string, known map[string]bool) (status string, err error) {
	if field == fieldPort {
		// Of an aggregate P4Orch would give SAI no object at all
		// (acl_rule_manager.cpp, setMatchValue: m_port_id).
		if e.port = value; !known[value] {
			return notFound, fmt.Errorf("failed to locate port %q", value)
		}
		return success, nil
	}
	v, m, two := strings.Cut(value, "&")
	if !two {
		return invalid, fmt.Errorf("%q has no mask", value)
	}
	val, err1 := hex(v, bits)
	mask, err2 := hex(m, bits)
	if err := errors.Join(err1, err2); err != nil {
		return invalid, err
	}
	if mask == 0 || val&^mask != 0 {
		return invalid, fmt.Errorf("%q: bad mask", value)
	}
	if field == fieldVID {
		e.vid, e.vidMask = val, mask
	} else {
		e.pcp, e.pcpMask = uint8(val), uint8(mask)
	}
	return success, nil
}
