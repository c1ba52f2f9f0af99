package gnmiset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/openconfig/gnmi/proto/gnmi_ext"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/csig-agent/csig/counters/gnmi"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/setuponly"
)

// Model is where a platform's models have what csig reads and writes.
type Model struct {
	// Needs are models of which the target has to have each, by the beginning of the name.
	Needs []string

	Shape  *gnmi.Shape
	Ports  *pb.Path // of the configuration: TPID and MTU of all ports
	Record *pb.Path // of the configuration: the objects with the record
	State  *pb.Path // the MTU that holds, of all ports; it may be missing

	// Parse makes a configuration of what was read, its record in parts of at most maxPart
	// bytes.
	Parse func(config, state []gnmi.Leaf) (ports []setuponly.Port, record []string, err error)

	// Edit is what a Set has to do for an edit of ports and of parts of the record; a part
	// that is "" is deleted.
	Edit func(ports []setuponly.PortEdit, record map[int]string) (*pb.SetRequest, error)
}

// Config is what a driver needs.
type Config struct {
	// Connect opens a connection, which is contacted by its first call.
	Connect func(ctx context.Context) (*gnmi.Target, error)

	// Confirm is how long a change may take to be read back and confirmed; 0 is a minute.
	Confirm time.Duration

	Now func() time.Time // nil: time.Now
}

// defaultConfirm is longer than what is tried within it may take, with gNMI's timeouts.
const defaultConfirm = time.Minute

// session is a switch as setuponly has it.
type session struct {
	cfg    Config
	model  *Model
	target *gnmi.Target // nil until it is needed

	parts   []string // of the record, as read last
	version string   // of gNMI; "" until it was asked
	knows   extension
	waiting string  // the commit that this session left behind unconfirmed; "" none
	revert  *revert // nil: no auto-revert was started here
}

// extension is what is known of a target and the commit-confirmed extension.
type extension uint8

const (
	unasked extension = iota
	unknown           // it does not know it
	known             // it does, and no commit waits
	waits             // it does, and a commit waits
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
	if err := s.takeBack(ctx); err != nil {
		return nil, err
	}
	if s.version == "" {
		if err := s.examine(ctx); err != nil {
			return nil, err
		}
	}
	ports, parts, err := s.read(ctx, s.target)
	if err != nil {
		return nil, err
	}
	s.parts = parts
	c := &setuponly.Config{Ports: ports}
	for _, part := range parts {
		c.Record += part
	}
	return c, nil
}

// examine finds out whether the target has what csig needs.
func (s *session) examine(ctx context.Context) error {
	models, version, err := s.target.Models(ctx)
	if err != nil {
		return err
	}
	for _, need := range s.model.Needs {
		if !hasModel(models, need) {
			return &vendors.PermanentError{Err: fmt.Errorf("its gNMI Capabilities have no model %s, which csig would configure", need)}
		}
	}
	s.version = version
	if version == "" {
		s.version = "?"
	}
	return nil
}

func hasModel(models []string, name string) bool {
	for _, m := range models {
		if len(m) >= len(name) && m[:len(name)] == name {
			return true
		}
	}
	return false
}

func (s *session) read(ctx context.Context, t *gnmi.Target) ([]setuponly.Port, []string, error) {
	config, err := t.Get(ctx, pb.GetRequest_CONFIG, s.model.Shape, s.model.Ports)
	if err != nil {
		return nil, nil, err
	}
	record, err := t.Get(ctx, pb.GetRequest_CONFIG, s.model.Shape, s.model.Record)
	if err != nil && !errors.Is(err, gnmi.ErrMissing) {
		return nil, nil, err
	}
	var state []gnmi.Leaf
	if s.model.State != nil {
		if state, err = t.Get(ctx, pb.GetRequest_STATE, s.model.Shape, s.model.State); err != nil && !errors.Is(err, gnmi.ErrMissing) {
			return nil, nil, err
		}
	}
	ports, parts, err := s.model.Parse(append(config, record...), state)
	if err == nil && len(ports) > vendors.MaxPorts {
		err = fmt.Errorf("it has more than %d ports", vendors.MaxPorts)
	}
	return ports, parts, err
}

