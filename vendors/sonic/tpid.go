package sonic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/vendors"
)

// What carries a TPID is a port, or the aggregate that it is a member of (doc.go).
// The names of aggregates, and no others, begin so (sonic-utilities config/main.py,
// is_portchannel_name_valid).
const aggregates = "PortChannel"

func isAggregate(name string) bool { return strings.HasPrefix(name, aggregates) }

// carrierKey is its row in CONFIG_DB, carrierTable the one in APPL_DB that
// portmgrd or teammgrd makes of it.
func carrierKey(name string) string {
	if isAggregate(name) {
		return "PORTCHANNEL|" + name
	}
	return portKey(name)
}

func carrierTable(name string) string {
	if isAggregate(name) {
		return "LAG_TABLE:" + name
	}
	return "PORT_TABLE:" + name
}

// carrier is what is known of one.
type carrier struct {
	there bool
	tpid  string // of CONFIG_DB; "" is the default
	orch  string // what orchagent was given; "" is nothing yet
	asic  string // a port's that SAI has taken; "" is not known
}

// asicTPID is what ASIC_DB has of a port: orchagent sets no TPID but another than it
// set last, the default at first (orchagent/portsorch.cpp, setPortTpid), and what SAI
// refuses does not come to ASIC_DB. "" where the port is not there.
func asicTPID(port row) string {
	if len(port) == 0 {
		return ""
	}
	v, err := strconv.ParseUint(port["SAI_PORT_ATTR_TPID"], 10, 16)
	if err != nil {
		return defaultTPID
	}
	return tpidText(uint16(v))
}

// refusedTPID says that SAI has not taken a port's TPID.
func refusedTPID(asic, want string) string {
	return fmt.Sprintf("orchagent has its TPID %s, and the ASIC %s (ASIC_DB SAI_PORT_ATTR_TPID): SAI does not take it, as the log of swss should say; try another TPID for the domain", want, asic)
}

// aggregateDone is how an operator gets a port into an aggregate of csig's.
const aggregateDone = "leave it out of csig's ports, take it out of the aggregate and add it again, and then to csig's ports"

func (c carrier) tpidOr() string {
	if c.tpid == "" {
		return defaultTPID + ", the default"
	}
	return c.tpid
}

// refusal says why a port that CONFIG_DB has cannot be programmed as a member of
// its aggregate, "" where it can or is none.
func (v *view) refusal(name string) string {
	of := v.lags[name]
	if of == "" {
		return ""
	}
	lag, own := v.carriers[of], v.carriers[name]
	_, joined := v.record.before[name]
	_, noted := v.record.before[of]
	switch {
	case !lag.there:
		return fmt.Sprintf("it is a member of %s, which CONFIG_DB does not have; it is programmed as soon as that appears", of)
	case v.fixedLAGs():
		return fmt.Sprintf("it is a member of %s, and the switch's SAI cannot change the TPID of an aggregate (STATE_DB SWITCH_CAPABILITY|switch LAG_TPID_CAPABLE is false): leave it out of the ports, or take it out of the aggregate", of)
	case joined || !sameTPID(own.tpid, "") || !sameTPID(own.orch, ""):
		// SONiC's own command line does not let such a port join, and nothing says
		// which of the two TPIDs the ASIC has.
		return fmt.Sprintf("it became a member of %s while it had a TPID of its own, and which one the ASIC has is not known: %s", of, aggregateDone)
	case v.partial(name) != "" && !noted && !sameTPID(lag.tpid, tpidText(v.wanted.TPID)):
		return v.partial(name) + ", too, each with an lm of its own"
	}
	return ""
}

// partial says which members of a port's aggregate the wanted setup does not have, ""
// where it has all.
func (v *view) partial(name string) string {
	var others []string
	for _, p := range sortedKeys(v.lags) {
		if v.lags[p] == v.lags[name] && !v.wanted.HasPort(p) {
			others = append(others, p)
		}
	}
	if others == nil {
		return ""
	}
	return fmt.Sprintf("frames of %s also leave by %s, which would not be updated: name its other members", v.lags[name], strings.Join(others, ", "))
}

// carrierOf is what a port has its TPID from.
func (v *view) carrierOf(name string) string { return cmp.Or(v.lags[name], name) }

// portsOf are the ports whose errors an error has.
func portsOf(err error) (ports []string) {
	vendors.EachPort(err, func(port string, _ error) { ports = append(ports, port) })
	return ports
}

