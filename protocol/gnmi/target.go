package gnmi

import (
	"context"
	"fmt"
	"slices"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/openconfig/gnmi/proto/gnmi_ext"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// Target is the connection with a target. It is safe for concurrent use.
type Target struct {
	cfg       Config
	handshake handshake
	conn      *grpc.ClientConn
	client    pb.GNMIClient
}

// Connect returns a Target, which is contacted by its first call. It reads the files that the
// Config names.
func Connect(cfg Config) (*Target, error) {
	t := &Target{cfg: cfg.WithDefaults()}
	conn, err := t.dial()
	if err != nil {
		return nil, fmt.Errorf("device %s: gNMI: %w", t.cfg.Device, err)
	}
	t.conn, t.client = conn, pb.NewGNMIClient(conn)
	return t, nil
}

// Close ends the connection.
func (t *Target) Close() error { return t.conn.Close() }

// Leaf is the value of one leaf.
type Leaf struct {
	Path string   // names without modules and keys: interfaces/interface/config/mtu
	Keys []string // of the lists on the way, in their order
	// Value is the value as text; a number is in decimal, an identity without its module.
	Value string
}

// Get reads the leaves below the paths of a kind of data, those that shape wants. Paths of one
// request are there or are not: ErrMissing is the error where the target has none of
// them.
func (t *Target) Get(ctx context.Context, kind pb.GetRequest_DataType, shape *Shape, paths ...*pb.Path) ([]Leaf, error) {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Timeout)
	defer cancel()
	req := &pb.GetRequest{Path: paths, Type: kind, Encoding: pb.Encoding_JSON_IETF}
	if t.cfg.Target != "" {
		req.Prefix = &pb.Path{Target: t.cfg.Target}
	}
	notes, err := t.Notifications(ctx, req, true)
	if Absent(err) {
		return nil, t.Error(fmt.Errorf("Get: %w: %w", ErrMissing, err))
	} else if err != nil {
		return nil, t.Error(fmt.Errorf("Get: %w", err))
	}
	var out []Leaf
	for _, n := range notes {
		if out, err = shape.Append(out, n); err != nil {
			return nil, t.Error(fmt.Errorf("the answer to Get: %w", err))
		}
	}
	return out, nil
}

// SetError is a Set that the target refused: nothing of it was carried out.
type SetError struct {
	Code codes.Code
	Err  error
}

func (e *SetError) Error() string { return e.Err.Error() }

func (e *SetError) Unwrap() error { return e.Err }

// Set changes the target's configuration, in one transaction (gNMI specification §3.4). The
// error is a *SetError where its code means that the target refused it; of any other the
// outcome is unknown.
func (t *Target) Set(ctx context.Context, req *pb.SetRequest) error {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Timeout)
	defer cancel()
	if t.cfg.Target != "" {
		req.Prefix = &pb.Path{Target: t.cfg.Target}
	}
	_, err := t.client.Set(ctx, req, grpc.WaitForReady(true))
	if err == nil {
		return nil
	}
	code := status.Code(err)
	err = t.Error(fmt.Errorf("Set: %w", t.classify(ctx, err)))
	switch code { // any other may be of this end, of the connection, or of an error half way
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted, codes.OutOfRange,
		codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated:
		return &SetError{Code: code, Err: err}
	}
	return err
}

// Models are the names of the models that the target reports. The error is one where it has no
// JSON_IETF, the encoding of Get and Set.
func (t *Target) Models(ctx context.Context) (models []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Timeout)
	defer cancel()
	reply, err := t.client.Capabilities(ctx, &pb.CapabilityRequest{}, grpc.WaitForReady(true))
	if err = t.classify(ctx, err); err != nil {
		return nil, t.Error(fmt.Errorf("Capabilities: %w", err))
	}
	if have := reply.GetSupportedEncodings(); !slices.Contains(have, pb.Encoding_JSON_IETF) {
		return nil, t.Error(fmt.Errorf("%w: it has %v, wanted is JSON_IETF", ErrEncoding, few(have)))
	}
	for _, m := range reply.GetSupportedModels() {
		if len(models) == maxModels {
			break
		}
		models = append(models, untrusted.Text(m.GetName(), MaxName))
	}
	return models, nil
}

// Commit is an action of the commit-confirmed extension (openconfig/reference
// rpc/gnmi/gnmi-commit-confirmed.md 0.1.0) for a SetRequest.
func Commit(c *gnmi_ext.Commit) *gnmi_ext.Extension {
	return &gnmi_ext.Extension{Ext: &gnmi_ext.Extension_Commit{Commit: c}}
}
