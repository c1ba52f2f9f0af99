package ovstest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// HostileDatabase is one way in which an ovsdb-server does not do what it should.
type HostileDatabase struct {
	Name string
	Want string // part of the error that its client has

	// Answer writes what comes in place of the answer to a request; an error ends
	// the connection.
	Answer func(w io.Writer, id int) error
}

// Slow is the Want of those that a client has to give up on by itself.
const Slow = "no answer"

// Serve answers the requests that come by c, and closes it in the end.
func (h *HostileDatabase) Serve(c io.ReadWriteCloser) {
	defer c.Close()
	dec := json.NewDecoder(c)
	for {
		var asked struct{ ID int }
		if dec.Decode(&asked) != nil || h.Answer(c, asked.ID) != nil {
			return
		}
	}
}

// HostileDatabases are those that flood, lie, are slow or end.
func HostileDatabases() []HostileDatabase {
	const begin = `{"id":%d,"error":null,"result":[{"rows":[]},{"rows":`
	says := func(format string, more ...any) func(io.Writer, int) error {
		return func(w io.Writer, id int) error {
			_, err := fmt.Fprintf(w, format, append([]any{id}, more...)...)
			return err
		}
	}
	return []HostileDatabase{
		{"blanks for ever", "longer than csig accepts", func(w io.Writer, _ int) error { return forever(w, "", " \n") }},
		{"one text for ever", "longer than csig accepts", func(w io.Writer, id int) error { return forever(w, fmt.Sprintf(`{"id":%d,"result":"`, id), "abc") }},
		{"rows for ever", "longer than csig accepts", func(w io.Writer, id int) error { return forever(w, fmt.Sprintf(begin+`[{}`, id), `,{}`) }},
		{"too many rows", "more than 65536 rows", func(w io.Writer, id int) error {
			_, err := fmt.Fprintf(w, begin+`[{}%s]},{"rows":[]},{"rows":[]}]}`, id, strings.Repeat(`,{}`, 1<<17))
			return err
		}},
		{"brackets", "cannot unmarshal", says(begin+`%s%s},{"rows":[]},{"rows":[]}]}`, strings.Repeat(`["set",[`, 4000), strings.Repeat(`]]`, 4000))},
		{"more brackets", "depth", func(w io.Writer, _ int) error { return forever(w, "", "[") }},
		{"other answers for ever", Slow, func(w io.Writer, _ int) error { return forever(w, "", `{"id":"x","result":[]}`) }},
		{"questions for ever", Slow, func(w io.Writer, _ int) error {
			return forever(w, "", `{"method":"echo","params":["`+strings.Repeat("a", 1000)+`"],"id":"x"}`)
		}},
		{"silence", Slow, func(io.Writer, int) error { return nil }},
		{"drops", Slow, func(w io.Writer, _ int) error {
			for {
				if _, err := w.Write([]byte(" ")); err != nil {
					return err
				}
				<-time.After(time.Millisecond)
			}
		}},
		{"half an answer", "EOF", func(w io.Writer, _ int) error {
			_, _ = io.WriteString(w, `{"id":1,"res`) // it ends either way
			return io.EOF
		}},
		{"no JSON", "invalid character", func(w io.Writer, _ int) error {
			_, err := io.WriteString(w, "SSH-2.0-\x1b[31m\n")
			return err
		}},
		{"rows of another kind", "no rows", says(begin + `7},{"rows":[]},{"rows":[]}]}`)},
		{"a refusal with colours", `the database refuses transact: {"error":"\u001b[31mno\u001b[0m"}`, says(`{"id":%d,"result":null,"error":{"error":"\u001b[31mno\u001b[0m"}}`)},
		{"names with colours", "there is no bridge csig", says(begin + `[]},{"rows":[{"_uuid":["uuid","a"],"name":"\u001b[31m"}]},{"rows":[]}]}`)},
	}
}

// forever writes a text again and again.
func forever(w io.Writer, first, text string) error {
	if _, err := io.WriteString(w, first); err != nil {
		return err
	}
	some := bytes.Repeat([]byte(text), 1+1<<16/len(text))
	for {
		if _, err := w.Write(some); err != nil {
			return err
		}
	}
}

