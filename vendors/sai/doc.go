// Package sai is CSIG as objects of SAI 1.18 (opencomputeproject/SAI, inc/saitam.h and
// doc/CSIG), for switches whose chip compares and replaces by itself: one TAM_INT object for
// each signal and tag format, a TAM object with all of them, bound on the switch, and the
// locator and strip of each port.
//
// Compile makes the objects of a profile, Changes what leads from one set of objects to
// another, and Record writes that in the format of sairedis recordings, which saiplayer reads.
// Live carries it out on a SONiC switch, through the socket at which orchagent's libsairedis
// serves SAI to other processes (sonic-net/sonic-sairedis lib/ServerSai.cpp); Driver stands for a switch
// that csig does not reach. docs/sai.md says what an operator can do with them, saitest what was read and what is
// assumed of orchagent. Nothing here ran on hardware.
package sai
