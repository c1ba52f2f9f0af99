package sai

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/protocol/sonicmq"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// serverPatience is how long orchagent may take for one request: its thread waits for orchagent's own calls of SAI.
const serverPatience = 10 * time.Second

// longestAnswer is how long orchagent is left alone where the connection was lost before an answer, as that cannot come any more: libsairedis waits
// 60 s for syncd's (lib/sairedis.h:46, SAI_REDIS_DEFAULT_SYNC_OPERATION_RESPONSE_TIMEOUT), before that perhaps for a call of orchagent's own.
const longestAnswer = 2 * time.Minute

// errSilent is in the error of a request that orchagent has not answered, and of all after it: nothing is sent until it
// was seen healthy. errLost is in that of one whose connection was lost. What became of either is not known.
var (
	errSilent = errors.New("orchagent has not answered a request yet: nothing more is sent to it until it does")
	errLost   = errors.New("the connection with orchagent was lost")
)

// unanswered has, of each orchagent that has not answered a request of this process of csig's, the connection on which that was: other drivers of that
// orchagent send nothing meanwhile, as after a change of the fleet file. Its lock is for the state of the connections in it, too.
var unanswered = struct {
	sync.Mutex
	of map[string]*server // by Process.ID
}{of: map[string]*server{}}

// mayAsk reports whether an orchagent may be sent a request: none before was left without its answer.
func mayAsk(id string) error {
	unanswered.Lock()
	defer unanswered.Unlock()
	return mayAskLocked(id)
}

func mayAskLocked(id string) error {
	s := unanswered.of[id]
	if s == nil {
		return nil
	}
	if err := s.settle(); s.busy() {
		return err
	}
	delete(unanswered.of, id)
	return nil
}

// server is a connection with orchagent's ServerSai. One request is under way at a time.
type server struct {
	id       string // of the process
	names    names
	switchID OID
	patience time.Duration

	mq      *sonicmq.Conn
	closed  bool      // by Close, or lost
	waiting bool      // a request was sent, and is not answered
	sent    time.Time // the last request
}

// openServer begins to speak with what answers at a connection, which is closed after an error.
func openServer(ctx context.Context, conn net.Conn, id string, n names, switchID OID) (*server, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, serverPatience, errSilent)
	defer cancel()
	mq, err := sonicmq.Open(ctx, conn)
	if err != nil {
		return nil, err
	}
	return &server{id: id, names: n, switchID: switchID, patience: serverPatience, mq: mq}, nil
}

// Close ends the connection. What was asked for last may still be carried out.
func (s *server) Close() {
	unanswered.Lock()
	defer unanswered.Unlock()
	s.closed = true
	s.mq.Close()
}

// healthy reports whether a request may be sent: the last one was answered, and that of each other driver.
func (s *server) healthy() error {
	unanswered.Lock()
	defer unanswered.Unlock()
	if err := s.settle(); err != nil {
		return err
	}
	return mayAskLocked(s.id)
}

// settle is healthy for this connection. Of one in unanswered it has the lock.
func (s *server) settle() error {
	select {
	case _, open := <-s.mq.C: // late; what it made is found by reading
		if !open {
			return s.lost(s.mq.Err())
		}
		s.waiting = false
	default:
	}
	switch {
	case s.mq.Closed():
		return s.lost(nil)
	case s.waiting:
		return errSilent
	}
	return nil
}

// busy reports whether orchagent may still be at the last request. Of one in unanswered it has the lock.
func (s *server) busy() bool {
	return s.waiting && (!s.closed || time.Since(s.sent) < longestAnswer)
}

