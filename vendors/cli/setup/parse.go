package setup

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// Sections calls f for each line at the margin with those indented below it.
func Sections(lines []string, f func(head string, lines []string)) {
	head := ""
	var body []string
	for _, line := range append(lines[:len(lines):len(lines)], "!") {
		text := strings.TrimSpace(line)
		switch {
		case text == "":
		case line[0] == ' ' && head != "":
			body = append(body, text)
		case line[0] != ' ':
			if head != "" {
				f(head, body)
			}
			head, body = text, nil
		}
	}
}

// Hex is a TPID as Listed formats it; anything else stays as it is, and is never csig's.
func Hex(word string) string {
	n, err := strconv.ParseUint(strings.TrimPrefix(word, "0x"), 16, 16)
	if err != nil {
		return untrusted.Text(word, 16)
	}
	return fmt.Sprintf("0x%04x", n)
}

// Remarks takes in the lines of an access list with the name of a slot.
func (v *View) Remarks(slot string, lines []string) {
	v.Slots[slot] = []Comment{}
	for _, line := range lines {
		number, text, ok := strings.Cut(line, " remark ")
		seq, err := strconv.Atoi(number)
		if !ok || err != nil {
			v.Foreign = line
			continue
		}
		v.Slots[slot] = append(v.Slots[slot], Comment{Seq: seq, Text: text})
	}
}
