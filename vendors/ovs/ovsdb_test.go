package ovs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
)

// TestAnswerAsTimeRunsOut has the database answer in the moment when the client
// gives up, and closes the connection as well.
func TestAnswerAsTimeRunsOut(t *testing.T) {
	t.Parallel()
	over, giveUp := context.WithCancel(t.Context())
	giveUp()
	for range 1000 {
		c := &answering{}
		d := newDatabase(c)
		err := d.during(over, func() error {
			_, err := d.ask("csig")
			return err
		})
		if err == nil {
			t.Fatal("a bridge that is not there")
		}
		_ = d.close()
	}
}

// answering is a database that knows of nothing, and answers at once.
type answering struct {
	net.Conn
	answers bytes.Buffer
	last    []byte // that it was sent
}

func (c *answering) Write(b []byte) (int, error) {
	var asked request
	c.last = bytes.Clone(b)
	err := json.Unmarshal(b, &asked)
	if asked.Method == "" {
		return len(b), nil // it answers
	}
	fmt.Fprintf(&c.answers, `{"id":%d,"error":null,"result":[{"rows":[]},{"rows":[]},{"rows":[]},{"rows":[]},{"rows":[]}]}`, asked.ID)
	return len(b), err
}

func (c *answering) Read(b []byte) (int, error) { return c.answers.Read(b) }

func (c *answering) Close() error { return nil }

func TestValuesOfColumns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want []string // nil: an error
	}{
		{`"a"`, []string{"a"}},
		{`7`, []string{"7"}},
		{`"\u001b[31m"`, []string{`\x1b[31m`}},
		{`["uuid","a"]`, []string{"a"}},
		{`["set",[]]`, []string{}},
		{`["set",[7,8]]`, []string{"7", "8"}},
		{`["set",[["uuid","a"],["uuid","b"]]]`, []string{"a", "b"}},
		{`["map",[]]`, []string{}},
		{`["map",[["k","v"],["l",["uuid","a"]]]]`, []string{"k", "v", "l", "a"}},
		{`["set",7]`, nil},
		{`["map",["k","v"]]`, nil},
		{`["list",[]]`, nil},
		{`["set"]`, nil},
		{`[]`, nil},
	} {
		var got values
		if err := json.Unmarshal([]byte(tc.text), &got); (err != nil) != (tc.want == nil) || err == nil && !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, %v", tc.text, got, err)
		}
	}
	for text, want := range map[string]uint32{"7": 7, "-1": 0, `["set",[]]`: 0, "4294967040": 0, "65534": 65534} {
		var got patchRow
		if err := json.Unmarshal([]byte(`{"ofport":`+text+`}`), &got); err != nil || got.patch().number != want {
			t.Errorf("%s: %d, %v", text, got.patch().number, err)
		}
	}
}

// TestDatabaseThatAsks has the database ask whether we are there before it
// answers: one that hears nothing ends the connection (RFC 7047, §4.1.11).
func TestDatabaseThatAsks(t *testing.T) {
	t.Parallel()
	c := &answering{}
	c.answers.WriteString(`{"method":"echo","params":["are","you"],"id":"echo"}`)
	d := newDatabase(c)
	if _, err := d.ask("csig"); !errors.Is(err, errNoBridge) {
		t.Fatal(err)
	}
	var got response
	if err := json.Unmarshal(c.last, &got); err != nil || string(got.ID) != `"echo"` || string(got.Result) != `["are","you"]` || string(got.Error) != "null" {
		t.Errorf("it is answered with %s, %v", c.last, err)
	}
}
