package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/cmd/process"
	"github.com/csig-agent/csig/hosts/tcp"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

func newHost() *cobra.Command {
	return group("host", "TCP connections of this machine carry the signal, and show their bottlenecks", `  csig host check -i fleet.yaml
  csig host run -i fleet.yaml
  csig host status`, newHostCheck(), newHostRun(), newHostStatus())
}

// hostSocket is where csig host run answers unless --socket says otherwise.
func hostSocket() string { return filepath.Join(vendors.AgentDir(), "host.sock") }

const hostUnitSocket = "/run/csig-host/host.sock"

type hostOptions struct {
	file, socket, metrics, pin string
	tls                        api.TLSFiles // of metrics
	read                       []string
	json                       bool
	log                        process.LogOptions
}

func newHostCheck() *cobra.Command {
	var o hostOptions
	cmd := &cobra.Command{
		Use:   "check [-i FLEET]",
		Short: "Show whether this machine's TCP can carry the signal",
		Long: `Show what csig host run needs of this kernel, and what makes it cheap, line by line. With
a fleet file also of the network interface and the routes of the host that is marked local.
Nothing is changed. The exit code is 1 where something that is needed is missing.`,
		Example: `  csig host check
  csig host check -i fleet.yaml
  csig host check --json | jq '.parts[] | select(.ok | not)'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := hostCheck(&o)
			if err != nil {
				return err
			}
			if o.json {
				err = printJSON(cmd.OutOrStdout(), c)
			} else {
				_, err = io.WriteString(cmd.OutOrStdout(), hostCheckText(c, newScreen(cmd.OutOrStdout()).columns()))
			}
			if err == nil && !c.OK {
				return &exitError{code: 1}
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&o.file, "inventory", "i", "", "fleet file, with a host that is marked local")
	addJSON(cmd, &o.json)
	return cmd
}

// hostCheckText is a line for each part, and what is to be done below those that miss something.
func hostCheckText(c *tcp.Check, columns int) string {
	var b strings.Builder
	missing := 0
	for i := range c.Parts {
		p := &c.Parts[i]
		word := "ok"
		switch {
		case !p.OK && p.Needed:
			word = "no"
			missing++
		case !p.OK:
			word = "--"
		}
		b.WriteString(wrap(fmt.Sprintf("%s  %s: %s", word, p.Name, p.Reason), columns, 4))
		if p.Next != "" {
			b.WriteString("    " + p.Next + "\n") // whole: it may be a command to type
		}
	}
	b.WriteByte('\n')
	if missing == 0 {
		b.WriteString("csig host run works here.\n")
	} else {
		fmt.Fprintf(&b, "csig host run does not work here: %s missing.\n", count(missing, "part"))
	}
	return b.String()
}

func newHostRun() *cobra.Command {
	var o hostOptions
	cmd := &cobra.Command{
		Use:   "run -i FLEET",
		Short: "Have TCP connections carry tags, and reflect those of the peers (the daemon)",
		Long: `Have the TCP connections of this machine carry tags, to the prefixes that the fleet file
lists for the host that is marked local (tcp: to), and reflect the tags of the peers that
run csig host run, too. Connections to all others are left as they are. All that runs in
the kernel ends with this process, by whatever end: connections go on without tags. With
--pin it stays, for an upgrade, until the directory is removed.

A fleet file that you changed is read again when it is saved, and at SIGHUP: connections that
it still has keep their tags. One with a mistake changes nothing: the log has its place. In a
terminal SIGHUP ends it as SIGTERM does.`,
		Example: `  csig host run -i fleet.yaml`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return hostRun(cmd, &o) },
	}
	f := cmd.Flags()
	addFleet(cmd, &o.file)
	f.StringVar(&o.socket, "socket", hostSocket(), "unix socket for csig host status")
	f.StringVar(&o.pin, "pin", "", "directory in a BPF file system, e.g. /sys/fs/bpf/csig-host/pins: what runs in the kernel stays there when csig ends, and the next csig host run with it takes it over")
	f.StringVar(&o.metrics, "metrics", "", "serve metrics for Prometheus at this TCP address, e.g. 127.0.0.1:9345; needs --tls-read unless it is a loopback address")
	f.StringVar(&o.tls.Cert, "tls-cert", "", "certificate of the metrics (PEM)")
	f.StringVar(&o.tls.Key, "tls-key", "", "its key (PEM)")
	f.StringVar(&o.tls.CA, "tls-ca", "", "authorities of the certificates of --tls-read (PEM)")
	f.StringSliceVar(&o.read, "tls-read", nil, "names of client certificates that may read the metrics")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key", "tls-ca")
	o.log.Flags(f)
	return cmd
}

func newHostStatus() *cobra.Command {
	var o hostOptions
	var watch, check bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show TCP connections with their bottlenecks",
		Long: `Show the TCP connections whose ends both run csig host run, with what limits the frames
that this host sends: the signal, the egress port by the fleet file, and how old the newest
reflection is. CONTROL is the congestion control that has the connection.

--check prints one line for a monitoring system: 0 nothing is wrong, 1 csig's congestion control
is wanted and has no connection, 2 no connection has tags or csig host run does not answer, 3
what answers is another program.`,
		Example: `  csig host status
  csig host status --watch
  csig host status --check
  csig host status --json | jq '.flows[] | {remote, learned}'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if check {
				return checkHost(cmd, &o)
			}
			screen := newScreen(cmd.OutOrStdout())
			for {
				s, err := askHost(cmd.Context(), o.socket)
				if err != nil {
					return err
				}
				if o.json {
					err = printJSON(cmd.OutOrStdout(), s)
				} else {
					err = screen.draw(hostStatusText(s, screen.columns()), watch)
				}
				if err != nil || !watch {
					return err
				}
				if err := vendors.Wait(cmd.Context(), time.Second); err != nil {
					return err
				}
			}
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.socket, "socket", "", "unix socket of csig host run (default: "+hostSocket()+", or that of the unit csig-host)")
	f.BoolVar(&watch, "watch", false, "show it again each second, until interrupted")
	f.BoolVar(&check, "check", false, "print one line, and exit with 0, 1, 2 or 3 as monitoring plugins do")
	cmd.MarkFlagsMutuallyExclusive("check", "watch")
	addJSON(cmd, &o.json)
	return cmd
}

