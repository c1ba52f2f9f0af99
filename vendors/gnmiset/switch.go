package gnmiset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/openconfig/gnmi/proto/gnmi_ext"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/setuponly"
)

// Config is what a driver needs.
type Config struct {
	// Connect opens a connection, which is contacted by its first call.
	Connect func(ctx context.Context) (*gnmi.Target, error)

	// Confirm is how long a change may take to be read back and confirmed; 0 is a minute.
	Confirm time.Duration
}

// defaultConfirm is longer than what is tried within it may take, with gNMI's timeouts.
const defaultConfirm = time.Minute

// session is a switch as setuponly has it.
type session struct {
	cfg    Config
	model  *Model
	target *gnmi.Target // nil until it is needed

	parts    []string          // of the record, as read last
	kept     *setuponly.Config // read when no commit was pending
	commits  commits           // as asked last
	examined bool
	without  string // why commits is unknown
	waiting  string // the commit that this session left behind unconfirmed; "" none
}

// commits is what a target does with confirmed commits.
type commits uint8

const (
	unknown commits = iota // it does not know the extension, as far as csig can see
	known                  // it does, and no commit is pending
	pending                // it does, and a commit is pending
	denied                 // the user may change nothing, and is not told
)

func (s *session) connect(ctx context.Context) error {
	if s.target != nil {
		return nil
	}
	var err error
	s.target, err = s.cfg.Connect(ctx)
	return err
}

// Close ends the connection.
func (s *session) Close() error {
	if s.target == nil {
		return nil
	}
	err := s.target.Close()
	s.target = nil
	return err
}

// Read reads the configuration.
func (s *session) Read(ctx context.Context) (*setuponly.Config, error) {
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	if _, err := s.takeBack(ctx); err != nil {
		return nil, err
	}
	if !s.examined {
		if err := s.examine(ctx); err != nil {
			return nil, err
		}
	}
	c, err := s.config(ctx)
	if err != nil || s.isKept(c) {
		return c, err
	}
	// It changed, which may be on trial. What was read before the answer may be of a trial that
	// has ended since.
	if err := s.ask(ctx); err != nil {
		return nil, err
	}
	if c, err = s.config(ctx); err != nil {
		return nil, err
	}
	if s.commits == pending {
		c.Trial = errPending.Error()
	} else {
		kept := *c
		s.kept = &kept
	}
	return c, nil
}

func (s *session) config(ctx context.Context) (*setuponly.Config, error) {
	ports, parts, err := s.read(ctx, s.target)
	if err != nil {
		return nil, err
	}
	s.parts = parts
	return &setuponly.Config{Ports: ports, Record: strings.Join(parts, "")}, nil
}

func (s *session) isKept(c *setuponly.Config) bool {
	return s.kept != nil && s.kept.Record == c.Record && slices.Equal(s.kept.Ports, c.Ports)
}

// examine finds out whether the target has what csig needs.
func (s *session) examine(ctx context.Context) error {
	models, err := s.target.Models(ctx)
	if err != nil {
		return err
	}
	for _, need := range s.model.Needs {
		if !slices.ContainsFunc(models, func(have string) bool { return strings.HasPrefix(have, need) }) {
			return &vendors.PermanentError{Err: fmt.Errorf("its gNMI Capabilities have no model %s, which csig would configure", need)}
		}
	}
	s.examined = true
	return nil
}

func (s *session) read(ctx context.Context, t *gnmi.Target) ([]setuponly.Port, []string, error) {
	shape := s.model.shape()
	config, err := t.Get(ctx, pb.GetRequest_CONFIG, shape, s.model.Ports)
	if err != nil {
		return nil, nil, err
	}
	record, err := t.Get(ctx, pb.GetRequest_CONFIG, shape, s.model.Record)
	if err != nil && !errors.Is(err, gnmi.ErrMissing) {
		return nil, nil, err
	}
	state, err := t.Get(ctx, pb.GetRequest_STATE, shape, s.model.State)
	if err != nil && !errors.Is(err, gnmi.ErrMissing) {
		return nil, nil, err
	}
	return s.model.parse(append(config, record...), state)
}

