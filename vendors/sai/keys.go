package sai

import (
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// Platform is what fleet files say of switches with SAI's own CSIG.
var Platform = inventory.Platform{
	Name: "sai", Key: "sai", Doc: "The switch's objects as SAI numbers them, and what it supports, for the platform sai.", Keys: (*Keys)(nil), Native: true,
}

// Keys are the objects of one switch, by the IDs of its recordings.
type Keys struct {
	Switch       string            `key:"switch" is:"line 24" default:"oid:0x21000000000000" doc:"ID of the switch object; oid:0x21000000000000 unless given."`
	Ports        []PortKeys        `key:"ports" hint:"of COUNTERS_PORT_NAME_MAP of SONiC's COUNTERS_DB, or of the recording" doc:"The object of each port, for a switch that csig does not reach: csig plan --commands writes a recording for it."`
	TAM          []string          `key:"tam" is:"line 24" doc:"IDs of TAM objects that others have bound on the switch, and that stay bound."`
	Played       string            `key:"played" is:"path" doc:"A file with the lines of csig plan --commands that were played on the switch so far, in their order: csig reads there what it has."`
	Capabilities *CapabilitiesKeys `key:"capabilities" doc:"The switch's answers to the capability queries of SAI."`
}

// PortKeys is the object of one port.
type PortKeys struct {
	Name string `key:"name,need" is:"line 255" doc:"Its name, as under ports of the device."`
	OID  string `key:"oid,need" is:"line 24" doc:"ID of its port object."`
}

// CapabilitiesKeys are Capabilities in a fleet file: what is left out is not there.
type CapabilitiesKeys struct {
	Tags      []string        `key:"tags" words:"compact wide" doc:"Of SAI_TAM_INT_ATTR_TYPE."`
	Signals   []string        `key:"signals" words:"abw abwc pd nqd" doc:"Of SAI_TAM_INT_ATTR_CSIG_SIGNAL_TYPE."`
	Timers    uint8           `key:"timers" range:"1 255" doc:"SAI_SWITCH_ATTR_MAX_CSIG_TIMERS."`
	Intervals []time.Duration `key:"intervals" is:"interval" doc:"SAI_SWITCH_ATTR_CSIG_BW_TIME_INTERVAL_IN_USEC."`
	DBit      string          `key:"d_bit" words:"sets none no-trim" default:"none" doc:"Whether it sets D in packets that it trims (SAI_TAM_INT_ATTR_CSIG_D_BIT), cannot, or trims none; none unless given."`
	Strip     bool            `key:"strip" doc:"SAI_PORT_ATTR_INT_DELETE."`
	Locator   bool            `key:"locator" doc:"SAI_PORT_ATTR_INT_METADATA."`
}

// ByHand reports whether csig does not reach a device: its fleet file has its objects, and a person plays recordings.
func ByHand(d *inventory.Device) bool {
	keys, ok := inventory.OwnKeys[*Keys](d)
	return ok && len(keys.Ports) > 0
}

// Check wants IDs of the right objects.
func (k *Keys) Check(m inventory.Mapping) {
	is := func(key, text string, t ObjectType) {
		if id, err := ParseOID(text); err != nil {
			m.WrongValue(key, "write it as recordings have it", "%v", err)
		} else if id.Type() != t {
			m.WrongValue(key, "see the recording of the switch", "%s is not the ID of a %s", text, t)
		}
	}
	if k.Switch != "" {
		is("switch", k.Switch, SwitchObject)
	}
	for _, text := range k.TAM {
		is("tam", text, TAMObject)
		if id, err := ParseOID(text); err == nil && id.own() {
			m.WrongValue("tam", "leave it out", "%s is one of csig's own", text)
		}
	}
	if len(k.Ports) == 0 {
		for _, other := range []string{"switch", "tam", "played", "capabilities"} {
			if m.Has(other) {
				m.Wrong(other, "add the objects of its ports, or leave it out: csig asks a switch that it reaches", "it is for a switch that csig does not reach")
			}
		}
	}
	names, ids := map[string]bool{}, map[OID]string{}
	for _, p := range k.Ports {
		is("ports", p.OID, PortObject)
		if names[p.Name] {
			m.WrongValue("ports", "leave one of them out", "port %s is there twice", p.Name)
		}
		names[p.Name] = true
		if id, err := ParseOID(p.OID); err == nil {
			if other, ok := ids[id]; ok && other != p.Name {
				m.WrongValue("ports", "give each port the ID of its own object", "ports %s and %s have the same object %s", other, p.Name, id)
			}
			ids[id] = p.Name
		}
	}
}

// Place is nothing: no two devices are one switch.
func (k *Keys) Place(func(string) string) (string, bool) { return "", false }

func (k *CapabilitiesKeys) capabilities() *Capabilities {
	if k == nil {
		return nil
	}
	c := &Capabilities{Timers: int(k.Timers), Intervals: k.Intervals, DBit: DBit(k.DBit), Strip: k.Strip, Locator: k.Locator}
	for _, tag := range k.Tags {
		c.Compact, c.Wide = c.Compact || tag == "compact", c.Wide || tag == "wide"
	}
	for _, name := range k.Signals {
		if sig, err := quantize.ParseSignal(name); err == nil { // Check has words
			c.Signals = append(c.Signals, sig)
		}
	}
	if c.DBit == "" {
		c.DBit = DBitNone
	}
	return c
}
