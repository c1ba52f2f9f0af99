//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestSignalEndsWhatDoesNotWatch sends a signal to commands that wait for a
// fleet file which never comes, and look at no context.
func TestSignalEndsWhatDoesNotWatch(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"inventory", "check", "-i"}, {"plan", "--offline", "-i"}, {"assess", "--offline", "-i"}, {"agent", "-i"}, {"off", "-i"},
	} {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			t.Run(args[0]+" "+sig.String(), func(t *testing.T) {
				pipe := filepath.Join(t.TempDir(), "fleet.yaml")
				if err := syscall.Mkfifo(pipe, 0o600); err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(exe, append(args[:len(args):len(args)], pipe)...)
				cmd.Args[0] = "csig"
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				// It has opened the pipe once this returns, and reads.
				w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				done := make(chan struct{})
				go func() { _ = cmd.Wait(); close(done) }()
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				select {
				case <-done:
					if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != sig {
						t.Errorf("it ended with %v", cmd.ProcessState)
					}
				case <-time.After(time.Minute):
					_ = cmd.Process.Kill()
					<-done
					t.Error("it continued")
				}
			})
		}
	}
}
