// Package vlanrules turns intents (on this egress port, for this signal, the
// local bucket is s) into match/action tables for VLAN hardware, and changes
// of intent into ordered operations that never expose a wrong value
// (draft-00 §6.4; docs/rules.md shows the tables and why each order is safe).
// It does no I/O, reads no clock and logs nothing.
package vlanrules
