package inventory

import "slices"

// Salvaged is what a fleet file tells in spite of its mistakes.
type Salvaged struct {
	Fleet *Fleet

	// Sound are the devices of which the name, the platform and the way in could
	// be read, in the order of the file.
	Sound []string

	// Left are the names of the others, as far as they could be read.
	Left []string

	// Whole says that there are no further devices: no file and no name is lost.
	Whole bool
}

// Salvage reads a fleet file in an emergency, when the mistakes that Load would
// report must not keep csig from devices that they do not concern. The error is
// that of Load, beside what could be read; without a fleet nothing could.
func Salvage(path string) (Salvaged, error) {
	c, f, err := compile(path, osFiles())
	if err != nil {
		return Salvaged{}, err
	}
	if f == nil {
		return Salvaged{}, c.errs.finish()
	}
	f.Path = path
	s := Salvaged{Fleet: f, Whole: !c.lost && !c.lostNames && !c.full()}
	for i := range f.Devices {
		name := f.Devices[i].Name
		switch {
		case name == "":
		case !c.doubted[i]:
			s.Sound = append(s.Sound, name)
		case !slices.Contains(s.Left, name):
			s.Left = append(s.Left, name)
		}
	}
	if len(c.errs) == 0 {
		return s, nil
	}
	return s, c.errs.finish()
}
