package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/cmd/process"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

func newMesh() *cobra.Command {
	return group("mesh", "Hosts probe each other, and name the bottlenecks between them", `  csig mesh run -i fleet.yaml
  csig mesh status
  csig mesh why h1 h6`, newMeshRun(), newMeshStatus(), newMeshWhy(), newMeshHistograms())
}

// meshSocket is where a collector answers unless --socket says otherwise; unitSocket where that of the unit
// csig-mesh does, whose user is another one than that of an agent or a controller on its machine.
func meshSocket() string { return filepath.Join(vendors.AgentDir(), "mesh.sock") }

const unitSocket = "/run/csig-mesh/mesh.sock"

type meshOptions struct {
	file, socket, rate string
	host               string
	collect, json      bool
	agents             bool
	metrics            string
	tls                api.TLSFiles
	read               []string
	log                process.LogOptions
}

func newMeshRun() *cobra.Command {
	var o meshOptions
	cmd := &cobra.Command{
		Use:   "run -i FLEET",
		Short: "Probe the other hosts of the mesh, and answer them (the daemon)",
		Long: `Probe the other hosts of the fleet file that have an address, and answer their probes.
The entry marked local is this machine. Each host is probed once in the interval of the
file's mesh section, with UDP datagrams with and without a tag. It takes CAP_NET_RAW, or
csig host run on this machine.

A fleet file that you changed is read again when it is saved, and, with the key that it
names, at SIGHUP. One with a mistake changes nothing: the log has its place. In a terminal
SIGHUP ends it as SIGTERM does.`,
		Example: `  csig mesh run -i fleet.yaml --collect`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return meshRun(cmd, &o) },
	}
	f := cmd.Flags()
	addFleet(cmd, &o.file)
	f.BoolVar(&o.collect, "collect", false, "this host collects what all find out, at the port of the fleet file's mesh: collector")
	f.BoolVar(&o.agents, "agents", false, "with --collect: compare what hosts read with what the agents say that the fleet file names (management: daemon)")
	f.StringVar(&o.rate, "rate", "", "what probes and answers may take of the link, e.g. 1M (default: a thousandth of what it reports)")
	f.StringVar(&o.socket, "socket", meshSocket(), "unix socket for csig mesh status, with --collect")
	f.StringVar(&o.host, "host-signals", "", "socket at which csig host run of this machine offers signals (default: /run/csig-host/host-signals.sock or /run/csig/host-signals.sock): where it runs, probes need no privilege")
	f.StringVar(&o.metrics, "metrics", "", "with --collect: serve metrics for Prometheus at this TCP address, e.g. 127.0.0.1:9344; needs --tls-read unless it is a loopback address")
	f.StringVar(&o.tls.Cert, "tls-cert", "", "certificate with this host's name (PEM)")
	f.StringVar(&o.tls.Key, "tls-key", "", "its key (PEM)")
	f.StringVar(&o.tls.CA, "tls-ca", "", "authorities of the other hosts' certificates (PEM)")
	f.StringSliceVar(&o.read, "tls-read", nil, "names of client certificates that may read the status")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key", "tls-ca")
	o.log.Flags(f)
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		help(cmd, args)
		fmt.Fprint(cmd.OutOrStdout(), meshRatesHere())
	})
	return cmd
}

// localHost is the host of the mesh that is this machine.
func localHost(f *inventory.Fleet) (*inventory.Host, error) {
	if f.Mesh == nil {
		return nil, fmt.Errorf("%s has no mesh: add one with its key, e.g. mesh: {key: {file: /etc/csig/mesh.key}}", f.Path)
	}
	var local *inventory.Host
	for i := range f.Hosts {
		switch h := &f.Hosts[i]; {
		case !h.Local:
		case local != nil:
			return nil, fmt.Errorf("%s: the hosts %s and %s are both marked local: leave it with the one that is this machine", f.Path, local.Name, h.Name)
		case h.Address == "":
			return nil, fmt.Errorf("%s: host %s has no address: add the one that other hosts reach it at", f.Path, h.Name)
		default:
			local = h
		}
	}
	if local == nil {
		return nil, fmt.Errorf("%s: no host is marked local: add local: true, and its interface, to the one that is this machine", f.Path)
	}
	return local, nil
}