// getter reads state.
func (s *session) getter(ctx context.Context) Getter {
	return func(shape *gnmi.Shape, path *pb.Path) ([]gnmi.Leaf, error) {
		leaves, err := s.target.Get(ctx, pb.GetRequest_STATE, shape, path)
		if errors.Is(err, gnmi.ErrMissing) {
			err = nil
		}
		return leaves, err
	}
}

// Write carries an edit out in one Set, which is confirmed over a new connection where the
// target knows how to.
func (s *session) Write(ctx context.Context, e *setuponly.Edit) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	req, err := s.model.request(e, s.parts)
	if err != nil {
		return err
	}
	if _, err := s.takeBack(ctx); err != nil {
		return err
	}
	if s.model.Keeps != nil {
		if err := s.model.Keeps(s.getter(ctx)); err != nil {
			return err
		}
	}
	id, after := "", "the target took the change, and takes none back by itself"
	if s.commits != unknown {
		id = "csig-" + vendors.NewToken()
		req.Extension = append(req.Extension, start(id, s.confirmWithin()))
	}
	s.waiting = id
	err = s.target.Set(ctx, req)
	if refused := (*gnmi.SetError)(nil); errors.As(err, &refused) {
		s.waiting, s.kept = "", nil
		if refused.Code == codes.FailedPrecondition && s.ask(ctx) == nil && s.commits == pending {
			return errPending
		}
		return permanent(refused)
	}
	if err == nil {
		err = s.confirm(ctx, id, e)
	} else {
		after = "whether the target took the change is not known, and it takes none back by itself"
	}
	switch {
	case err == nil:
		s.waiting = ""
		return nil
	case id == "":
		return fmt.Errorf("%w; %s", err, after)
	}
	return s.failed(ctx, err)
}

// failed is the error of a change that is on trial, which is taken back at once where that is
// possible: what reads back as changed would be taken for done, and expire.
func (s *session) failed(ctx context.Context, err error) error {
	switch taken, failed := s.takeBack(context.WithoutCancel(ctx)); {
	case failed != nil:
		return fmt.Errorf("%w; the change is not confirmed, so that the target takes it back within %v", err, s.confirmWithin())
	case !taken:
		return fmt.Errorf("%w; no change is on trial: the next reading shows whether the target has it", err)
	}
	return fmt.Errorf("%w; the change is not confirmed, and was taken back", err)
}

// takeBack cancels the change of this session that is on trial, if there is one. taken is false
// where none was: it was confirmed, has expired, or never began.
func (s *session) takeBack(ctx context.Context) (taken bool, err error) {
	if s.waiting == "" {
		return false, nil
	}
	err = s.commit(ctx, s.target, &gnmi_ext.Commit{Id: s.waiting, Action: &gnmi_ext.Commit_Cancel{Cancel: &gnmi_ext.CommitCancel{}}})
	var refused *gnmi.SetError
	gone := errors.As(err, &refused) && (refused.Code == codes.FailedPrecondition || refused.Code == codes.InvalidArgument) // §3.2.2
	if err != nil && !gone {
		return false, fmt.Errorf("a change of csig's is on trial, and cannot be taken back: %w", err)
	}
	s.waiting = ""
	return !gone, nil
}

var errPending = errors.New("a commit on the switch is not confirmed yet, of another client or of a csig that was killed: until it is, or is taken back, what the switch has is on trial, and it takes no other change")

func (s *session) confirmWithin() time.Duration {
	if s.cfg.Confirm == 0 {
		return defaultConfirm
	}
	return s.cfg.Confirm
}

// confirm compares the switch with an edit over a new connection, and confirms the commit
// there, if it is one.
func (s *session) confirm(ctx context.Context, id string, e *setuponly.Edit) error {
	t, err := s.cfg.Connect(ctx)
	if err != nil {
		return err
	}
	defer t.Close() //nolint:errcheck // nothing is left to send
	ports, parts, err := s.read(ctx, t)
	if err != nil {
		return fmt.Errorf("reading back over a new connection: %w", err)
	}
	c := &setuponly.Config{Ports: ports, Record: strings.Join(parts, "")}
	if err := differs(e, c); err != nil {
		return err
	}
	if id != "" {
		if err := s.commit(ctx, t, &gnmi_ext.Commit{Id: id, Action: &gnmi_ext.Commit_Confirm{Confirm: &gnmi_ext.CommitConfirm{}}}); err != nil {
			return fmt.Errorf("confirming: %w", err)
		}
	}
	s.kept, s.parts = c, parts
	return nil
}

