package untrusted

import "strings"

// ShellWord is a text as a POSIX shell takes it for one word, whatever is in it:
// for commands that a person may copy. A plain word stays as it is.
func ShellWord(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+:,./-"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
