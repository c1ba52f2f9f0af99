// Package all is the registry of platforms: which driver a fleet file's
// "platform" opens.
package all

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/vendors"
)

// Opener opens the driver of one platform. It changes nothing on the device.
type Opener func(vendors.Config) (vendors.Driver, error)

// Registry maps platform names to drivers. The zero value is empty and ready.
type Registry struct {
	openers map[string]Opener
}

// Register adds a platform. A name that is already taken is a mistake in the
// program, and panics.
func (r *Registry) Register(platform string, open Opener) {
	if _, taken := r.openers[platform]; taken || platform == "" || open == nil {
		panic(fmt.Sprintf("platform %q registered twice, or without a name or a driver", platform))
	}
	if r.openers == nil {
		r.openers = map[string]Opener{}
	}
	r.openers[platform] = open
}

// Platforms lists the registered names, sorted.
func (r *Registry) Platforms() []string {
	names := make([]string, 0, len(r.openers))
	for n := range r.openers {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Open opens the driver of a platform. An unknown platform is a
// *vendors.PermanentError that names the known ones.
func (r *Registry) Open(platform string, cfg vendors.Config) (vendors.Driver, error) {
	open, ok := r.openers[platform]
	if !ok {
		return nil, &vendors.PermanentError{Err: fmt.Errorf("no driver for platform %q: this program has %s", platform, strings.Join(r.Platforms(), ", "))}
	}
	return open(cfg)
}

// Default returns a registry of every platform this program was built with.
func Default() *Registry {
	r := &Registry{}
	r.Register("linux", openLinux)
	return r
}

// Open opens a driver of the default registry.
func Open(platform string, cfg vendors.Config) (vendors.Driver, error) {
	return Default().Open(platform, cfg)
}
