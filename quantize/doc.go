// Package quantize holds what a CSIG tag means: signal types, the tag codec in
// both layouts, bucket tables, locator formats and the profile that a whole
// domain shares. It does no I/O and imports nothing of ours.
//
// Sources: draft-ravi-ippm-csig-00 §4.1, §5 and Appendix A; the uec layout is
// that of SAI v1.18 doc/CSIG.
package quantize
