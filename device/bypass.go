package device

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans/rollout"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/all"
	"github.com/csig-agent/csig/vendors/ebpf"
	"github.com/csig-agent/csig/vendors/linux"
)

// daemonTimeout is how long csig off waits for an answer of a daemon.
const daemonTimeout = 2 * time.Second

// answers is nil where the daemon answers and accepts changes.
func (t *Daemon) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, daemonTimeout)
	defer cancel()
	if _, err := t.Client.Status(ctx); err != nil {
		return err
	}
	// A peer that may read the status only gets that answer to every other
	// request; no daemon has what this one asks for.
	if _, err := t.Client.Config(ctx, strings.Repeat("0", 64)); errors.Is(err, fs.ErrPermission) || errors.Is(err, api.ErrNoOwner) || errors.Is(err, api.ErrNoAnswer) {
		return err
	}
	return nil
}

// bypassDaemon opens a device without its daemon, and writes the off-marker first, so
// that the daemon does not restore its rules when it is restarted. why is the error of
// opening the daemon; login, if any, is a connection to the device.
func (o *Opener) bypassDaemon(ctx context.Context, d *inventory.Device, login *ssh.Client, why error) (rollout.Target, error) {
	direct, run, err := o.openDirect(ctx, d)
	if err != nil {
		return nil, errors.Join(why, err)
	}
	socket := d.Management.Daemon.Socket
	if socket == "" {
		socket = "/run/csig/agent.sock" // its own, beside the port
	}
	marker := api.OffMarker(socket)
	reason := bypassReason(ctx, d, login, why)
	switch at := d.Management.Daemon.At; at {
	case "":
		err = writeOffMarker(ctx, run, marker)
	case inventory.Here:
		err = writeOffMarker(ctx, nil, marker)
	default:
		return restoredByAgent(direct, "%s, and restores its rules when it is started or continues: it runs at %s, where no off-marker can be written from here: stop it there", reason, at), nil
	}
	if err != nil {
		return restoredByAgent(direct, "%s, and restores its rules when it is started: no off-marker could be written there: %w; keep it from being started, or make the file %s yourself", reason, err, marker), nil
	}
	if at, err := all.OpenFlowListen(d); errors.Is(err, syscall.EADDRINUSE) {
		return nil, errors.Join(heldError(reason, at, socket, marker), direct.Close())
	}
	o.Bypassed(d.Name, reason, marker)
	return direct, nil
}

// heldError is that of a device whose agent still holds the address that its switch dials,
// although it does not answer.
func heldError(reason, at, socket, marker string) error {
	who, end := "another process", "find it (ss -ltnp) and end it"
	if pid := listenerPID(socket); pid != 0 {
		who, end = fmt.Sprintf("its process %d", pid), fmt.Sprintf("end it (kill -9 %d)", pid)
	}
	return fmt.Errorf("%s, and %s holds %s, which the switch connects to: the switch is not reached; %s, and run csig off again (the off-marker %s is written)", reason, who, at, end, marker)
}

// openDirect opens a device without its daemon. run runs commands on it, and ends with the
// target; it is nil where the device is this machine.
func (o *Opener) openDirect(ctx context.Context, d *inventory.Device) (t rollout.Target, run *ssh.Client, err error) {
	if cfg := (vendors.Config{Device: *d}); d.Management.NetNS != "" || !cfg.Remote() {
		t, err = o.openDriver(d)
		return t, nil, err
	}
	if run, err = ssh.Dial(ctx, ssh.Config{Address: d.Address, Login: *d.Management.SSH}); err != nil {
		return nil, nil, err
	}
	if p, err := o.Registry.Platform(d.Platform); err == nil && p.OnDevice {
		return &linux.SSHRemoval{Runner: run, Native: d.Platform == ebpf.Platform.Name}, run, nil
	}
	if t, err = o.openDriver(d); err != nil {
		return nil, nil, errors.Join(err, run.Close())
	}
	return &wrapped{Target: t, holds: run}, run, nil
}

// localAgent is an agent that programs a device of this machine.
type localAgent struct {
	pid   int  // 0: unknown
	usual bool // it listens at the usual socket
}

