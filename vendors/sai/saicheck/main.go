// Command saicheck compares the names, types, flags and defaults that package sai uses with
// the headers of SAI in a checkout of opencomputeproject/SAI:
//
//	go run ./vendors/sai/saicheck DIR
//
// It prints what it found of each, and ends with 1 where anything differs.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: saicheck DIR, a checkout of SAI with the folder inc")
		os.Exit(2)
	}
	differ, err := run(os.Stdout, os.Args[1])
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "saicheck:", err)
		os.Exit(1)
	case differ > 0:
		fmt.Fprintf(os.Stderr, "saicheck: %d differ\n", differ)
		os.Exit(1)
	}
}

// run reads the headers of a checkout and compares.
func run(w io.Writer, dir string) (differ int, err error) {
	h, err := readHeaders(dir)
	if err != nil {
		return 0, err
	}
	text, differ := compare(h)
	_, err = io.WriteString(w, text)
	return differ, err
}
