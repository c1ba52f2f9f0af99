package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ssh"
	"github.com/csig-agent/csig/vlanrules"
)

var (
	_ vendors.Confirmer   = (*Afar)(nil)
	_ vendors.ArmedReader = (*Afar)(nil)
)

// armedPoll is after how many seconds the shell that waits on a switch looks
// whether it still has to; with sudo each look is a line in a log.
const armedPoll = 2

// Arm leaves a shell behind on the switch that waits, and then puts the setup
// of now back in one transaction, with the lease at its end: agents go on with
// their next update. The script is in that shell's memory, and in no file. MTUs
// stay as they are.
func (d *Afar) Arm(ctx context.Context, after time.Duration) (string, error) {
	if after < time.Second {
		return "", fmt.Errorf("arm for %v: want a second or more", after)
	}
	if err := d.disarm(ctx); err != nil {
		return "", err
	}
	have, err := d.read(ctx)
	if err != nil {
		return "", err
	}
	if err := foreign(have); err != nil {
		return "", err
	}
	back, err := d.back(have)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	id := vendors.NewMark()
	// The last line tells a script that has arrived in full.
	back = append(back, "# "+id...)
	out, err := d.shell(ctx, fmt.Sprintf(`t=%[1]s%[2]s-$(($(date +%%s) + %[4]d)); back=$(cat); `+
		`printf "add table netdev $t\ndelete table netdev $t\n%%s\n" "$back" | %[3]s -c -f - || exit 1; `+
		`w="trap \"\" HUP; back=\$(cat); case \$back in *%[2]s) ;; *) exit 1;; esac; %[3]s add table netdev $t || exit 1; echo $t; exec >/dev/null; `+
		`left=%[4]d; while [ \$left -gt 0 ]; do n=\$left; [ \$n -le %[5]d ] || n=%[5]d; sleep \$n; left=\$((left-n)); `+
		`have=\$(%[3]s list tables netdev) && case \$have in *$t*) ;; *) exit 0;; esac; done; `+
		`for i in 1 2 3; do printf \"delete table netdev $t\\n%%s\\n\" \"\$back\" | %[3]s -f - && exit 0; sleep 1; done"; `+
		// A session of its own: that of the login may end with all that is in
		// it. What is read here ends once it waits.
		`mark=$( { printf "%%s" "$back" | $(command -v setsid) sh -c "$w" 2>/dev/null & } ); [ -n "$mark" ] || exit 1; echo $mark`,
		armedPrefix, id, d.command(), (after+time.Second-1)/time.Second, armedPoll), back)
	if exit := (*ssh.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("%w: the switch cannot be told to go back by itself: %w", errors.ErrUnsupported, err)
	}
	if err != nil {
		return "", err
	}
	mark := strings.TrimSpace(string(out))
	if _, err := armedUntil(mark); err != nil {
		return "", fmt.Errorf("%w: the switch answers %q when it is told to go back by itself", errors.ErrUnsupported, brief(mark))
	}
	d.mark = mark
	return mark, nil
}

// command is how nft is called on the switch.
func (d *Afar) command() string {
	if d.host.sudo {
		return "sudo -n nft"
	}
	return "nft"
}

// back is the script that makes the table what it is now, whatever it has
// become: without the signal, which is the agents'. Ports that strip are beyond
// reach from here, before and after.
func (d *Afar) back(have *observed) ([]byte, error) {
	w := newScript(tableName)
	w.line("add table netdev %s", tableName) // else there may be nothing to delete
	w.delTable()
	s, err := d.setupOf(have)
	if err != nil {
		return nil, err
	}
	if s.TPID == 0 {
		return w.Bytes(), nil
	}
	s.Damaged = ""
	for i := range s.Ports {
		if s.Ports[i].Action == vlanrules.Strip {
			return nil, fmt.Errorf("port %s strips, by a program that cannot be looked at from afar", s.Ports[i].Port)
		}
		s.Ports[i].Damaged = ""
	}
	if err := writable(&s); err != nil {
		return nil, err
	}
	want, err := rulesetOf(&s, byName(d.index), d.host.depths)
	if err != nil {
		return nil, err
	}
	w.Write(scriptOf(reconcile(&s, want, &observed{}), &observed{}).Bytes())
	return w.Bytes(), nil
}

// Confirm keeps the setup. It may be called on another connection than Arm.
func (d *Afar) Confirm(ctx context.Context, mark string) error {
	if _, err := armedUntil(mark); err != nil {
		return fmt.Errorf("confirm %q: no mark of Arm", mark)
	}
	d.mark = ""
	return d.unmark(ctx, mark)
}

// unmark takes a mark away; with it goes the power of the shell that waits. The
// error wraps vendors.ErrReverted when the mark was no longer there.
func (d *Afar) unmark(ctx context.Context, mark string) error {
	_, err := d.nft(ctx, "delete table netdev "+mark, nil)
	if exit := (*ssh.ExitError)(nil); !errors.As(err, &exit) {
		return err
	}
	marks, e := d.marks(ctx)
	switch {
	case e != nil:
		return errors.Join(err, e)
	case slices.Contains(marks, mark):
		return fmt.Errorf("end what waits on the switch to go back: %w", err)
	}
	return vendors.ErrReverted
}

// marks lists what the switch is armed by.
func (d *Afar) marks(ctx context.Context) ([]string, error) {
	out, err := d.nft(ctx, "list tables netdev", nil)
	if err != nil {
		return nil, unreadable(err)
	}
	return marksIn(out), nil
}

// marksIn finds the marks in what nft list tables prints.
func marksIn(tables []byte) []string {
	var marks []string
	for line := range bytes.Lines(tables) {
		name, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("table netdev "))
		if ok && isMark(string(name)) {
			marks = append(marks, string(name))
		}
	}
	return marks
}

// Armed tells whether the switch waits to go back by itself.
func (d *Afar) Armed(ctx context.Context) error {
	marks, err := d.marks(ctx)
	if err != nil || len(marks) == 0 {
		return err
	}
	out, err := d.shell(ctx, "exec date +%s", nil)
	if err != nil {
		return err
	}
	var now int64
	if _, err := fmt.Sscan(string(out), &now); err != nil {
		return fmt.Errorf("the switch answers %q to date +%%s: %w", brief(string(out)), err)
	}
	return armedError(marks, time.Unix(now, 0))
}

// disarm ends what another csig has armed and never confirmed, so that what is
// done now stays. What has just gone back has gone back as a whole.
func (d *Afar) disarm(ctx context.Context) error {
	d.mark = ""
	marks, err := d.marks(ctx)
	if err != nil {
		return err
	}
	for _, m := range marks {
		if err := d.unmark(ctx, m); err != nil && !errors.Is(err, vendors.ErrReverted) {
			return err
		}
	}
	return nil
}

// guard makes a transaction fail once the switch has gone back: it needs the
// table that the switch's own transaction deletes.
func (d *Afar) guard(script []byte) []byte {
	if d.mark == "" {
		return script
	}
	return append(fmt.Appendf(nil, "add chain netdev %s held\n", d.mark), script...)
}

// late makes it an error of its own that a transaction failed because the
// switch has gone back before.
func (d *Afar) late(ctx context.Context, err error) error {
	if err == nil || d.mark == "" {
		return err
	}
	if marks, e := d.marks(ctx); e != nil || slices.Contains(marks, d.mark) {
		return err
	}
	return fmt.Errorf("the change came too late: %w", vendors.ErrReverted)
}
