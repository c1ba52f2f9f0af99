// Package sai is CSIG as objects of SAI 1.18 (opencomputeproject/SAI, inc/saitam.h and
// doc/CSIG), for switches whose chip compares and replaces by itself: one TAM_INT object for
// each signal and tag format, a TAM object with all of them, bound on the switch, and the
// locator and strip of each port.
//
// Compile makes the objects of a profile, Changes what leads from one set of objects to
// another, and Record writes that in the format of sairedis recordings, which saiplayer reads.
// csig reaches no switch this way: no public program between it and a switch writes these
// objects. docs/sai.md says what an operator can do with them. Nothing here ran on hardware.
package sai
