// Package fleet reads the counters of thousands of devices from one process.
//
// # Spread
//
// Every device is read once an interval, at a time of its own: the devices, in the order
// of a hash of their names, are spaced evenly over the interval, and the slots
// hang on the wall clock. At the start at most Config.Ramp devices a second are begun
// with. So the load is flat, and the same devices keep the same slots
// after a restart.
//
// # One device never delays another
//
// A reading has a deadline, after which it is cancelled. A device whose reading is
// still under way at its next slot is left alone until the slot after: it misses
// readings, no other device does. At most Config.Concurrency readings begin before one
// of them has ended; a reading that takes longer than Config.Patience no longer counts
// against that, since all it does is wait, so dead devices cannot use up the places
// of live ones. A device has at most one reading under way, which bounds sockets
// (one a device, as its source has it) and goroutines.
//
// A device that fails is tried again at its next slot, then after 2, 4, 8 … intervals
// up to Config.MaxBackoff, always in its own slot; from the third failure in a row on
// its source is opened again each time.
//
// # What is measured
//
// Lateness is from a slot to the moment its reading really begins; Took is how long
// it takes; Age is how long ago the last good reading ended. They are in Status, for
// each device and in sum.
package fleet
