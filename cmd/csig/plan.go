package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/inventory/outfile"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/protocol/untrusted"
)

func newPlan() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan -i FLEET",
		Short: "Show what would change to set up a fleet, and in which order (read-only)",
		Long: `Compare the setup that a fleet file asks for with the one its devices have, and
print what would change and in which order. Nothing is changed. The exit code is 0
when there is nothing to do, 2 when changes are pending, 1 for an error. A script
therefore tests for 2 before it runs csig apply on what -o saved; "&&" would stop.

With --target the plan changes those devices alone. It is refused where that is not safe
without others, which it names, and ports to hosts keep stripping tags until the rest of
the fleet is set up, too.`,
		Example: `  csig plan -i fabric.yaml
  csig plan -i fabric.yaml -o fabric.plan
  csig plan -i fabric.yaml --target 'leaf-*' --target tag:canary -o canary.plan
  csig plan -i fabric.yaml --remove --markdown > ticket.md
  csig plan -i fabric.yaml --offline --commands --device leaf1`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.sign != "" && o.out == "" {
				return usageError(cmd, "--sign signs what -o saves: name a file with -o")
			}
			return runPlan(cmd, &o)
		},
	}
	f := cmd.Flags()
	addFleet(cmd, &o.fleet)
	f.StringVarP(&o.out, "output", "o", "", "save the plan to this file, for csig apply")
	f.StringVar(&o.sign, "sign", "", "sign what -o saves with this SSH key, into FILE.sig, for csig apply --verify: a private key, or a public one that the SSH agent has the private one of")
	f.BoolVar(&o.remove, "remove", false, "plan the way back: nothing of csig on any device")
	f.BoolVar(&o.offline, "offline", false, "ask no device: use the platforms' facts, for devices without anything of csig")
	f.StringSliceVar(&o.target, "target", nil, "plan for these devices alone, and leave the others as they are: "+inventory.Selectors)
	f.StringSliceVar(&o.devices, "device", nil, "show only these devices, in every form of output; the plan, and what -o saves, is for all of its devices")
	f.StringSliceVar(&o.waves, "waves", nil, "waves in order, in each stage: tags of devices, or percentages (10%) of the devices that the stage changes and no tag here has, rounded up, those of earlier percentages included (default canary,10% and the rest)")
	f.BoolVar(&o.markdown, "markdown", false, "print Markdown, for the change ticket")
	f.BoolVar(&o.commands, "commands", false, "print what each device is sent, step by step")
	addAtOnce(f, &o.parallel, 16, "devices to ask at once", &o.timeout, 30*time.Second, "for each device")
	addJSON(cmd, &o.json)
	cmd.MarkFlagsMutuallyExclusive("json", "markdown", "commands")
	return cmd
}

type planOptions struct {
	fleet, out, sign         string
	target, devices, waves   []string
	remove, offline          bool
	json, markdown, commands bool
	parallel                 int
	timeout                  time.Duration
	answered                 func(done, of int) // called while devices are asked
}

func runPlan(cmd *cobra.Command, o *planOptions) error {
	if os.Getenv("GOGC") == "" { // 10,000 switches: 150 MiB less for a tenth more of processor time
		defer debug.SetGCPercent(debug.SetGCPercent(50))
	}
	fleet, devices, err := loadFleet(o.fleet, o.devices, o.offline)
	if err != nil {
		return err
	}
	o.devices, o.target = devices, selectors(o.target)
	if _, err := fleet.Select(o.target); err != nil { // before any device is asked
		return fmt.Errorf("--target %w", err)
	}
	var signer ssh.Signer
	if o.out != "" { // before any device is asked
		if err := outfile.Check(o.out, plans.IsPlan); err != nil {
			return fmt.Errorf("-o %w", err)
		}
	}
	if o.sign != "" {
		if err := outfile.Check(signaturePath(o.out), isSignature); err != nil {
			return fmt.Errorf("--sign: %w", err)
		}
		s, conn, err := openSigner(o.sign)
		if err != nil {
			return fmt.Errorf("--sign: %w", err)
		}
		defer conn.Close()
		signer = s
	}
	o.answered = newAsking(cmd.ErrOrStderr()).answered
	p, seen, err := makePlan(cmd.Context(), fleet, o)
	if err != nil {
		return err
	}
	if o.out != "" && len(p.Errors()) == 0 {
		if err := savePlan(cmd.ErrOrStderr(), o.out, p); err != nil {
			return err
		}
		if signer != nil {
			if err := signPlan(o.out, p, signer); err != nil {
				return err
			}
		}
	}
	w := cmd.OutOrStdout()
	switch {
	case o.json:
		err = p.Narrow(o.devices).Write(w)
	case o.commands:
		if err = planCommands(w, p, fleet, seen, o.devices); err == nil && len(p.Errors()) > 0 {
			_, err = fmt.Fprint(cmd.ErrOrStderr(), findingsText(p.Findings, newScreen(cmd.ErrOrStderr()).columns()))
		}
	case o.markdown:
		if err = p.Seal(); err != nil {
			return err
		}
		_, err = fmt.Fprint(w, planMarkdown(p, o.devices))
	default:
		_, err = fmt.Fprint(w, planText(p, o.devices, newScreen(w).columns()))
		if err == nil && o.out != "" && !p.Empty() && o.offline {
			_, err = fmt.Fprintf(w, "\nSaved to %s, for reading: csig apply takes only a plan that was made without --offline.\n", o.out)
		} else if err == nil && o.out != "" && !p.Empty() {
			_, err = fmt.Fprintf(w, "\nSaved to %s. To carry it out: csig apply %s\n", o.out, untrusted.ShellWord(o.out))
		}
	}
	switch {
	case err != nil:
		return err
	case len(p.Errors()) > 0:
		return fmt.Errorf("the plan has %s: nothing was saved", count(len(p.Errors()), "error"))
	case !p.Empty():
		return &exitError{code: 2} // changes are pending
	}
	return nil
}

