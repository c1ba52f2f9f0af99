package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/cmd/process"
	"github.com/csig-agent/csig/hosts/tcp"
	"github.com/csig-agent/csig/inventory"
)

// hostOf is the host of a fleet file that is this machine.
func hostOf(file string) (*tcp.Config, error) {
	fleet, err := inventory.Load(file)
	if err != nil {
		return nil, err
	}
	return tcp.Local(fleet)
}

func hostRun(cmd *cobra.Command, o *hostOptions) error {
	host, err := hostOf(o.file)
	if err != nil {
		return err
	}
	log, end, err := o.log.Open()
	if err != nil {
		return err
	}
	defer end()
	service := process.NewService(log)
	defer service.Close()
	ctx := cmd.Context()
	cfg := tcp.RunConfig{Config: host, Socket: o.socket, Log: log}
	cfg.OnReady = func(alive func() bool, line func() string) { service.Ready(ctx, alive, line) }
	if err := tcp.Run(ctx, cfg); ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	return nil
}

func hostCheck(o *hostOptions) (*tcp.Check, error) {
	if o.file == "" {
		return tcp.Look(nil), nil
	}
	host, err := hostOf(o.file)
	if err != nil {
		return nil, err
	}
	return tcp.Look(host), nil
}
