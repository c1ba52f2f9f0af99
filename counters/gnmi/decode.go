package gnmi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	pb "github.com/openconfig/gnmi/proto/gnmi"
)

// sink takes what a decoder finds in a notification.
type sink interface {
	// update takes the value of a leaf of an interface; v is only valid during
	// the call.
	update(port string, l leafID, v *value)
	// remove says that of n and all below it only that is left which the same
	// notification updated; port "" means all ports. It comes after the updates.
	remove(port string, n *node)
	// damaged takes what is no proper gNMI. It concerns the port, or the whole
	// notification where port is "".
	damaged(port string, err error)
}

// decoder finds the leaves of interfaces in notifications: in updates of leaves and
// in JSON trees, whatever of the path is in the prefix (gNMI specification
// 0.10 §2.2.2, §2.3, §2.4.1). It allocates nothing for updates of leaves.
type decoder struct {
	target string // the only target to listen to; "" is any
	sink   sink
	val    value
}

// errNotOurs is a path that leads to nothing that this package looks at.
var errNotOurs = errors.New("path of other data")

// notification hands all that n holds to the sink. Deletes come before updates by the
// gNMI specification 0.10 §2.1; handing them on after, less what was updated, has the same
// result, and keeps apart a counter that is replaced from one that is gone.
func (d *decoder) notification(n *pb.Notification) {
	if t := n.GetPrefix().GetTarget(); d.target != "" && t != "" && t != d.target {
		return
	}
	for _, u := range n.GetUpdate() {
		at, err := d.locate(n.GetPrefix(), u.GetPath())
		switch {
		case errors.Is(err, errNotOurs):
		case err != nil:
			d.sink.damaged("", err)
		default:
			d.value(at, u.GetVal())
		}
	}
	for _, p := range n.GetDelete() {
		if at, err := d.locate(n.GetPrefix(), p); err == nil {
			d.sink.remove(at.port, at.node)
		} else if !errors.Is(err, errNotOurs) {
			d.sink.damaged("", err)
		}
	}
	if n.GetAtomic() {
		// What is not in it is gone (§2.1.1).
		if at, err := d.locate(n.GetPrefix(), nil); err == nil {
			d.sink.remove(at.port, at.node)
		}
	}
}

// place is where a path leads to: a node, and the port whose it is, which is "" above
// the list of interfaces and for all of them.
type place struct {
	node *node
	port string
}

// locate follows a path from the root, prefix first.
func (d *decoder) locate(prefix, path *pb.Path) (place, error) {
	at := place{node: tree}
	for _, p := range [2]*pb.Path{prefix, path} {
		switch o := p.GetOrigin(); o {
		case "", "openconfig":
		default:
			return at, errNotOurs
		}
		if len(p.GetElem()) == 0 && len(p.GetElement()) != 0 { //nolint:staticcheck // that is the point
			return at, errors.New("the target sends paths as strings, which gNMI gave up with version 0.4")
		}
		for _, e := range p.GetElem() {
			next := at.node.child(bare(e.GetName()))
			if next == nil {
				return at, errNotOurs
			}
			at.node = next
			if next.list {
				name, ok := e.GetKey()["name"]
				switch {
				case !ok || name == "*":
					at.port = ""
				case name == "":
					return at, errors.New("an interface without a name")
				default:
					at.port = name
				}
			}
		}
	}
	return at, nil
}