// HostileBridge is one way in which ovs-vswitchd does not do what it should with a
// question of OpenFlow 1.4, other than a hello, features and barriers.
type HostileBridge struct {
	Name string
	Want string // as of a HostileDatabase

	// Answer writes what comes in place of the answer to a multipart request.
	Answer func(w io.Writer, kind uint16, xid uint32) error
}

// Messages of OpenFlow 1.4 (§7.1).
const hello, echo, features, featuresReply, request, reply, barrier, barrierReply = 0, 2, 5, 6, 18, 19, 20, 21

// message is one of OpenFlow.
func message(typ byte, xid uint32, body []byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{5, typ}, uint16(8+len(body)))
	return append(binary.BigEndian.AppendUint32(b, xid), body...)
}

// part is a part of an answer; more reports whether others follow.
func part(kind uint16, more byte, xid uint32, body []byte) []byte {
	return message(reply, xid, append(append(binary.BigEndian.AppendUint16(nil, kind), 0, more, 0, 0, 0, 0), body...))
}

// aFlow is one of table 60 that matches everything and does nothing.
func aFlow() []byte {
	b := make([]byte, 56)
	b[1], b[2], b[49], b[51] = 56, 60, 1, 4
	return b
}

// Serve says hello, and answers the requests that come by c. It closes c in the end.
func (h *HostileBridge) Serve(c io.ReadWriteCloser) {
	defer c.Close()
	_, err := c.Write(message(hello, 1, nil))
	for err == nil {
		var head [8]byte
		if _, err = io.ReadFull(c, head[:]); err != nil {
			return
		}
		body := make([]byte, max(0, int(binary.BigEndian.Uint16(head[2:]))-len(head)))
		if _, err = io.ReadFull(c, body); err != nil {
			return
		}
		switch xid := binary.BigEndian.Uint32(head[4:]); {
		case head[1] == features:
			_, err = c.Write(message(featuresReply, xid, make([]byte, 24)))
		case head[1] == barrier:
			_, err = c.Write(message(barrierReply, xid, nil))
		case head[1] == request && len(body) > 1:
			err = h.Answer(c, binary.BigEndian.Uint16(body), xid)
		}
	}
}

// HostileBridges are those that flood, lie, are slow or end.
func HostileBridges() []HostileBridge {
	many := bytes.Repeat(aFlow(), 60000/len(aFlow()))
	says := func(b []byte) func(io.Writer, uint16, uint32) error {
		return func(w io.Writer, _ uint16, _ uint32) error { return forever(w, "", string(b)) }
	}
	return []HostileBridge{
		{"parts for ever", "longer than csig accepts", func(w io.Writer, kind uint16, xid uint32) error {
			return forever(w, "", string(part(kind, 1, xid, many)))
		}},
		{"parts of nothing for ever", Slow, func(w io.Writer, kind uint16, xid uint32) error {
			for { // one at a time, which takes longer than anybody waits
				if _, err := w.Write(part(kind, 1, xid, nil)); err != nil {
					return err
				}
			}
		}},
		{"questions for ever", "answer nothing", says(message(echo, 9, make([]byte, 1000)))},
		{"answers to others for ever", "answer nothing", func(w io.Writer, kind uint16, xid uint32) error {
			return forever(w, "", string(part(kind, 0, xid+1, many)))
		}},
		{"silence", Slow, func(io.Writer, uint16, uint32) error { return nil }},
		{"half a message", "the switch closed it", func(w io.Writer, kind uint16, xid uint32) error {
			_, _ = w.Write(part(kind, 0, xid, aFlow())[:40]) // it ends either way
			return io.EOF
		}},
		{"a part of something else", "an answer to another question", func(w io.Writer, kind uint16, xid uint32) error {
			_, err := w.Write(part(kind^0x55, 0, xid, nil))
			return err
		}},
		{"a length of its own", "malformed", func(w io.Writer, kind uint16, xid uint32) error {
			lies := append([]byte{0xff, 0xff}, aFlow()[2:]...)
			_, err := w.Write(part(kind, 0, xid, lies))
			return err
		}},
	}
}
