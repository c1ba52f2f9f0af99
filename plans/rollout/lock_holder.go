package rollout

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// mark is set in the number of a byte that a csig locks for its process beside each
// byte that it locks for its open file: the kernel tells everybody who has the former.
const mark = 1 << 62

// markHolder names this process as the one that has a byte locked. Without that it is only
// not named, so that a failure does not matter.
func markHolder(f *os.File, at int64) {
	_ = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: at | mark, Len: 1})
}

// holderOf describes who has locked a byte of a file: "pid 7 (user ann, csig apply
// a.plan)". The kernel's own list goes before the mark, which anybody may set.
func holderOf(f *os.File, at int64) string {
	pid := lockedBy(f, at)
	if pid <= 0 {
		pid = listedHolder("/proc", f, at)
	}
	if pid <= 0 {
		pid = lockedBy(f, at|mark)
	}
	if pid <= 0 {
		return "a process of another user (root sees which: fuser -v " + f.Name() + ")"
	}
	return processText("/proc", pid)
}

// lockedBy is the process that has a byte for itself; 0 or less: none, or no process has it alone.
func lockedBy(f *os.File, at int64) int {
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}
	if unix.FcntlFlock(f.Fd(), unix.F_GETLK, &l) != nil || l.Type == unix.F_UNLCK {
		return 0
	}
	return int(l.Pid)
}

// maxListed is how much of the lists of open files is read, in bytes: any user may
// make them long.
const maxListed = 64 << 20

// listedHolder finds the process that has a byte locked in Linux's lists of open files,
// as far as they may be read; 0 for none.
func listedHolder(proc string, f *os.File, at int64) int {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return 0
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino) //nolint:unconvert // 32 bits on some systems
	left := int64(maxListed)
	processes, err := os.ReadDir(proc)
	if err != nil {
		return 0
	}
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		folder := filepath.Join(proc, p.Name(), "fdinfo")
		files, err := os.ReadDir(folder)
		if err != nil {
			continue
		}
		for _, name := range files {
			if left -= 256; left <= 0 { // the least that one costs
				return 0
			}
			if locks(filepath.Join(folder, name.Name()), file, at, &left) {
				return pid
			}
		}
	}
	return 0
}

// locks reports whether what /proc says of an open file has a lock on a byte of file.
func locks(info, file string, at int64, left *int64) bool {
	f, err := os.Open(info)
	if err != nil {
		return false
	}
	defer f.Close()
	limit := &io.LimitedReader{R: f, N: *left}
	defer func() { *left = limit.N }()
	for lines := bufio.NewScanner(limit); lines.Scan(); {
		// lock: 1: OFDLCK ADVISORY WRITE -1 00:1a:77 4 4
		w := strings.Fields(lines.Text())
		if len(w) != 9 || w[0] != "lock:" || w[2] != "OFDLCK" && w[2] != "POSIX" || w[6] != file {
			continue
		}
		from, err := strconv.ParseInt(w[7], 10, 64)
		to, e := strconv.ParseInt(w[8], 10, 64) // or EOF
		if err == nil && from <= at && (e != nil || at <= to) {
			return true
		}
	}
	return false
}

// processText names a process, and its user and command as far as they may be read.
func processText(proc string, pid int) string {
	folder := filepath.Join(proc, strconv.Itoa(pid))
	uid := ""
	for _, line := range strings.Split(head(filepath.Join(folder, "status")), "\n") {
		if w := strings.Fields(line); len(w) > 2 && w[0] == "Uid:" {
			uid = w[2] // the effective one
		}
	}
	var of []string
	if uid != "" {
		who := "uid " + uid
		if u, err := user.LookupId(uid); err == nil {
			who = "user " + untrusted.Text(u.Username, 40)
		}
		of = append(of, who)
	}
	command := strings.ReplaceAll(head(filepath.Join(folder, "cmdline")), "\x00", " ")
	if command = untrusted.Text(cmp.Or(command, head(filepath.Join(folder, "comm"))), 80); command != "" {
		of = append(of, command)
	}
	text := fmt.Sprintf("pid %d", pid)
	if len(of) > 0 {
		text += " (" + strings.Join(of, ", ") + ")"
	}
	return text
}

// head is the first of a file of /proc; "" where it may not be read.
func head(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 4<<10)) // part of it will do
	return string(text)
}
