// Package outfile writes the files that a user names for output. It replaces
// only what csig wrote, and it follows no symbolic link.
package outfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// headSize is how much of an existing file is shown to a Format, in bytes.
const headSize = 4096

// Format tells from the first bytes of an existing file, at most 4096, whether
// csig wrote it in the format of the new one. A nil Format matches nothing, so
// that no file is ever replaced.
type Format func(head []byte) bool

// Prefix is the format of files that begin with this text.
func Prefix(text string) Format {
	return func(head []byte) bool { return bytes.HasPrefix(head, []byte(text)) }
}

// Check is the error that Write and Create would have for what is at a path now;
// nil also where there is nothing. A command that works for long before it
// writes calls it first.
func Check(path string, ours Format) error {
	_, err := look(path, ours)
	return err
}

// Write puts what write writes at a path, as a whole or not at all, with these
// permissions less the umask. What is there already is replaced if it is a regular
// file of this user that is empty or of that format; a pipe, a terminal, /dev/null
// and /dev/stdout are written to. Anything else is an error, and stays as it is.
func Write(path string, perm fs.FileMode, ours Format, write func(io.Writer) error) error {
	f, err := begin(path, perm, ours)
	if err != nil {
		return err
	}
	if err = write(f); err == nil && f.temporary != "" {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = f.place()
	}
	if err != nil {
		// The temporary file's name, which is in err, is not what the user asked for.
		return errors.Join(fmt.Errorf("%s: %w", path, err), f.discard())
	}
	return nil
}

// SyncDir makes renames and removals in a directory survive a crash.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Create is Write for a file that others read while it grows: it is at its path,
// and empty, from the beginning.
func Create(path string, perm fs.FileMode, ours Format) (*os.File, error) {
	f, err := begin(path, perm, ours)
	if err != nil {
		return nil, err
	}
	if err := f.place(); err != nil {
		return nil, errors.Join(err, f.Close(), f.discard())
	}
	return f.File, nil
}

// file is a new file under a temporary name, or a stream.
type file struct {
	*os.File
	path      string
	perm      fs.FileMode
	temporary string // "": a stream, or it is in its place
	placed    bool   // the file at the path is ours
	ours      Format
}

// look returns what is at the path: nil where there is nothing.
func look(path string, ours Format) (fs.FileInfo, error) {
	if _, ok := descriptor(path); ok {
		return nil, nil
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return nil, refuse(path, "it is a symbolic link, which csig does not follow for output; name the file itself")
	case mode.IsDir():
		return nil, refuse(path, "it is a folder")
	case mode&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0:
		return info, nil
	case !mode.IsRegular():
		return nil, refuse(path, "it is no regular file")
	}
	return info, replaceable(path, ours)
}

// replaceable reads the head of a regular file.
func replaceable(path string, ours Format) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return refuse(path, "it exists, and csig cannot read what it is: "+err.Error())
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	head, err := io.ReadAll(io.LimitReader(f, headSize))
	switch {
	case err != nil:
		return err
	case int(st.Uid) != os.Geteuid():
		return refuse(path, fmt.Sprintf("it belongs to another user (uid %d)", st.Uid))
	case len(head) > 0 && ours == nil:
		return refuse(path, "it exists; remove it, or name another file")
	case len(head) > 0 && !ours(head):
		return refuse(path, "it exists, and csig did not write it in this format; remove it, or name another file")
	}
	return nil
}

func refuse(path, why string) error {
	return fmt.Errorf("%s is not overwritten: %s", path, why)
}

// begin opens a stream, or a new file beside what is at the path.
func begin(path string, perm fs.FileMode, ours Format) (*file, error) {
	if fd, ok := descriptor(path); ok {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		return &file{File: os.NewFile(uintptr(own), path)}, nil
	}
	info, err := look(path, ours)
	if err != nil {
		return nil, err
	}
	if info != nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, err
		}
		if now, err := f.Stat(); err != nil || now.Mode().IsRegular() {
			return nil, errors.Join(err, refuse(path, "it was exchanged meanwhile"), f.Close())
		}
		return &file{File: f}, nil
	}
	name := filepath.Join(filepath.Dir(path), ".csig-"+rand.Text())
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, perm)
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: errors.Unwrap(err)}
	}
	return &file{File: f, path: path, perm: perm, temporary: name, ours: ours}, nil
}

// place gives the file its name, under which it is whole from its first instant.
func (f *file) place() error {
	if f.temporary == "" {
		return nil
	}
	err := os.Link(f.temporary, f.path) // never over what is there
	if err == nil {
		err = os.Remove(f.temporary)
	} else if err = f.take(); err == nil {
		err = os.Rename(f.temporary, f.path)
	}
	if err != nil {
		return err
	}
	f.temporary = ""
	return nil
}

// take looks again at what is at the path, where something may have come since the
// first look. On a file system without links it takes the name while it is free.
func (f *file) take() error {
	holder, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, f.perm)
	if errors.Is(err, fs.ErrExist) {
		return Check(f.path, f.ours)
	}
	if err != nil {
		return err
	}
	f.placed = true
	return holder.Close()
}

// discard removes what begin and place left.
func (f *file) discard() error {
	var errs []error
	if f.temporary != "" {
		errs = append(errs, os.Remove(f.temporary))
		if f.placed {
			errs = append(errs, os.Remove(f.path))
		}
	}
	return errors.Join(errs...)
}

// descriptor is the number of an open file that a path names: of /dev/stdout,
// and of what a shell passes for >(command).
func descriptor(path string) (fd int, ok bool) {
	switch path {
	case "/dev/stdout":
		return 1, true
	case "/dev/stderr":
		return 2, true
	}
	for _, folder := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if digits, ok := strings.CutPrefix(path, folder); ok {
			fd, err := strconv.Atoi(digits)
			return fd, err == nil && fd >= 0
		}
	}
	return 0, false
}
