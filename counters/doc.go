// Package counters reads egress byte counters and turns them into available
// bandwidth: the sample and source contracts and the estimators. Each source
// lives in a folder of its own and takes its own Config.
//
// A source says what it counts and how it may be wrong; an Estimator does the
// arithmetic, in integers, over timestamps and not over the schedule. What
// cannot be known is a State with a Reason, never a guess.
//
// Agents cache counters, and a reading that only repeats the one before is not a
// port that sends nothing. A Refresh, between source and estimator, learns when a
// source refreshes and how well that is known; Sample.Live is how a source that has
// no cache says so. Raw, EWMA and DRE are the averaging methods, a Damper keeps
// buckets from flapping, counters/trace records readings and plays them back, and
// counters/fleet reads thousands of devices.
//
// Sources: CSIG draft-00 §5.1.1, §5.2.1, §6.4.
package counters