// differs is the first thing of an edit that a switch does not have.
func differs(e *setuponly.Edit, c *setuponly.Config) error {
	byName := make(map[string]*setuponly.Port, len(c.Ports))
	for i := range c.Ports {
		byName[c.Ports[i].Name] = &c.Ports[i]
	}
	for i := range e.Ports {
		want, have := &e.Ports[i], byName[e.Ports[i].Port]
		switch {
		case have == nil:
			return fmt.Errorf("port %s is not there any more after the change", want.Port)
		case want.TPID != nil && have.TPID != *want.TPID:
			return fmt.Errorf("port %s: its TPID reads back as %q, and was set to %s", want.Port, have.TPID, cmp.Or(*want.TPID, "the default"))
		case want.MTU != nil && have.MTU != *want.MTU:
			return fmt.Errorf("port %s: its MTU reads back as %d, and was set to %d", want.Port, have.MTU, *want.MTU)
		}
	}
	if e.Record != nil && *e.Record != c.Record {
		return errors.New("csig's record reads back otherwise than it was written")
	}
	return nil
}

// ask finds out whether the target knows the extension, and whether a commit is pending; it
// changes nothing (doc.go). An answer that says neither is an error.
func (s *session) ask(ctx context.Context) error {
	about := func(req *pb.SetRequest) (codes.Code, error) {
		err := s.target.Set(ctx, req)
		var refused *gnmi.SetError
		switch {
		case err == nil:
			return codes.OK, nil
		case errors.As(err, &refused) && refused.Code != codes.Aborted:
			return refused.Code, nil
		}
		return 0, fmt.Errorf("asking whether a commit is pending: %w", err)
	}
	no := &gnmi_ext.Commit{Id: "csig-" + vendors.NewToken(), Action: &gnmi_ext.Commit_Confirm{Confirm: &gnmi_ext.CommitConfirm{}}}
	first, err := about(&pb.SetRequest{Extension: []*gnmi_ext.Extension{gnmi.Commit(no)}})
	if err != nil {
		return err
	}
	second := codes.OK
	if first == codes.InvalidArgument { // another commit is pending, or it takes no Set without anything to do
		if second, err = about(&pb.SetRequest{}); err != nil {
			return err
		}
	}
	const without = "gNMI's commit-confirmed extension is not used: to the confirmation of a commit that does not exist, which is FAILED_PRECONDITION by gnmi-commit-confirmed.md §3.2.2, the target answers "
	switch {
	case first == codes.FailedPrecondition:
		s.commits = known
	case second == codes.FailedPrecondition:
		s.commits = pending
	case first == codes.PermissionDenied || first == codes.Unauthenticated:
		s.commits = denied
	default:
		s.commits, s.without = unknown, without+first.String()
	}
	return nil
}

// commit sends an action of the extension and nothing else.
func (s *session) commit(ctx context.Context, t *gnmi.Target, c *gnmi_ext.Commit) error {
	return t.Set(ctx, &pb.SetRequest{Extension: []*gnmi_ext.Extension{gnmi.Commit(c)}})
}

// start is the extension of a Set that has to be confirmed.
func start(id string, within time.Duration) *gnmi_ext.Extension {
	return gnmi.Commit(&gnmi_ext.Commit{Id: id, Action: &gnmi_ext.Commit_Commit{Commit: &gnmi_ext.CommitRequest{RollbackDuration: durationpb.New(within)}}})
}

// permanent makes a refused Set an error that trying again does not cure, where the target
// says that it does not have what was set, or does not take the value.
func permanent(refused *gnmi.SetError) error {
	switch refused.Code {
	case codes.InvalidArgument, codes.NotFound, codes.Unimplemented, codes.OutOfRange:
		return &vendors.PermanentError{Err: fmt.Errorf("the target refuses the configuration, and carried nothing of it out: %w", refused)}
	}
	return refused
}
