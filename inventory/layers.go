package inventory

import (
	"maps"
	"reflect"
)

// layered is what a layer says under some keys, and where. What device, groups and
// defaults say under one key each is put together by overlay.
type layered[T any] struct {
	keys T
	at   map[string]originID // of the keys that are given; others may share it
}

// read reads some of the keys of a mapping. Counters and an estimator count as given
// though they are wrong: others are not looked for in another layer.
func (l *layered[T]) read(d *declReader, m Mapping, names ...string) {
	to := reflect.ValueOf(&l.keys).Elem()
	for _, name := range names {
		k, n := keysOf[T]().key(name), m.get(name)
		if n == nil {
			continue
		}
		if ok := k.read(d.reader, n, m.what+": "+name, to); ok || k.kind.block && to.FieldByIndex(k.index).Kind() == reflect.Struct {
			if l.at == nil {
				l.at = make(map[string]originID)
			}
			l.at[name] = d.at(n)
		}
	}
}

// overlay takes each key from the nearest layer that has it.
func overlay[T any](chain []*settings, part func(*settings) *layered[T]) layered[T] {
	var out layered[T]
	shared := false // out.at is a layer's
	for _, s := range chain {
		far := part(s)
		switch {
		case far.at == nil:
			continue
		case out.at == nil:
			out, shared = *far, true
			continue
		}
		set := keysOf[T]()
		for i := range set.keys {
			k := &set.keys[i]
			if far.at[k.name] == notGiven || out.at[k.name] != notGiven {
				continue
			}
			if shared {
				out.at, shared = maps.Clone(out.at), false
			}
			out.at[k.name] = far.at[k.name]
			value, _ := k.get(reflect.ValueOf(&far.keys).Elem())
			k.set(reflect.ValueOf(&out.keys).Elem(), value)
		}
	}
	return out
}

// ofDevice and ofManagement are the parts of a layer.
func ofDevice(s *settings) *layered[deviceKeys]     { return &s.device }
func ofManagement(s *settings) *layered[Management] { return &s.management }
