package main

import (
	"cmp"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// asciiOnly has the characters of csig's own texts that are not ASCII. Names of devices and files stay as they are.
var asciiOnly = strings.NewReplacer(
	"…", "...", "§", "section ", "Δt", "dt", "Δ", "d", "Λ", "L", "±", "+-", "–", "-", "—", "-", "×", "x", "→", "->", "·", ".", "◀", "<", "µ", "u", "μ", "u",
	"▁", "_", "▂", ".", "▃", "-", "▄", "=", "▅", "+", "▆", "*", "▇", "%", "█", "#")

// wantsASCII reports whether texts are to be without other characters: the locale is that of C by name, or the
// terminal is a dumb one. What programs read (--json) is UTF-8 always.
func wantsASCII(args []string, out *os.File) bool {
	if slices.ContainsFunc(args, func(arg string) bool { return arg == "--json" || strings.HasPrefix(arg, "--json=") }) {
		return false
	}
	locale := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG"))
	return locale == "C" || locale == "POSIX" || os.Getenv("TERM") == "dumb" && term.IsTerminal(int(out.Fd()))
}

// asciiWriter writes csig's own texts in ASCII.
type asciiWriter struct{ w io.Writer }

func (a asciiWriter) Write(p []byte) (int, error) {
	if _, err := asciiOnly.WriteString(a.w, string(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}
