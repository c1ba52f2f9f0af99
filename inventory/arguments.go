package inventory

import (
	"fmt"
	"reflect"
	"slices"
)

// hiddenArguments stands for the arguments of a command in what is shown.
const hiddenArguments = "(arguments left out)"

// WithoutArguments returns the fleet as it may be shown: of commands that fetch
// secrets the programs alone, since people do put tokens into arguments. What
// holds no secret is shared with f.
func (f *Fleet) WithoutArguments() *Fleet {
	out := *f
	out.Devices = slices.Clone(f.Devices)
	hide := func(s *Secret) {
		if len(s.Command) > 1 {
			s.Command = []string{s.Command[0], hiddenArguments}
		}
	}
	for i := range out.Devices {
		out.Devices[i].secrets(true, hide)
	}
	if f.Mesh != nil {
		mesh := *f.Mesh
		hide(&mesh.Key)
		out.Mesh = &mesh
	}
	return &out
}

// Secrets are the places of all secrets that the fleet names.
func (f *Fleet) Secrets() []Secret {
	var out []Secret
	for i := range f.Devices {
		f.Devices[i].secrets(false, func(s *Secret) {
			if !s.IsZero() {
				out = append(out, *s)
			}
		})
	}
	if f.Mesh != nil && !f.Mesh.Key.IsZero() {
		out = append(out, f.Mesh.Key)
	}
	return out
}

// NoCommands is a mistake where a device has a program fetch a secret, at the key that has it.
func (f *Fleet) NoCommands(hint string) error {
	for i := range f.Devices {
		d := &f.Devices[i]
		program := func(v reflect.Value) (name string) {
			visitSecrets(v, false, func(s *Secret) {
				if len(s.Command) > 0 && name == "" {
					name = s.Command[0]
				}
			})
			return name
		}
		key, name := "counters", program(reflect.ValueOf(&d.Counters).Elem())
		v := reflect.ValueOf(&d.Management).Elem()
		set := keySetOf(v.Type(), "")
		for i := range set.keys {
			k := &set.keys[i]
			field, given := k.get(v)
			if name != "" || !k.kind.secret || !given {
				continue
			}
			if field.Kind() == reflect.Pointer {
				field = field.Elem()
			}
			key, name = "management: "+k.name, program(field)
		}
		if name != "" {
			return f.Mistake(d.Name, key, hint, fmt.Errorf("%s names the program %q to fetch a secret", key, printable(shortened(name))))
		}
	}
	return nil
}

// secrets visits all those that a device may have; clone has what is behind
// pointers copied first.
func (d *Device) secrets(clone bool, visit func(*Secret)) {
	visitSecrets(reflect.ValueOf(&d.Counters).Elem(), clone, visit)
	visitSecrets(reflect.ValueOf(&d.Management).Elem(), clone, visit)
}

func visitSecrets(v reflect.Value, clone bool, visit func(*Secret)) {
	if s, ok := v.Addr().Interface().(*Secret); ok {
		visit(s)
		return
	}
	set := keySetOf(v.Type(), "")
	for i := range set.keys {
		k := &set.keys[i]
		field, given := k.get(v)
		switch {
		case !k.kind.secret || !given:
		case field.Kind() != reflect.Pointer:
			visitSecrets(field, clone, visit)
		case clone:
			own := reflect.New(field.Type().Elem())
			own.Elem().Set(field.Elem())
			k.set(v, own)
			visitSecrets(own.Elem(), clone, visit)
		default:
			visitSecrets(field.Elem(), clone, visit)
		}
	}
}
