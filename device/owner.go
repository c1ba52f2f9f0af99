package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// LoadFleet reads a fleet file by which devices are opened. It names programs that
// csig runs and devices that it logs in to: a *ForeignError is that another user owns
// or may write it, or a file that it includes.
func LoadFleet(path string) (*inventory.Fleet, error) {
	if err := CheckOwner(path); err != nil {
		return nil, err
	}
	fleet, err := inventory.Load(path)
	if err != nil {
		return nil, err
	}
	return fleet, CheckOwners(fleet)
}

// CheckOwners is CheckOwner for all files that a fleet was read from.
func CheckOwners(fleet *inventory.Fleet) error {
	for _, file := range fleet.Files() {
		if err := CheckOwner(file); err != nil {
			return err
		}
	}
	return nil
}

// CheckOwner returns a *ForeignError for a file that another user than root and the
// caller owns, may write or may replace. A file that does not exist is no error.
func CheckOwner(path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	users := map[uint32]bool{0: true, uint32(os.Geteuid()): true}
	if uid, err := strconv.ParseUint(os.Getenv("SUDO_UID"), 10, 32); err == nil && os.Geteuid() == 0 {
		users[uint32(uid)] = true // who called csig
	}
	why, err := foreign(abs, users)
	if err == nil && why != "" {
		err = &ForeignError{path, why}
	}
	return err
}

// maxPath is how much of a path is shown, in bytes: a plan may name any.
const maxPath = 4096

// ForeignError is the error of a file that other users may change.
type ForeignError struct{ path, why string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s is not used: %s; csig opens devices, and runs programs, by this file: it and its folders have to belong to you or to root, without write permission for others (chmod go-w)", untrusted.Text(e.path, maxPath), untrusted.Text(e.why, maxPath+100))
}

// overflowUID is whom the kernel names for users that a user namespace does not
// map (user_namespaces(7)).
const overflowUID = 65534

// unmapped reports whether a user cannot be distinguished here: in a user
// namespace, as of csig demo, the machine's root and all others are one number.
func unmapped(uid uint32) bool {
	if uid != overflowUID {
		return false
	}
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !slices.Equal(strings.Fields(string(text)), []string{"0", "0", "4294967295"})
}

// foreign returns why an absolute path leads to a file that other users may
// change; "" where it does not. Each folder and link from the root on is checked.
func foreign(path string, users map[uint32]bool) (string, error) {
	at := "/"
	names := strings.Split(path, "/")
	for links := 0; ; {
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		var st unix.Stat_t
		if err := unix.Lstat(at, &st); err != nil {
			return "", err
		}
		mode := info.Mode()
		link := mode&fs.ModeSymlink != 0
		switch {
		case !users[st.Uid] && !(mode.IsDir() && unmapped(st.Uid)):
			return fmt.Sprintf("%s belongs to another user (uid %d)", at, st.Uid), nil
		case !link && mode.Perm()&0o022 != 0 && !(mode.IsDir() && mode&fs.ModeSticky != 0):
			return fmt.Sprintf("others may write %s (mode %04o)", at, mode.Perm()), nil
		}
		if link {
			if links++; links > 40 {
				return "", &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
			}
			to, err := os.Readlink(at)
			if err != nil {
				return "", err
			}
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(at), to)
			}
			names = append(strings.Split(filepath.Clean(to), "/"), names...)
			at = "/"
			continue
		}
		for len(names) > 0 && names[0] == "" {
			names = names[1:]
		}
		if len(names) == 0 {
			return "", nil
		}
		at, names = filepath.Join(at, names[0]), names[1:]
	}
}
