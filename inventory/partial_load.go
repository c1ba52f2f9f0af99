package inventory

import "slices"

// PartialFleet is what can be read of a fleet file that has mistakes.
type PartialFleet struct {
	Fleet *Fleet

	// Usable are the devices whose name, platform and management could be read, in
	// the order of the file.
	Usable []string

	// Skipped are the names of the others, as far as they could be read.
	Skipped []string

	// Complete says that there are no further devices: no file and no name is lost.
	Complete bool
}

// LoadPartial reads a fleet file in an emergency, when the mistakes that Load would
// report must not keep csig from devices that they do not concern. The error is
// that of Load, beside what could be read; without a fleet nothing could.
func LoadPartial(path string) (PartialFleet, error) {
	c, f, err := compile(path, osFiles())
	if err != nil {
		return PartialFleet{}, err
	}
	if f == nil {
		return PartialFleet{}, c.errs.finish()
	}
	f.Path = path
	s := PartialFleet{Fleet: f, Complete: !c.lost && !c.lostNames && !c.full()}
	for i := range f.Devices {
		name := f.Devices[i].Name
		switch {
		case name == "":
		case !c.doubted[i]:
			s.Usable = append(s.Usable, name)
		case !slices.Contains(s.Skipped, name):
			s.Skipped = append(s.Skipped, name)
		}
	}
	if len(c.errs) == 0 {
		f.warnings = c.warnings.finish()
		return s, nil
	}
	return s, c.errs.finish()
}
