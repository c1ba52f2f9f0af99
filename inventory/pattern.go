package inventory

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Bounds of one text with ranges: how many names it can stand for, its ranges and
// their numbers, and the bytes beside them, which each name repeats.
const (
	maxExpand  = 4096
	maxRanges  = 8
	maxPattern = 64 << 10
	maxBeside  = 512
)

// maxNames is how many names all texts with ranges of a fleet can stand for.
const maxNames = 2 * maxPorts

// patternRegexp is a name that may have ranges, for the schema.
const patternRegexp = `^[A-Za-z0-9\[]([]A-Za-z0-9._,\[-]*)$`

var rangeItem = regexp.MustCompile(`^([0-9]{1,9})(?:-([0-9]{1,9}))?$`)

// expand returns the names that a text with ranges in brackets stands for, in
// order, the last range running fastest: "leaf-[1-2]:swp[1,3]" is four. Numbers
// keep their leading zeros. A text without brackets stands for itself.
func expand(text string) ([]string, error) {
	if !strings.ContainsAny(text, "[]") {
		return []string{text}, nil
	}
	if len(text) > maxPattern || strings.Count(text, "[") > maxRanges {
		return nil, fmt.Errorf("%.64q… has more than %d ranges, or is too long", text, maxRanges)
	}
	out, beside := []string{""}, 0
	for rest := text; rest != ""; {
		plain, after, found := strings.Cut(rest, "[")
		if beside += len(plain); beside > maxBeside {
			return nil, fmt.Errorf("%.64q… is too long for a text with ranges", text)
		}
		if strings.Contains(plain, "]") {
			return nil, fmt.Errorf("%q has a ] without its [", text)
		}
		var numbers []string
		if found {
			inside, tail, closed := strings.Cut(after, "]")
			if !closed {
				return nil, fmt.Errorf("%q has a [ without its ]", text)
			}
			after = tail
			for item := range strings.SplitSeq(inside, ",") {
				var err error
				if numbers, err = appendRange(numbers, item); err != nil {
					return nil, err
				}
			}
			if len(out)*len(numbers) > maxExpand {
				return nil, fmt.Errorf("%q stands for more than %d names", text, maxExpand)
			}
		} else {
			numbers = []string{""}
		}
		next := make([]string, 0, len(out)*len(numbers))
		for _, head := range out {
			for _, n := range numbers {
				next = append(next, head+plain+n)
			}
		}
		out, rest = next, after
	}
	return out, nil
}

func appendRange(out []string, item string) ([]string, error) {
	m := rangeItem.FindStringSubmatch(item)
	if m == nil {
		return nil, fmt.Errorf("[%s] is not a range: want numbers, e.g. [1-4] or [1,3,5-8]", item)
	}
	if m[2] == "" {
		return append(out, m[1]), nil
	}
	low, _ := strconv.Atoi(m[1]) // nine digits at most
	high, _ := strconv.Atoi(m[2])
	width := 0
	if m[1][0] == '0' && len(m[1]) > 1 {
		width = len(m[1])
	}
	switch {
	case high < low:
		return nil, fmt.Errorf("[%s] runs backwards", item)
	case high-low >= maxExpand:
		return nil, fmt.Errorf("[%s] is more than %d names", item, maxExpand)
	case width > 0 && len(m[2]) != width:
		return nil, fmt.Errorf("[%s] starts with a zero: then both ends have the same number of digits", item)
	}
	for n := low; n <= high; n++ {
		if width == 0 {
			out = append(out, strconv.Itoa(n))
		} else {
			out = append(out, fmt.Sprintf("%0*d", width, n))
		}
	}
	return out, nil
}
