package quantize

// Locator is the format of the locator metadata LM of one signal: named bit
// fields, most significant first (draft-00 §5.5). The zero value is one
// unnamed number.
type Locator struct {
	Fields []LocatorField
}

// LocatorField is one run of bits in the LM.
type LocatorField struct {
	Name  string
	Bits  int
	Names map[string]uint16 // value names, e.g. "tor": 0; empty for a plain number
}
