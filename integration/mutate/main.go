// Command mutate changes csig's code in one place at a time, at random, and
// reports the changes that no test notices:
//
//	go run ./integration/mutate [-seed N] [-for 15m] [-against DIR] [PACKAGE ...]
//
// With -against, the checkout of another version there, it reports only what that version's tests notice and these do not.
//
// A mutant is a compiler overlay: the files of the checkout stay as they are.
// Each package's mutants run against the tests that cover it: its own, and
// others where watchers names them. Those have to pass without a change. What no
// test covers stays as it is: logs, error texts, locks, capacities. The exit code is 1 where more than one mutant in five survives.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// watched are the packages whose tests are measured when none is named.
var watched = []string{
	"quantize", "counters", "counters/snmp", "counters/gnmi", "counters/fleet", "counters/trace",
	"agent", "agent/api", "assess", "device", "inventory", "plans", "rollout",
	"protocol/ofp", "vendors/sonic", "protocol/sonicdb", "protocol/gnmi",
}

// watchers are the packages that test another one, beside its own tests.
var watchers = map[string][]string{
	"plans":            {"rollout"},
	"protocol/sonicdb": {"vendors/sonic", "counters/sonic"},
	"protocol/gnmi":    {"counters/gnmi", "vendors/openconfig", "vendors/srlinux"},
}

// testLimit bounds the tests of one mutant: one that hangs is noticed.
const testLimit = 3 * time.Minute

// mutant is one change: text in place of the bytes from…to of a file.
type mutant struct {
	pkg, file string
	line, col int
	from, to  int
	text      string
	what      string
}

// swaps are what an operator becomes.
var swaps = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
	token.AND: token.OR, token.OR: token.AND, token.SHL: token.SHR, token.SHR: token.SHL,
	token.INC: token.DEC, token.DEC: token.INC, token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
}

func main() {
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the choice of mutants")
	limit := flag.Duration("for", 15*time.Minute, "how long to go on")
	against := flag.String("against", "", "report only what the tests of the version in this folder notice")
	flag.Parse()
	pkgs := flag.Args()
	if len(pkgs) == 0 {
		pkgs = watched
	}
	if err := run(pkgs, *seed, *limit, *against); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(pkgs []string, seed uint64, limit time.Duration, against string) error {
	end := time.Now().Add(limit)
	random := rand.New(rand.NewPCG(seed, seed))
	var all [][]mutant
	for _, pkg := range pkgs {
		list, err := mutantsOf(pkg)
		if err != nil {
			return err
		}
		random.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
		all = append(all, list)
	}
	fmt.Printf("seed %d, %v\n", seed, limit)

	// Two at a time: one compiles while the other's tests wait.
	work := make(chan mutant)
	var mu sync.Mutex
	noticed, survived := map[string]int{}, map[string]int{}
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for m := range work {
				killed, viable := m.try("")
				if !viable {
					continue
				}
				if !killed && against != "" {
					there, same := m.counterpart(against)
					if !same {
						continue
					}
					lost, viable := there.try(against)
					killed = !lost || !viable
				}
				mu.Lock()
				if killed {
					noticed[m.pkg]++
				} else {
					survived[m.pkg]++
					fmt.Printf("survived  %s:%d:%d: %s\n", m.file, m.line, m.col, m.what)
				}
				mu.Unlock()
			}
		})
	}
	// One of each package in turn, so that a short run sees all of them. Tests that
	// have begun go on to their end: killed ones would leave their peers running.
	for round, left := 0, true; left; round++ {
		left = false
		for _, list := range all {
			if round < len(list) && time.Now().Before(end) {
				left = true
				work <- list[round]
			}
		}
	}
	close(work)
	wait.Wait()
	kept, lost := 0, 0
	for _, pkg := range pkgs {
		fmt.Printf("%s: %d noticed, %d survived\n", pkg, noticed[pkg], survived[pkg])
		// Where a mutant survived the tests do pass; elsewhere they may always fail.
		if noticed[pkg] > 0 && survived[pkg] == 0 {
			if out, err := test("", pkg); err != nil {
				return fmt.Errorf("%s: its tests fail without a change:\n%s", pkg, out)
			}
		}
		kept, lost = kept+noticed[pkg], lost+survived[pkg]
	}
	fmt.Printf("%d mutants: %d noticed, %d survived\n", kept+lost, kept, lost)
	switch {
	case kept+lost == 0:
		return errors.New("no mutant was tried: give it longer with -for")
	case lost*5 > kept+lost:
		return errors.New("more than one mutant in five survived")
	}
	return nil
}

