package sonic

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs more tests side by side than there are processors: most of them wait, for
// Redis or for a patience to end.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
