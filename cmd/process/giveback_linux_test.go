package process

import (
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestUnchanged(t *testing.T) {
	const smaps = `00400000-00f00000 r-xp 00000000 fe:00 77                         /usr/bin/csig (deleted)
Rss:                1000 kB
Anonymous:             0 kB
00f00000-01a00000 r--p 00b00000 fe:00 77                         /usr/bin/csig (deleted)
Anonymous:             0 kB
01a00000-01a10000 r--p 01600000 fe:00 77                         /usr/bin/csig (deleted)
Anonymous:            64 kB
01a10000-01b00000 rw-p 01610000 fe:00 77                         /usr/bin/csig (deleted)
Anonymous:             0 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f0000000000-7f0000001000 r--p 00000000 fe:00 78                 /usr/bin/csig
Anonymous:             0 kB
7f0000001000-7f0000002000 r--s 00000000 fe:00 77                 /usr/bin/csig (deleted)
Anonymous:             0 kB
7ffc00000000-7ffc00001000 r-xp 00000000 00:00 0                  [vdso]
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0xf00000}, {0xf00000, 0x1a00000}}
	if got := unchanged(strings.NewReader(smaps), "/usr/bin/csig (deleted)"); !reflect.DeepEqual(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// TestGiveBack: pages that a program has read of its own file are given back, and are there again
// when they are needed.
func TestGiveBack(t *testing.T) {
	file := func() int {
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		kib, err := strconv.Atoi(string(regexp.MustCompile(`RssFile:\s+(\d+)`).FindSubmatch(text)[1]))
		if err != nil {
			t.Fatal(err)
		}
		return kib
	}
	before := file()
	GiveBack()
	if after := file(); after >= before {
		t.Errorf("%d KiB of files are mapped, and %d were", after, before)
	}
}