// mutantsOf lists every mutant of a package's own files.
func mutantsOf(pkg string) (list []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: no Go files there; run it from the top folder", pkg)
	}
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, "_other.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, file, text, 0)
		if err != nil {
			return nil, err
		}
		add := func(from, to token.Pos, text, what string) {
			at := set.Position(from)
			list = append(list, mutant{pkg, file, at.Line, at.Column, at.Offset, set.Position(to).Offset, text, what})
		}
		swap := func(at token.Pos, op token.Token) {
			if other, ok := swaps[op]; ok {
				add(at, at+token.Pos(len(op.String())), other.String(), op.String()+" becomes "+other.String())
			}
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				return n.Tok != token.IMPORT
			case *ast.BinaryExpr:
				if n.Op == token.ADD && isText(n) {
					return true
				}
				swap(n.OpPos, n.Op)
			case *ast.CallExpr:
				return !unwatched(n)
			case *ast.IncDecStmt:
				swap(n.TokPos, n.Tok)
			case *ast.AssignStmt:
				swap(n.TokPos, n.Tok)
			case *ast.UnaryExpr:
				if n.Op == token.NOT {
					add(n.OpPos, n.OpPos+1, "", "! goes")
				}
			case *ast.ExprStmt:
				if call, ok := n.X.(*ast.CallExpr); ok && !unwatched(call) {
					add(n.Pos(), n.End(), "", "the call goes")
				}
			case *ast.IfStmt:
				from, to := set.Position(n.Cond.Pos()).Offset, set.Position(n.Cond.End()).Offset
				add(n.Cond.Pos(), n.Cond.End(), "false && ("+string(text[from:to])+")", "the if is never taken")
			}
			return true
		})
	}
	return list, nil
}

// isText reports whether a sum of constants and names is one of strings: its
// difference does not compile.
func isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (isText(e.X) || isText(e.Y))
	}
	return false
}

// unwatched are the calls whose change no test should notice, or only a hanging one.
func unwatched(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name == "panic" || f.Name == "make" && len(call.Args) == 3
	case *ast.SelectorExpr:
		switch f.Sel.Name {
		case "Debug", "Info", "Warn", "Error", "Errorf", "Lock", "Unlock", "RLock", "RUnlock", "Grow":
			return true
		}
	}
	return false
}

// counterpart finds the mutant in another version: the same line between the same two lines, once in the file.
func (m *mutant) counterpart(dir string) (there mutant, same bool) {
	here, err := os.ReadFile(m.file)
	if err != nil {
		return mutant{}, false
	}
	text, err := os.ReadFile(filepath.Join(dir, m.file))
	if err != nil {
		return mutant{}, false
	}
	lines := strings.SplitAfter(string(here), "\n")
	first := max(m.line-2, 0)
	around := strings.Join(lines[first:min(m.line+1, len(lines))], "")
	at := strings.Index(string(text), around)
	if at < 0 || strings.Count(string(text), around) > 1 {
		return mutant{}, false
	}
	there = *m
	by := at - len(strings.Join(lines[:first], ""))
	there.from, there.to = m.from+by, m.to+by
	return there, there.to <= len(text) && string(text[there.from:there.to]) == string(here[m.from:m.to])
}

// try runs the package's tests in a checkout ("": this one) on the mutant: whether they fail, and whether the
// mutant could be built.
func (m *mutant) try(checkout string) (noticed, viable bool) {
	dir, err := os.MkdirTemp("", "csig-mutant-")
	if err != nil {
		return false, false
	}
	defer os.RemoveAll(dir)
	path, err := filepath.Abs(filepath.Join(checkout, m.file))
	if err != nil {
		return false, false
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return false, false
	}
	changed, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	about, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return false, false
	}
	text = append(append(append([]byte(nil), text[:m.from]...), m.text...), text[m.to:]...)
	if os.WriteFile(changed, text, 0o600) != nil || os.WriteFile(overlay, about, 0o600) != nil {
		return false, false
	}
	out, err := test(checkout, m.pkg, "-overlay", overlay)
	if bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")) {
		return false, false
	}
	if checkout != "" && bytes.Contains(out, []byte("panic: test timed out after")) {
		return false, false // tests of another version may just take longer
	}
	return err != nil, true
}

// test runs the tests that watch a package, its own first and the short ones first, until some fail.
func test(checkout, pkg string, flags ...string) (out []byte, err error) {
	args := append([]string{"test", "-vet=off", "-failfast", "-count=1", "-timeout", testLimit.String()}, flags...)
	for _, which := range []string{"-skip", "-run"} {
		for _, watcher := range append([]string{pkg}, watchers[pkg]...) {
			cmd := exec.Command("go", append(args, which, "^TestLong", "./"+watcher)...)
			cmd.Dir = checkout
			if out, err = cmd.CombinedOutput(); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}
