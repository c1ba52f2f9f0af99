package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/quantize"
)

// Hash returns a hash of all that the fleet says, in hexadecimal: equal fleets
// have equal ones, in whatever files, layers and forms they are written. Where
// values come from is no part of it, nor are credentials, of which a fleet has
// only the places.
func (f *Fleet) Hash() string {
	h := sha256.New()
	w := hashWriter{to: h}
	w.text("csig.fleet.hash/1")
	w.text(f.Profile.Hash())
	w.text(string(f.Policy.OnStale), f.Policy.Schedule)
	w.estimator(f.Policy.Estimator)
	w.number(uint64(f.Policy.Damping.Hold), f.Policy.Damping.Margin, uint64(len(f.VLANTPIDs)))
	for _, v := range f.VLANTPIDs {
		w.number(uint64(v))
	}
	w.number(uint64(len(f.Devices)))
	for i := range f.Devices {
		w.device(&f.Devices[i])
	}
	w.number(uint64(len(f.Hosts)))
	for _, host := range f.Hosts {
		w.text(host.Name)
		w.number(uint64(host.MTU))
		w.yes(host.CSIG)
		if host.Interface != "" || host.NetNS != "" || host.Local { // fleets without probes keep their hash
			w.text("interface", host.Interface, host.NetNS)
			w.yes(host.Local)
		}
		if host.Address != "" { // the same
			w.text("address", host.Address)
		}
		if host.TCP != nil { // the same
			w.text("tcp")
			w.value(reflect.ValueOf(host.TCP).Elem())
		}
	}
	if f.Mesh != nil {
		w.text("mesh")
		w.value(reflect.ValueOf(f.Mesh).Elem())
	}
	if len(f.Policy.Retired) > 0 { // so that fleets without any keep the hash they had
		w.text("retired")
		w.number(uint64(len(f.Policy.Retired)))
		for _, r := range f.Policy.Retired {
			w.number(uint64(r.TPID))
			w.yes(r.Wide)
		}
		for i := range f.Devices {
			for j := range f.Devices[i].Ports {
				w.yes(f.Devices[i].Ports[j].StripRetired)
			}
		}
	}
	if f.Policy.DriftCheck != "" { // the same
		w.text("drift_check", f.Policy.DriftCheck)
	}
	w.flush()
	return hex.EncodeToString(h.Sum(nil))
}

// hashWriter writes values with their lengths, so that two fleets never give
// the same bytes.
type hashWriter struct {
	to  io.Writer // a hash, which takes everything
	buf []byte
}

func (w *hashWriter) flush() {
	_, _ = w.to.Write(w.buf)
	w.buf = w.buf[:0]
}

func (w *hashWriter) text(list ...string) {
	for _, s := range list {
		w.buf = strconv.AppendInt(w.buf, int64(len(s)), 10)
		w.buf = append(append(w.buf, ':'), s...)
	}
	if len(w.buf) > 1<<15 {
		w.flush()
	}
}

func (w *hashWriter) number(list ...uint64) {
	for _, n := range list {
		w.buf = append(strconv.AppendUint(w.buf, n, 10), ',')
	}
}

func (w *hashWriter) yes(list ...bool) {
	for _, v := range list {
		w.buf = append(strconv.AppendBool(w.buf, v), ',')
	}
}

func (w *hashWriter) secret(s *Secret) {
	w.text(s.Env, s.File)
	w.number(uint64(len(s.Command)))
	w.text(s.Command...)
}

func (w *hashWriter) estimator(e Estimator) {
	w.text(string(e.orRaw().Method))
	w.number(uint64(e.TimeConstant))
}

func (w *hashWriter) device(d *Device) {
	w.text(d.Name, d.Platform, d.Address, string(d.Level.Support), d.Level.Reason, d.Schedule)
	if d.Level.Profile != "" { // so that fleets without any keep the hash they had
		w.text("profile", d.Level.Profile)
	}
	if d.Facts != nil {
		w.text("facts", d.Facts.Name)
		w.value(reflect.ValueOf(d.Facts).Elem())
	}
	if d.Experimental {
		w.text("experimental")
	}
	if d.Updates != "" || d.Lease != "" {
		w.text("updates", string(d.Updates), string(d.Lease))
	}
	w.yes(d.Local)
	w.number(uint64(d.Interval), uint64(len(d.Tags)))
	w.text(d.Tags...)
	w.estimator(d.Estimator)
	w.value(reflect.ValueOf(&d.Management).Elem())
	w.value(reflect.ValueOf(&d.Counters).Elem())
	w.number(uint64(len(d.Ports)))
	for i := range d.Ports {
		p := &d.Ports[i]
		w.text(p.Name, p.Peer.Device, p.Peer.Port)
		w.number(p.Speed, uint64(p.MTU), uint64(p.Action), uint64(len(p.LM)))
		if p.SpeedOverride { // so that fleets without any keep the hash they had
			w.text("override")
		}
		for _, sig := range quantize.Signals {
			if lm, ok := p.LM[sig]; ok {
				w.number(uint64(sig), uint64(lm))
			}
		}
	}
}

