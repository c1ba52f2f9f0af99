// Package qualify is a test bench for switches: network cards of this machine are
// cabled to ports of a switch, and experiments find out what the switch does with
// CSIG's tags. Each experiment has a positive control, which shows that the bench
// sees what arrives, and a negative one, which shows that it notices what is lost or
// altered; without both there is no result.
package qualify
