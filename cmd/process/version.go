package process

import (
	"fmt"
	"runtime"
)

// VersionText is what --version of a program prints.
func VersionText(program, version string) string {
	return fmt.Sprintf("%s %s (%s, %s/%s)", program, version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