// A struct of keys is hashed by the kinds of its values, and each kind in the order
// of the fields: texts, whether there are the mappings, numbers, yes and no,
// secrets, and then what is in the mappings. The tag "hash" of a mapping says
//
//	flat  its values count as those of the struct around it
//	late  it is left out where it is missing, so that fleets without it keep the
//	      hash that they had before there was this key; also of other values
type hashStep struct {
	class hashClass
	index []int
	label string // of a late mapping
}

type hashClass int

const (
	hashText hashClass = iota
	hashPresence
	hashNumber
	hashBool
	hashSecret
	hashNested
	hashOwn // platforms' keys, which count as late mappings
)

// hashSteps are a struct's in the order of writing.
func hashSteps(t reflect.Type, index []int) []hashStep {
	var out []hashStep
	for i := range t.NumField() {
		f, at := t.Field(i), append(slices.Clone(index), i)
		name, _, _ := strings.Cut(f.Tag.Get("key"), ",")
		how := f.Tag.Get("hash")
		switch kind := f.Type.Kind(); {
		case name == "":
		case f.Type == reflect.TypeFor[Secret]():
			out = append(out, hashStep{hashSecret, at, ""})
		case name == "*":
			out = append(out, hashStep{hashOwn, at, ""})
		case how == "late":
			out = append(out, hashStep{hashNested, at, name})
		case kind == reflect.String:
			out = append(out, hashStep{hashText, at, ""})
		case kind == reflect.Bool:
			out = append(out, hashStep{hashBool, at, ""})
		case kind == reflect.Pointer:
			out = append(out, hashStep{hashPresence, at, ""}, hashStep{hashNested, at, ""})
		case kind == reflect.Struct && how == "flat":
			out = append(out, hashSteps(f.Type, at)...)
		case kind == reflect.Struct:
			out = append(out, hashStep{hashNested, at, ""})
		default:
			out = append(out, hashStep{hashNumber, at, ""})
		}
	}
	slices.SortStableFunc(out, func(a, b hashStep) int { return int(a.class - b.class) })
	return out
}

// keys writes a struct of keys.
func (w *hashWriter) keys(steps []hashStep, v reflect.Value) {
	for i := range steps {
		s := &steps[i]
		switch f := v.FieldByIndex(s.index); s.class {
		case hashText:
			w.text(f.String())
		case hashPresence:
			w.yes(!f.IsNil())
		case hashBool:
			w.yes(f.Bool())
		case hashSecret:
			w.secret(f.Addr().Interface().(*Secret))
		case hashNumber:
			w.value(f)
		case hashOwn:
			own := f.Interface().(map[string]PlatformKeys)
			for _, key := range slices.Sorted(maps.Keys(own)) {
				w.text(key)
				w.value(reflect.ValueOf(own[key]).Elem())
			}
		case hashNested:
			if s.label != "" && f.IsZero() || f.Kind() == reflect.Pointer && f.IsNil() {
				continue
			}
			if s.label != "" {
				w.text(s.label)
			}
			w.value(reflect.Indirect(f))
		}
	}
}

// value writes a text, a number, a list, texts by their names, or a mapping.
func (w *hashWriter) value(v reflect.Value) {
	switch {
	case v.Kind() == reflect.String:
		w.text(v.String())
	case v.Kind() == reflect.Bool:
		w.yes(v.Bool())
	case v.Kind() == reflect.Slice:
		w.number(uint64(v.Len()))
		for i := range v.Len() {
			w.value(v.Index(i))
		}
	case v.Kind() == reflect.Map:
		texts := v.Interface().(FactReasons)
		w.number(uint64(len(texts)))
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			w.text(name, texts[name])
		}
	case v.Type() == reflect.TypeFor[VIDRange]():
		w.text(v.Interface().(VIDRange).String())
	case v.Kind() == reflect.Struct:
		w.keys(keySetOf(v.Type(), "").hash, v)
	case v.CanUint():
		w.number(v.Uint())
	default:
		w.number(uint64(v.Int()))
	}
}