// String names it with its process.
func (a *localAgent) String() string {
	if a.pid == 0 {
		return "a csig agent"
	}
	return fmt.Sprintf("csig agent (process %d)", a.pid)
}

// bypassAgent opens a device directly for which the fleet file names no daemon. An
// agent of this machine may program it all the same: the off-marker keeps that one from
// restoring its rules. A driver with a lock of its own takes the device from its agent
// instead.
func (o *Opener) bypassAgent(ctx context.Context, d *inventory.Device) (rollout.Target, error) {
	direct, _, err := o.openDirect(ctx, d)
	if err != nil || locksItself(o.Registry, d) || !d.Local && d.Management.NetNS == "" {
		return direct, err
	}
	const name = "name its socket in the fleet file (management: {daemon: {socket: PATH}})"
	found, err := findLocalAgentIn(d.Management.NetNS)
	switch {
	case err != nil:
		return restoredByAgent(direct, "cannot find out whether an agent programs it and restores its rules: %w; stop the agent, or %s", err, name), nil
	case found == nil:
		return direct, nil
	case !found.usual:
		return restoredByAgent(direct, "%v programs it, not at the usual socket %s, and restores its rules: stop that agent and run csig off again, or %s", found, api.DefaultSocket(), name), nil
	}
	marker := api.OffMarker(api.DefaultSocket())
	if err := api.WriteOffMarker(marker, time.Now()); err != nil {
		return restoredByAgent(direct, "%v programs it, and restores its rules: no off-marker could be written: %w; stop that agent and run csig off again", found, err), nil
	}
	o.Bypassed(d.Name, found.String()+" programs it, and the fleet file does not name its socket", marker)
	return direct, nil
}

// bypassReason distinguishes a daemon that does not answer from one whose socket the
// account may not open: that one may well run.
func bypassReason(ctx context.Context, d *inventory.Device, login *ssh.Client, why error) string {
	const forbidden = "its daemon may not be opened by "
	socket := d.Management.Daemon.Socket
	switch {
	case errors.Is(why, fs.ErrPermission):
		name := fmt.Sprint("user ", os.Geteuid())
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
		if login != nil {
			name = d.Management.SSH.User
		}
		return forbidden + name
	case login != nil && plainPath.MatchString(socket): // sshd does not report which
		if _, err := login.Run(ctx, fmt.Sprintf(`/bin/sh -c 'test -S %[1]s && ! test -w %[1]s || LC_ALL=C ls -d %[1]s 2>&1 | grep -q "Permission denied"'`, socket), nil); err == nil {
			return forbidden + d.Management.SSH.User
		}
	}
	if errors.Is(why, api.ErrNoOwner) {
		return "its owner among the controllers does not answer"
	}
	return "its daemon does not answer"
}

// plainPath is a path that every shell takes for one word.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9._/+@:-]+$`)

// writeOffMarker writes the off-marker: on the device where run runs its commands, on
// this machine where that is nil.
func writeOffMarker(ctx context.Context, run *ssh.Client, marker string) error {
	if run == nil {
		return api.WriteOffMarker(marker, time.Now())
	}
	if !plainPath.MatchString(marker) {
		return fmt.Errorf("the path %q is not one for a command line", marker)
	}
	_, err := run.Run(ctx, markerCommand(marker), []byte(api.OffMarkerText(time.Now())))
	return err
}

// markerCommand writes the text on its standard input as an off-marker. A file that is there
// already is one, and stays as it is: with -C the shell creates a file or fails, and
// follows no link, as root, too. Where the fleet file has no sudo, one without a
// password is tried.
func markerCommand(marker string) string {
	const create = `set -C; there() { test -e "$1" || test -L "$1"; }; there "$1" || { mkdir -p "$2" && echo "$3" >"$1"; } || there "$1"`
	q := untrusted.ShellWord
	return fmt.Sprintf(`exec /bin/sh -c 't=$(cat); e=$(/bin/sh -c "$1" mark "$2" "$3" "$t" 2>&1) || { echo "$e" >&2; exec sudo -n /bin/sh -c "$1" mark "$2" "$3" "$t"; }' mark %s %s %s`, q(create), q(marker), q(filepath.Dir(marker)))
}