func newMeshStatus() *cobra.Command {
	var o meshOptions
	var watch, check, matrix bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the bottlenecks, by how many pairs of hosts they limit",
		Long: `Show which egress ports limit how many pairs of hosts, and what is wrong between
them. A port limits a pair where at most half of its speed is left. The collector
is the csig mesh run --collect of this machine, or the csig-controller --mesh; with -i
the one that the fleet file names, on any machine, by the certificates of its mesh: tls.

--check prints one line for a monitoring system: 0 nothing is wrong, 1 warnings, or a
host is silent, 2 errors, or no collector answers, 3 unknown. Bottlenecks are no fault.`,
		Example: `  csig mesh status
  csig mesh status --watch
  csig mesh status -i fleet.yaml
  csig mesh status --matrix
  csig mesh status --check
  csig mesh status --json | jq '.bottlenecks[0].ports'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := o.where()
			if err != nil {
				return err
			}
			if check {
				return checkMesh(cmd, &o, at)
			}
			screen := newScreen(cmd.OutOrStdout())
			for {
				s, err := at.status(cmd.Context())
				if err != nil {
					return err
				}
				switch {
				case o.json:
					err = printJSON(cmd.OutOrStdout(), s)
				default:
					err = screen.draw(meshText(s, screen.columns(), matrix), watch)
				}
				if err != nil || !watch {
					return err
				}
				select {
				case <-cmd.Context().Done():
					return cmd.Context().Err()
				case <-time.After(time.Second):
				}
			}
		},
	}
	f := cmd.Flags()
	o.addWhere(cmd)
	f.BoolVar(&watch, "watch", false, "show it again each second, until interrupted")
	f.BoolVar(&check, "check", false, "print one line, and exit with 0, 1, 2 or 3 as monitoring plugins do")
	f.BoolVar(&matrix, "matrix", false, fmt.Sprintf("show every pair, too, of up to %d hosts", mesh.MostMatrix))
	cmd.MarkFlagsMutuallyExclusive("check", "watch")
	cmd.MarkFlagsMutuallyExclusive("check", "matrix")
	addJSON(cmd, &o.json)
	return cmd
}

// meshCheck is a check as JSON.
type meshCheck struct {
	Format string       `json:"format"`
	Result string       `json:"result"` // ok, warning, critical or unknown
	Code   int          `json:"code"`   // the exit code
	Why    string       `json:"why"`    // what the line of text has
	Status *mesh.Status `json:"status"` // null where no collector answered
}

func checkMesh(cmd *cobra.Command, o *meshOptions, at *meshCollector) error {
	s, err := at.status(cmd.Context())
	out := meshCheck{Format: "csig.mesh-check/v1", Status: s}
	switch {
	case errors.Is(err, errNoCollector):
		out.Code, out.Why, out.Status = checkCritical, err.Error(), nil
	case err != nil:
		out.Code, out.Why, out.Status = checkUnknown, err.Error(), nil
	default:
		out.Code, out.Why = judgeMesh(s)
	}
	out.Result = strings.ToLower(checkWords[out.Code])
	if o.json {
		err = printJSON(cmd.OutOrStdout(), out)
	} else {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: csig mesh: %s\n", checkWords[out.Code], strings.ReplaceAll(out.Why, "\n", " "))
	}
	if err != nil || out.Code == checkOK {
		return err
	}
	return &exitError{code: out.Code}
}

// judgeMesh is how well a mesh does, and a sentence with the worst first.
func judgeMesh(s *mesh.Status) (code int, why string) {
	var parts []string
	for i := range s.Findings {
		f := &s.Findings[i]
		if c := map[findings.Level]int{findings.Error: checkCritical, findings.Warning: checkWarning}[f.Level]; c > code {
			code = c
		}
		parts = append(parts, strings.TrimPrefix(f.Place()+": "+f.Reason, ": "))
	}
	head := meshSummary(s)
	if len(s.Bottlenecks) > 0 {
		b := &s.Bottlenecks[0]
		head += fmt.Sprintf("; %s limits %s", strings.Join(b.Ports, " or "), count(b.Pairs, "pair"))
	}
	return code, strings.Join(append(parts, head), "; ")
}

func newMeshWhy() *cobra.Command {
	var o meshOptions
	cmd := &cobra.Command{
		Use:   "why FROM TO",
		Short: "Show what the way from one host to another has read, and when that changed",
		Example: `  csig mesh why h1 h6
  csig mesh why h1 h6 --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError(cmd, "want two hosts, FROM and TO")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := o.where()
			if err != nil {
				return err
			}
			w := new(mesh.Why)
			path := mesh.WhyPath + "?" + url.Values{"from": args[:1], "to": args[1:]}.Encode()
			if err := at.ask(cmd.Context(), path, w, func() (string, string) { return w.Format, mesh.WhyFormat }); err != nil {
				return err
			}
			if o.json {
				return printJSON(cmd.OutOrStdout(), w)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), meshWhyText(w))
			return err
		},
	}
	o.addWhere(cmd)
	addJSON(cmd, &o.json)
	return cmd
}

// meshMinuteLook is how often csig mesh histograms --watch looks whether a minute is over.
const meshMinuteLook = 10 * time.Second

func newMeshHistograms() *cobra.Command {
	var o meshOptions
	var watch bool
	cmd := &cobra.Command{
		Use:   "histograms",
		Short: "Print for how long paths had each S in the last whole minute, as a line of JSON",
		Long: `Print for how long the paths from each host to each prefix had each S of each locator,
in the last minute of the collector that is over: one JSON object in one line.

--watch prints a line for each minute when it is over. A minute that the collector
began later than the one before ended shows as a gap between until and from.`,
		Example: `  csig mesh histograms | jq '.histograms[] | select(.ports == ["leaf1:swp49"])'
  csig mesh histograms --watch >> mesh.jsonl`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := o.where()
			if err != nil {
				return err
			}
			return at.minutes(cmd.Context(), cmd.OutOrStdout(), watch)
		},
	}
	o.addWhere(cmd)
	cmd.Flags().BoolVar(&watch, "watch", false, "print each minute when it is over, until interrupted")
	return cmd
}

