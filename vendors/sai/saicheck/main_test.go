package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csig-agent/csig/vendors/sai"
)

// checked is what make sai-check printed of the headers of SAI 1.18.1.
const checked = "testdata/sai-1.18.1.txt"

// written makes headers in the form of SAI's that say what that text does, changed by edit.
func written(t *testing.T, edit func(string) string) string {
	t.Helper()
	text, err := os.ReadFile(checked)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "inc"), 0o700); err != nil {
		t.Fatal(err)
	}
	version, objects, attrs, enums := "", "", "", map[string]string{}
	for l := range strings.Lines(string(text)) {
		l = strings.TrimSpace(strings.TrimPrefix(l, "ok"))
		switch f := strings.Fields(l); {
		case f[0] == "SAI":
			v := strings.Split(f[1], ".")
			version = "#define SAI_MAJOR " + v[0] + "\n#define SAI_MINOR (" + v[1] + ")\n#define SAI_REVISION " + v[2] + "\n"
		case f[1] == "=":
			objects += "    " + f[0] + "  = " + f[2] + ",\n\n"
		case strings.Contains(f[0], "_ATTR_"):
			parts := strings.Split(strings.TrimPrefix(l, f[0]+" "), ", ")
			attrs += "    /**\n     * @brief One\n     *\n     * @type " + parts[0] + "\n     * @flags " + parts[1] + "\n"
			if def := strings.TrimPrefix(parts[2], "default "); def != "none" {
				attrs += "     * @default " + def + "\n"
			}
			attrs += "     */\n    " + f[0] + ",\n\n"
		default:
			_, unit, _ := strings.Cut(l, ", in ")
			number := ""
			if n := sai.Numbers[sai.Enum(f[1])]; n > 0 {
				number = fmt.Sprintf(" = %d", n)
			}
			enums[f[0]] += "    /** A value in " + unit + " */\n    " + f[1] + number + ",\n"
		}
	}
	all := map[string]string{
		"saiversion.h": version, "saitypes.h": "typedef enum _sai_object_type_t\n{\n" + objects + "} sai_object_type_t;\n",
		"saitam.h": "typedef enum _sai_attr_t\n{\n    SAI_START = 3 + 0x10,\n    SAI_MACRO = SAI_OTHER << 4, /* a comment */\n" + attrs + "} sai_attr_t;\n",
		"saiacl.h": "", "saiport.h": "", "saiswitch.h": "",
	}
	for name, values := range enums {
		all["saiacl.h"] += "typedef enum _" + name + "\n{\n" + values + "} " + name + ";\n"
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(dir, "inc", name), []byte(edit(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The committed result is of what package sai uses now, and every line of it is checked.
func TestChecked(t *testing.T) {
	want, err := os.ReadFile(checked)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	differ, err := run(&out, written(t, func(s string) string { return s }))
	if err != nil || differ != 0 || out.String() != string(want) {
		t.Errorf("%d differ, %v: what package sai uses is not what was checked; make sai-check SAI=DIR > vendors/sai/saicheck/%s\n%s", differ, err, checked, out.String())
	}
	for _, change := range [][2]string{
		{"sai_uint16_t", "sai_uint32_t"}, {"CREATE_AND_SET", "CREATE_ONLY"}, {"@default 128", "@default 64"},
		{"= 83", "= 84"}, {"bytes per second", "bits per second"}, {"CSIG_WIDE", "CSIG_EXPANDED"}, {"SAI_CSIG_SIGNAL_TYPE_ABW,", "SAI_OTHER,\n    SAI_CSIG_SIGNAL_TYPE_ABW,"},
		{"CSIG_COMPACT = 8", "CSIG_COMPACT = 7"},
	} {
		out.Reset()
		differ, err := run(&out, written(t, func(s string) string { return strings.ReplaceAll(s, change[0], change[1]) }))
		if err != nil || differ == 0 || !strings.Contains(out.String(), "DIFFERS") {
			t.Errorf("%s for %s: %d differ, %v", change[1], change[0], differ, err)
		}
	}
}

func TestNoHeaders(t *testing.T) {
	if _, err := run(&strings.Builder{}, t.TempDir()); err == nil {
		t.Error("a folder without headers is checked")
	}
	dir := written(t, func(s string) string { return s + strings.Repeat("\n", maxHeader) })
	if _, err := run(&strings.Builder{}, dir); err == nil {
		t.Error("huge headers are read")
	}
	h := &headers{values: map[string]value{}, version: map[string]string{}}
	if err := h.parse(strings.NewReader("typedef enum _x\n{\n what is this\n")); err == nil || !strings.HasPrefix(err.Error(), "3: ") {
		t.Errorf("not a header: %v", err)
	}
}
