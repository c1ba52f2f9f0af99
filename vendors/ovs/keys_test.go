package ovs

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestKeysAgreeWithTheDriver: the tables that a fleet file may name are those that
// the driver takes.
func TestKeysAgreeWithTheDriver(t *testing.T) {
	tag := func(name string) reflect.StructTag {
		f, _ := reflect.TypeFor[Keys]().FieldByName(name)
		return f.Tag
	}
	words := map[int]string{6: "six", 7: "seven"}
	if got, want := tag("Table").Get("range"), fmt.Sprintf("1 %d", maxTable); got != want {
		t.Errorf("tables %s, want %s", got, want)
	}
	if doc := tag("Table").Get("doc"); !strings.Contains(doc, words[tables]+" flow tables") {
		t.Errorf("the driver has %d tables: %s", tables, doc)
	}
	if got := tag("Table").Get("default"); got != fmt.Sprint(DefaultTable) {
		t.Errorf("begins at %s, want %d", got, DefaultTable)
	}
	if got := tag("RunDir").Get("default"); got != DefaultRunDir {
		t.Errorf("sockets in %s, want %s", got, DefaultRunDir)
	}
}
