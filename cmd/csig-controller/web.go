package main

import (
	"context"

	"github.com/csig-agent/csig/controller"
	"github.com/csig-agent/csig/web"
)

// pageMemory is what the history of all ports may take.
const pageMemory = 32 << 20

// withPage runs the controller, with its page where there is to be one.
func withPage(ctx context.Context, page web.Config, cfg *controller.Config, run func(context.Context) error) error {
	page.Fleet, page.Status, page.Why, page.Memory, page.Log = cfg.Statuses.Fleet, cfg.Statuses.Status, cfg.Statuses.Why, pageMemory, cfg.Agent.Log
	if cfg.Share != nil {
		page.Owner = cfg.Share.Owner
	}
	return web.Beside(ctx, page, run)
}