// makePlan asks the devices and builds the plan. It returns what the devices answered,
// too.
func makePlan(ctx context.Context, fleet *inventory.Fleet, o *planOptions) (*plans.Plan, func(*inventory.Device) plans.Observation, error) {
	opts := plans.Options{
		Goal: plans.RollOut, Target: o.target, Waves: o.waves, Offline: o.offline, Version: version,
		Now: time.Now(),
	}
	hash := make(chan string, 1) // beside the rest: of a large fleet it takes a while
	go func() { hash <- fleet.Hash() }()
	if o.remove {
		opts.Goal = plans.TakeOff
	}
	r := device.NewOpener(fleet)
	look := r.Offline
	if !o.offline {
		seen, err := r.ObserveAll(ctx, o.parallel, o.timeout, o.answered)
		if err != nil {
			return nil, nil, err
		}
		dead := map[string][]findings.Finding{}
		if !o.remove {
			dead, err = device.Each(ctx, fleet, o.parallel, o.answered, func(d *inventory.Device) []findings.Finding {
				return r.DeadCounters(ctx, d, o.timeout)
			})
			if err != nil {
				return nil, nil, err
			}
		}
		look = func(d *inventory.Device) plans.Observation {
			one := seen[d.Name]
			one.Counters = dead[d.Name]
			return one
		}
	}
	p, err := plans.Build(fleet, look, opts)
	if err == nil { // apply may run elsewhere
		p.InventoryHash = <-hash
		p.Fleet, err = filepath.Abs(fleet.Path)
	}
	return p, look, err
}

// savePlan writes a plan so that the file is the old one or the new one, never
// half of it. Only a plan is replaced, and that is noted on w.
func savePlan(w io.Writer, path string, p *plans.Plan) error {
	older := ""
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		older = info.ModTime().Format(time.DateTime)
	}
	if err := outfile.Write(path, 0o600, plans.IsPlan, p.Write); err != nil {
		return fmt.Errorf("saving the plan: %w", err)
	}
	if older != "" {
		fmt.Fprintf(w, "csig: %s replaces the plan that was saved there at %s\n", path, older)
	}
	return nil
}

// signPlan writes the signature of a plan that was saved.
func signPlan(path string, p *plans.Plan, signer ssh.Signer) error {
	var text bytes.Buffer
	if err := p.Write(&text); err != nil {
		return err
	}
	armored, err := signature(signer, text.Bytes())
	if err != nil {
		return err
	}
	return outfile.Write(signaturePath(path), 0o644, isSignature, func(w io.Writer) error {
		_, err := w.Write(armored)
		return err
	})
}

// loadFleet reads a fleet file, and which of its devices --device names. Offline
// it opens no device, and runs no program that the file names.
func loadFleet(path string, devices []string, offline bool) (*inventory.Fleet, []string, error) {
	load := device.LoadFleet
	if offline {
		load = inventory.Load
	}
	fleet, err := load(path)
	if err != nil {
		return nil, nil, err
	}
	names, err := fleet.Select(selectors(devices))
	if err != nil {
		return nil, nil, fmt.Errorf("--device %w", err)
	}
	return fleet, names, nil
}

// selectors are the values of a flag that takes several, behind commas: those inside of a
// range are its own.
func selectors(values []string) (out []string) {
	for _, v := range values {
		if n := len(out) - 1; n >= 0 && strings.LastIndexByte(out[n], '[') > strings.LastIndexByte(out[n], ']') {
			out[n] += "," + v
		} else {
			out = append(out, v)
		}
	}
	return out
}
