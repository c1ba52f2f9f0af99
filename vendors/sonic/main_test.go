package sonic

import (
	"flag"
	"os"
	"testing"

	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

// TestMain runs more tests side by side than there are processors: most of them wait, for
// Redis or for a patience to end. They have few servers, one after another.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	end := sonictest.Reuse()
	code := m.Run()
	end()
	os.Exit(code)
}
