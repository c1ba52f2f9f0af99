package inventory

import "io/fs"

// loadFS is Load from a file system. Includes cannot leave it.
func loadFS(fsys fs.FS, name string) (*Fleet, error) {
	return load(name, files{
		open: func(name string, _ bool) (fs.File, error) { return fsys.Open(name) },
		glob: func(pattern string) ([]string, error) { return fs.Glob(fsys, pattern) },
	})
}
