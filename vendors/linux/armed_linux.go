package linux

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/vendors"
)

var _ vendors.ArmedReader = (*Driver)(nil)

// Armed tells whether the device waits to go back by itself, as one that is
// driven from afar may be told to.
func (d *Driver) Armed(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	marks, err := d.marks()
	if err != nil {
		return err
	}
	return armedError(marks, d.cfg.Now())
}

func (d *Driver) marks() ([]string, error) {
	tables, err := d.sock.dump(unix.NFT_MSG_GETTABLE, nil)
	if err != nil {
		return nil, fmt.Errorf("read nftables' tables: %w", err)
	}
	var marks []string
	for _, m := range tables {
		name, _, err := readTable(m.Data)
		if err != nil {
			return nil, err
		}
		if isMark(name) {
			marks = append(marks, name)
		}
	}
	return marks, nil
}

// disarm ends what was armed from afar and never confirmed, so that what is done
// now stays.
func (d *Driver) disarm() error {
	marks, err := d.marks()
	if err != nil {
		return err
	}
	for _, m := range marks {
		d.batch.begin(d.sock.seq+1, 0)
		d.batch.table = m
		d.batch.delTable()
		d.batch.end()
		if err := d.sock.commit(&d.batch); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("end what waits to go back by itself: %w", err)
		}
	}
	return nil
}
