package snmp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// v3 is a session of SNMPv3 with the user-based security model (RFC 3414), all
// of it gosnmp's.
type v3 struct {
	cfg  *Config
	conn *watched
	g    *gosnmp.GoSNMP // nil until the engine has to be discovered (again)
	oids []byte         // holds the names and values that are OIDs of an answer
}

// client returns a gosnmp client on the session's socket, which knows
// nothing of the agent's engine yet.
func (v *v3) client(ctx context.Context) (*gosnmp.GoSNMP, error) {
	c := v.cfg
	level := gosnmp.NoAuthNoPriv
	switch {
	case c.Priv != "":
		level = gosnmp.AuthPriv
	case c.Auth != "":
		level = gosnmp.AuthNoPriv
	}
	g := &gosnmp.GoSNMP{
		Target:        "127.0.0.1",
		Version:       gosnmp.Version3,
		Context:       ctx,
		Timeout:       c.Timeout,
		MaxOids:       1 << 16, // the plan decides
		SecurityModel: gosnmp.UserSecurityModel,
		MsgFlags:      level,
		ContextName:   c.Context,
		SecurityParameters: &gosnmp.UsmSecurityParameters{
			UserName:                 c.User,
			AuthenticationProtocol:   authProtocols[c.Auth],
			AuthenticationPassphrase: string(c.AuthPassphrase),
			PrivacyProtocol:          privProtocols[c.Priv],
			PrivacyPassphrase:        string(c.PrivPassphrase),
		},
	}
	// Connect initialises more than the socket; the socket, which is connected with nothing,
	// is replaced by ours, which can be interrupted and knows when things happened.
	g.UseUnconnectedUDPSocket = true
	if err := g.Connect(); err != nil {
		return nil, fmt.Errorf("start SNMPv3: %w", err)
	}
	own := g.Conn
	g.Conn = v.conn
	return g, own.Close()
}

func (v *v3) prepare(*pdu) error { return nil }

func (v *v3) exchange(ctx context.Context, p *pdu, a *answer) error {
	v.conn.ctx = ctx
	if v.g == nil {
		g, err := v.client(ctx)
		if err != nil {
			return err
		}
		v.g = g
	}
	v.g.Context = ctx
	v.g.SetRequestID(uint32(randomID()))
	v.g.SetMsgID(uint32(randomID()))
	var packet *gosnmp.SnmpPacket
	var err error
	if p.kind == gosnmp.GetBulkRequest {
		packet, err = v.g.GetBulk(p.names, 0, uint32(p.repetitions))
	} else {
		packet, err = v.g.Get(p.names)
	}
	a.sent, a.received = v.conn.sent, v.conn.received
	if err == nil {
		err = reportError(packet)
	}
	if err != nil {
		err = v.failure(ctx, err)
		if !errors.Is(err, ErrNoAnswer) && ctx.Err() == nil {
			v.g = nil // what is known of the engine may be what is wrong
		}
		return err
	}
	v.take(packet, &a.reply)
	return nil
}

// reportError is the error of a packet that is no answer to the request.
// gosnmp returns the second of two reports in a row as if it were one.
func reportError(packet *gosnmp.SnmpPacket) error {
	switch {
	case packet == nil:
		return fmt.Errorf("%w: none at all", ErrMalformed)
	case packet.PDUType == gosnmp.GetResponse && packet.RequestID != 0:
		return nil
	case packet.PDUType != gosnmp.Report || len(packet.Variables) == 0:
		return fmt.Errorf("%w: it is no response to the request", ErrMalformed)
	}
	// usmStats counters of RFC 3414 §5.
	switch name := packet.Variables[0].Name; name {
	case ".1.3.6.1.6.3.15.1.1.2.0":
		return gosnmp.ErrNotInTimeWindow
	case ".1.3.6.1.6.3.15.1.1.4.0":
		return gosnmp.ErrUnknownEngineID
	default:
		return fmt.Errorf("%w: a report of %s", ErrMalformed, untrusted.Text(name, maxText))
	}
}

// failure puts gosnmp's errors into this package's terms.
func (v *v3) failure(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, gosnmp.ErrUnknownUsername), errors.Is(err, gosnmp.ErrWrongDigest),
		errors.Is(err, gosnmp.ErrDecryption), errors.Is(err, gosnmp.ErrUnknownSecurityLevel),
		errors.Is(err, gosnmp.ErrUnknownSecurityModels):
		return fmt.Errorf("%w: %w (user %s)", ErrCredentials, err, v.cfg.User)
	case errors.Is(err, gosnmp.ErrNotInTimeWindow):
		return ErrNotInTimeWindow
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %w", ErrNoAnswer, syscall.ECONNREFUSED)
	case errors.Is(err, gosnmp.ErrMaxRetriesExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, context.DeadlineExceeded):
		return ErrNoAnswer
	case strings.HasPrefix(err.Error(), "recover:"):
		// A panic of the parser; the text holds the stacks of all goroutines.
		return fmt.Errorf("%w: it cannot be parsed", ErrMalformed)
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return err
	}
	// gosnmp discards a report that is not authenticated. Such a report proves
	// nothing, but it is what an agent sends to a user whom it cannot
	// authenticate, and the best explanation of the failure.
	if why, ok := refusals[openReport(v.conn.last)]; ok {
		return fmt.Errorf("%w: %s (user %s)", ErrCredentials, why, v.cfg.User)
	}
	return fmt.Errorf("%w: %s", ErrMalformed, untrusted.Text(err.Error(), maxText))
}

