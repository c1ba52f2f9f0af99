package sai

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Host is the machine that orchagent runs on.
type Host interface {
	// Orchagent finds its process, and looks at syncd's. Errors: ErrNoOrchagent; others may pass.
	Orchagent(ctx context.Context) (Process, error)

	// Dial connects to ServerSai's socket of that process.
	Dial(ctx context.Context, p Process) (net.Conn, error)
}

// Process is an orchagent that runs.
type Process struct {
	ID    string          // tells it from one before or after, and from those of other machines
	ASIC  string          // on a switch of several ASICs that which it drives, as "asic0"; "" elsewhere
	Names map[string]bool // of object types, attributes and enums' values that csig uses, those that its SAI has
	Unfit string          // why nothing may be sent to it, by the arguments that it and syncd run with; "": it may
}

// ErrNoOrchagent is in the error of a machine on which none runs.
var ErrNoOrchagent = errors.New("no orchagent runs there")

// errNoSyncd is that of one on which orchagent runs, and nothing that carries out its calls.
var errNoSyncd = errors.New("no syncd runs there, which carries out what orchagent is asked for")

// unfit is why nothing may be sent while orchagent or syncd runs with these arguments, "" where they are none of a reason. CONFIG_DB has what
// the next start will be. One that is asynchronous learns no outcome, and syncd then throws at a call that the chip refuses (syncd/Syncd.cpp,
// processQuadEvent): both are unless told otherwise (sonic-swss orchagent/main.cpp, syncd/CommandLineOptionsParser.cpp).
func unfit(name, pid string, args []string) string {
	synchronous, late, mode := false, false, ""
	for i, arg := range args {
		switch {
		case arg == "-s" || arg == "--syncMode":
			synchronous = true
		case (arg == "-z" || arg == "--redisCommunicationMode") && i+1 < len(args):
			mode = args[i+1]
		case strings.HasPrefix(arg, "-z"):
			mode = arg[len("-z"):]
		case strings.HasPrefix(arg, "--redisCommunicationMode="):
			_, mode, _ = strings.Cut(arg, "=")
		case arg == "-R" || arg == "--asyncRec":
			late = name == "syncd" // orchagent's is another
		}
	}
	switch {
	case !synchronous && mode != "redis_sync" && mode != "zmq_sync":
		return fmt.Sprintf("%s (process %s) runs asynchronously there, with neither -s nor -z redis_sync or zmq_sync among its arguments: a syncd that does would end at what the chip refuses, and an orchagent does not learn it. Run config synchronous_mode enable, and restart swss", name, pid)
	case late:
		return fmt.Sprintf("syncd (process %s) runs with -R, so that it writes to ASIC_DB some time after its answers and csig cannot tell what it has made: set the status of SYSTEM_DEFAULTS|async_rec in CONFIG_DB to disabled, and restart swss", pid)
	}
	return ""
}

// serverSocket is ServerSai's (sonic-sairedis lib/ServerConfig.cpp), in orchagent's container.
const serverSocket = "/tmp/saiServer"

// Local is this machine: orchagent's container shares its processes, and /proc has the container's files.
type Local struct{ Proc string } // "": /proc

func (l Local) proc(parts ...string) string {
	root := l.Proc
	if root == "" {
		root = "/proc"
	}
	return filepath.Join(append([]string{root}, parts...)...)
}

// Orchagent implements Host. It asks orchagent nothing: what its SAI has is read in the library that it has loaded.
func (l Local) Orchagent(ctx context.Context) (Process, error) {
	entries, err := os.ReadDir(l.proc())
	if err != nil {
		return Process{}, err
	}
	// A switch of several ASICs has one for each, in network namespaces of their own; else it has the host's
	// (sonic-buildimage files/build_templates/docker_image_ctl.j2).
	netns, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		return Process{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Process{}, err
	}
	var p Process
	elsewhere, pid, unfits, syncds := 0, "", "", 0
	for _, e := range entries {
		of := e.Name()
		if _, err := strconv.Atoi(of); err != nil {
			continue
		}
		comm, err := os.ReadFile(l.proc(of, "comm"))
		name := strings.TrimSpace(string(comm))
		if err != nil || name != "orchagent" && name != "syncd" {
			continue
		}
		if status, err := os.ReadFile(l.proc(of, "status")); err != nil || !ofRoot.Match(status) {
			continue // it has ended, or it is a user's, who gave it the name
		}
		start, err := l.started(of)
		if err != nil {
			continue // it has ended
		}
		if its, err := os.Readlink(l.proc(of, "ns", "net")); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return Process{}, fmt.Errorf("%s (process %s; root with CAP_SYS_PTRACE may look at it): %w", name, of, err)
		} else if its != netns {
			if name == "orchagent" {
				elsewhere++
			}
			continue
		}
		args, err := os.ReadFile(l.proc(of, "cmdline"))
		if err != nil || len(args) == 0 || name == "orchagent" && pid != "" {
			continue
		}
		unfits = cmp.Or(unfits, unfit(name, of, strings.Split(string(args), "\x00")))
		if name == "syncd" { // one of an external PHY is one more, and starts by the same key
			syncds++
			continue
		}
		p.ID, pid = of+" "+start+" "+strings.TrimSpace(string(boot)), of
		if m := ofASIC.FindSubmatch(args); m != nil {
			p.ASIC = string(m[1])
		}
	}
	switch {
	case pid != "" && syncds == 0:
		return Process{}, errNoSyncd
	case pid != "":
		p.Unfit = unfits
		p.Names, err = l.names(ctx, pid)
		return p, err
	case elsewhere > 0:
		return Process{}, fmt.Errorf("%w: %d run in other network namespaces: on a switch of several ASICs run csig in that of one (ip netns exec asic0 csig agent)", ErrNoOrchagent, elsewhere)
	}
	return Process{}, ErrNoOrchagent
}

