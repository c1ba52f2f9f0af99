package linux

import (
	"errors"
	"fmt"
	"regexp"

	"golang.org/x/sys/unix"
)

// endOldReverts ends what an earlier csig left waiting to undo a change, so that what is
// done now stays.
func (d *Driver) endOldReverts() error {
	tables, err := d.sock.dump(unix.NFT_MSG_GETTABLE, nil)
	if err != nil {
		return fmt.Errorf("read nftables' tables: %w", err)
	}
	for _, m := range tables {
		name, _, err := readTable(m.Data)
		if err != nil {
			return err
		}
		if !oldRevert.MatchString(name) {
			continue
		}
		d.batch.begin(d.sock.seq+1, 0)
		d.batch.table = name
		d.batch.delTable()
		d.batch.end()
		if err := d.sock.commit(&d.batch); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("end the revert that table %s stands for: %w", name, err)
		}
	}
	return nil
}

// oldRevert is the name of an empty table by which an earlier csig had a switch undo a
// change by itself. A shell that waits on the switch does nothing once its table is gone.
var oldRevert = regexp.MustCompile(`^csig-back-[0-9a-f]{16}-[0-9]+$`)
