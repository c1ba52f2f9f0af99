// Package plans compares the setup that a fleet file asks for with the one
// that devices have, puts the changes into an order in which no tag reaches a
// device that is not ready for it, and carries them out: in waves, behind a
// health gate, with a journal from which an interrupted run is continued or
// undone.
//
// A plan knows setups only (vendors.Setup): the signal and its entries belong
// to the agents, and are never planned, hashed or journaled.
package plans
