package inventory

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Watch finds changes of the files that a fleet was read from. The zero Watch has noted none.
type Watch struct {
	noted []look
	seen  []look // by the last Changed
}

// Note remembers the files that Load has opened for a fleet, or for its error, as they were
// then, and which ones the patterns of includes had found; for neither the one at path, as it
// is now.
func (w *Watch) Note(path string, fleet *Fleet, err error) {
	w.noted = nil
	if failed := (*loadError)(nil); fleet != nil && fleet.index != nil {
		w.noted = slices.Clone(fleet.index.looks)
	} else if errors.As(err, &failed) {
		w.noted = slices.Clone(failed.looks)
	}
	if len(w.noted) == 0 {
		w.noted = []look{{path: path}}
	}
	for i, l := range w.noted {
		if !l.pattern && l.info == nil { // it may be there, and refuse to be opened
			w.noted[i] = l.again()
		}
	}
}

// Changed reports whether the files are others than those that were noted, and the same as at
// the call before: of one that an editor still writes it waits for the end.
func (w *Watch) Changed() bool {
	now := make([]look, len(w.noted))
	for i, l := range w.noted {
		now[i] = l.again()
	}
	settled := slices.EqualFunc(now, w.seen, look.same)
	w.seen = now
	return settled && !slices.EqualFunc(now, w.noted, look.same)
}

// look is what a path, or a pattern of paths, led to.
type look struct {
	path    string
	pattern bool
	info    os.FileInfo       // of a path; nil: there was no file
	found   [sha256.Size]byte // the names, by a pattern
}

// lookFor is a pattern with the names that it finds.
func lookFor(pattern string, found []string) look {
	l := look{path: pattern, pattern: true}
	names := sha256.New()
	for _, name := range found {
		names.Write([]byte(name + "\x00"))
	}
	names.Sum(l.found[:0])
	return l
}

// visible are the names that a pattern finds, in order. Those that begin with a dot are left out,
// as a shell does: editors make such files while others are edited.
func visible(pattern string, glob func(string) ([]string, error)) ([]string, error) {
	found, err := glob(pattern)
	slices.Sort(found)
	if !strings.HasPrefix(filepath.Base(pattern), ".") {
		found = slices.DeleteFunc(found, func(name string) bool { return strings.HasPrefix(filepath.Base(name), ".") })
	}
	return found, err
}

func (l look) again() look {
	if l.pattern {
		found, _ := visible(l.path, filepath.Glob)
		return lookFor(l.path, found)
	}
	l.info, _ = os.Stat(l.path) // what cannot be read is not there
	return l
}

func (l look) same(o look) bool {
	if l.path != o.path || l.found != o.found {
		return false
	}
	if l.info == nil || o.info == nil {
		return l.info == o.info
	}
	return os.SameFile(l.info, o.info) && l.info.Size() == o.info.Size() && l.info.ModTime().Equal(o.info.ModTime()) && l.info.Mode() == o.info.Mode()
}
