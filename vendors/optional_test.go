package vendors

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// wrapped is a driver behind another one.
type wrapped struct {
	Driver
	what any
}

func (w wrapped) Unwrap() any { return w.what }

// able can all that a driver can do beside the contract.
type able struct {
	Driver
	AutoReverter
	LinkProber
	Looker
	SelfTester
	HealthReader
	MTUSetter
}

// health is a capability with an answer that is recognised.
type health struct{ Driver }

func (health) Health(context.Context) ([]PortHealth, error) {
	return []PortHealth{{Port: "swp1", Errors: 3}}, nil
}

// TestAs looks for each capability through two wrappers, and for none through those
// of a driver that has none.
func TestAs(t *testing.T) {
	for name, has := range map[string]func(any) bool{
		"auto-revert": can[AutoReverter], "links": can[LinkProber], "look": can[Looker],
		"self-test": can[SelfTester], "health": can[HealthReader], "MTU": can[MTUSetter],
	} {
		if through := (wrapped{what: wrapped{what: able{}}}); !has(through) || !has(able{}) {
			t.Errorf("%s does not come through", name)
		}
		if has(wrapped{what: wrapped{}}) || has(nil) {
			t.Errorf("%s comes from a driver without it", name)
		}
	}
	through := wrapped{what: health{}}
	if list, err := Health(t.Context(), through); err != nil || len(list) != 1 || list[0].Errors != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	if mtus, err := MTUs(t.Context(), through); mtus != nil || err != nil {
		t.Errorf("%v, %v", mtus, err)
	}
	if _, err := Links(through); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v, want what wraps errors.ErrUnsupported", err)
	}
}

func can[T any](driver any) bool { _, ok := As[T](driver); return ok }

// TestWrappers: each type of this module that wraps a driver passes on what that can
// do.
func TestWrappers(t *testing.T) {
	withoutUnwrap := map[string]bool{"shadow": true} // --dry-run: it must not change the device
	wrappers, unwrap := map[string]string{}, map[string]bool{}
	files := token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_other.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(".Driver")) && !bytes.Contains(text, []byte(".Target")) && !bytes.Contains(text, []byte("Unwrap")) {
			return err // most have nothing of it
		}
		file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				s, ok := n.Type.(*ast.StructType)
				for i := 0; ok && i < len(s.Fields.List); i++ {
					f := s.Fields.List[i]
					if e, ok := f.Type.(*ast.SelectorExpr); ok && f.Names == nil && (e.Sel.Name == "Driver" || e.Sel.Name == "Target") {
						wrappers[filepath.Dir(path)+" "+n.Name.Name] = n.Name.Name
					}
				}
			case *ast.FuncDecl:
				if n.Recv != nil && n.Name.Name == "Unwrap" {
					of := n.Recv.List[0].Type
					if p, ok := of.(*ast.StarExpr); ok {
						of = p.X
					}
					if id, ok := of.(*ast.Ident); ok {
						unwrap[filepath.Dir(path)+" "+id.Name] = true
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(wrappers) < 2 {
		t.Fatalf("found no more wrappers than %v", wrappers)
	}
	for at, name := range wrappers {
		if unwrap[at] == withoutUnwrap[name] {
			t.Errorf("%s: has it an Unwrap? %v, want %v", at, unwrap[at], !withoutUnwrap[name])
		}
	}
}
