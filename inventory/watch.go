package inventory

import "os"

// Watch finds changes of the files that a fleet was read from. The zero Watch has noted none.
type Watch struct {
	noted []stamp
	seen  []stamp // by the last Changed
}

// stamp is a file as it was; nil where there was none.
type stamp struct{ os.FileInfo }

// Note remembers the files as they are now, while they are read.
func (w *Watch) Note(files ...string) { w.noted = stamps(files) }

// Changed reports whether the files are others than those that were noted, and the same as at
// the call before: of one that an editor still writes it waits for the end.
func (w *Watch) Changed(files ...string) bool {
	now := stamps(files)
	settled := sameStamps(now, w.seen)
	w.seen = now
	return settled && !sameStamps(now, w.noted)
}

func stamps(files []string) []stamp {
	out := make([]stamp, len(files))
	for i, file := range files {
		out[i].FileInfo, _ = os.Stat(file) // what cannot be read is not there
	}
	return out
}

func sameStamps(a, b []stamp) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].same(b[i]) {
			return false
		}
	}
	return true
}

func (s stamp) same(o stamp) bool {
	if s.FileInfo == nil || o.FileInfo == nil {
		return s.FileInfo == o.FileInfo
	}
	return os.SameFile(s.FileInfo, o.FileInfo) && s.Size() == o.Size() && s.ModTime().Equal(o.ModTime())
}
