package sonicmq

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// What sonic-swss-common's own BinarySerializer::serializeBuffer makes of rows, as its header
// was compiled and run.
var (
	someRows = []Row{
		{Key: `T:{"priority":10}`, Fields: [][2]string{{"action", "csig_update"}, {"param/vlan_id", "0x7ff"}}},
		{Key: `T:{"priority":11}`},
	}
	someBytes = "0500000000000000" + "0700000000000000" + hex.EncodeToString([]byte("APPL_DB")) + "0a00000000000000" + hex.EncodeToString([]byte("P4RT_TABLE")) +
		"1100000000000000543a7b227072696f72697479223a31307d" + "010000000000000032" +
		"0600000000000000616374696f6e" + "0b00000000000000637369675f757064617465" +
		"0d00000000000000706172616d2f766c616e5f6964" + "05000000000000003078376666" +
		"1100000000000000543a7b227072696f72697479223a31317d" + "010000000000000030"
)

func TestMessage(t *testing.T) {
	b, err := Encode("APPL_DB", "P4RT_TABLE", someRows)
	if err != nil || hex.EncodeToString(b) != someBytes {
		t.Fatalf("%x, %v", b, err)
	}
	database, table, rows, err := Decode(b)
	if err != nil || database != "APPL_DB" || table != "P4RT_TABLE" || !reflect.DeepEqual(rows, someRows) {
		t.Errorf("%q %q %q, %v", database, table, rows, err)
	}
	if b, err := Encode("APPL_DB", "P4RT_TABLE", nil); err == nil {
		t.Errorf("no row: %x", b)
	}
	if _, err := Encode("APPL_DB", "P4RT_TABLE", []Row{{Key: strings.Repeat("x", MaxBody)}}); err == nil {
		t.Error("a row that is too long is sent")
	}
}

// TestWrongMessage: what is not exactly a message is none.
func TestWrongMessage(t *testing.T) {
	good, _ := hex.DecodeString(someBytes)
	set := func(at int, v uint64) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint64(b[at:], v)
		return b
	}
	count := bytes.Index(good, []byte{'2', 6})
	text := func(s string) []byte { b := bytes.Clone(good); copy(b[count:], s); return b }
	wrong := map[string][]byte{
		"nothing": nil, "a byte behind": append(bytes.Clone(good), 0),
		"no pair": set(0, 0), "no row": set(0, 1), "one pair less": set(0, 4), "one more": set(0, 6), "pairs without end": set(0, 1<<63),
		"a long database": set(8, 1<<63), "a text to the end": set(8, uint64(len(good)-16)), "one byte too long": set(8, uint64(len(good)-15)),
		"fields that are no number": text("x"), "more fields than pairs": text("5"), "less fields": text("0"),
		"too long": append(bytes.Clone(good), make([]byte, MaxBody)...),
	}
	for n := range good {
		wrong["cut at "+string(rune('0'+n%10))+hex.EncodeToString([]byte{byte(n)})] = good[:n]
	}
	for name, b := range wrong {
		if database, table, rows, err := Decode(b); !errors.Is(err, ErrProtocol) || database != "" || table != "" || rows != nil {
			t.Errorf("%s: %q %q %q, %v", name, database, table, rows, err)
		}
	}
}

// FuzzDecode: what is decoded is encoded as it was, and nothing else is taken.
func FuzzDecode(f *testing.F) {
	good, _ := hex.DecodeString(someBytes)
	f.Add(good)
	f.Add(good[:30])
	f.Add(make([]byte, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		database, table, rows, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrProtocol) {
				t.Errorf("%v", err)
			}
			return
		}
		again, err := Encode(database, table, rows)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%x is encoded as %x, %v", b, again, err)
		}
	})
}
