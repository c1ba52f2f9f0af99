package inventory

import (
	"reflect"
	"slices"

	"github.com/goccy/go-yaml/ast"
)

// layered is what a layer (a device, a group, the defaults) says under some keys.
type layered[T any] struct {
	keys T
	given
}

// given says of the keys of a mapping, by their numbers, where they are given.
type given struct {
	at   []originID // nil where none is
	lost uint64     // bits of keys that could not all be read: what they may say is not missed
}

// note takes in what reading one key has come to. A mapping counts as given though
// it is wrong: others are not looked for in another layer.
func (g *given) note(r *reader, k *key, n ast.Node, read, lost bool) {
	if lost {
		g.lost |= 1 << k.number
	}
	if read || n != nil && k.kind.keys != nil && k.kind.block {
		g.at[k.number] = r.at(n)
	}
}

// originOf is where a key is given.
func (l *layered[T]) originOf(name string) originID {
	if l.at == nil {
		return notGiven
	}
	return l.at[keysOf[T]().key(name).number]
}

// isLost reports whether one of some keys could not be read.
func (l *layered[T]) isLost(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return l.lost>>keysOf[T]().key(name).number&1 == 1 })
}

// lose drops what a key says, since it is wrong.
func (l *layered[T]) lose(name string) {
	k := keysOf[T]().key(name)
	reflect.ValueOf(&l.keys).Elem().FieldByIndex(k.index).SetZero()
	l.lost |= 1 << k.number
}

// lostLayer is one that should be there and could not be read: what it may say
// is not missed.
func lostLayer() *layered[deviceKeys] { return &layered[deviceKeys]{given: given{lost: ^uint64(0)}} }

// overlay takes each key from the nearer of two layers that has it, or what both say
// together where they add up.
func overlay[T any](near, far *layered[T]) layered[T] {
	out := *near
	out.lost |= far.lost
	switch {
	case far.at == nil:
		return out
	case near.at == nil:
		out.keys, out.at = far.keys, far.at
		return out
	}
	out.at = slices.Clone(near.at)
	set := keysOf[T]()
	to, from := reflect.ValueOf(&out.keys).Elem(), reflect.ValueOf(&far.keys).Elem()
	for i := range set.keys {
		k := &set.keys[i]
		if far.at[k.number] == notGiven {
			continue
		}
		if near.at[k.number] == notGiven {
			out.at[k.number] = far.at[k.number]
			value, _ := k.get(from)
			k.set(to, value)
		} else if both, ok := to.FieldByIndex(k.index).Addr().Interface().(adding); ok && k.own == nil {
			both.over(from.FieldByIndex(k.index).Addr().Interface())
		}
	}
	return out
}

// overlayAll is what layers come to, the nearest first.
func overlayAll[T any](chain []*layered[T]) (out layered[T]) {
	for _, l := range slices.Backward(chain) {
		out = overlay(l, &out)
	}
	return out
}

// adding is a pointer to a value of which both layers' parts count; far is one
// of the same type, and is not changed.
type adding interface{ over(far any) }

func (l *layered[T]) over(far any) { *l = overlay(l, far.(*layered[T])) }

// parts are the values and the places of a layered value of any type.
func (l *layered[T]) parts() (reflect.Value, *given) {
	return reflect.ValueOf(&l.keys).Elem(), &l.given
}

// parted is a pointer to a layered value.
type parted interface {
	parts() (reflect.Value, *given)
}

// layeredKind is a mapping of which layers give the keys one by one.
func layeredKind(t reflect.Type, without string) *kind {
	parts := func(v reflect.Value) (reflect.Value, *given) { return v.Addr().Interface().(parted).parts() }
	keys, _ := parts(reflect.New(t).Elem())
	set := keySetOf(keys.Type(), without)
	k := mappingKind(set)
	k.read = func(r *reader, n ast.Node, what string, to reflect.Value) bool {
		v, given := parts(to)
		_, ok := set.read(r, n, what, v, given)
		return ok
	}
	k.write = func(w *writer, v reflect.Value) {
		own := reflect.New(t).Elem()
		own.Set(v)
		keys, _ := parts(own)
		w.keys(set, keys)
	}
	return k
}

// placedName is a name with its place.
type placedName struct {
	name string
	at   originID
}

// placedNames are a list of names, or one without the brackets.
type placedNames []placedName

// maxList is how many groups or tags one device has at most.
const maxList = 256

func (l *placedNames) readFrom(r *reader, n ast.Node, what string) bool {
	list := []ast.Node{n}
	if n.Type() == ast.SequenceType {
		list, _ = r.list(n, what)
		if len(list) > maxList {
			r.errorf(n, "", "%s: more than %d entries", what, maxList)
			list = list[:maxList]
		}
	}
	for _, item := range list {
		if name, ok := r.name(item, what); ok {
			*l = append(*l, placedName{name, r.at(item)})
		}
	}
	return true
}

func (*placedNames) form() *schema {
	one := textForm(plainName.String())
	return anyForm(one, listForm(one))
}

func (l *placedNames) writeTo(w *writer) {
	w.list(len(*l), func(i int) { w.text((*l)[i].name) })
}

func (l *placedNames) over(far any) {
	*l = slices.Clip(*l)
	for _, one := range *far.(*placedNames) {
		if !slices.ContainsFunc(*l, func(own placedName) bool { return own.name == one.name }) {
			*l = append(*l, one)
		}
	}
}