// setTPIDs records the setup and gives ports and aggregates the TPID, each noted
// with what it had before anything of it changes.
func (d *Driver) setTPIDs(ctx context.Context, seen *view) error {
	want := tpidText(d.setup.TPID)
	before := map[string]string{}
	of := map[string][]string{} // the ports of each carrier that is to have the TPID
	var carriers []string
	var cmds [][]string
	for _, p := range d.setup.Ports {
		name := seen.carrierOf(p.Port)
		switch {
		case !seen.carriers[p.Port].there:
			of[p.Port] = nil // when it comes back it is to have it
			continue
		case seen.refusal(p.Port) != "":
			continue
		case of[name] == nil:
			carriers = append(carriers, name)
		}
		of[name] = append(of[name], p.Port)
	}
	var change, kept []string // kept have it in CONFIG_DB, and not in the ASIC
	for _, name := range carriers {
		has := seen.carriers[name].tpid
		if !sameTPID(has, want) {
			change = append(change, name)
		} else {
			has = unknownTPID
			if asic := seen.carriers[name].asic; asic != "" && !sameTPID(asic, want) {
				kept = append(kept, name)
			}
		}
		if _, noted := seen.record.before[name]; !noted {
			before[name] = has
		}
	}
	record, err := recordCommands(d.setup, before)
	if err != nil {
		return err
	}
	cmds = append(cmds, record...)
	for _, name := range sortedKeys(seen.record.before) {
		if _, wanted := of[name]; wanted {
			continue
		}
		back := seen.restore(name)
		if d.setup.HasPort(name) {
			back = back[:len(back)-1] // it joined an aggregate: that stays noted until it leaves
		}
		cmds = append(cmds, back...)
	}
	if err := d.write(ctx, cmds...); err != nil {
		return err
	}
	return d.giveTPIDs(ctx, change, kept, of, seen)
}

// portmgrd waits until TPIDs have come through portmgrd and teammgrd to orchagent,
// and those of ports to the ASIC. Where orchagent ends meanwhile, that is errGone.
func (d *Driver) portmgrd(ctx context.Context, changes []string, of map[string][]string, seen *view) error {
	var places [][2]string
	for _, name := range changes {
		places = append(places, [2]string{sonicdb.Appl, carrierTable(name)}, [2]string{sonicdb.ASIC, asicPorts + seen.objects[name]})
	}
	want := tpidText(d.setup.TPID)
	for end := time.Now().Add(d.cfg.Patience); ; {
		list, err := d.hashes(ctx, places...)
		if err != nil {
			return err
		}
		var late []error
		for i, name := range changes {
			if sameTPID(list[2*i]["tpid"], want) {
				if asic := asicTPID(list[2*i+1]); asic != "" && !sameTPID(asic, want) {
					late = append(late, &vendors.PortError{Port: name, Err: errors.New(refusedTPID(asic, want))})
				}
				continue
			}
			who, whose := "portmgrd", "its TPID"
			if isAggregate(name) {
				who, whose = "teammgrd", "the TPID of "+name
			}
			for _, port := range of[name] {
				late = append(late, &vendors.PortError{Port: port,
					Err: fmt.Errorf("%s is in CONFIG_DB, and has not come to APPL_DB for %v: is %s running?", whose, d.cfg.Patience, who)})
			}
		}
		if len(late) == 0 {
			return nil
		}
		if o, err := d.orchagent(ctx); err != nil {
			return err
		} else if !o.running() || !o.ready {
			return errGone
		}
		if !time.Now().Before(end) {
			return errors.Join(late...)
		}
		if err := vendors.Wait(ctx, portmgrdPause); err != nil {
			return err
		}
	}
}

// portmgrdPause is between two looks whether portmgrd has done its work; it says
// nothing when it has.
const portmgrdPause = 10 * time.Millisecond

// former puts into a change of a port what happens to a TPID whose former value is
// unknown.
func (v *view) former(c *vendors.Change, want *vendors.Setup) {
	name := v.carrierOf(c.Port)
	before, noted := v.record.before[name]
	switch has := v.carriers[name].tpid; {
	case c.Kind == vendors.Remove && before == unknownTPID:
		c.Detail = "ACL entries, and CONFIG_DB " + carrierKey(name) + " tpid " + defaultTPID + ", SONiC's default: what it was before csig is not known"
		c.Disruptive = restores + ", and to " + defaultTPID + ", since what it was before csig is not known"
	case c.Kind == vendors.Create && !noted && sameTPID(has, tpidText(want.TPID)):
		c.Detail += "; it has this TPID already, and what it had before is not known, as after a reboot with a saved configuration: csig off gives it " + defaultTPID + ", SONiC's default"
		c.Disruptive = ""
	}
}
