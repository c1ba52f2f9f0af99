package qualify

import (
	"context"
	"errors"
	"time"

	"github.com/csig-agent/csig/vendors"
)

// most is how many entries are tried. A table that promises more is in the memory of a CPU:
// so many would only make the switch slow.
const most = 1 << 16

// filling is how long they may take to write, and emptying to remove.
const (
	filling  = 20 * time.Minute
	emptying = 2 * time.Minute
)

// entries fills the table of the rules until the device refuses an entry.
func entries(ctx context.Context, t *Trial) error {
	facts, err := t.Driver.Probe(ctx)
	if err != nil {
		return Cannot("probing the device: %v", err)
	}
	filler, ok := vendors.As[vendors.TableFiller](t.Driver)
	switch {
	case !ok && facts.Rules.Entries == 0 && facts.Traits.Table.Is.Sharers != "":
		return Cannot("its driver cannot fill the table, which has %s too, and names no number: rules for which there is no room are its error, in the experiment rewrite, too", facts.Traits.Table.Is.Sharers)
	case !ok && facts.Rules.Entries == 0:
		return Cannot("the table has no limit that can be reached: its entries are in the memory of the switch's CPU, and its driver names no number")
	case facts.Rules.Entries > most:
		return Cannot("the table has no limit that can be reached: its driver names %d entries, and one of more than %d is in the memory of the switch's CPU", facts.Rules.Entries, most)
	case !ok:
		return Cannot("its driver says that the table takes %d entries, and cannot fill it to try", facts.Rules.Entries)
	}
	setup, err := t.begin(ctx, filling)
	if err != nil {
		return err
	}
	limit := most
	if promised := facts.Rules.Entries; promised > 0 {
		limit = promised - facts.Rules.Taken
	}
	n, full, err := filler.Fill(ctx, limit)
	drained := false
	drain := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), emptying)
		defer cancel()
		drained = true
		return filler.Drain(ctx)
	}
	defer func() {
		if !drained {
			_ = drain() // an error ends the experiment already
		}
	}()
	busy := (*vendors.BusyError)(nil)
	if err != nil && !errors.As(err, &busy) {
		return Cannot("filling the table: %v", err)
	}
	t.Measured("entries", float64(n))
	if full && n < limit {
		t.Fault("table-smaller", "the device refuses an entry beyond %d, and its driver counts on %d", n, limit)
	}
	now, err := t.look(ctx, &setup, held, both...)
	if err != nil {
		return err
	}
	if now != writes {
		t.Fault("full-table-breaks-rules", "with a full table %s write %s", t.bothNames(), now)
	}
	if err := drain(); err != nil {
		t.Fault("not-emptied", "the entries cannot be removed again: %v", err)
		return nil
	}
	other := local{held.s, held.lm + 1} // which takes no more entries
	if _, err := t.write(ctx, &setup, other, heldFor, both...); err != nil {
		t.Fault("stuck-after-full", "after the table was full, rules cannot be changed: %v", err)
		return nil
	}
	if err := t.shows(ctx, &setup, other, both...); err != nil {
		return err
	}
	switch {
	case busy != nil:
		t.Found("%d entries fit; no more were tried, as %v", n, busy)
	case !full:
		t.Found("%d entries fit; no more were tried", n)
	default:
		t.Found("%d entries fit", n)
	}
	return nil
}
