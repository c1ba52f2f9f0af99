// Package digits writes numbers as people read them.
package digits

import "strconv"

// Grouped writes n, which is not negative, with a comma between thousands:
// 3,968.
func Grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