// maxPart is how many bytes of the record are in one object: a description has 255 in many
// platforms.
const maxPart = 240

// split is a record in parts.
func split(record string) (parts []string) {
	for len(record) > maxPart {
		parts = append(parts, record[:maxPart])
		record = record[maxPart:]
	}
	if record != "" {
		parts = append(parts, record)
	}
	return parts
}

// MaxParts is how many objects the record may take.
const MaxParts = 1000

// InOrder is the parts of a record by their numbers; one that is missing leaves a gap, which
// no record has.
func InOrder(parts map[int]string) []string {
	out := make([]string, 0, len(parts))
	for n := 0; n < MaxParts && len(parts) > 0; n++ {
		part, there := parts[n]
		if !there {
			part = " "
		}
		delete(parts, n)
		out = append(out, part)
	}
	return out
}

// request is a Set of an edit, on a switch whose record has these parts.
func (s *session) request(e *setuponly.Edit, have []string) (*pb.SetRequest, error) {
	record := map[int]string{}
	if e.Record != nil {
		want := split(*e.Record)
		for i := range max(len(have), len(want)) {
			switch {
			case i >= len(want):
				record[i] = ""
			case i >= len(have) || have[i] != want[i]:
				record[i] = want[i]
			}
		}
	}
	return s.model.Edit(e.Ports, record)
}

// Write carries an edit out in one Set, which is confirmed over a new connection where the
// target knows how to.
func (s *session) Write(ctx context.Context, e *setuponly.Edit) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	if s.revert != nil {
		return s.writeReverting(ctx, e)
	}
	req, err := s.request(e, s.parts)
	if err != nil {
		return err
	}
	if err := s.takeBack(ctx); err != nil {
		return err
	}
	if s.knows != known {
		if s.knows, err = s.ask(ctx); err != nil {
			return err
		}
	}
	switch s.knows {
	case waits:
		return errWaits
	case unknown:
		if err := s.target.Set(ctx, req); err != nil {
			return permanent(err)
		}
		t, err := s.readBack(ctx, e)
		if err != nil {
			return fmt.Errorf("%w; the target took the change, and takes none back by itself", err)
		}
		return t.Close()
	}
	id := "csig-" + vendors.NewToken()
	req.Extension = append(req.Extension, start(id, s.confirmWithin()))
	s.waiting = id
	if err := s.target.Set(ctx, req); err != nil {
		if refusedSet(err) {
			s.waiting, s.knows = "", unasked
			return permanent(err)
		}
		return s.failed(ctx, err)
	}
	if err := s.confirm(ctx, id, e); err != nil {
		return s.failed(ctx, err)
	}
	s.waiting = ""
	return nil
}

// failed is the error of a change that is on trial, which is taken back at once where that is
// possible: what reads back as changed would be taken for done, and expire.
func (s *session) failed(ctx context.Context, err error) error {
	if back := s.takeBack(context.WithoutCancel(ctx)); back != nil {
		return fmt.Errorf("%w; the change is not confirmed, so that the target takes it back within %v", err, s.confirmWithin())
	}
	return fmt.Errorf("%w; the change is not confirmed, and was taken back", err)
}

// takeBack cancels the change of this session that is on trial, if there is one.
func (s *session) takeBack(ctx context.Context) error {
	if s.waiting == "" {
		return nil
	}
	err := s.commit(ctx, s.target, &gnmi_ext.Commit{Id: s.waiting, Action: &gnmi_ext.Commit_Cancel{Cancel: &gnmi_ext.CommitCancel{}}})
	var refused *gnmi.SetError
	// Refused with these codes, it is not on trial any more (§3.2.2).
	if errors.As(err, &refused) && (refused.Code == codes.FailedPrecondition || refused.Code == codes.InvalidArgument) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("a change of csig's is on trial, and cannot be taken back: %w", err)
	}
	s.waiting = ""
	return nil
}

