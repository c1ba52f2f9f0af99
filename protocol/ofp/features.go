package ofp

import (
	"bytes"
	"context"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// Desc is what a switch says of itself (§7.3.5.1). What does not print is escaped.
type Desc struct {
	Maker, Hardware, Software, Serial, Datapath string
}

const (
	descLen   = 256
	serialLen = 32
)

// Desc reads what the switch says of itself.
func (o *Conn) Desc(ctx context.Context) (Desc, error) {
	var d Desc
	err := o.multipart(ctx, partDesc, nil, func(body []byte) (err error) {
		d, err = parseDesc(body)
		return err
	})
	return d, err
}

func parseDesc(b []byte) (Desc, error) {
	if len(b) < 4*descLen+serialLen {
		return Desc{}, errMalformed("a description")
	}
	next := func(n int) string {
		text, _, _ := bytes.Cut(b[:n], []byte{0})
		b = b[n:]
		return untrusted.Text(string(text), descLen)
	}
	return Desc{Maker: next(descLen), Hardware: next(descLen), Software: next(descLen), Serial: next(serialLen), Datapath: next(descLen)}, nil
}
