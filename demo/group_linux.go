package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// controlGroup is that of the demo's own processes: the programs of csig host run see no connection of others.
type controlGroup struct {
	path   string
	former string // of this process
}

const groupPrefix = "csig-demo-"

// enterControlGroup makes one and puts this process there. What demos have left that were killed goes.
func enterControlGroup() (*controlGroup, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	root := ""
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); root == "" && len(f) > 2 && f[2] == "cgroup2" {
			root = f[1]
		}
	}
	if root == "" {
		return nil, errors.New("no control groups of version 2 are mounted: mount -t cgroup2 none /sys/fs/cgroup")
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	g := &controlGroup{former: root}
	for line := range strings.Lines(string(own)) {
		if rest, ok := strings.CutPrefix(line, "0::"); ok {
			g.former = filepath.Join(root, strings.TrimSpace(rest))
		}
	}
	left, _ := filepath.Glob(filepath.Join(root, groupPrefix+"*")) // the pattern is one
	for _, dir := range left {
		_ = unix.Rmdir(dir) // one with processes stays
	}
	for range 10 { // another demo that begins may have removed it while it was empty
		if g.path, err = os.MkdirTemp(root, groupPrefix); err != nil {
			break
		}
		if err = joinGroup(g.path); err == nil {
			return g, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			err = errors.Join(err, unix.Rmdir(g.path))
			break
		}
	}
	return nil, fmt.Errorf("a control group for this run: %w", err)
}

// joinGroup puts this process into a control group.
func joinGroup(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0)
}

// leave puts this process back, and removes the group. Children have ended a moment before.
func (g *controlGroup) leave() error {
	if err := joinGroup(g.former); err != nil {
		return fmt.Errorf("leave the control group of this run: %w", err)
	}
	var err error
	for range 100 {
		if err = unix.Rmdir(g.path); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s: %w", g.path, err)
	}
	return nil
}