// minutes prints the last minute that is over; with watch each one that comes, until ctx ends.
func (c *meshCollector) minutes(ctx context.Context, w io.Writer, watch bool) error {
	var last time.Time
	for {
		h := new(mesh.Histograms)
		if err := c.ask(ctx, mesh.HistogramsPath, h, func() (string, string) { return h.Format, mesh.HistogramsFormat }); err != nil {
			return err
		}
		if !watch || h.Until.After(h.From) && !h.Until.Equal(last) { // before the first minute is over it has no length
			last = h.Until
			if err := printLine(w, h); err != nil {
				return err
			}
		}
		if !watch {
			return nil
		}
		if err := vendors.Wait(ctx, meshMinuteLook); err != nil {
			return err
		}
	}
}

// addWhere adds the flags that say where the collector is.
func (o *meshOptions) addWhere(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.socket, "socket", "", "unix socket of the collector (default: "+meshSocket()+", or that of the unit csig-mesh)")
	cmd.Flags().StringVarP(&o.file, "inventory", "i", "", "fleet file: ask the collector that its mesh names, over TLS")
	cmd.MarkFlagsMutuallyExclusive("socket", "inventory")
}

// meshCollector is where a collector answers.
type meshCollector struct {
	name, url string
	files     api.TLSFiles // of csig; none at a socket
	transport *http.Transport
}

// collectorAt is the one that answers at a unix socket.
func collectorAt(socket string) *meshCollector {
	return &meshCollector{name: socket, url: "http://mesh", transport: atSocket(socket)}
}

// where is the collector that is to be asked.
func (o *meshOptions) where() (*meshCollector, error) {
	if o.file == "" {
		socket := o.socket
		if socket == "" {
			if socket = meshSocket(); !isThere(socket) && isThere(unitSocket) {
				socket = unitSocket
			}
		}
		return collectorAt(socket), nil
	}
	f, err := inventory.Load(o.file)
	if err != nil {
		return nil, err
	}
	if f.Mesh == nil || f.Mesh.TLS.Cert == "" {
		return nil, fmt.Errorf("%s does not say how to reach the collector: add to its mesh tls: {ca: /PATH, cert: /PATH, key: /PATH}, with a certificate whose name is in the collector's --tls-read", f.Path)
	}
	t := f.Mesh.TLS
	files := api.TLSFiles{Cert: t.Cert, Key: t.Key, CA: t.CA}
	conf, err := files.Client(cmp.Or(t.ServerName, mesh.CollectorName(f)))
	if err != nil {
		return nil, fmt.Errorf("%s: mesh: tls: %w", f.Path, err)
	}
	return &meshCollector{
		name: f.Mesh.Collector, url: "https://" + f.Mesh.Collector, files: files,
		transport: &http.Transport{MaxResponseHeaderBytes: 16 << 10, DisableKeepAlives: true, TLSClientConfig: conf},
	}, nil
}

var errNoCollector = errors.New("no collector answers")

const maxMeshAnswer = 64 << 20 // bytes

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// status is what the collector knows now.
func (c *meshCollector) status(ctx context.Context) (*mesh.Status, error) {
	s := new(mesh.Status)
	return s, c.ask(ctx, mesh.StatusPath, s, func() (string, string) { return s.Format, mesh.StatusFormat })
}

// ask asks the collector; formats are the answer's own and the one that is wanted.
func (c *meshCollector) ask(ctx context.Context, path string, to any, formats func() (is, want string)) error {
	who := "the collector at " + c.name
	err := askJSON(ctx, c.transport, c.url+path, who, maxMeshAnswer, to)
	is, want := formats()
	var silent unansweredError
	switch {
	case errors.As(err, &silent):
		return fmt.Errorf("%w at %s: %w", errNoCollector, c.name, c.unanswered(ctx, silent.error))
	case errors.Is(err, errOtherAnswer), err == nil && is != want:
		return fmt.Errorf("%s answers with something else than %s: use the csig that goes with it", who, want)
	}
	return err
}

// unanswered is why no collector answers, and what to do.
func (c *meshCollector) unanswered(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: its socket is for the user alone that it runs as, and for root", err)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return fmt.Errorf("it says nothing for %v: look at its process", askWait)
	case c.files.Cert == "":
		return fmt.Errorf("%w: csig mesh run --collect is one, and csig-controller --mesh; name its socket with --socket, or a fleet file with -i", err)
	}
	return c.files.Explain(err, c.transport.TLSClientConfig, mesh.CollectorPeer("mesh: tls: ca", "mesh: tls: server_name"))
}
