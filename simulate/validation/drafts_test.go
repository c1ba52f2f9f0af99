package validation

// drafts are figures of CSIG's and HPCC++'s drafts. The lines of their pseudocode are tables in package cc.
var drafts = []oracle{}
