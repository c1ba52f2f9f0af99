package inventory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/quantize"
)

// Schema returns the JSON Schema (draft 2020-12) of a fleet file, for editors.
// It is made from the structs that the reader fills. It knows each key and the
// shape of its value; what takes two places of a file to judge, such as links
// with two ends, is for csig inventory check.
func Schema() []byte {
	top := keysOf[fileKeys]().schema()
	top.Schema = "https://json-schema.org/draft/2020-12/schema"
	top.Title = Format
	top.If, top.Then = alonePlatform()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(top); err != nil {
		panic(fmt.Sprintf("inventory: the schema is made of texts and numbers: %v", err))
	}
	return out.Bytes()
}

// alonePlatform says where a device needs a platform of its own, or groups: in a
// file that has the profile, includes none and has no platform in its defaults. In
// others it may be given elsewhere.
func alonePlatform() (where, then *schema) {
	elsewhere := &schema{AnyOf: []*schema{
		{Required: []string{"include"}},
		{Required: []string{"defaults"}, Properties: map[string]*schema{"defaults": {Required: []string{"platform"}}}},
	}}
	own := &schema{AnyOf: []*schema{{Required: []string{"platform"}}, {Required: []string{"groups"}}}}
	return &schema{Required: []string{"profile"}, Not: elsewhere}, &schema{Properties: map[string]*schema{"devices": {Items: own}}}
}

// schema is the part of JSON Schema that fleet files need.
type schema struct {
	Schema        string             `json:"$schema,omitempty"`
	Title         string             `json:"title,omitempty"`
	Description   string             `json:"description,omitempty"`
	Type          []string           `json:"type,omitempty"`
	Enum          []any              `json:"enum,omitempty"` // texts and numbers
	Pattern       string             `json:"pattern,omitempty"`
	Minimum       *int               `json:"minimum,omitempty"`
	Maximum       *int               `json:"maximum,omitempty"`
	Items         *schema            `json:"items,omitempty"`
	Properties    map[string]*schema `json:"properties,omitempty"`
	Required      []string           `json:"required,omitempty"`
	Additional    any                `json:"additionalProperties,omitempty"` // false, or the schema of keys that are not named
	MinProperties int                `json:"minProperties,omitempty"`
	MaxProperties int                `json:"maxProperties,omitempty"`
	AnyOf         []*schema          `json:"anyOf,omitempty"`
	Not           *schema            `json:"not,omitempty"`
	If            *schema            `json:"if,omitempty"`
	Then          *schema            `json:"then,omitempty"`
}

func (s *keySet) schema() *schema {
	out := s.mapping()
	if s.short != "" {
		return anyForm(s.key(s.short).kind.form(), out)
	}
	return out
}

func (s *keySet) mapping() *schema {
	out := &schema{Type: []string{"object"}, Description: s.doc, Properties: make(map[string]*schema), Additional: false}
	for _, k := range s.keys {
		one := k.kind.form()
		one.Description = k.doc
		out.Properties[k.name] = one
		if k.need {
			out.Required = append(out.Required, k.name)
		}
	}
	return out
}

func listForm(of *schema) *schema { return &schema{Type: []string{"array"}, Items: of} }

func mapForm(of *schema) *schema {
	return &schema{Type: []string{"object"}, Additional: of}
}

func anyForm(forms ...*schema) *schema { return &schema{AnyOf: forms} }

// textForm is one word or number: a device may be called 42.
func textForm(pattern string) *schema {
	return &schema{Type: []string{"string", "number"}, Pattern: pattern}
}

// wordForm is one of a set; a YAML reader makes numbers of some.
func wordForm(words ...string) *schema {
	s := &schema{}
	for _, w := range words {
		s.Enum = append(s.Enum, w)
		var number json.Number
		if json.Unmarshal([]byte(w), &number) == nil {
			s.Enum = append(s.Enum, number)
		}
	}
	return s
}

// numberForm is a whole number, also in quotes or hexadecimal.
func numberForm(least, most int) *schema {
	return &schema{Type: []string{"integer", "string"}, Pattern: wholeNumber.String(), Minimum: &least, Maximum: &most}
}

func speedForm() *schema { return textForm(`^[0-9.]+ *[A-Za-z/]+$`) }

func tpidForm() *schema {
	least, most := 0x600, 0xffff
	return &schema{Type: []string{"integer", "string"}, Pattern: hexNumber.String(), Minimum: &least, Maximum: &most}
}

// profileTPIDForm is a TPID that the profile can have: one that means nothing
// else.
func profileTPIDForm() *schema {
	taken := &schema{}
	for v := 0x600; v <= 0xffff; v++ {
		if (quantize.TPIDs{Compact: uint16(v)}).Validate() != nil {
			taken.Enum = append(taken.Enum, v, fmt.Sprintf("0x%04x", v), fmt.Sprintf("0x%04X", v))
		}
	}
	taken.Enum = slices.Compact(taken.Enum) // 0x0800 has no letters
	s := tpidForm()
	s.Not = taken
	return s
}

func stringForm(pattern string) *schema { return &schema{Type: []string{"string"}, Pattern: pattern} }

// lmForm is a number, or values of locator fields, or one of these for each
// signal.
func lmForm() *schema {
	word := textForm("")
	return anyForm(numberForm(1, int(quantize.Draft00.LMStale())-1), mapForm(anyForm(word, mapForm(word))))
}
