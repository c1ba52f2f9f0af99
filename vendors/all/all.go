// Package all is the registry of platforms: which driver a fleet file's
// "platform" opens.
package all

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/linux"
	"github.com/csig-agent/csig/vlanrules"
)

// Opener opens the driver of one platform. It changes nothing on the device.
type Opener func(vendors.Config) (vendors.Driver, error)

// Platform is what is known of a platform without a device at hand.
type Platform struct {
	Open  Opener
	Rules vlanrules.Caps // the table that carries compare-and-replace

	// Offline is what the platform promises; afar where it is driven over SSH
	// by a program that does not run on it.
	Offline func(afar bool) vendors.Facts

	// Diff is Driver.Diff, without a driver.
	Diff func(have, want vendors.Setup) ([]vendors.Change, error)

	// Commands are what Apply(want) sends to a device driven from afar that
	// Observe finds to be have: for a person to read, or to carry out.
	Commands func(have, want vendors.Setup) ([]byte, error)
}

// Registry maps names to platforms. The zero value is empty and ready.
type Registry struct {
	platforms map[string]Platform
}

// Register adds a platform. A name that is already taken is a mistake in the
// program, and panics.
func (r *Registry) Register(name string, p Platform) {
	if _, taken := r.platforms[name]; taken || name == "" || p.Open == nil {
		panic(fmt.Sprintf("platform %q registered twice, or without a name or a driver", name))
	}
	if r.platforms == nil {
		r.platforms = map[string]Platform{}
	}
	r.platforms[name] = p
}

// Platforms lists the registered names, sorted.
func (r *Registry) Platforms() []string {
	names := make([]string, 0, len(r.platforms))
	for n := range r.platforms {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Platform finds a platform. An unknown one is a *vendors.PermanentError that
// names the known ones.
func (r *Registry) Platform(name string) (Platform, error) {
	p, ok := r.platforms[name]
	if !ok {
		return p, &vendors.PermanentError{Err: fmt.Errorf("no driver for platform %q: this program has %s", name, strings.Join(r.Platforms(), ", "))}
	}
	return p, nil
}

// Open opens the driver of a platform. It changes nothing on the device.
func (r *Registry) Open(platform string, cfg vendors.Config) (vendors.Driver, error) {
	p, err := r.Platform(platform)
	if err != nil {
		return nil, err
	}
	return p.Open(cfg)
}

// Default returns a registry of every platform this program was built with.
func Default() *Registry {
	r := &Registry{}
	r.Register("linux", Platform{
		Open: openLinux, Rules: linux.Rules(),
		Offline: linux.Offline, Diff: linux.Diff, Commands: linux.Script,
	})
	return r
}

// Open opens a driver of the default registry.
func Open(platform string, cfg vendors.Config) (vendors.Driver, error) {
	return Default().Open(platform, cfg)
}
