package sai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// Shell is a login at a switch, as root: protocol/ssh has it.
type Shell interface {
	Run(ctx context.Context, command string, stdin []byte) ([]byte, error)
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	Close() error
}

// Remote is a switch behind a login: it looks there for what Local looks for.
type Remote struct{ Shell Shell }

// Close ends the login.
func (r Remote) Close() error { return r.Shell.Close() }

// lookup prints the arguments of orchagent and syncd in the login's network namespace, orchagent's process, with the machine's boot and what /proc has behind its name, then the
// names of the arguments that are texts of the library that it has loaded, each of a line; else what it found in their place.
const lookup = `own=$(readlink /proc/self/ns/net)
boot=$(cat /proc/sys/kernel/random/boot_id)
found=
for p in /proc/[0-9]*; do
name=$(cat $p/comm 2>/dev/null)
case $name in orchagent|syncd) ;; *) continue;; esac
grep -qs '^State:.[ZX]' $p/status && continue
[ "$(sed -n 's/^Uid:[^0-9]*//p' $p/status 2>/dev/null | tr -d '0\t')" = "" ] || continue
ns=$(readlink $p/ns/net 2>/dev/null) || { [ -d $p ] && echo "unreadable $name ${p#/proc/}"; continue; }
[ "$ns" = "$own" ] || { [ $name = syncd ] || echo elsewhere; continue; }
[ $name = syncd ] || [ -z "$found" ] || continue
args=$(tr '\000\012' ' ?' 2>/dev/null < $p/cmdline)
[ -n "$args" ] || continue
[ $name = syncd ] || { stat=$(cat $p/stat 2>/dev/null) && found=$p && echo "process ${p#/proc/} $boot ${stat##*)}" || continue; }
echo "arguments $name ${p#/proc/} $args"
done
[ -n "$found" ] || exit 0
lib=$(sed -n 's|^[^/]*\(/.*/` + metadataLibrary + `[^ ]*\)$|\1|p' $found/maps | head -n 1)
[ -n "$lib" ] || { echo "no library"; exit 0; }
tr '\000' '\012' < "$found/root$lib" | LC_ALL=C grep -axF "$1" | sort -u`

// Orchagent implements Host.
func (r Remote) Orchagent(ctx context.Context) (Process, error) {
	used := usedNames()
	script := "sh -c " + untrusted.ShellWord(lookup) + " csig " + untrusted.ShellWord(strings.Join(slices.Sorted(maps.Keys(used)), "\n"))
	out, err := r.Shell.Run(ctx, script, nil)
	if err != nil {
		return Process{}, err
	}
	p, elsewhere, syncds := Process{Names: map[string]bool{}}, 0, 0
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		what, rest, _ := strings.Cut(line, " ")
		fields := strings.Fields(rest)
		switch {
		case what == "elsewhere":
			elsewhere++
		case what == "unreadable":
			return Process{}, fmt.Errorf("%s can be looked at by root alone: log in as root, or give its management sudo", untrusted.Text(rest, 40))
		case what == "arguments" && len(fields) > 2 && (fields[0] == "orchagent" || fields[0] == "syncd") && pidText(fields[1]):
			p.Unfit = cmp.Or(p.Unfit, unfit(fields[0], fields[1], fields[2:]))
			if fields[0] == "syncd" {
				syncds++
			}
		case what == "process" && len(fields) > 21 && p.ID == "" && pidText(fields[0]) && bootID.MatchString(fields[1]) && pidText(fields[21]):
			p.ID = fields[0] + " " + fields[21] + " " + fields[1]
		case line == "no library":
			return Process{}, fmt.Errorf("orchagent (process %s) has no %s loaded", p.ID, metadataLibrary)
		case used[line] && p.ID != "":
			p.Names[line] = true
		default:
			return Process{}, fmt.Errorf("looking for orchagent on the switch: %q", untrusted.Text(line, 100))
		}
	}
	switch {
	case p.ID != "" && syncds == 0:
		return Process{}, errNoSyncd
	case p.ID != "":
		return p, nil
	case elsewhere > 0:
		return Process{}, fmt.Errorf("%w: %d run in other network namespaces than that of the login, as on a switch of several ASICs: run csig agent on it", ErrNoOrchagent, elsewhere)
	}
	return Process{}, ErrNoOrchagent
}

var bootID = regexp.MustCompile(`^[0-9a-f-]{36}$`)

func pidText(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// Dial implements Host.
func (r Remote) Dial(ctx context.Context, p Process) (net.Conn, error) {
	pid, _, _ := strings.Cut(p.ID, " ")
	if !pidText(pid) {
		return nil, errors.New("no process of orchagent is known")
	}
	conn, err := r.Shell.Dial(ctx, "unix", "/proc/"+pid+"/root"+serverSocket)
	if err != nil {
		return nil, fmt.Errorf("orchagent's SAI server (ServerSai of libsairedis; root may open it): %w", err)
	}
	return conn, nil
}
