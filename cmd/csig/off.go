package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/cmd/process"
	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/rollout"
	"github.com/csig-agent/csig/vendors"
)

func newOff() *cobra.Command {
	var (
		path    string
		devices []string
		off     rollout.Off
		asJSON  bool
		yes     bool
	)
	cmd := &cobra.Command{
		Use:   "off -i FLEET",
		Short: "Emergency stop: strip at the edges, then remove every rule",
		Long: `Take CSIG off a fleet at once: ports that face hosts strip the tag first, then every
rule of csig goes, on all devices side by side. It needs no plan and no journal,
continues past devices that do not answer, names them, and can be repeated.
A daemon that the fleet file names removes its rules itself, and waits. One that does
not answer is bypassed where the device can be reached without it. An off-marker on the
device then keeps it from programming, also after a restart, until the next csig apply.
The same holds for an agent of this machine that the fleet file does not name, at the
usual socket; one at another socket, which restores its rules, is an error. A device
with mistakes in the fleet file is switched off if its name, platform and management can
be read. Ctrl-C finishes the devices in progress and stops, with exit code 3; 1 is for
an error. On a terminal it asks first, unless --yes is given; an answer other than yes is
exit code 3, too.`,
		Example: `  csig off -i fabric.yaml
  csig off -i fabric.yaml --device leaf1
  csig off -i fabric.yaml --device group:pod-2 --yes`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := loadPartial(path, devices)
			if err != nil {
				return err
			}
			ctx, release := process.OnHangup(cmd.Context())
			defer release()
			if s.mistakes != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "%v\ncsig: the fleet file has mistakes: csig off continues with the devices that they do not concern\n", s.mistakes)
			}
			if !yes {
				if err := confirm(ctx, cmd, s.question(newScreen(cmd.ErrOrStderr()).columns())); err != nil {
					return err
				}
			}
			opener := device.NewOpener(s.fleet)
			who := operator("csig off")
			who.Session, who.Force = "off", true
			opener.Operator = &who
			show := newProgress(cmd, asJSON, "off")
			var mu sync.Mutex
			bypassed := map[string]string{} // each step opens its device again
			opener.Bypassed = func(name, reason, mark string) {
				mu.Lock()
				defer mu.Unlock()
				bypassed[name] = fmt.Sprintf("%s: bypassed; the off-marker %s keeps it off, also after a restart", reason, mark)
			}
			off.Fleet, off.Only, off.Open, off.Report = s.fleet, s.only, opener.Open, show.report
			err = show.during(ctx, off.Run)
			for _, name := range slices.SortedFunc(maps.Keys(bypassed), inventory.CompareNames) {
				newScreen(cmd.ErrOrStderr()).remark("device %s: %s", name, bypassed[name])
			}
			for _, left := range off.Left() {
				newScreen(cmd.ErrOrStderr()).remark("%s", left)
			}
			switch {
			case show.interrupted(ctx, err):
				newScreen(cmd.ErrOrStderr()).remark("%s: the devices in progress are finished, others may still have rules; run it again for the rest", why(ctx))
				return &exitError{code: 3}
			case ctx.Err() == nil && len(off.Failed()) > 0: // their reasons were shown
				return errors.Join(s.left, fmt.Errorf("not off, for the reasons above: %s\nwhat answered is off; run it again for the rest", vendors.Names(off.Failed())))
			case err != nil:
				return errors.Join(fmt.Errorf("%w\nwhat answered is off; run it again for the rest", err), s.left)
			}
			return errors.Join(show.err, s.left)
		},
	}
	f := cmd.Flags()
	addFleet(cmd, &path)
	f.StringSliceVar(&devices, "device", nil, "only these devices: "+inventory.Selectors)
	addAtOnce(f, &off.Parallel, 32, "devices at once", &off.Limit, 20*time.Second, "for each step of a device")
	addYes(cmd, &yes)
	addJSON(cmd, &asJSON)
	return cmd
}

// partialLoad is what csig off goes by.
type partialLoad struct {
	fleet    *inventory.Fleet
	only     []string // devices to take off; nil: all
	mistakes error
	left     error // names the devices that are not taken off because of them
}

// question is what confirm shows before they are taken off.
func (s *partialLoad) question(columns int) string {
	names := s.only
	if names == nil {
		for i := range s.fleet.Devices {
			names = append(names, s.fleet.Devices[i].Name)
		}
	}
	text := fmt.Sprintf("csig off takes everything of csig off %s of %s: %s", count(len(names), "device"), shownPath(s.fleet.Path), briefly(names))
	if who := plans.Senders(s.fleet); who != "" {
		text += "; " + who + " may still send tags (csig: true)"
	}
	return strings.TrimSuffix(wrap(text, columns, 2), "\n")
}

// offWithoutFile is what else works in an emergency.
const offWithoutFile = `nothing is off. What works without this file:
  csig off -i FILE, with an older copy of it
  csig rollback JOURNAL, of the last csig apply
  Ctrl-C (SIGINT) to each csig agent or csig-controller: it removes all that it made
  SIGTERM to it (systemctl stop): its fallback takes over at once, and rules stay`

// loadPartial reads a fleet file for an emergency, with its mistakes. The error is
// that nothing can be done.
func loadPartial(path string, devices []string) (*partialLoad, error) {
	if err := device.CheckOwner(path); err != nil {
		return nil, err
	}
	s, mistakes := inventory.LoadPartial(path)
	if s.Fleet == nil {
		return nil, fmt.Errorf("%w\n%s", mistakes, offWithoutFile)
	}
	if err := device.CheckOwners(s.Fleet); err != nil {
		return nil, err
	}
	out := &partialLoad{fleet: s.Fleet, mistakes: mistakes}
	asked := selectors(devices)
	named, err := s.Fleet.Select(asked)
	if err != nil {
		return nil, errors.Join(mistakes, fmt.Errorf("--device %w", err))
	}
	out.only = slices.DeleteFunc(slices.Clone(named), func(name string) bool { return slices.Contains(s.Skipped, name) })
	switch {
	case len(named) > 0 && len(out.only) == 0:
		return nil, fmt.Errorf("%w\n--device %s: repair its name, its platform and its management first", mistakes, named[0])
	case mistakes == nil:
		return out, nil
	case len(named) == 0 && len(s.Usable) < len(s.Fleet.Devices):
		out.only = s.Usable
	}
	skipped, all := s.Skipped, len(named) == 0 || slices.ContainsFunc(asked, func(s string) bool { return strings.ContainsAny(s, "*?:") })
	if len(named) > 0 {
		skipped = slices.DeleteFunc(named, func(name string) bool { return slices.Contains(out.only, name) })
	}
	switch {
	case len(skipped) > 0:
		out.left = fmt.Errorf("not off: %s: repair the names, platforms and management of the fleet file and run it again", vendors.Names(skipped))
	case !s.Complete && all:
		out.left = errors.New("devices that could not be read are not off: repair the fleet file and run it again")
	}
	if len(s.Usable) == 0 {
		return nil, errors.Join(mistakes, out.left, errors.New(offWithoutFile))
	}
	return out, nil
}
