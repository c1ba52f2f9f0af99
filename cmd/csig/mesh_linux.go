package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/hosts/mesh"
	"github.com/csig-agent/csig/inventory"
)

func meshRun(cmd *cobra.Command, o *meshOptions) error {
	fleet, err := inventory.Load(o.file)
	if err != nil {
		return err
	}
	local, err := localHost(fleet)
	if err != nil {
		return err
	}
	cfg := mesh.DaemonConfig{Fleet: fleet, Host: local, Collect: o.collect, Socket: o.socket, TLS: o.tls, Read: o.read}
	if o.rate != "" {
		if cfg.Rate, err = inventory.ParseSpeed(o.rate); err != nil {
			return fmt.Errorf("--rate: %w", err)
		}
	}
	if cfg.Key, err = fleet.Mesh.Key.Resolve(cmd.Context()); err != nil {
		return err
	}
	log, end, err := o.log.Open()
	if err != nil {
		return err
	}
	defer end()
	cfg.Log = log
	if err := mesh.Run(cmd.Context(), cfg); !errors.Is(err, context.Canceled) && cmd.Context().Err() == nil {
		return err
	}
	return nil
}