// refusals are the usmStats counters of RFC 3414 §5 that are about the user.
var refusals = map[string]string{
	".1.3.6.1.6.3.15.1.1.1.0": "security level not supported for it",
	".1.3.6.1.6.3.15.1.1.3.0": "unknown user name",
	".1.3.6.1.6.3.15.1.1.5.0": "wrong digest",
	".1.3.6.1.6.3.15.1.1.6.0": "decryption error",
}

// openReport returns the name of the counter in an SNMPv3 report that is neither
// authenticated nor encrypted, and nothing for other messages (RFC 3412 §6).
func openReport(msg []byte) (name string) {
	var err error
	defer untrusted.Recover(&err) // such a message is no report
	g := &gosnmp.GoSNMP{Version: gosnmp.Version3, SecurityModel: gosnmp.UserSecurityModel, SecurityParameters: &gosnmp.UsmSecurityParameters{UserName: "any"}}
	packet, err := g.SnmpDecodePacket(slices.Clone(msg))
	if err != nil || packet.PDUType != gosnmp.Report || packet.MsgFlags&gosnmp.AuthPriv != 0 || len(packet.Variables) == 0 {
		return ""
	}
	return packet.Variables[0].Name
}

// take converts gosnmp's answer.
func (v *v3) take(packet *gosnmp.SnmpPacket, r *reply) {
	r.status, r.index = int32(packet.Error), int32(packet.ErrorIndex)
	r.binds, v.oids = r.binds[:0], v.oids[:0]
	for i := range packet.Variables {
		from := &packet.Variables[i]
		b := binding{oid: v.encode(from.Name), kind: from.Type}
		ok := true
		switch value := from.Value.(type) {
		case uint64:
			b.n = value
		case uint:
			b.n = uint64(value)
		case uint32:
			b.n = uint64(value)
		case int:
			b.n = uint64(int64(value))
		case []byte:
			b.text = value
		case string:
			b.text = v.encode(value)
			ok = from.Type == gosnmp.ObjectIdentifier
		case nil:
			ok = from.Type == gosnmp.NoSuchObject || from.Type == gosnmp.NoSuchInstance ||
				from.Type == gosnmp.EndOfMibView || from.Type == gosnmp.Null
		default:
			ok = false
		}
		if !ok {
			b.kind = damaged
		}
		r.binds = append(r.binds, b)
	}
}

// encode returns the dotted OID in BER, and nothing for what is none.
func (v *v3) encode(dotted string) []byte {
	o, ok := parseDotted(dotted)
	if !ok {
		return nil
	}
	start := len(v.oids)
	v.oids = o.encode(v.oids)
	return v.oids[start:len(v.oids):len(v.oids)]
}

func (v *v3) interrupt() { _ = v.conn.Conn.SetDeadline(past) }

func (v *v3) close() error { return v.conn.Close() }

// watched is the socket under gosnmp: it knows when the last datagrams went
// and came, and a deadline set after an interrupt does not undo it.
type watched struct {
	net.Conn
	ctx            context.Context // of the running exchange
	sent, received time.Time
	last           []byte // the last datagram
	id             int32  // msgID of the last request
}

func (w *watched) SetDeadline(t time.Time) error {
	if err := w.Conn.SetDeadline(t); err != nil {
		return err
	}
	if w.ctx.Err() != nil {
		return w.Conn.SetDeadline(past)
	}
	return nil
}

func (w *watched) Write(b []byte) (int, error) {
	w.sent = time.Now()
	w.id, _ = msgID(b)
	n, err := w.Conn.Write(b)
	if errors.Is(err, syscall.ECONNREFUSED) {
		n, err = w.Conn.Write(b) // the refusal was for an earlier one
	}
	return n, err
}

// Read returns the next datagram that is a message with the msgID of the request. gosnmp
// would end the exchange with the first one that it cannot decode.
func (w *watched) Read(b []byte) (int, error) {
	for range maxStrays {
		n, err := w.Conn.Read(b)
		w.received = time.Now()
		if err == nil {
			if id, ok := msgID(b[:n]); !ok || id != w.id {
				continue
			}
		}
		w.last = append(w.last[:0], b[:max(n, 0)]...)
		return n, err
	}
	return 0, os.ErrDeadlineExceeded // a flood
}

// msgID returns that of a whole SNMPv3 message (RFC 3412 §6).
func msgID(msg []byte) (int32, bool) {
	b := ber(msg)
	body, ok := b.expect(byte(gosnmp.Sequence))
	if !ok || len(b) != 0 {
		return 0, false
	}
	b = body
	version, ok1 := b.integer()
	header, ok2 := b.expect(byte(gosnmp.Sequence))
	b = header
	id, ok3 := b.integer()
	return id, ok1 && ok2 && ok3 && version == int32(gosnmp.Version3)
}
