// Package octest has a gNMI target for tests that takes configuration: Capabilities, Get, Set
// and the commit-confirmed extension over OpenConfig's models, which it validates by their
// schema (ygot), and whose meaning it hands to a data plane. No target that runs without a
// switch and takes these models was found as a Go module.
//
// By gNMI specification 0.10 §3.4 a Set is carried out as a whole or not at all; deletions come
// first. Unknown paths and values outside of the schema are INVALID_ARGUMENT. The extension
// is that of openconfig/reference rpc/gnmi/gnmi-commit-confirmed.md 0.1.0.
package octest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/openconfig/gnmi/proto/gnmi_ext"
	"github.com/openconfig/ygot/ygot"
	"github.com/openconfig/ygot/ytypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/csig-agent/csig/protocol/gnmi/oc"
	"github.com/csig-agent/csig/protocol/memnet"
)

// Port is what a port is configured to.
type Port struct {
	Name string
	TPID uint16
	MTU  int
}

// Target is a switch. Its fields are set before Serve; Faults changes those that a
// test changes later.
type Target struct {
	Address  string                                                               // once it serves
	Dial     func(ctx context.Context, network, address string) (net.Conn, error) // nil but in memory
	Username string                                                               // "" any
	Password string

	// Extension is whether it knows the commit-confirmed extension; else it passes over it.
	Extension bool
	// NoEmpty is whether it refuses a Set that has nothing to do.
	NoEmpty bool
	// ReadOnly is whether its user may change nothing.
	ReadOnly bool
	// Native is whether its models are SR Linux's own, not OpenConfig's.
	Native bool
	// Timeout is SR Linux's commit-confirmed-timeout, in seconds.
	Timeout int
	// Models are those of its Capabilities; nil: those that it has.
	Models []string
	// MTUs are those that its ports take.
	Least, Most int

	// Changed is called with every configuration that is in force.
	Changed func([]Port)

	// Fault is called before an RPC ("Get", "Set", "Confirm", …) is carried out, and after it
	// with its name and " done"; an error is the answer instead.
	Fault func(rpc string) error

	// Lie changes what Get answers.
	Lie func(*pb.GetResponse)

	names  []string
	schema ytypes.Schema

	mu      sync.Mutex // guards what follows
	running *oc.Device
	before  *oc.Device // while a commit waits
	commit  string     // its ID
	timer   *time.Timer
	sets    int
	reverts int
}

const (
	defaultMTU  = 1514 // with the L2 header, as openconfig-interfaces.yang has it
	defaultTPID = oc.VlanTypes_TPID_TYPES_TPID_0X8100
)

// tpids are what the models' names mean.
var tpids = map[oc.E_VlanTypes_TPID_TYPES]uint16{
	oc.VlanTypes_TPID_TYPES_TPID_0X8100: 0x8100, oc.VlanTypes_TPID_TYPES_TPID_0X88A8: 0x88a8,
	oc.VlanTypes_TPID_TYPES_TPID_0X9100: 0x9100, oc.VlanTypes_TPID_TYPES_TPID_0X9200: 0x9200,
}

// models is the schema, which all targets read.
var models = sync.OnceValue(func() ytypes.Schema {
	tree, err := ygot.GzipToSchema(zipped)
	if err != nil {
		panic(err)
	}
	return ytypes.Schema{SchemaTree: tree}
})

// New returns a target with ports of these names, which have nothing configured.
func New(ports ...string) *Target {
	t := &Target{names: ports, Extension: true, Least: 68, Most: 9216, running: &oc.Device{}}
	t.schema = models()
	t.schema.Root = t.running
	for _, name := range ports {
		if _, err := t.running.NewInterface(name); err != nil {
			panic(err)
		}
	}
	return t
}

// Configure is what an operator does at the target.
func (t *Target) Configure(change func(*oc.Device)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(t.running)
	t.changed()
}

// Config is the whole configuration, as JSON.
func (t *Target) Config() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, err := ygot.EmitJSON(t.running, &ygot.EmitJSONConfig{Format: ygot.RFC7951, Indent: " ", SkipValidation: true})
	if err != nil {
		panic(err)
	}
	return text
}

// Sets is how often the configuration was changed by a client; Reverts how often a commit
// was taken back.
func (t *Target) Sets() (sets, reverts int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sets, t.reverts
}

// Expire takes the commit back that waits, as if its time were up.
func (t *Target) Expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.before != nil {
		t.end(true)
	}
}