var errWaits = errors.New("a confirmed commit of another client waits there, until whose end the target takes no other change: wait for it, or have that client confirm or cancel it")

func (s *session) confirmWithin() time.Duration {
	if s.cfg.Confirm == 0 {
		return defaultConfirm
	}
	return s.cfg.Confirm
}

// confirm reads an edit back over a new connection, and confirms it there.
func (s *session) confirm(ctx context.Context, id string, e *setuponly.Edit) error {
	t, err := s.readBack(ctx, e)
	if err != nil {
		return err
	}
	defer t.Close() //nolint:errcheck // nothing was left to send
	if err := s.commit(ctx, t, &gnmi_ext.Commit{Id: id, Action: &gnmi_ext.Commit_Confirm{Confirm: &gnmi_ext.CommitConfirm{}}}); err != nil {
		return fmt.Errorf("confirming: %w", err)
	}
	return nil
}

// readBack compares the switch with an edit over a new connection, which it returns.
func (s *session) readBack(ctx context.Context, e *setuponly.Edit) (*gnmi.Target, error) {
	t, err := s.cfg.Connect(ctx)
	if err != nil {
		return nil, err
	}
	ports, parts, err := s.read(ctx, t)
	if err != nil {
		err = fmt.Errorf("reading back over a new connection: %w", err)
	} else {
		err = differs(e, ports, strings.Join(parts, ""))
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// differs is the first thing of an edit that a switch does not have.
func differs(e *setuponly.Edit, ports []setuponly.Port, record string) error {
	byName := make(map[string]*setuponly.Port, len(ports))
	for i := range ports {
		byName[ports[i].Name] = &ports[i]
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
	if e.Record != nil && *e.Record != record {
		return errors.New("csig's record reads back otherwise than it was written")
	}
	return nil
}

// ask finds out whether the target knows the extension, and changes nothing (doc.go).
func (s *session) ask(ctx context.Context) (extension, error) {
	err := s.commit(ctx, s.target, &gnmi_ext.Commit{Id: "csig-" + vendors.NewToken(), Action: &gnmi_ext.Commit_Confirm{Confirm: &gnmi_ext.CommitConfirm{}}})
	var refused *gnmi.SetError
	switch {
	case err == nil:
		return unknown, nil
	case !errors.As(err, &refused):
		return unasked, err
	case refused.Code == codes.FailedPrecondition:
		return known, nil
	case refused.Code != codes.InvalidArgument:
		return unknown, nil
	}
	// Another commit waits (§3.2.2), or it takes no Set without anything to do.
	err = s.target.Set(ctx, &pb.SetRequest{})
	switch {
	case err == nil:
		return unknown, nil
	case !errors.As(err, &refused):
		return unasked, err
	case refused.Code == codes.FailedPrecondition:
		return waits, nil
	}
	return unknown, nil
}

// commit sends an action of the extension and nothing else.
func (s *session) commit(ctx context.Context, t *gnmi.Target, c *gnmi_ext.Commit) error {
	return t.Set(ctx, &pb.SetRequest{Extension: []*gnmi_ext.Extension{gnmi.Commit(c)}})
}

// start is the extension of a Set that has to be confirmed.
func start(id string, within time.Duration) *gnmi_ext.Extension {
	return gnmi.Commit(&gnmi_ext.Commit{Id: id, Action: &gnmi_ext.Commit_Commit{Commit: &gnmi_ext.CommitRequest{RollbackDuration: durationpb.New(within)}}})
}

func refusedSet(err error) bool { return errors.As(err, new(*gnmi.SetError)) }

// permanent makes an error of a Set one that trying again does not cure, where the target
// says that it does not have what was set, or does not take the value.
func permanent(err error) error {
	var refused *gnmi.SetError
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Code {
	case codes.InvalidArgument, codes.NotFound, codes.Unimplemented, codes.OutOfRange:
		return &vendors.PermanentError{Err: fmt.Errorf("the target refuses the configuration, and carried nothing of it out: %w", err)}
	}
	return err
}
