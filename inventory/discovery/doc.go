// Package discovery makes first fleet files out of what other systems and the devices
// themselves know, and holds LLDP's neighbours against the cables of a fleet file. What only a
// person knows is marked FILL IN.
package discovery
