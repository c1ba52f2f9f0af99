package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/vendors"
)

// HashOf is the hash of a configuration, as Daemon.Config takes it.
func HashOf(text []byte) (string, error) {
	f, err := inventory.Parse("configuration", text)
	if err != nil {
		return "", err
	}
	dev, err := f.LocalDevice()
	if err != nil {
		return "", err
	}
	return f.DeviceView(dev).Hash(), nil
}

// maxHistory is how many earlier configurations are kept: a rollout leaves
// three behind, and so does the way back.
const maxHistory = 16

// historyDir is the folder of the configurations that ran before: a rollback names
// one by its hash. Plans and journals hold no more of it, because
// it may have the arguments of commands that fetch secrets.
func (d *Daemon) historyDir() string { return d.cfg.File + ".earlier" }

// saveHistory keeps the configuration that runs, before another takes its
// place.
func (d *Daemon) saveHistory(r *running) error {
	if r == nil {
		return nil
	}
	err := os.Mkdir(d.historyDir(), 0o700)
	if err == nil {
		err = outfile.SyncDir(filepath.Dir(d.cfg.File))
	}
	if errors.Is(err, fs.ErrExist) {
		var info fs.FileInfo
		if info, err = os.Lstat(d.historyDir()); err == nil && !info.IsDir() { // nor a link to one
			err = fmt.Errorf("%s is no folder", d.historyDir())
		}
	}
	if err != nil {
		return fmt.Errorf("keeping the previous configuration: %w", err)
	}
	if err := writeFile(filepath.Join(d.historyDir(), r.hash), []byte(r.config)); err != nil {
		return err
	}
	return d.trimHistory()
}

// trimHistory leaves the newest of the earlier configurations.
func (d *Daemon) trimHistory() error {
	list, err := os.ReadDir(d.historyDir())
	if err != nil || len(list) <= maxHistory {
		return err
	}
	var kept []fs.FileInfo
	for _, e := range list {
		if info, err := e.Info(); err == nil && vendors.IsProfileHash(e.Name()) {
			kept = append(kept, info)
		}
	}
	slices.SortFunc(kept, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, info := range kept[min(maxHistory, len(kept)):] {
		err = errors.Join(err, os.Remove(filepath.Join(d.historyDir(), info.Name())))
	}
	return err
}

// Config is the configuration of that hash: the one that runs, or one that ran
// before.
func (d *Daemon) Config(ctx context.Context, hash string) (string, error) {
	if r := d.current(); r != nil && r.hash == hash {
		return r.config, nil
	}
	if !vendors.IsProfileHash(hash) { // it becomes the name of a file
		return "", refuse(fmt.Errorf("%q is not the hash of a configuration", hash))
	}
	text, err := os.ReadFile(filepath.Join(d.historyDir(), hash))
	if errors.Is(err, fs.ErrNotExist) && d.cfg.Store != nil { // it ran on another machine
		if kept, err := d.cfg.Store.Earlier(ctx, hash); err != nil || kept != "" {
			return kept, err
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = refuse(fmt.Errorf("this daemon keeps no configuration %.12s", hash))
	}
	return string(text), err
}
