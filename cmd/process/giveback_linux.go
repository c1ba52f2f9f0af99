package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// unmapStart has the kernel unmap the pages of this program's own file, of which a start needs
// several times as many as what runs for years: those that are needed are mapped again.
func unmapStart() {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return // there is no /proc: they stay
	}
	defer f.Close()
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	for _, m := range unchanged(f, exe) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED) // where that fails they stay
	}
}

// mapping is a part of the memory of a process.
type mapping struct{ from, to uintptr }

// unchanged are the mappings of a file that cannot be written and are as the file is: no page of
// them is a copy, as those that a loader has relocated are.
func unchanged(smaps io.Reader, file string) (list []mapping) {
	var at mapping
	of := false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		var m mapping
		switch n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &m.from, &m.to); {
		case n == 2 && len(fields) >= 6:
			at, of = m, fields[1][1] == '-' && fields[1][3] == 'p' && strings.Join(fields[5:], " ") == file
		case n == 2:
			of = false
		case of && len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0":
			list = append(list, at)
		}
	}
	return list
}
