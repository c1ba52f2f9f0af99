package tcp

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/probe"
)

// TestDissector has Wireshark read the option, by docs/csig.lua.
func TestDissector(t *testing.T) {
	lua, err := filepath.Abs("../../docs/csig.lua")
	if err != nil {
		t.Fatal(err)
	}
	stamps := "\x01\x01\x08\x0a\x00\x00\x00\x01\x00\x00\x00\x02"
	for kind, rows := range map[string][]struct{ flags, options, want string }{
		"253": {
			{"\x02", "\xfd\x04\xc5\x16", "253 4 0xc516   "},
			{"\x10", stamps + "\x01\x01\xfd\x06\xc5\x16\x22\x91", "253 6 0xc516 1 5 17"},
			{"\x10", "\xfd\x06\xc5\x16\x0f\xfe\x01\x01", "253 6 0xc516 0 31 126"},
			{"\x10", "\xfd\x06\xc5\x17\x22\x91\x01\x01", "     "}, // another experiment's
			{"\x10", "\xfd\x07\xc5\x16\x22\x91\x00\x01", "     "}, // of another length
			{"\x10", "\x01\x01\xfd\x08\xc5\x16\x22\x91", "     "}, // longer than what is there
			{"\x10", "\x01\x01\x01\xfd", "     "},
			{"\x10", "\xfd\x01\xc5\x16", "     "},
			{"\x10", "\x00\xfd\x04\xc5", "     "}, // behind the end of the list
		},
		"200": {
			{"\x02", "\xc8\x02\x01\x01", "200 2    "},
			{"\x10", "\xc8\x04\x22\x91", "200 4  1 5 17"},
			{"\x10", "\xfd\x06\xc5\x16\x22\x91\x01\x01", "     "},
		},
	} {
		var file bytes.Buffer
		w, err := probe.NewCapture(&file)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			seg := append([]byte{0x14, 0x51, 0x14, 0x51, 0, 0, 0, 1, 0, 0, 0, 1, byte(20+len(row.options)) / 4 << 4, row.flags[0], 1, 0, 0, 0, 0, 0}, row.options...)
			ip := append([]byte{0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0}, append(net.IPv4(10, 0, 0, 1).To4(), net.IPv4(10, 0, 0, 2).To4()...)...)
			binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+len(seg)))
			frame := append(append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0}, ip...), seg...)
			if err := w.Write(time.Unix(1700000000, 0), frame); err != nil {
				t.Fatal(err)
			}
		}
		name := filepath.Join(t.TempDir(), "tcp.pcap")
		if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"-X", "lua_script:" + lua, "-o", "csig_option.kind:" + kind, "-r", name, "-T", "fields", "-E", "separator= "}
		for _, f := range []string{"csig_option.kind", "csig_option.length", "csig_option.exid", "csig.t", "csig.s", "csig.lm"} {
			args = append(args, "-e", f)
		}
		cmd := exec.Command("tshark", args...)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil || strings.Contains(said.String(), "Lua") {
			t.Fatalf("%v: %s", err, said.String())
		}
		got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		if len(got) != len(rows) {
			t.Fatalf("%d lines, want %d:\n%s%s", len(got), len(rows), out, said.String())
		}
		for i, row := range rows {
			if strings.TrimSpace(got[i]) != strings.TrimSpace(row.want) {
				t.Errorf("kind %s, %q: got %q, want %q", kind, row.options, got[i], row.want)
			}
		}
	}
}
