package inventory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/goccy/go-yaml/ast"
)

// Bounds of a fleet, against files made to exhaust the reader.
const (
	maxFiles   = 4096
	maxInclude = 16 // includes inside of includes
	maxDevices = 1 << 16
	maxPorts   = 1 << 20
)

// Load reads and validates a fleet file with all that it includes. Mistakes in
// them are Errors.
func Load(path string) (*Fleet, error) {
	return load(path, osFiles())
}

// osFiles are the machine's own.
func osFiles() files {
	return files{open: openOS, glob: filepath.Glob}
}

// Parse reads and validates the text of one fleet file; name stands for the
// file in errors and becomes Fleet.Path. Mistakes are Errors, all that there
// are. A text that includes files is one: Load reads those.
func Parse(name string, data []byte) (*Fleet, error) {
	return load(name, files{text: data})
}

// files is where a fleet is read from.
type files struct {
	text []byte // the only one, where open is nil
	open func(name string, included bool) (fs.File, error)
	glob func(pattern string) ([]string, error) // nil: there are no others
}

// openOS opens a file. One that a user names may be a pipe, and is waited for;
// one that a pattern finds must not hold csig up.
func openOS(path string, included bool) (fs.File, error) {
	mode := os.O_RDONLY
	if included {
		mode |= syscall.O_NONBLOCK
	}
	return os.OpenFile(path, mode, 0)
}

// bytes reads a file that is to be the next of the sources, unless it is one of
// them already, again: the same one may have several names. That is its number, or -1.
func (c *compiler) bytes(name string, included bool) (data []byte, again int, err error) {
	if c.fs.open == nil {
		return c.fs.text, -1, nil
	}
	if n, known := c.names[name]; known {
		return nil, n, nil
	}
	was := look{path: name}
	defer func() { c.looked(was) }()
	file, err := c.fs.open(name, included)
	if err != nil {
		return nil, -1, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, -1, err
	}
	was.info = info // before it is read: what is saved meanwhile is a change
	if n := slices.IndexFunc(c.read, func(other fs.FileInfo) bool { return os.SameFile(other, info) }); n >= 0 {
		c.names[name] = n
		return nil, n, nil
	}
	if included && !isPlain(file, info) {
		return nil, -1, &fs.PathError{Op: "read", Path: name, Err: ErrNotPlain}
	}
	if data, err = io.ReadAll(io.LimitReader(file, maxWhole+1)); err == nil {
		c.names[name] = len(c.read)
		c.read = append(c.read, info)
	}
	return data, -1, err
}

func load(name string, fsys files) (*Fleet, error) {
	c, f, err := compile(name, fsys)
	if err == nil && len(c.errs) > 0 {
		err = c.errs.finish()
	}
	if err != nil {
		return nil, &loadError{err, c.looks}
	}
	f.Path = name
	f.warnings = c.warnings.finish()
	return f, nil
}

// loadError is why there is no fleet, and which files would have been it.
type loadError struct {
	error
	looks []look
}

func (e *loadError) Unwrap() error { return e.error }

// compile makes what it can of a fleet, and notes what is wrong with it.
func compile(name string, fsys files) (*compiler, *Fleet, error) {
	c := newCompiler(fsys)
	if _, err := c.file(name, nil, 0); err != nil {
		return c, nil, fmt.Errorf("fleet file: %w", err)
	}
	return c, c.compose(), nil
}

func newCompiler(fsys files) *compiler {
	return &compiler{fs: fsys, origins: newOrigins(), names: make(map[string]int), groups: make(map[string]*group), facts: make(map[string]*factsDecl), said: make(map[said]*Error), open: make(map[int]bool), doubted: make(map[int]bool)}
}

// part is one file of a fleet.
type part struct {
	*reader
	Mapping
}

