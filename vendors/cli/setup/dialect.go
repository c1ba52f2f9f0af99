package setup

import (
	"fmt"
	"time"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/setuponly"
)

// Dialect is a platform's command line: commands, and what their answers say. Lines are
// given in configuration mode, and return to where they began.
type Dialect struct {
	Platform setuponly.Platform
	Session  cli.Config // but for SSH

	// Enter and Leave are configuration mode, for people.
	Enter, Leave string

	// PortName is why the platform can have no port of a name, "" where it can.
	PortName func(name string) string

	// Read are the commands that show what Parse makes a View of.
	Read  []string
	Parse func(answers [][]string) *View

	// TPID gives a port a TPID as Platform.Format has it, MTU bytes; "" and 0 delete what is
	// configured, which is old.
	TPID func(port, tpid, old string) []string
	MTU  func(port string, mtu int) []string

	Record

	// Lost is why hardware may not have the TPID of a port, though it is configured, and csig
	// gave it that when the switch had been up for a time shorter by ago: negative after a
	// restart. nil: it has what is configured.
	Lost func(p *Port, ago time.Duration) string

	// Commit is how lines take effect; nil: one by one, as they are given.
	Commit *Commit
}

// Record is where csig's record is.
type Record struct {
	// Within enters a slot, "" where there is no need, and Out leaves it. There, Note adds a
	// comment and Erase, which only a Dialect with Lost needs, removes one; Drop removes the
	// slot. A comment has characters of base64, hyphens and blanks alone, of the record MaxNote
	// at most.
	Within  func(slot string) string
	Out     string
	Note    func(slot string, c Comment) string
	Erase   func(slot string, c Comment) string
	Drop    func(slot string) string
	MaxNote int
}

// Remarks are a record in remarks of access lists that are applied nowhere; list is the keyword
// of such a list.
func Remarks(list string, maxNote int) Record {
	return Record{
		Within:  func(slot string) string { return list + " " + slot },
		Out:     "exit",
		Note:    func(_ string, c Comment) string { return fmt.Sprintf("%d remark %s", c.Seq, c.Text) },
		Erase:   func(_ string, c Comment) string { return fmt.Sprintf("no %d", c.Seq) },
		Drop:    func(slot string) string { return "no " + list + " " + slot },
		MaxNote: maxNote,
	}
}

// Commit is a change that the switch takes back unless it is confirmed in time.
type Commit struct {
	Trial   string        // the command that puts the lines in force
	Confirm string        // the one that keeps them
	Undo    []string      // those that take them back at once; nil: the end of the session does
	Within  time.Duration // of Trial

	// Show shows whether a commit waits for its confirmation, which Pending finds in the answer; In
	// stands before it in configuration mode.
	Show, In string
	Pending  func(answer []string) bool
}

// View is what a switch shows of itself.
type View struct {
	Identity vendors.Identity
	Ports    []Port // those that PortName allows
	Slots    map[string][]Comment

	Up time.Duration // since the switch started; 0: unknown

	// Foreign is a line in a slot of the record that is not csig's, "" for none.
	Foreign string
}

// Port is an interface.
type Port struct {
	setuponly.Port
	InForce string        // the TPID that the switch reports of its hardware; "": it does not
	Flapped time.Duration // since the link came up or went down last, at most; 0: unknown, or never
}

// Comment is a line of text in an object of the configuration, with its number.
type Comment struct {
	Seq  int
	Text string
}

func (v *View) port(name string) *Port {
	for i := range v.Ports {
		if v.Ports[i].Name == name {
			return &v.Ports[i]
		}
	}
	return nil
}
