package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata/script")

// TestMain is csig itself where the test's program is called so.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "csig" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// TestScripts runs the command line as people type it: a line "csig …" in this process, "exec csig …" in one of
// its own.
func TestScripts(t *testing.T) {
	bin := t.TempDir()
	exe, err := os.Executable()
	if err == nil {
		err = os.Symlink(exe, filepath.Join(bin, "csig"))
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs("testdata/script") // csigHere changes the folder
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir, UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"csig": func(ts *testscript.TestScript, fails bool, args []string) {
			var stdout, stderr bytes.Buffer
			code := csigHere(ts.MkAbs("."), map[string]string{"HOME": ts.Getenv("HOME"), "TMPDIR": ts.Getenv("TMPDIR")}, args, &stdout, &stderr)
			_, _ = stdout.WriteTo(ts.Stdout())
			_, _ = stderr.WriteTo(ts.Stderr())
			if (code != 0) != fails {
				ts.Fatalf("exit code %d", code)
			}
		}},
	})
}

// here is held by the one command line that has the folder, the environment and the outputs of this process.
var here sync.Mutex

// csigHere runs a command line of csig in this process, and returns its exit code. A process of its own takes the
// race detector a quarter of a second of a processor to begin, and tests have hundreds of command lines.
func csigHere(dir string, env map[string]string, args []string, stdout, stderr *bytes.Buffer) int {
	here.Lock()
	defer here.Unlock()
	was, err := os.Getwd()
	if err == nil {
		err = os.Chdir(dir)
	}
	if err != nil {
		panic(err)
	}
	defer os.Chdir(was) //nolint:errcheck // it was there a moment ago
	for name, value := range env {
		if old, is := os.LookupEnv(name); is {
			defer os.Setenv(name, old)
		} else {
			defer os.Unsetenv(name)
		}
		os.Setenv(name, value)
	}
	defer func(out, err *os.File) { os.Stdout, os.Stderr = out, err }(os.Stdout, os.Stderr)
	outputs := map[*bytes.Buffer]*os.File{} // one, where both go to the same
	var copies sync.WaitGroup
	defer copies.Wait()
	for _, to := range []*bytes.Buffer{stdout, stderr} {
		if outputs[to] != nil {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			panic(err)
		}
		outputs[to] = w
		copies.Go(func() {
			defer r.Close()
			_, _ = io.Copy(to, r)
		})
		defer w.Close()
	}
	os.Stdout, os.Stderr = outputs[stdout], outputs[stderr]
	return run(args)
}