// Serve lets the target answer on the loopback interface until the test ends.
func (t *Target) Serve(tb testing.TB) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	t.serve(tb, l)
}

// ServeMemory is Serve in memory, where Dial leads to the target.
func (t *Target) ServeMemory(tb testing.TB) {
	tb.Helper()
	l := memnet.Listen("192.0.2.1:9339")
	t.Dial = l.DialContext
	t.serve(tb, l)
}

func (t *Target) serve(tb testing.TB, l net.Listener) {
	t.Address = l.Addr().String()
	srv := grpc.NewServer()
	pb.RegisterGNMIServer(srv, &server{target: t})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	tb.Cleanup(func() {
		srv.Stop()
		<-done
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.timer != nil {
			t.timer.Stop()
		}
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed()
}

// changed tells what is in force.
func (t *Target) changed() {
	if t.Changed == nil {
		return
	}
	list := make([]Port, 0, len(t.names))
	for _, name := range t.names {
		i := t.running.Interface[name]
		p := Port{Name: name, TPID: tpids[defaultTPID], MTU: defaultMTU}
		if i != nil && i.Tpid != 0 {
			p.TPID = tpids[i.Tpid]
		}
		if i != nil && i.Mtu != nil {
			p.MTU = int(*i.Mtu)
		}
		list = append(list, p)
	}
	t.Changed(list)
}

// server is the target's gNMI.
type server struct {
	pb.UnimplementedGNMIServer
	target *Target
}

func (t *Target) allowed(ctx context.Context, rpc string) error {
	md, _ := metadata.FromIncomingContext(ctx)
	if t.Username != "" && (!slices.Equal(md.Get("username"), []string{t.Username}) || !slices.Equal(md.Get("password"), []string{t.Password})) {
		return status.Error(codes.Unauthenticated, "who are you?")
	}
	if t.ReadOnly && rpc != "Get" && rpc != "Capabilities" {
		return status.Error(codes.PermissionDenied, "this user may read only")
	}
	if t.Fault != nil {
		return t.Fault(rpc)
	}
	return nil
}

// Capabilities is that of gNMI.
func (s *server) Capabilities(ctx context.Context, _ *pb.CapabilityRequest) (*pb.CapabilityResponse, error) {
	if err := s.target.allowed(ctx, "Capabilities"); err != nil {
		return nil, err
	}
	models := s.target.Models
	if models == nil {
		models = []string{"openconfig-interfaces", "openconfig-vlan", "openconfig-acl"}
		if s.target.Native {
			models = NativeModels
		}
	}
	out := &pb.CapabilityResponse{SupportedEncodings: []pb.Encoding{pb.Encoding_JSON_IETF}, GNMIVersion: "0.10.0"}
	for _, m := range models {
		out.SupportedModels = append(out.SupportedModels, &pb.ModelData{Name: m, Organization: "OpenConfig working group"})
	}
	return out, nil
}

// Get is that of gNMI.
func (s *server) Get(ctx context.Context, req *pb.GetRequest) (*pb.GetResponse, error) {
	t := s.target
	if err := t.allowed(ctx, "Get"); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if req.GetEncoding() != pb.Encoding_JSON_IETF {
		return nil, status.Error(codes.Unimplemented, "JSON_IETF alone")
	}
	tree, err := t.tree(req.GetType())
	if err != nil {
		return nil, err
	}
	out := &pb.GetResponse{}
	for _, p := range req.GetPath() {
		if o := p.GetOrigin(); o != "" && o != "openconfig" {
			return nil, status.Errorf(codes.InvalidArgument, "no origin %s", o)
		}
		n := &pb.Notification{Timestamp: time.Now().UnixNano()}
		if err := find(n, &pb.Path{}, p.GetElem(), tree); err != nil {
			return nil, err
		}
		if len(n.Update) == 0 {
			return nil, status.Errorf(codes.NotFound, "nothing at %v", p)
		}
		out.Notification = append(out.Notification, n)
	}
	if t.Lie != nil {
		t.Lie(out)
	}
	return out, nil
}

// tree is the data of a kind, as JSON: configuration, or else state, with the counters of ports
// on which nothing is sent.
func (t *Target) tree(kind pb.GetRequest_DataType) (map[string]any, error) {
	if t.Native {
		return t.nativeTree(kind), nil
	}
	tree, err := ygot.ConstructIETFJSON(t.running, &ygot.RFC7951JSONConfig{AppendModuleName: true})
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if kind == pb.GetRequest_CONFIG {
		return tree, nil
	}
	var list []any
	for _, name := range t.names {
		mtu := defaultMTU
		if i := t.running.Interface[name]; i != nil && i.Mtu != nil {
			mtu = int(*i.Mtu)
		}
		entry := map[string]any{
			"name": name,
			"state": map[string]any{
				"name": name, "mtu": mtu, "oper-status": "UP",
				"counters": map[string]any{"out-octets": "1000", "out-pkts": "10"},
			},
			"openconfig-if-ethernet:ethernet": map[string]any{"state": map[string]any{"port-speed": "openconfig-if-ethernet:SPEED_100GB"}},
		}
		list = append(list, entry)
	}
	return map[string]any{"openconfig-interfaces:interfaces": map[string]any{"interface": list}, "openconfig-platform:components": components()}, nil
}

// What a target reports of itself.
const (
	Maker   = "Example"
	Model   = "X-32"
	Version = "4.1.2"
	Serial  = "EX0001"
)

func components() any {
	one := func(name, kind string, state map[string]any) any {
		state["name"], state["type"] = name, "openconfig-platform-types:"+kind
		return map[string]any{"name": name, "state": state}
	}
	return map[string]any{"component": []any{
		one("Fan1", "FAN", map[string]any{"mfg-name": "Fans", "serial-no": "F1", "model-name": "FAN-1"}),
		one("Switch1", "CHASSIS", map[string]any{"mfg-name": Maker, "part-no": "X-32-R", "model-name": Model, "serial-no": Serial}),
		one("Linecard1", "LINECARD", map[string]any{"model-name": "LC-1"}),
		one("OS2", "OPERATING_SYSTEM", map[string]any{"software-version": "4.0.0"}),
		one("OS1", "OPERATING_SYSTEM", map[string]any{"software-version": Version}),
	}}
}

// find puts what is at a path of a JSON tree into a notification.
func find(n *pb.Notification, at *pb.Path, rest []*pb.PathElem, tree any) error {
	if len(rest) == 0 {
		js, err := json.Marshal(tree)
		if err != nil {
			return err
		}
		n.Update = append(n.Update, &pb.Update{Path: at, Val: &pb.TypedValue{Value: &pb.TypedValue_JsonIetfVal{JsonIetfVal: js}}})
		return nil
	}
	object, _ := tree.(map[string]any)
	for name, value := range object {
		if bare(name) != rest[0].GetName() {
			continue
		}
		list, isList := value.([]any)
		if !isList {
			return find(n, with(at, &pb.PathElem{Name: rest[0].GetName()}), rest[1:], value)
		}
		for _, entry := range list {
			keys, matches := map[string]string{}, true
			for key, want := range rest[0].GetKey() {
				have := member(entry, key)
				keys[key] = have
				matches = matches && (want == "*" || want == have)
			}
			if !matches {
				continue
			}
			if err := find(n, with(at, &pb.PathElem{Name: rest[0].GetName(), Key: keys}), rest[1:], entry); err != nil {
				return err
			}
		}
	}
	return nil
}

func with(p *pb.Path, e *pb.PathElem) *pb.Path {
	return &pb.Path{Elem: append(p.Elem[:len(p.Elem):len(p.Elem)], e)}
}

func bare(name string) string { return name[strings.LastIndexByte(name, ':')+1:] }

func member(entry any, key string) string {
	object, _ := entry.(map[string]any)
	for name, v := range object {
		if text, ok := v.(string); ok && bare(name) == key {
			return bare(text)
		}
	}
	return ""
}

// Set is that of gNMI.
func (s *server) Set(ctx context.Context, req *pb.SetRequest) (*pb.SetResponse, error) {
	t := s.target
	rpc := "Set"
	var ext *gnmi_ext.Commit
	for _, e := range req.GetExtension() {
		if c := e.GetCommit(); c != nil && t.Extension {
			ext = c
		}
	}
	switch ext.GetAction().(type) {
	case *gnmi_ext.Commit_Confirm:
		rpc = "Confirm"
	case *gnmi_ext.Commit_Cancel:
		rpc = "Cancel"
	}
	if err := t.allowed(ctx, rpc); err != nil {
		return nil, err
	}
	err := t.set(req, ext)
	if err == nil && t.Fault != nil {
		err = t.Fault(rpc + " done")
	}
	return &pb.SetResponse{Timestamp: time.Now().UnixNano()}, err
}

func (t *Target) set(req *pb.SetRequest, ext *gnmi_ext.Commit) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ext != nil && ext.GetId() == "" {
		return status.Error(codes.InvalidArgument, "a commit needs an id")
	}
	switch a := ext.GetAction().(type) {
	case *gnmi_ext.Commit_Confirm, *gnmi_ext.Commit_Cancel:
		switch {
		case t.before == nil:
			return status.Error(codes.FailedPrecondition, "no commit waits")
		case t.commit != ext.GetId():
			return status.Error(codes.InvalidArgument, "another commit waits")
		}
		t.end(rollsBack(a))
		return nil
	case *gnmi_ext.Commit_Commit, nil:
		if t.before != nil {
			return status.Error(codes.FailedPrecondition, "a commit waits for its confirmation")
		}
	default:
		return status.Error(codes.Unimplemented, "that action")
	}
	empty := len(req.GetDelete())+len(req.GetReplace())+len(req.GetUpdate()) == 0
	if empty && t.NoEmpty {
		return status.Error(codes.InvalidArgument, "nothing to do")
	}
	if t.Native {
		var err error
		if req, err = fromNative(req); err != nil {
			return err
		}
	}
	next, err := t.applied(req)
	if err != nil {
		return err
	}
	if c := ext.GetCommit(); c != nil {
		t.before, t.commit = t.running, ext.GetId()
		within := 10 * time.Minute
		if d := c.GetRollbackDuration(); d != nil {
			within = d.AsDuration()
		}
		id := t.commit
		t.timer = time.AfterFunc(within, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.before != nil && t.commit == id {
				t.end(true)
			}
		})
	}
	if !empty {
		t.running = next
		t.sets++
		t.changed()
	}
	return nil
}