// compiler turns the files of a fleet into one.
type compiler struct {
	fs       files
	origins  *origins
	sources  []source       // of the files, by number
	read     []fs.FileInfo  // as sources
	names    map[string]int // numbers of the files, by each name they were met under
	looks    []look         // for a Watch
	sparse   bool           // the policy's schedule was reported as too slow
	errs     Errors
	warnings Errors
	said     map[said]*Error

	profile                 *profileReader
	policy, vlans           ast.Node
	profileFile, policyFile *part
	vlansFile, defaultsFile *part
	meshFile                *part
	mesh                    *Mesh
	waiting                 []*part // files seen before there was a profile
	defaults                *layered[deviceKeys]
	groups                  map[string]*group
	facts                   map[string]*factsDecl
	devices                 []deviceDecl
	hosts                   []hostDecl
	links                   [][]link // as each text has them: they are many
	cabled                  int      // in links
	named                   int      // names that ranges stand for, so far
	hostsGiven              bool

	// What could not be read, and so cannot be missed elsewhere.
	lost      bool         // a whole file: anything may be in it
	lostNames bool         // a device's or host's name
	lostLinks bool         // a cable
	badCables bool         // what was read of cables and peers is wrong
	open      map[int]bool // of the devices by number: some of their ports
	doubted   map[int]bool // of the devices by number: the name, the platform or the way in

	// Of the composed devices: what their layers say of any port, and of the locators
	// of the ports that there are.
	anyPort []*composedPort
	specs   [][]givenLM
}

// looked is what Watch is to look at again, within bounds.
func (c *compiler) looked(l look) {
	if len(c.looks) < 2*maxFiles {
		c.looks = append(c.looks, l)
	}
}

func (c *compiler) full() bool { return len(c.errs) >= maxErrors }

// errorf reports a mistake at a place that has been read. What is wrong in a
// group is wrong for each of its devices: it is said once, and counted.
func (c *compiler) errorf(at originID, hint, format string, args ...any) {
	c.errs = c.report(c.errs, at, hint, format, args...)
}

// said is what was reported where.
type said struct {
	at     originID
	format string
}

func (c *compiler) report(to Errors, at originID, hint, format string, args ...any) Errors {
	key := said{at, format}
	if first := c.said[key]; first != nil {
		first.more++
		return to
	}
	if len(to) >= maxErrors {
		return to
	}
	c.said[key] = c.errorAt(at, hint, fmt.Sprintf(format, args...))
	return append(to, c.said[key])
}

// where says in which line another place is, as seen from one.
func (c *compiler) where(other, from originID) string {
	o := c.origins.of(other)
	if o.File != c.origins.of(from).File {
		return fmt.Sprintf("in %s on line %d", o.File, o.Line)
	}
	return fmt.Sprintf("on line %d", o.Line)
}

func (c *compiler) warnf(at originID, hint, format string, args ...any) {
	c.warnings = c.report(c.warnings, at, hint, format, args...)
}

func (c *compiler) errorAt(at originID, hint, msg string) *Error {
	if at < firstOrigin {
		return c.sources[0].errorAt(position{1, 1}, hint, msg)
	}
	o := c.origins.list[at]
	return c.sources[o.file].errorAt(position{int(o.line), int(o.col)}, hint, msg)
}

// file reads one file and those that it includes. ancestors are the numbers of
// the files on the way to it. Of one that was read before it returns the number, else -1.
func (c *compiler) file(name string, ancestors []int, depth int) (again int, err error) {
	data, again, err := c.bytes(name, depth > 0)
	if err != nil || again >= 0 {
		return again, err
	}
	number := len(c.sources)
	src, text, failure := prepare(name, data, fleetFile)
	src.number = number
	c.sources = append(c.sources, src)
	c.origins.files = append(c.origins.files, name)
	if failure != nil {
		c.errs = append(c.errs, failure)
		c.lost = true
		return -1, nil
	}
	root, failure := parseYAML(src, text)
	if failure != nil {
		c.errs = append(c.errs, failure)
		c.lost = true
		return -1, nil
	}
	r := &reader{c: c, src: src, file: uint16(number), anchors: make(map[string]ast.Node)}
	ast.Walk(r, root)
	o, ok := keysOf[fileKeys]().open(r, root, "fleet")
	if !ok {
		c.lost = true
		return -1, nil
	}
	p := &part{reader: r, Mapping: o}
	c.head(p)
	if c.waiting = append(c.waiting, p); c.profile != nil {
		c.readWaiting()
	}
	include := o.get("include")
	if include != nil {
		c.include(p, include, append(slices.Clone(ancestors), number), depth)
	}
	return -1, nil
}

