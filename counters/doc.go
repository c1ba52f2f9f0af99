// Package counters reads egress byte counters and turns them into available
// bandwidth: the sample and source contracts and the estimators. Each source
// lives in a folder of its own and takes its own Config.
//
// Sources: draft-ravi-ippm-csig-00 §5.1.1, §5.2.1; DESIGN §4.
package counters
