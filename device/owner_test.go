package device

import (
	"os"
	"strings"
	"testing"
)

// A file that other users own, may write or may replace is refused.
func TestCheckOwner(t *testing.T) {
	const other = 65534
	write := func(t *testing.T, path string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	folder := func(t *testing.T, mode os.FileMode) {
		t.Helper()
		if err := os.Mkdir("d", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod("d", mode); err != nil {
			t.Fatal(err)
		}
	}
	chown := func(t *testing.T, path string) {
		t.Helper()
		if err := os.Lchown(path, other, other); err != nil {
			t.Fatalf("%v: run the tests as root", err)
		}
	}
	for name, c := range map[string]struct {
		make func(t *testing.T)
		want string // "": it is used
	}{
		"own":              {func(t *testing.T) { folder(t, 0o755); write(t, "d/f", 0o644) }, ""},
		"not there":        {func(t *testing.T) { folder(t, 0o755) }, ""},
		"writable":         {func(t *testing.T) { folder(t, 0o755); write(t, "d/f", 0o646) }, "others may write"},
		"group-writable":   {func(t *testing.T) { folder(t, 0o755); write(t, "d/f", 0o664) }, "others may write"},
		"foreign":          {func(t *testing.T) { folder(t, 0o755); write(t, "d/f", 0o600); chown(t, "d/f") }, "/d/f belongs to another user (uid 65534)"},
		"writable folder":  {func(t *testing.T) { folder(t, 0o777); write(t, "d/f", 0o600) }, "/d (mode 0777)"},
		"sticky folder":    {func(t *testing.T) { folder(t, 0o777|os.ModeSticky); write(t, "d/f", 0o600) }, ""},
		"foreign, sticky":  {func(t *testing.T) { folder(t, 0o777|os.ModeSticky); write(t, "d/f", 0o600); chown(t, "d/f") }, "belongs to another user"},
		"foreign folder":   {func(t *testing.T) { folder(t, 0o755); write(t, "d/f", 0o600); chown(t, "d") }, "/d belongs to another user"},
		"link":             {func(t *testing.T) { folder(t, 0o755); write(t, "g", 0o600); link(t, "../g", "d/f") }, ""},
		"foreign link":     {func(t *testing.T) { folder(t, 0o755); write(t, "g", 0o600); link(t, "../g", "d/f"); chown(t, "d/f") }, "/d/f belongs to another user"},
		"link to writable": {func(t *testing.T) { folder(t, 0o755); write(t, "g", 0o666); link(t, "../g", "d/f") }, "/g (mode 0666)"},
		"link through a writable folder": {func(t *testing.T) {
			folder(t, 0o777)
			write(t, "d/g", 0o600)
			link(t, "d/g", "f")
			if err := os.Rename("d", "e"); err != nil {
				t.Fatal(err)
			}
			folder(t, 0o755)
			link(t, "../e/g", "d/f")
		}, "/e (mode 0777)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			c.make(t)
			err := CheckOwner("d/f")
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "d/f is not used")) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			t.Setenv("SUDO_UID", "65534")
			if err := CheckOwner("d/f"); strings.Contains(c.want, "belongs") && err != nil {
				t.Errorf("for who ran sudo: %v", err)
			}
		})
	}
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
