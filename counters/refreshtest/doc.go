// Package refreshtest simulates devices that refresh their counters in all the ways that devices
// do, with the true length of every window known, and judges what counters.Pipeline says of them.
//
// It knows nothing of how refreshes are learned. A Class draws a device from a seed: its traffic,
// as of when it shows each port's counters, how it is read. Judge runs the pipeline over its readings
// and compares each window with the truth.
package refreshtest
