// Package vendors is the contract between csig and a switch: what a driver can
// do (Facts), the rarely changing setup that is planned and reviewed, and the
// signal that only the agent writes (DESIGN §7). Each platform has a folder.
package vendors