func (s *server) lost(why error) error {
	s.closed = true
	s.mq.Close()
	err := errLost
	if s.waiting {
		err = fmt.Errorf("%w before its answer came: nothing more is sent to this orchagent until %v behind the request", errLost, longestAnswer)
	}
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// call sends a request, and waits for its answer.
func (s *server) call(ctx context.Context, what string, body []byte, want string) ([][2]string, error) {
	values, err := s.ask(ctx, what, body, want)
	unanswered.Lock()
	defer unanswered.Unlock()
	if !s.waiting {
		return values, err
	}
	for id, other := range unanswered.of {
		if !other.busy() {
			delete(unanswered.of, id)
		}
	}
	unanswered.of[s.id] = s
	return values, err
}

func (s *server) ask(ctx context.Context, what string, body []byte, want string) ([][2]string, error) {
	if err := s.healthy(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	// A caller that gives up here does not lose the connection, by which the answer is known.
	sending, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), s.patience, errSilent)
	defer cancel()
	s.waiting, s.sent = true, time.Now()
	if err := s.mq.Send(sending, body); err != nil {
		return nil, fmt.Errorf("%s: %w", what, s.lost(err))
	}
	late := time.NewTimer(s.patience)
	defer late.Stop()
	select {
	case body, open := <-s.mq.C:
		if !open {
			return nil, fmt.Errorf("%s: %w", what, s.lost(s.mq.Err()))
		}
		s.waiting = false
		status, values, err := answer(body, want)
		switch {
		case err != nil:
			s.mq.Close() // it is no ServerSai
			return nil, fmt.Errorf("%s: %w", what, err)
		case status != statusSuccess:
			return values, &StatusError{status, what}
		}
		return values, nil
	case <-late.C:
		return nil, fmt.Errorf("%s: %w (%v)", what, errSilent, s.patience)
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
}

// do carries out a call, and returns the ID of what was created.
func (s *server) do(ctx context.Context, op *Op) (OID, error) {
	body, err := s.names.change(op, s.switchID)
	if err != nil {
		return 0, err
	}
	o := &op.Object
	what := commands[op.Kind] + " " + o.Type.String()
	if op.Kind == SetOp {
		what = "set " + o.Attrs[0].Name + " of " + o.OID.String()
	}
	values, err := s.call(ctx, what, body, answerAPI)
	if err != nil || op.Kind != CreateOp {
		return 0, err
	}
	if len(values) == 1 && values[0][0] == "oid" {
		if id, err := ParseOID(values[0][1]); err == nil && id.Type() == o.Type {
			return id, nil
		}
	}
	s.mq.Close()
	return 0, fmt.Errorf("%s: %w: success without the ID of what was created", what, errAnswer)
}

// get is the value of an attribute, as ServerSai has it.
func (s *server) get(ctx context.Context, t ObjectType, id OID, name string) (string, error) {
	for elements := 64; ; elements = mostListed {
		body, err := s.names.get(t, id, name, elements)
		if err != nil {
			return "", err
		}
		values, err := s.call(ctx, "get "+name+" of "+id.String(), body, answerAPI)
		var status *StatusError
		switch {
		case errors.As(err, &status) && status.Status == statusLong && elements < mostListed:
			continue
		case err != nil:
			return "", err
		case len(values) != 1 || values[0][0] != name:
			s.mq.Close()
			return "", fmt.Errorf("get %s of %s: %w: it answers of other attributes", name, id, errAnswer)
		}
		return values[0][1], nil
	}
}

// bound are the TAM objects that are bound on the switch; nil: it does not tell.
func (s *server) bound(ctx context.Context) (OIDs, error) {
	text, err := s.get(ctx, SwitchObject, s.switchID, switchTAM)
	if err != nil {
		return nil, unsupported(err)
	}
	return parseOIDs(text)
}

// catchUp returns when all that was asked for before is in ASIC_DB: requests are carried out one after the other, and syncd
// writes there behind its answer, before it takes the next one (syncd/Syncd.cpp, processQuadEvent).
func (s *server) catchUp(ctx context.Context) error {
	_, err := s.can(ctx, TAMObject, attrInts)
	return unsupported(err)
}

// capable is what the switch does with an attribute.
type capable struct{ create, set, get bool }

// can is its answer to the capability query.
func (s *server) can(ctx context.Context, t ObjectType, name string) (capable, error) {
	body, err := s.names.capability(s.switchID, t, name)
	if err != nil {
		return capable{}, err
	}
	values, err := s.call(ctx, "ask for the capability of "+name, body, answerCapability)
	if err != nil {
		return capable{}, err
	}
	is := map[string]bool{}
	for _, v := range values {
		is[v[0]] = v[1] == "true"
	}
	return capable{is["CREATE_IMPLEMENTED"], is["SET_IMPLEMENTED"], is["GET_IMPLEMENTED"]}, nil
}

// values are the numbers of the values that the switch has of an attribute's enum; known is false where it does not say.
func (s *server) values(ctx context.Context, t ObjectType, name string) (list []int64, known bool, err error) {
	body, err := s.names.enums(s.switchID, t, name)
	if err != nil {
		return nil, false, err
	}
	fields, err := s.call(ctx, "ask for the values of "+name, body, answerEnums)
	if err != nil {
		return nil, false, unsupported(err)
	}
	if list, err = enumNumbers(fields); err != nil {
		s.mq.Close()
		return nil, false, fmt.Errorf("the values of %s: %w", name, err)
	}
	return list, true, nil
}

// enumNumbers reads an answer: numbers with a comma behind each, and how many they are.
func enumNumbers(fields [][2]string) (list []int64, err error) {
	is := map[string]string{}
	for _, v := range fields {
		is[v[0]] = v[1]
	}
	text := is["ENUM_CAPABILITIES"]
	for one := range strings.SplitSeq(strings.TrimSuffix(text, ","), ",") {
		n, e := strconv.ParseInt(one, 10, 32)
		if text == "" {
			break
		}
		if err = e; err != nil || len(list) == mostValues {
			break
		}
		list = append(list, n)
	}
	if count, e := strconv.ParseUint(is["ENUM_COUNT"], 10, 16); err != nil || e != nil || count != uint64(len(list)) {
		return nil, fmt.Errorf("%w: %q are %q", errAnswer, untrusted.Text(text, 60), untrusted.Text(is["ENUM_COUNT"], 20))
	}
	return list, nil
}
