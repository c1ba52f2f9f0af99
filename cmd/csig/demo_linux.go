package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/cmd/process"
	"github.com/csig-agent/csig/demo"
	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/hosts/mesh"
)

// goSignalStatus is what a Go program that is the first of its PID namespace
// ends with at a signal that it does not handle (yet).
const goSignalStatus = 2

func runDemo(cmd *cobra.Command, o demoOptions) (err error) {
	// The fabric lives in namespaces of its own: the same program runs once
	// more inside them, and this one waits for it.
	if cmd.Context().Err() != nil {
		return demo.ErrInterrupted
	}
	inside, status, err := demo.Enter()
	switch {
	case err != nil:
		return &exitError{code: status, err: err}
	case !inside && status == goSignalStatus && cmd.Context().Err() != nil:
		return demo.ErrInterrupted // before the inner one could report it
	case !inside && status == goSignalStatus:
		return &exitError{code: process.CrashStatus} // SIGABRT does not end the first of a namespace
	case !inside && status != 0:
		return &exitError{code: status} // the inner one has printed why
	case !inside:
		return nil
	}
	out := cmd.OutOrStdout()
	live := out
	if o.json {
		live = cmd.ErrOrStderr() // the document has standard output to itself
	}
	opts := demo.Options{
		Executable: "/proc/self/exe", Version: version, Duration: o.duration, Interval: o.interval,
		Live: live, KeepProbes: o.json || o.svg != "",
	}
	switch {
	case o.native:
		opts.Native, opts.NativeDt = []string{"s1", "s2", "s3"}, o.nativeInterval
	case o.mixed:
		opts.Native, opts.NativeDt = []string{"s2"}, o.nativeInterval
	}
	if opts.Duration == 0 && !o.mesh && !o.flows {
		opts.Duration = demo.DefaultDuration(o.interval)
	}
	s := newScreen(live)
	if s.terminal() {
		// A broken terminal must not end a run that also writes files.
		opts.Redraw = func(lines []string) { _ = s.redraw("", lines) }
		resized := make(chan os.Signal, 1)
		signal.Notify(resized, unix.SIGWINCH)
		defer signal.Stop(resized)
		opts.Resized = resized
	}
	if o.mesh {
		return runMeshDemo(cmd, opts, s)
	}
	if o.flows {
		return runFlowsDemo(cmd, opts, o.json)
	}
	// Files are opened first: a run that cannot be written down is no use.
	create := func(flag, name string) (*os.File, error) {
		if name == "" {
			return nil, nil
		}
		f, err := createNew(name)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
		return f, nil
	}
	pcap, err := create("pcap", o.pcap)
	if err != nil {
		return err
	}
	if pcap != nil {
		opts.PCAP = pcap
		defer func() { err = errors.Join(err, pcap.Close()) }()
	}
	svg, err := create("svg", o.svg)
	if err != nil {
		return err
	}
	if svg != nil {
		defer func() { err = errors.Join(err, svg.Close()) }()
	}
	res, err := demo.Run(cmd.Context(), opts)
	if err != nil {
		return err
	}
	if svg != nil {
		if err := res.WriteSVG(svg); err != nil {
			return fmt.Errorf("--svg: %w", err)
		}
	}
	if o.json {
		return printJSON(out, res)
	}
	if err := res.WriteText(out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Next: csig assess tells what this machine can do, and changes nothing.\nSwitches that run no csig, on this machine: %s\n", docs.Legacy)
	return err
}

func runMeshDemo(cmd *cobra.Command, opts demo.Options, s *screen) error {
	out := cmd.OutOrStdout()
	res, err := demo.RunMesh(cmd.Context(), demo.MeshOptions{
		Options: opts,
		Ask: func(ctx context.Context, socket string) (*mesh.Status, error) {
			return collectorAt(socket).status(ctx)
		},
		Text: func(status *mesh.Status) string { return meshText(status, s.columns(), false) },
	})
	if err != nil {
		return err
	}
	if err := res.WriteText(out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Next: a mesh of your own hosts: %s\n", docs.Mesh)
	return err
}

func runFlowsDemo(cmd *cobra.Command, opts demo.Options, asJSON bool) error {
	out := cmd.OutOrStdout()
	// A terminal or reader that is gone ends it as Ctrl-C does: the control group is removed.
	ctx, end := process.OnHangup(cmd.Context())
	defer end()
	opts.Live = &untilGone{opts.Live, end}
	res, err := demo.RunFlows(ctx, demo.FlowsOptions{Options: opts, Ask: askHost})
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(out, res)
	}
	if err := res.WriteText(out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Next: your own hosts' connections: %s\n", docs.Hosts)
	return err
}

// untilGone calls gone when nobody reads any more.
type untilGone struct {
	io.Writer
	gone func()
}

func (u *untilGone) Write(b []byte) (n int, err error) {
	if n, err = u.Writer.Write(b); err != nil {
		u.gone()
	}
	return n, err
}
