package outfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

const ownText = "csig.test/v1 of before"

func write(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// create is Write by way of Create.
func create(path string, perm fs.FileMode, ours Format, write func(io.Writer) error) error {
	f, err := Create(path, perm, ours)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// TestWrite goes through all that can be at a path.
func TestWrite(t *testing.T) {
	put := func(text string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte(text), 0o640)) }
	}
	ours := Prefix("csig.test/v1")
	for _, c := range []struct {
		name string
		make func(t *testing.T, path string)
		ours Format
		want string // of the error; "": it is written
	}{
		{"nothing", func(*testing.T, string) {}, ours, ""},
		{"nothing, and no format", func(*testing.T, string) {}, nil, ""},
		{"own", put(ownText), ours, ""},
		{"own, and no format", put(ownText), nil, "it exists; remove it, or name another file"},
		{"empty", put(""), nil, ""},
		{"foreign", put("format: csig.fleet/v1\n"), ours, "csig did not write it in this format"},
		{"a byte short", put("csig.test/v"), ours, "csig did not write it in this format"},
		{"folder", func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }, ours, "it is a folder"},
		{"link to own", func(t *testing.T, path string) {
			put(ownText)(t, path+".target")
			must(t, os.Symlink(path+".target", path))
		}, ours, "it is a symbolic link"},
		{"link to nothing", func(t *testing.T, path string) { must(t, os.Symlink(path+".target", path)) }, ours, "it is a symbolic link"},
		{"socket", func(t *testing.T, path string) { must(t, unix.Mknod(path, unix.S_IFSOCK|0o600, 0)) }, ours, "it is no regular file"},
	} {
		for how, write1 := range map[string]func(string, fs.FileMode, Format, func(io.Writer) error) error{"Write": Write, "Create": create} {
			t.Run(c.name+"/"+how, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "x")
				c.make(t, path)
				before := listing(t, dir)
				if err := Check(path, c.ours); text(err) != c.want && !strings.Contains(text(err), c.want) {
					t.Errorf("Check: %v, want %q", err, c.want)
				}
				err := write1(path, 0o600, c.ours, write("new"))
				if c.want != "" {
					if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path+" is not overwritten") {
						t.Fatalf("%v, want %q", err, c.want)
					}
					if after := listing(t, dir); after != before {
						t.Fatalf("the folder was\n%sand is\n%s", before, after)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if after := listing(t, dir); after != "x -rw------- new\n" {
					t.Fatalf("the folder is\n%s", after)
				}
			})
		}
	}
}

// TestWriteFails wants nothing at all of a file that could not be written whole.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	boom := errors.New("boom")
	for _, before := range []string{"", "x -rw-r--r-- " + ownText + "\n"} {
		if before != "" {
			must(t, os.WriteFile(path, []byte(ownText), 0o644))
		}
		if err := Write(path, 0o600, Prefix("csig.test"), func(w io.Writer) error { return errors.Join(write("half")(w), boom) }); !errors.Is(err, boom) {
			t.Fatal(err)
		}
		if after := listing(t, dir); after != before {
			t.Fatalf("the folder was\n%sand is\n%s", before, after)
		}
	}
}

// TestRace has something come to the path while the file is written.
func TestRace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	err := Write(path, 0o600, Prefix("csig.test"), func(io.Writer) error { return os.WriteFile(path, []byte("foreign"), 0o600) })
	if err == nil || listing(t, dir) != "x -rw------- foreign\n" {
		t.Fatalf("%v\n%s", err, listing(t, dir))
	}
}

// TestWhole reads files from the instant at which they appear.
func TestWhole(t *testing.T) {
	dir := t.TempDir()
	var reader sync.WaitGroup
	for i := range 100 {
		path := filepath.Join(dir, strconv.Itoa(i))
		var got []byte
		reader.Go(func() {
			err := fs.ErrNotExist
			for errors.Is(err, fs.ErrNotExist) {
				got, err = os.ReadFile(path)
			}
		})
		must(t, Write(path, 0o600, nil, write("whole")))
		reader.Wait()
		if string(got) != "whole" {
			t.Fatalf("file %d appears with %q", i, got)
		}
	}
}

// TestStreams writes to what has no file of its own.
func TestStreams(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	path := "/dev/fd/" + strconv.Itoa(int(w.Fd()))
	must(t, Write(path, 0o600, nil, write("one ")))
	must(t, create(path, 0o600, nil, write("two ")))
	must(t, w.Close())
	if got, err := io.ReadAll(r); err != nil || string(got) != "one two " {
		t.Fatalf("%q, %v", got, err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	must(t, unix.Mkfifo(fifo, 0o600))
	f, err := os.OpenFile(fifo, os.O_RDWR, 0) // so that neither end waits
	must(t, err)
	defer f.Close()
	must(t, Write(fifo, 0o600, nil, write("three")))
	got := make([]byte, 5)
	if _, err := io.ReadFull(f, got); err != nil || string(got) != "three" {
		t.Fatalf("%q, %v", got, err)
	}
	must(t, Write("/dev/null", 0o600, nil, write("four")))
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var b strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		must(t, err)
		b.WriteString(e.Name() + " " + info.Mode().String())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			must(t, err)
			b.WriteString(" " + string(data))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