// hostStatusCheck is a check of the status as JSON.
type hostStatusCheck struct {
	Format string      `json:"format"`
	Result string      `json:"result"` // ok, warning, critical or unknown
	Code   int         `json:"code"`   // the exit code
	Why    string      `json:"why"`    // what the line of text has
	Status *tcp.Status `json:"status"` // null where csig host run does not answer
}

func checkHost(cmd *cobra.Command, o *hostOptions) error {
	s, err := askHost(cmd.Context(), o.socket)
	out := hostStatusCheck{Format: "csig.host-status-check/v1", Status: s}
	switch {
	case errors.Is(err, errNoHost):
		out.Code, out.Why = checkCritical, err.Error()
	case err != nil:
		out.Code, out.Why = checkUnknown, err.Error()
	default:
		out.Code, out.Why = judgeHost(s)
	}
	out.Result = strings.ToLower(checkWords[out.Code])
	if o.json {
		err = printJSON(cmd.OutOrStdout(), out)
	} else {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: csig host: %s\n", checkWords[out.Code], strings.ReplaceAll(out.Why, "\n", " "))
	}
	if err != nil || out.Code == checkOK {
		return err
	}
	return &exitError{code: out.Code}
}

// judgeHost is how well a host does, and a sentence with the worst first.
func judgeHost(s *tcp.Status) (code int, why string) {
	var parts []string
	if s.Trouble != "" {
		code = checkCritical
		parts = append(parts, "no connection has tags: "+s.Trouble)
	}
	if s.Control.Trouble != "" {
		code = max(code, checkWarning)
		parts = append(parts, "csig's congestion control has no connection: "+s.Control.Trouble)
	}
	return code, strings.Join(append(parts, hostSummary(s)), "; ")
}

// hostSummary is a host in a line.
func hostSummary(s *tcp.Status) string {
	tagged := 0
	for i := range s.Flows {
		if s.Flows[i].State == tcp.FlowTagged {
			tagged++
		}
	}
	return fmt.Sprintf("host %s at %s: %s with a peer that reflects tags, %d of them with tags now", s.Host, s.Interface, count(len(s.Flows), "connection"), tagged)
}

// errNoHost is in the error where csig host run does not answer.
var errNoHost = errors.New("csig host run does not answer")

