package gnmi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	pb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/csig-agent/csig/protocol/gnmi"
)

// sink takes what a decoder finds in a notification.
type sink interface {
	// update takes the value of a leaf of an interface; v is only valid during
	// the call.
	update(port string, l leafID, v *gnmi.Value)
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
	val    gnmi.Value
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
			next := at.node.child(gnmi.Bare(e.GetName()))
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
	if d.val.Read(tv) {
		switch {
		case at.node.leaf == noLeaf:
			if d.val.Kind != gnmi.Other || d.val.Text != "no value" {
				d.sink.damaged(at.port, fmt.Errorf("%s: %w: %s where a tree is due", at.node.name, gnmi.ErrType, d.val.Describe()))
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
	var tree json.RawMessage
	err := dec.Decode(&tree)
	if err == nil {
		err = d.json(tree, at)
	}
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

// json takes a JSON value (RFC 7951) that stands at the given place.
func (d *decoder) json(js json.RawMessage, at place) error {
	switch {
	case at.node.leaf != noLeaf:
		return d.jsonLeaf(js, at)
	case at.node.list && js[0] == '[':
		return d.jsonList(js, at)
	case at.node.list && at.port == "":
		return fmt.Errorf("%s: %w: want a list", at.node.name, gnmi.ErrType)
	case js[0] != '{':
		return fmt.Errorf("%s: %w: want an object", at.node.name, gnmi.ErrType)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(js, &object); err != nil {
		return err
	}
	return d.jsonObject(object, at)
}

func (d *decoder) jsonObject(object map[string]json.RawMessage, at place) error {
	for key, js := range object {
		if next := at.node.child(gnmi.Bare(key)); next != nil {
			if err := d.json(js, place{next, at.port}); err != nil {
				return err
			}
		}
	}
	return nil
}

// jsonList takes the list of interfaces, or one of them as a list.
func (d *decoder) jsonList(js json.RawMessage, at place) error {
	var entries []map[string]json.RawMessage
	if err := json.Unmarshal(js, &entries); err != nil {
		return fmt.Errorf("an interface in a list: %w", err)
	}
	for _, entry := range entries {
		name := at.port
		for _, key := range [...]string{"name", "openconfig-interfaces:name"} {
			if err := json.Unmarshal(entry[key], &name); entry[key] != nil && err != nil {
				return fmt.Errorf("an interface's name: %w", err)
			}
		}
		if name == "" {
			return errors.New("an interface without a name in a list")
		}
		if err := d.jsonObject(entry, place{at.node, name}); err != nil {
			return err
		}
	}
	return nil
}

// jsonLeaf hands on a leaf.
func (d *decoder) jsonLeaf(js json.RawMessage, at place) error {
	if at.port == "" {
		return fmt.Errorf("%s outside of any interface", at.node.leaf)
	}
	d.val = gnmi.Value{}
	if !d.val.ReadJSON(js) {
		d.val.Text = "an object"
		if js[0] == '[' {
			var list []any
			if err := json.Unmarshal(js, &list); err != nil {
				return err
			}
			d.val.Kind = gnmi.List
			for _, e := range list {
				if text, ok := e.(string); ok {
					d.val.List = append(d.val.List, text)
				}
			}
		}
	}
	d.sink.update(at.port, at.node.leaf, &d.val)
	return nil
}
