package inventory

import (
	"fmt"
	"strings"
)

// Suggest returns a hint for a word that is none of known: the nearest one when
// it is near enough to be a slip, else the whole list; "" where nothing is known.
func Suggest(word string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	if best := nearestWord(word, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "want " + oneOf(known)
}

// nearestWord is the one of known that a word is a slip of, "" when none is near
// enough.
func nearestWord(word string, known []string) string {
	best, bestDistance := "", 1+max(1, min(len(word), 32)/3)
	for _, k := range known {
		if len(word) > 64 || len(k) > 64 {
			continue
		}
		d := distance(strings.ToLower(word), strings.ToLower(k))
		if d >= max(len(word), len(k)) {
			continue // they have no letter in common
		}
		if d < bestDistance || d == bestDistance && best != "" && closer(word, k, best) {
			best, bestDistance = k, d
		}
	}
	return best
}

// otherNumber reports whether two names differ in their numbers alone: one is then no
// slip of the other.
func otherNumber(a, b string) bool {
	bare := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, s)
	}
	return a != b && strings.EqualFold(bare(a), bare(b))
}

// closer breaks a tie between two words equally far: people begin a word right,
// and get its length right.
func closer(word, a, b string) bool {
	if pa, pb := samePrefix(word, a), samePrefix(word, b); pa != pb {
		return pa > pb
	}
	return len(a) == len(word) && len(b) != len(word)
}

func samePrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// oneOf lists words as a person would: "a", "a or b", "a, b or c".
func oneOf(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// distance is how many letters to insert, delete, change or swap with their
// neighbour to make one word the other.
func distance(a, b string) int {
	var before []int
	prev, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(prev[j+1]+1, row[j]+1, prev[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, prev, row = prev, row, make([]int, len(b)+1)
	}
	return prev[len(b)]
}