// value hands on what an update says about the place at.
func (d *decoder) value(at place, tv *pb.TypedValue) {
	if d.val.read(tv) {
		switch {
		case at.node.leaf == noLeaf:
			if d.val.kind != otherValue || d.val.text != "no value" {
				d.sink.damaged(at.port, fmt.Errorf("%s: %w: %s where a tree is due", at.node.name, errWrongType, d.val.describe()))
			}
		case at.port == "":
			d.sink.damaged("", fmt.Errorf("%s: an update of no particular interface", at.node.leaf))
		default:
			d.sink.update(at.port, at.node.leaf, &d.val)
		}
		return
	}
	js := tv.GetJsonIetfVal()
	if js == nil {
		js = tv.GetJsonVal()
	}
	dec := json.NewDecoder(bytes.NewReader(js))
	dec.UseNumber()
	err := d.json(dec, at)
	if err == nil {
		if _, err = dec.Token(); err == nil {
			err = errors.New("more than one value")
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		d.sink.damaged(at.port, fmt.Errorf("JSON of %s: %w", at.node.name, err))
	}
}

// json walks a JSON value (RFC 7951) that stands at the given place.
func (d *decoder) json(dec *json.Decoder, at place) error {
	if at.node.list {
		return d.jsonList(dec, at)
	}
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	if at.node.leaf != noLeaf {
		return d.jsonLeaf(dec, at, tok)
	}
	if tok != json.Delim('{') {
		return fmt.Errorf("%s: %w: want an object", at.node.name, errWrongType)
	}
	return d.jsonObject(dec, at)
}

// jsonObject walks an object whose first brace has been read.
func (d *decoder) jsonObject(dec *json.Decoder, at place) error {
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok {
			return fmt.Errorf("%s: an object's key is no string", at.node.name)
		}
		if next := at.node.child(bare(key)); next != nil {
			err = d.json(dec, place{next, at.port})
		} else {
			err = skip(dec)
		}
		if err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// jsonList walks the list of interfaces, or one of them.
func (d *decoder) jsonList(dec *json.Decoder, at place) error {
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	switch {
	case tok == json.Delim('{') && at.port != "":
		return d.jsonObject(dec, at)
	case tok != json.Delim('['):
		return fmt.Errorf("%s: %w: want a list", at.node.name, errWrongType)
	}
	for dec.More() {
		// The name may come after what it names.
		var entry json.RawMessage
		if err := dec.Decode(&entry); err != nil {
			return err
		}
		var key struct {
			Plain string `json:"name"`
			Full  string `json:"openconfig-interfaces:name"`
		}
		if err := json.Unmarshal(entry, &key); err != nil {
			return fmt.Errorf("an interface in a list: %w", err)
		}
		name := key.Plain
		if name == "" {
			name = key.Full
		}
		if name == "" {
			name = at.port
		}
		if name == "" {
			return errors.New("an interface without a name in a list")
		}
		one := json.NewDecoder(bytes.NewReader(entry))
		one.UseNumber()
		if _, err := one.Token(); err != nil {
			return err
		}
		if err := d.jsonObject(one, place{at.node, name}); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// jsonLeaf hands on a leaf whose first token is tok.
func (d *decoder) jsonLeaf(dec *json.Decoder, at place, tok json.Token) error {
	if at.port == "" {
		return fmt.Errorf("%s outside of any interface", at.node.leaf)
	}
	v := &d.val
	*v = value{}
	switch x := tok.(type) {
	case json.Number:
		v.setNumber([]byte(x))
	case string:
		v.kind, v.text = textValue, x
	case nil:
		v.text = "null"
	case bool:
		v.text = "a boolean"
	case json.Delim:
		if x != '[' {
			v.text = "an object"
			d.sink.update(at.port, at.node.leaf, v)
			return drain(dec)
		}
		v.kind = listValue
		for dec.More() {
			tok, err := dec.Token()
			if err != nil {
				return err
			}
			switch x := tok.(type) {
			case string:
				v.list = append(v.list, x)
			case json.Delim:
				if err := drain(dec); err != nil {
					return err
				}
			}
		}
		if _, err := dec.Token(); err != nil {
			return err
		}
	}
	d.sink.update(at.port, at.node.leaf, v)
	return nil
}

// skip reads over one value.
func skip(dec *json.Decoder) error {
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	if _, ok := tok.(json.Delim); ok {
		return drain(dec)
	}
	return nil
}

// drain reads to the end of the object or list that was just entered.
func drain(dec *json.Decoder) error {
	for depth := 1; depth > 0; {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxDepth {
				return fmt.Errorf("more than %d levels", maxDepth)
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	return nil
}