// ofRoot is in the status of a process whose users, all four, are root (proc_pid_status(5)).
var ofRoot = regexp.MustCompile(`(?m)^Uid:\t0\t0\t0\t0$`)

// ofASIC is in the arguments of orchagent on a switch of several ASICs (sonic-buildimage dockers/docker-orchagent/orchagent.sh).
var ofASIC = regexp.MustCompile(`\x00swss\.(asic[0-9]{1,3})\.rec\x00`)

// started is when a process was, in ticks since the machine was.
func (l Local) started(pid string) (string, error) {
	stat, err := os.ReadFile(l.proc(pid, "stat"))
	if err != nil {
		return "", err
	}
	// The name, in parentheses, may have anything in it (proc_pid_stat(5)).
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("%s has %d fields", l.proc(pid, "stat"), len(fields))
	}
	return fields[19], nil
}

// Dial implements Host.
func (l Local) Dial(ctx context.Context, p Process) (net.Conn, error) {
	pid, _, _ := strings.Cut(p.ID, " ")
	path := l.proc(pid, "root") + serverSocket
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("orchagent's SAI server (ServerSai of libsairedis; root may open it): %w", err)
	}
	return conn, nil
}

// metadataLibrary has the names of SAI's attributes as texts (sonic-sairedis SAI/meta).
const metadataLibrary = "libsaimetadata.so"

// names reads them in the library that a process has loaded.
func (l Local) names(ctx context.Context, pid string) (map[string]bool, error) {
	maps, err := os.Open(l.proc(pid, "maps"))
	if err != nil {
		return nil, err
	}
	defer maps.Close()
	lines := bufio.NewScanner(io.LimitReader(maps, 16<<20))
	for lines.Scan() {
		at := strings.IndexByte(lines.Text(), '/')
		if at < 0 || !strings.Contains(lines.Text()[at:], "/"+metadataLibrary) {
			continue
		}
		f, err := os.Open(l.proc(pid, "root", lines.Text()[at:]))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return readNames(ctx, f)
	}
	return nil, errors.Join(lines.Err(), fmt.Errorf("orchagent (process %s) has no %s loaded", pid, metadataLibrary))
}

// mostLibrary bounds what is read of a library, in bytes.
const mostLibrary = 256 << 20

var nameText = regexp.MustCompile(`SAI_[A-Z0-9_]{4,100}`)

// usedNames are those that csig uses.
func usedNames() map[string]bool {
	used := map[string]bool{}
	for t := range objectNames {
		used[t.String()] = true
	}
	for i := range Attributes {
		used[Attributes[i].Name] = true
	}
	for _, list := range Values {
		for _, v := range list {
			used[string(v)] = true
		}
	}
	return used
}

// readNames finds the names that csig uses among the texts of a library.
func readNames(ctx context.Context, from io.Reader) (map[string]bool, error) {
	used := usedNames()
	out := map[string]bool{}
	const overlap = 128
	buf, kept := make([]byte, 1<<20), 0
	for in := io.LimitReader(from, mostLibrary); ; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := io.ReadFull(in, buf[kept:])
		have := buf[:kept+n]
		for _, at := range nameText.FindAllIndex(have, -1) {
			// A name is a text of its own: one that is the beginning of another's is none.
			if ended := at[1] < len(have) && have[at[1]] == 0; ended || err != nil {
				if name := string(have[at[0]:at[1]]); used[name] && (at[0] == 0 || have[at[0]-1] == 0) {
					out[name] = true
				}
			}
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return out, nil
		case err != nil:
			return nil, err
		}
		kept = copy(buf, have[len(have)-overlap:])
	}
}