// maxHostAnswer bounds a status of 10,000 connections, in bytes.
const maxHostAnswer = 32 << 20

// askHost is the status of csig host run.
func askHost(ctx context.Context, socket string) (*tcp.Status, error) {
	if socket == "" {
		if socket = hostSocket(); !isThere(socket) && isThere(hostUnitSocket) {
			socket = hostUnitSocket
		}
	}
	s := new(tcp.Status)
	err := askJSON(ctx, atSocket(socket), "http://host"+tcp.StatusPath, "csig host run at "+socket, maxHostAnswer, s)
	var silent unansweredError
	switch {
	case errors.As(err, &silent):
		return nil, fmt.Errorf("%w at %s (%w): start it, or name its socket with --socket", errNoHost, socket, silent.error)
	case errors.Is(err, errOtherAnswer), err == nil && s.Format != tcp.StatusFormat:
		return nil, fmt.Errorf("what answers at %s is not csig host run of this version: name its socket with --socket", socket)
	case err != nil:
		return nil, err
	}
	return s, nil
}

// hostStatusText is the connections as a table, a line for each signal of one.
func hostStatusText(s *tcp.Status, columns int) string {
	var b strings.Builder
	b.WriteString(wrap(hostSummary(s), columns, 2))
	if s.Trouble != "" {
		b.WriteString(wrap("no connection has tags: "+s.Trouble, columns, 2))
	}
	if c := &s.Counts; c.DatagramsSent+c.DatagramsReceived > 0 {
		fmt.Fprintf(&b, "datagrams with tags, as programs asked: %d sent, %d received\n", c.DatagramsSent, c.DatagramsReceived)
	}
	if s.More {
		fmt.Fprintf(&b, "There are more than the %d connections that are shown.\n", len(s.Flows))
	}
	b.WriteString(controlText(s, columns))
	if len(s.Flows) == 0 {
		return b.String()
	}
	b.WriteByte('\n')
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "LOCAL\tREMOTE\tPEER\tSTATE\tCONTROL\tSIGNAL\tS\tLEFT\tBOTTLENECK\tAGE")
	for i := range s.Flows {
		f := &s.Flows[i]
		peer := f.Peer
		if peer == "" {
			peer = "-"
		}
		if len(f.Learned) == 0 {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t-\t-\t-\t-\t-\n", f.Local, f.Remote, peer, f.State, f.Control)
		}
		for k := range f.Learned {
			r := &f.Learned[k]
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%v\n", f.Local, f.Remote, peer, f.State, f.Control, r.Signal, r.S, room(r), bottleneck(r), time.Duration(r.AgeNS).Round(time.Millisecond))
		}
	}
	_ = tw.Flush()
	return b.String()
}

// controlText is a line for each congestion control that connections are under, and each reason; nothing where the
// fleet file leaves all of them to the system's.
func controlText(s *tcp.Status, columns int) string {
	if s.Control.Wanted != tcp.ControlCSIG {
		return ""
	}
	var b strings.Builder
	if s.Control.Trouble != "" {
		b.WriteString(wrap("csig's congestion control has no connection: "+s.Control.Trouble, columns, 2))
	}
	type under struct{ control, why string }
	n := map[under]int{}
	for i := range s.Flows {
		n[under{s.Flows[i].Control, s.Flows[i].Why}]++
	}
	for _, u := range slices.SortedFunc(maps.Keys(n), func(a, b under) int { return cmp.Or(n[b]-n[a], strings.Compare(a.control+a.why, b.control+b.why)) }) {
		b.WriteString(wrap(fmt.Sprintf("%s under %s: %s", count(n[u], "connection"), u.control, u.why), columns, 2))
	}
	return b.String()
}

// room is what a reading tells of what is left on the way.
func room(r *tcp.Reading) string {
	if r.Mean == nil {
		return r.Range
	}
	return r.Range + ", mean " + quantize.FormatValue(quantize.Signal(r.T), *r.Mean)
}

// bottleneck is which port wrote a reading.
func bottleneck(r *tcp.Reading) string {
	switch {
	case r.Note == "stale":
		return "stale: the port's agent is gone"
	case r.Note == "none":
		return "none: no port replaced the tag"
	case len(r.Ports) == 0:
		return fmt.Sprintf("locator %d, of no port on the way", r.LM)
	}
	return strings.Join(r.Ports, " or ")
}
