package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/sirupsen/logrus"
)

// write makes a file of that mode, whatever the umask.
func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestResolve(t *testing.T) {
	t.Setenv("CSIG_TEST_SECRET", planted)
	t.Setenv("CSIG_TEST_LINES", planted+"\n"+planted)
	t.Setenv("CSIG_TEST_EMPTY", "")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(write(t, planted, 0o400), link); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	sh := func(script string) Secret { return Secret{Command: []string{"sh", "-c", script}} }
	rows := []struct {
		name   string
		secret Secret
		want   string // "" for an error
		err    string // a part of it
	}{
		{"variable", Secret{Env: "CSIG_TEST_SECRET"}, planted, ""},
		{"variable not set", Secret{Env: "CSIG_TEST_ABSENT"}, "", "env:CSIG_TEST_ABSENT: the variable is not set"},
		{"variable empty", Secret{Env: "CSIG_TEST_EMPTY"}, "", "it is empty"},
		{"variable of two lines", Secret{Env: "CSIG_TEST_LINES"}, "", "more than one line"},
		{"file", Secret{File: write(t, planted, 0o600)}, planted, ""},
		{"file with a line end", Secret{File: write(t, planted+"\n", 0o400)}, planted, ""},
		{"file with Windows' line end", Secret{File: write(t, planted+"\r\n", 0o600)}, planted, ""},
		{"file with spaces", Secret{File: write(t, " "+planted+" \n", 0o600)}, " " + planted + " ", ""},
		{"file for a service's group", Secret{File: write(t, planted, 0o640)}, planted, ""},
		{"file through a link", Secret{File: link}, planted, ""},
		{"file that its group may write", Secret{File: write(t, planted, 0o660)}, "", "mode 0660); run: chmod 600 /"},
		{"file that all may read", Secret{File: write(t, planted, 0o644)}, "", "mode 0644"},
		{"file that all may write", Secret{File: write(t, planted, 0o602)}, "", "mode 0602"},
		{"file with two line ends", Secret{File: write(t, planted+"\n\n", 0o600)}, "", "more than one line"},
		{"file empty", Secret{File: write(t, "\n", 0o600)}, "", "it is empty"},
		{"file too long", Secret{File: write(t, strings.Repeat(planted, maxSecret), 0o600)}, "", "longer than"},
		{"file that is a folder", Secret{File: t.TempDir()}, "", "not a plain file"},
		{"file of the kernel's that waits", Secret{File: "/proc/kmsg"}, "", "not a plain file"},
		{"file that is a pipe without a writer", Secret{File: fifo}, "", "not a plain file"},
		{"command", Secret{Command: []string{"echo", planted}}, planted, ""},
		{"command without a shell", Secret{Command: []string{"echo", "$HOME;*"}}, "$HOME;*", ""},
		{"command has no input", sh("cat; echo " + planted), planted, ""},
		{"command not there", Secret{Command: []string{"csig-test-no-such-program", planted}}, "", "executable file not found"},
		{"command fails", sh("echo " + planted + "; echo " + planted + " >&2; exit 3"), "", "command:sh: exit status 3; run it by hand"},
		{"command prints nothing", sh(":"), "", "it is empty"},
		{"command prints without end", sh("while :; do echo " + planted + "; done"), "", "printed more than"},
		{"none", Secret{}, "", "none is given"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got, err := row.secret.Resolve(t.Context())
			switch {
			case row.want != "" && (err != nil || got != row.want):
				t.Errorf("got %q, %v", got, err)
			case row.want == "" && (err == nil || !strings.Contains(err.Error(), row.err)):
				t.Errorf("got %q, %v, want an error with %q", got, err, row.err)
			case row.want == "" && (got != "" || strings.Contains(err.Error(), planted)):
				t.Errorf("the secret is shown: %q, %v", got, err)
			}
		})
	}
	if _, err := (Secret{File: "/csig-test/absent"}).Resolve(t.Context()); !errors.Is(err, fs.ErrNotExist) || strings.Count(err.Error(), "absent") != 1 {
		t.Errorf("got %v", err)
	}
}

