package sai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/docs"
	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// What csig made is recorded in STATE_DB, which goes with a reboot, as the objects do, and stays when containers are
// started again.
const (
	liveRecordKey   = "CSIG_SAI_TABLE|device"
	liveRecordField = "record"
	recordFormat    = "csig.sai-record/v1"
	mostRecord      = 8 << 20 // bytes
)

// liveRecord is what csig made on a switch.
type liveRecord struct {
	Format  string         `json:"format"`
	Setup   vendors.Setup  `json:"setup"`
	Objects []recordObject `json:"objects"`           // csig's, and ports and the switch as csig set them
	IDs     map[string]OID `json:"ids"`               // that the switch gave, by csig's own
	Pending *pending       `json:"pending,omitempty"` // what was asked for last
	Partly  bool           `json:"partly,omitempty"`  // the change that leads there has not come to its end
}

type recordObject struct {
	ID    OID         `json:"id"`
	Attrs [][2]string `json:"attributes"`
}

// pending is a create that was asked for, and whose answer may not have come: the object is the one that was not there.
type pending struct {
	ID     OID   `json:"id"` // csig's
	Before []OID `json:"before"`
}

// recordOf is an object of a program as records have it.
func recordOf(o *Object) (out recordObject) {
	out.ID = o.OID
	for _, a := range o.Attrs {
		out.Attrs = append(out.Attrs, [2]string{a.Name, a.Value.String()})
	}
	return out
}

// object is the program's of a record.
func (r *recordObject) object() Object {
	o := Object{Type: r.ID.Type(), OID: r.ID}
	for _, a := range r.Attrs {
		o.Attrs = append(o.Attrs, Attr{a[0], text(a[1])})
	}
	return o
}

// readRecord reads it; nil: there is none.
func (l *Live) readRecord(ctx context.Context) (*liveRecord, error) {
	answers, err := l.cfg.Redis.All(ctx, []string{sonicdb.State, "HGET", liveRecordKey, liveRecordField})
	if err != nil {
		return nil, err
	}
	body, err := redis.Bytes(answers[0], nil)
	if errors.Is(err, redis.ErrNil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := new(liveRecord)
	if err := json.Unmarshal(body, r); err != nil || len(body) > mostRecord || r.Format != recordFormat {
		return nil, &vendors.PermanentError{Err: fmt.Errorf("STATE_DB %s is no record of this csig's (%s): it tells which TAM objects are csig's; see %s", liveRecordKey, untrusted.Text(fmt.Sprint(err), 100), docs.SAI)}
	}
	return r, nil
}

// save writes the record before what it says is done.
func (l *Live) save(ctx context.Context) error {
	body, err := json.Marshal(&l.rec)
	if err != nil {
		return err
	}
	_, err = l.cfg.Redis.All(ctx, []string{sonicdb.State, "HSET", liveRecordKey, liveRecordField, string(body)})
	return err
}

func (l *Live) forget(ctx context.Context) error {
	_, err := l.cfg.Redis.All(ctx, []string{sonicdb.State, "DEL", liveRecordKey})
	return err
}
