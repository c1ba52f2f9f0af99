package metrics

import (
	"bytes"
	"os"
	"strconv"
)

// residentMemory is this process's, in bytes.
func residentMemory() (float64, bool) {
	text, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseUint(string(fields[1]), 10, 52)
	return float64(pages) * float64(os.Getpagesize()), err == nil
}

// openDescriptors counts this process's, without the one that it takes to count them.
func openDescriptors() (float64, bool) {
	list, err := os.ReadDir("/proc/self/fd")
	return float64(len(list) - 1), err == nil && len(list) > 0
}