// TestResolveEnds ends a command when it is told to, with the child that keeps
// its output open.
func TestResolveEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Secret{Env: "PATH"}).Resolve(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for _, script := range []string{"exec sleep 60", "sleep 60"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		start := time.Now()
		_, err := Secret{Command: []string{"sh", "-c", script}}.Resolve(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", script, err)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s: it took %s", script, took)
		}
	}
}

// TestSecretIsNotShown shows a secret in every way that Go has. There is only
// its place to show; and of a command no arguments, unless a verb is wrong for a
// type, where fmt asks no methods.
func TestSecretIsNotShown(t *testing.T) {
	const token = "Authorization"
	t.Setenv("CSIG_TEST_SECRET", planted)
	secrets := map[string]Secret{
		"env:CSIG_TEST_SECRET": {Env: "CSIG_TEST_SECRET"},
		"command:printenv":     {Command: []string{"printenv", "CSIG_TEST_SECRET"}},
		"command:curl":         {Command: []string{"curl", "-H", token}},
		"":                     {},
	}
	path := write(t, planted, 0o600)
	secrets["file:"+path] = Secret{File: path}
	for want, s := range secrets {
		_, err := s.Resolve(t.Context())
		device := Device{Counters: Counters{SNMP: &SNMP{Community: s, Auth: SNMPAuth{"sha", s}}, GNMI: &GNMI{Password: s}}}
		values := []any{s, &s, []Secret{s}, map[string]Secret{"a": s}, device.Counters.SNMP.Auth, *device.Counters.SNMP, device.Counters.SNMP, *device.Counters.GNMI, device, err}
		var shown, wrong []string
		for _, v := range values {
			for _, verb := range []string{"%v", "%+v", "%#v"} {
				shown = append(shown, fmt.Sprintf(verb, v))
			}
			for _, verb := range []string{"%s", "%q", "%x", "%X", "%d", "%T", "%p", "%10s", "%-3.1s"} {
				wrong = append(wrong, fmt.Sprintf(verb, v))
			}
			shown = append(shown, marshalled(t, v)...)
		}
		for _, verb := range []string{"%v", "%+v", "%s", "%d", "%x"} {
			if got := fmt.Sprintf(verb, s); got != want {
				t.Errorf("%s gives %q, want %q", verb, got, want)
			}
		}
		if got := fmt.Sprintf("%#v", s); got != fmt.Sprintf("%q", want) {
			t.Errorf("%%#v gives %s", got)
		}
		if asJSON, err := json.Marshal(s); err != nil || string(asJSON) != fmt.Sprintf("%q", want) {
			t.Errorf("JSON: %s, %v", asJSON, err)
		}
		for _, text := range shown {
			if strings.Contains(text, token) {
				t.Errorf("an argument is shown: %s", text)
			}
		}
		for _, text := range append(shown, wrong...) {
			if strings.Contains(text, planted) || strings.Contains(text, fmt.Sprintf("%x", planted)) {
				t.Errorf("the secret is shown: %s", text)
			}
		}
	}
}

// marshalled is what libraries make of a value.
func marshalled(t *testing.T, v any) []string {
	t.Helper()
	j, jsonErr := json.Marshal(v)
	y, yamlErr := yaml.Marshal(v)
	if jsonErr != nil || yamlErr != nil {
		t.Error(jsonErr, yamlErr)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("a", "s", v)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("a", "s", v)
	logger := logrus.New()
	logger.SetOutput(&log)
	logger.WithField("s", v).Info("a")
	logger.SetFormatter(&logrus.JSONFormatter{})
	logger.WithField("s", v).Info("a")
	return []string{string(j), string(y), log.String()}
}