func rollsBack(action any) bool {
	_, cancels := action.(*gnmi_ext.Commit_Cancel)
	return cancels
}

// end is the end of a commit that waits.
func (t *Target) end(back bool) {
	t.timer.Stop()
	if back {
		t.running = t.before
		t.reverts++
		t.changed()
	}
	t.before, t.commit = nil, ""
}

// applied is the configuration after a request.
func (t *Target) applied(req *pb.SetRequest) (*oc.Device, error) {
	for _, p := range slices.Concat(req.GetDelete(), paths(req.GetReplace()), paths(req.GetUpdate())) {
		if o := p.GetOrigin(); o != "" && o != "openconfig" {
			return nil, status.Errorf(codes.InvalidArgument, "no origin %s", o)
		}
		for _, e := range p.GetElem() {
			if e.GetName() == "state" {
				return nil, status.Errorf(codes.InvalidArgument, "%v is no configuration", p)
			}
		}
	}
	copied, err := ygot.DeepCopy(t.running)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	next := copied.(*oc.Device) //nolint:forcetypeassert // a copy of one
	schema := ytypes.Schema{Root: next, SchemaTree: t.schema.SchemaTree}
	if err := ytypes.UnmarshalSetRequest(&schema, req); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "%v", err)
	}
	if errs := ytypes.Validate(t.schema.SchemaTree["Device"], next); errs != nil {
		return nil, status.Errorf(codes.InvalidArgument, "%v", errs)
	}
	for _, name := range slices.Sorted(maps.Keys(next.Interface)) {
		i := next.Interface[name]
		switch {
		case !slices.Contains(t.names, name):
			return nil, status.Errorf(codes.InvalidArgument, "there is no interface %s", name)
		case i.Mtu != nil && (int(*i.Mtu) < t.Least || int(*i.Mtu) > t.Most):
			return nil, status.Errorf(codes.InvalidArgument, "interface %s: MTU %d is not in %d..%d", name, *i.Mtu, t.Least, t.Most)
		case i.Tpid == oc.VlanTypes_TPID_TYPES_TPID_ANY:
			return nil, status.Errorf(codes.InvalidArgument, "interface %s: TPID_ANY is for matching alone", name)
		}
	}
	for _, name := range t.names { // a port stays, whatever is deleted
		if next.Interface[name] == nil {
			if _, err := next.NewInterface(name); err != nil {
				return nil, fmt.Errorf("interface %s: %w", name, err)
			}
		}
	}
	return next, nil
}

func paths(list []*pb.Update) (out []*pb.Path) {
	for _, u := range list {
		out = append(out, u.GetPath())
	}
	return out
}