// readWaiting reads the devices of the files that waited for the profile.
func (c *compiler) readWaiting() {
	for _, p := range c.waiting {
		c.sections(p)
	}
	c.waiting = nil
}

// head reads what a domain has once.
func (c *compiler) head(p *part) {
	if format, ok := p.text(p.get("format"), "format"); ok && format != Format {
		hint := "want " + Format
		if strings.HasPrefix(format, formatPrefix) {
			hint = "this csig reads " + Format
		}
		p.errorf(p.get("format"), hint, "format: %q is not a fleet format that is known here", format)
	}
	once := func(key string, first **part) ast.Node {
		e, there := p.values[key]
		if !there {
			return nil
		}
		if *first != nil {
			p.errorf(e.key, fmt.Sprintf("the first is in %s on line %d", (*first).src.name, place((*first).values[key].key).line), "%s is there twice: a domain has one", key)
			return nil
		}
		*first = p
		return e.value
	}
	if n := once("profile", &c.profileFile); n != nil {
		c.profile = p.readProfile(n)
	}
	if n := once("policy", &c.policyFile); n != nil {
		c.policy = n
	}
	if n := once("vlan_tpids", &c.vlansFile); n != nil {
		c.vlans = n
	}
	if n := once("mesh", &c.meshFile); n != nil {
		c.mesh = &Mesh{}
		if _, ok := p.readKeys(n, "mesh", c.mesh); !ok {
			c.mesh = nil
		}
	}
	once("defaults", &c.defaultsFile)
	if n := p.get("facts"); n != nil {
		p.facts(n)
	}
}

// include reads the files that one includes, in the order of the patterns and
// of their names.
func (c *compiler) include(p *part, n ast.Node, ancestors []int, depth int) {
	list := []ast.Node{n}
	if n.Type() == ast.SequenceType {
		list, _ = p.list(n, "include")
	}
	if c.fs.glob == nil {
		p.errorf(n, "give csig the file itself", "include: this text was not read from a file, so it cannot include any")
		return
	}
	for _, item := range list {
		pattern, ok := p.text(item, "include")
		if !ok {
			continue
		}
		full := pattern
		if !filepath.IsAbs(pattern) {
			full = filepath.Join(filepath.Dir(p.src.name), pattern)
		}
		names, err := visible(full, c.fs.glob)
		c.looked(lookFor(full, names))
		switch {
		case err != nil || pattern == "":
			p.errorf(item, "* stands for letters of a name, ? for one", "include: %q is not a pattern of file names", pattern)
			continue
		case len(names) == 0:
			p.errorf(item, "paths are relative to this file", "include: there is no file %q", pattern)
			c.lost = true
			continue
		case depth >= maxInclude:
			p.errorf(item, "", "include: files include each other more than %d deep", maxInclude)
			continue
		}
		wild := strings.ContainsAny(pattern, `*?[\`)
		for _, name := range names {
			if len(c.names) >= maxFiles {
				p.errorf(item, "", "include: more than %d files", maxFiles)
				return
			}
			again, err := c.file(name, ancestors, depth+1)
			if err != nil {
				p.errorf(item, "", "include: %v", pathless(err))
				c.lost = true
			}
			// A file's own pattern may match it; without one, it is a slip.
			if i := slices.Index(ancestors, again); i >= 0 && !wild {
				var ring []string
				for _, n := range append(slices.Clone(ancestors[i:]), again) {
					ring = append(ring, c.sources[n].name)
				}
				p.errorf(item, "remove one of them", "include: files include each other: %s", strings.Join(ring, " → "))
			}
		}
	}
}

// pathless keeps an error's path and reason, without the system call.
func pathless(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return fmt.Errorf("%s: %w", e.Path, e.Err)
	}
	return err
}
