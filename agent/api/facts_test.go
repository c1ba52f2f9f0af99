package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// fill gives every field a value of its own, so that one that does not travel
// is noticed, also one that is new.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint16:
		v.SetUint(uint64(*n))
	case reflect.Uint8: // levels, kinds and the like
		v.SetUint(uint64(1 + *n%2))
	default:
		panic("a kind that facts did not have: " + v.Kind().String())
	}
}

func TestFactsTravelWhole(t *testing.T) {
	var full vendors.Facts
	n := 0
	fill(reflect.ValueOf(&full).Elem(), &n)
	plain := vendors.Facts{TagDepths: []vlanrules.Verdict{{}}, Rules: vlanrules.Caps{Match: vlanrules.MatchExact, Txn: vlanrules.TxnTable}}
	for _, f := range []vendors.Facts{full, plain} {
		out := FactsOf(f)
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "null") {
			t.Errorf("a list is null: %s", text)
		}
		var in Facts
		if err := json.Unmarshal(text, &in); err != nil {
			t.Fatal(err)
		}
		got := in.Facts
		f = FactsOf(f).Facts
		if again, err := json.Marshal(FactsOf(got)); err != nil || string(again) != string(text) {
			t.Errorf("sent again: %v\n%s\n%s", err, text, again)
		}
		if !f.Traits.VLANs.Known() { // lists of nothing come back as empty ones
			got.Traits = f.Traits
		}
		if !reflect.DeepEqual(got, f) {
			t.Errorf("sent  %+v\nreceived %+v", f, got)
		}
	}
}

func TestFactsOfAnotherVersion(t *testing.T) {
	good, err := json.Marshal(FactsOf(vendors.Facts{TagDepths: []vlanrules.Verdict{{}}}))
	if err != nil {
		t.Fatal(err)
	}
	for name, word := range map[string]string{"match": `"match":"range"`, "transaction": `"transaction":"table"`, "level": `"level":"full"`, "depth": `"tag_depths":[{"level":"full"`} {
		i := strings.LastIndex(word, ":")
		text := strings.Replace(string(good), word, word[:i]+`:"fuzzy"`, 1)
		var f Facts
		if err := json.Unmarshal([]byte(text), &f); text == string(good) || err == nil || !strings.Contains(err.Error(), `"fuzzy"`) {
			t.Errorf("%s: %v of %s", name, err, text)
		}
	}
}
