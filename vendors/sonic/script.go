package sonic

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// Script is what Apply(want) sends to the Redis of a switch that is found to be
// have, for a person to read, or to feed to redis-cli on the switch, which knows no
// comments: without the lines that begin with #. It is the same as
// Apply's, in the same order, for the database numbers and TPIDs that SONiC has
// by default; Apply waits for orchagent's answer to each row of P4RT_TABLE.
func Script(have, want vendors.Setup) ([]byte, error) {
	if err := validate(&want); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	note := func(format string, args ...any) { fmt.Fprintf(&b, "# "+format+"\n", args...) }
	layout, db := sonicdb.Default(), -1
	put := func(cmds ...[]string) {
		for _, c := range cmds {
			id, _ := layout.ID(c[0]) // one that the default layout has
			if id != db {
				fmt.Fprintf(&b, "SELECT %d\n", id)
				db = id
			}
			for i, word := range c[1:] {
				if i > 0 {
					b.WriteByte(' ')
				}
				b.WriteString(quoted(word))
			}
			b.WriteByte('\n')
		}
	}
	sent := func(ops ...rowOp) {
		for _, op := range ops { // each by itself, as its answer is awaited
			put(setRows(channelOf(0), []rowOp{op})...)
		}
	}
	changes, err := Diff(have, want)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	old := map[string]vendors.PortSetup{}
	for _, p := range have.Ports {
		old[p.Port] = p
	}
	before := map[string]string{}
	var tpids [][]string
	stays := map[string]bool{}
	for _, p := range want.Ports {
		stays[p.Port] = true
		o, known := old[p.Port]
		if !known {
			before[p.Port] = ""
		}
		if !known || have.TPID != want.TPID || strings.Contains(o.Damaged, "TPID") {
			tpids = append(tpids, tpidCommand(p.Port, tpidText(want.TPID)))
		}
	}
	note("the setup's record")
	record, err := recordCommands(&want, before)
	if err != nil {
		return nil, err
	}
	put(record...)
	if len(tpids) > 0 {
		note("TPIDs; of a port in an aggregate it is the aggregate's instead, PORTCHANNEL|NAME")
		put(tpids...)
	}
	for _, p := range have.Ports {
		if !stays[p.Port] {
			note("port %s: the TPID that it had before csig (here the default)", p.Port)
			put(tpidCommand(p.Port, ""), []string{sonicdb.State, "HDEL", recordKey, recordBefore + p.Port})
		}
	}
	grows := tableSize(&have) < tableSize(&want)
	if have.TPID == 0 || have.Damaged != "" || grows {
		note("the ACL table; orchagent answers on %s. Since SONiC 202605 it takes", responses)
		note("rows of P4RT_TABLE over ZeroMQ alone, where csig sends the same ones, and not from here")
		if have.TPID != 0 && have.Damaged == "" {
			note("(before it, every entry of the smaller one, and that table, are deleted)")
			sent(rowOp{key: definedTable})
		}
		sent(rowOp{key: definedTable, to: definition{size: tableSize(&want), priority: tablePriority}.row()})
	}
	other := have.TPID == 0 || describe(&have) != describe(&want)
	fill := want.Fallback()
	c := vlanrules.NewCompiler(Rules(), want.Layout)
	for _, p := range want.Ports {
		o, known := old[p.Port]
		if p.Action != vlanrules.Update || known && o.Action == vlanrules.Update && !other && !grows {
			continue
		}
		var res vlanrules.Result
		c.Compile(&res, nil, fill)
		if len(res.Table) == 0 {
			continue
		}
		note("port %s: the fallback, until csig agent has a signal", p.Port)
		for i := range res.Table {
			sent(rowOp{key: entryKey(p.Port, &res.Table[i]), to: entryRow(&res.Table[i])})
		}
	}
	for _, p := range have.Ports {
		if p.Action == vlanrules.Update && (!stays[p.Port] || want.ActionOf(p.Port) != vlanrules.Update) {
			note("port %s: its entries, P4RT_TABLE:%s:{\"%s\":\"%s\",…}, are deleted", p.Port, aclTable, matchPort, p.Port)
		}
	}
	return b.Bytes(), nil
}

// quoted is a word as redis-cli reads it.
func quoted(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\r\n\"'\\") {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(word) + `"`
}
