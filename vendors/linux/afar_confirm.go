package linux

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ssh"
	"github.com/csig-agent/csig/vlanrules"
)

var _ vendors.Confirmer = (*Afar)(nil)

// A switch that is armed has files in a directory of its own for this boot and
// this network namespace: back-MARK is the script for nft that puts the setup
// of before back, and armed-MARK says that it is to be run. Who renames armed-MARK
// has the say: the shell that waits on the switch, or csig that confirms.
const revertDir = `d="$HOME/.csig-revert/$(cat /proc/sys/kernel/random/boot_id)-$(readlink /proc/self/ns/net | tr -dc 0-9)"`

// settled waits for a script that is being run, which takes less than a second.
const settled = `i=0; while [ -n "$(ls -d going-* 2>/dev/null)" ] && [ $i -lt 10 ]; do sleep 1; i=$((i+1)); done`

// Arm leaves a shell behind on the switch that waits, and then puts the setup
// of now back in one transaction, with the lease at its end: agents go on with
// their next update. MTUs stay as they are.
func (d *Afar) Arm(ctx context.Context, after time.Duration) (string, error) {
	if after < time.Second {
		return "", fmt.Errorf("arm for %v: want a second or more", after)
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
	var b [8]byte
	rand.Read(b[:]) //nolint:errcheck // never fails
	mark := hex.EncodeToString(b[:])
	_, err = d.shell(ctx, fmt.Sprintf(`umask 077; %[1]s; mkdir -p "$d" && cd "$d" || exit 1; `+
		`cat >back-%[2]s || exit 1; old=$(ls -d armed-* 2>/dev/null | head -n 1); [ -z "$old" ] || cp "back-${old#armed-}" back-%[2]s || exit 1; `+
		`%[3]s -c -f back-%[2]s || { rm -f back-%[2]s; exit 1; }; : >armed-%[2]s; `+
		`for a in armed-*; do [ "$a" = armed-%[2]s ] || rm -f "$a" "back-${a#armed-}"; done; %[4]s; `+
		`w="trap \"\" HUP; i=0; while [ -e armed-%[2]s ] && [ \$i -lt %[5]d ]; do sleep 1; i=\$((i+1)); done; `+
		`mv armed-%[2]s going-%[2]s || exit; %[3]s -f back-%[2]s; rm -f back-%[2]s going-%[2]s"; `+
		// A session of its own: that of the login may end with all that is in it.
		`$(command -v setsid) sh -c "$w" </dev/null >/dev/null 2>&1 &`,
		revertDir, mark, d.command(), settled, (after+time.Second-1)/time.Second), back)
	if exit := (*ssh.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("%w: the switch cannot be told to go back by itself: %w", errors.ErrUnsupported, err)
	}
	if err != nil {
		return "", err
	}
	d.armed = true
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
	want, err := rulesetOf(&s, func(port string) bool { return d.index[port] != 0 }, d.host.depths)
	if err != nil {
		return nil, err
	}
	w.Write(scriptOf(reconcile(&s, want, &observed{}), &observed{}).Bytes())
	return w.Bytes(), nil
}

// Confirm keeps the setup. It may be called on another connection than Arm.
func (d *Afar) Confirm(ctx context.Context, mark string) error {
	if _, err := hex.DecodeString(mark); err != nil {
		return fmt.Errorf("confirm %q: no mark of Arm", mark)
	}
	_, err := d.shell(ctx, fmt.Sprintf(`%[1]s; cd "$d" && mv armed-%[2]s kept-%[2]s 2>/dev/null && rm -f kept-%[2]s back-%[2]s`, revertDir, mark), nil)
	d.armed = false
	if exit := (*ssh.ExitError)(nil); errors.As(err, &exit) {
		return vendors.ErrReverted
	}
	return err
}

// disarm ends what an earlier csig has armed and never confirmed: what is
// removed now must not come back.
func (d *Afar) disarm(ctx context.Context) error {
	_, err := d.shell(ctx, revertDir+`; cd "$d" 2>/dev/null || exit 0; rm -f armed-* back-*; `+settled+`; cd / && rmdir "$d" "$HOME/.csig-revert" 2>/dev/null; exit 0`, nil)
	return err
}
