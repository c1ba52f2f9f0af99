// Package vendors is the contract between csig and a switch: what a driver can
// do (Facts) and how its platform treats tags, with sources (Traits), the rarely
// changing setup that is planned and reviewed, and the signal that only the agent
// writes, at every reading, and that is never planned, hashed or journaled. Each
// platform with a driver has a folder; unsupported has the facts of the others.
package vendors
