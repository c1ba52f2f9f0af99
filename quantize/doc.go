// Package quantize holds what a CSIG tag means: signal types, the tag codec in
// both layouts, bucket tables and quanta, locator formats and the profile that
// a whole domain shares. It does no I/O, reads no clock, keeps no state and
// imports nothing of ours.
//
// The pieces, from the wire up:
//
//   - [FindTag] returns where in a frame the CSIG tag is, [DecodeTag] and
//     [Tag.Encode] turn its bytes into fields and back.
//   - [Layout] is how the data bits are divided: "draft-00" or "uec".
//   - [Buckets] maps a value to the 5-bit S of the compact tag, [Quantize] to
//     the 20-bit S of the wide one. Values are unsigned integers of the
//     signal's [Unit] (bit/s, ppm or ns); there is no floating point.
//   - [Locator] names the bits of LM.
//   - [Profile] is all of that for one domain, with a hash that daemons export
//     and compare.
//
// Sources: draft-ravi-ippm-csig-00 §4.1, §5 and Appendix A; the uec layout is
// that of SAI v1.18 doc/CSIG. Two choices are ours, since neither text makes
// them: the reserved locators (see [Layout.LMReserved]) and the nominal ends
// of the draft's open ranges (see [Preset]).
package quantize
