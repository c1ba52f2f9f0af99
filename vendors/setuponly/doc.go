// Package setuponly is what the drivers share of switches that csig sets up and whose
// signal it cannot update: each port of the setup is given the domain's TPID, and tags pass
// through. A platform says how its configuration is read and written (Switch); what of it
// is csig's, what was there before, and what that makes of each of a driver's calls is
// here.
//
// The record of the setup, and of the values that csig found, is on the switch itself, in a
// place for text that the platform gives (Switch). What csig changed gets its former value
// when csig goes. What another program has changed since then stays.
package setuponly
