// Package plans compares the setup that a fleet file asks for with the one
// that devices have, and puts the changes into stages and waves in which no tag
// reaches a device that is not ready for it. Package rollout carries a plan out.
//
// A plan knows setups only (vendors.Setup): the signal and its entries belong
// to the agents, and are never planned, hashed or journaled.
package plans
