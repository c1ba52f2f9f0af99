// Package findings holds what csig finds at devices and ports as data: a stable
// code, a level, the place, and a reason that does not name the place. Texts are
// made where they are printed.
package findings

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/csig-agent/csig/vendors"
)

// Level is how grave a finding is.
type Level string

// The levels.
const (
	Error   Level = "error" // stops a plan
	Warning Level = "warning"
	Info    Level = "info"
)

// Finding is something that an operator should know of a device or its ports.
type Finding struct {
	Code   Code
	Level  Level
	Device string   // "" for the fleet as a whole
	Ports  []string // of the device; none for the device as a whole
	Peers  []string // devices or hosts at the other end, where the finding is about them
	Reason string   // what is wrong and what to do; it names no device, port or peer of the finding
}

// Place is where a finding is, "leaf1:swp1, swp2 to h1", or "" for the fleet.
func (f *Finding) Place() string {
	place := f.Device
	if ports := vendors.Names(f.Ports); ports != "" {
		place += ":" + ports
	}
	peers := vendors.Names(f.Peers)
	if place != "" && peers != "" {
		place += " to "
	}
	return strings.TrimPrefix(place+peers, ":")
}

// String is the finding in one line: place and reason.
func (f Finding) String() string {
	if place := f.Place(); place != "" {
		return place + ": " + f.Reason
	}
	return f.Reason
}

// Join is one reason and what else there is; either may be "".
func Join(reason, more string) string {
	if reason == "" || more == "" {
		return reason + more
	}
	return reason + "; " + more
}

// Merge puts findings together that differ in ports and peers alone, in the order
// in which they come.
func Merge(list []Finding) []Finding {
	type key struct {
		code           Code
		level          Level
		device, reason string
	}
	var out []Finding
	for _, alike := range Alike(list, func(f Finding) key { return key{f.Code, f.Level, f.Device, f.Reason} }) {
		one := alike[0]
		one.Ports, one.Peers = nil, nil
		for _, f := range alike {
			one.Ports = append(one.Ports, f.Ports...)
			for _, peer := range f.Peers {
				if !slices.Contains(one.Peers, peer) {
					one.Peers = append(one.Peers, peer)
				}
			}
		}
		out = append(out, one)
	}
	return out
}

// Alike puts what has the same key together, in the order in which the keys come.
func Alike[T any, K comparable](list []T, key func(T) K) [][]T {
	var out [][]T
	at := map[K]int{}
	for _, one := range list {
		k := key(one)
		n, known := at[k]
		if !known {
			n = len(out)
			at[k] = n
			out = append(out, nil)
		}
		out[n] = append(out[n], one)
	}
	return out
}

// wire is a finding as JSON. Port and Far are Ports and Peers as short texts.
type wire struct {
	Code    Code     `json:"code"`
	Level   Level    `json:"severity"`
	Device  string   `json:"device"`
	Port    string   `json:"port"`
	Far     string   `json:"far"`
	Message string   `json:"message"`
	Ports   []string `json:"ports,omitempty"`
	Peers   []string `json:"peers,omitempty"`
}

// MarshalJSON writes the finding.
func (f Finding) MarshalJSON() ([]byte, error) {
	return json.Marshal(wire{f.Code, f.Level, f.Device, vendors.Names(f.Ports), vendors.Names(f.Peers), f.Reason, f.Ports, f.Peers})
}

// UnmarshalJSON reads what MarshalJSON wrote. An unknown field is an error.
func (f *Finding) UnmarshalJSON(text []byte) error {
	var w wire
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&w); err != nil {
		return err
	}
	*f = Finding{w.Code, w.Level, w.Device, w.Ports, w.Peers, w.Message}
	if f.Ports == nil && w.Port != "" { // of a csig that wrote no lists
		f.Ports = []string{w.Port}
	}
	if f.Peers == nil && w.Far != "" {
		f.Peers = []string{w.Far}
	}
	return nil
}
