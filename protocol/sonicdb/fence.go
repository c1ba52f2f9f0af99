package sonicdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// OwnerKey has, in each database that is written to, the token of the switch's newest owner:
// decimal digits, as many as the longest has.
const OwnerKey = "csig_owner"

// Unfence are the commands that forget owners, where no controllers share the switch any more: one
// that does keeps a former owner out with it.
func (c *Client) Unfence() (commands [][]string) {
	if c.opt.Token == 0 {
		for _, db := range []string{Appl, ApplState, State, Config} {
			commands = append(commands, []string{db, "DEL", OwnerKey})
		}
	}
	return commands
}

// EndOthers ends the subscriptions of other controllers that share the switch, by Redis' list of
// them, after this owner's token has fenced them. It reports whether there were any. Of a client
// that is not an owner it does nothing.
func (c *Client) EndOthers(ctx context.Context, list string) (any bool, err error) {
	if c.opt.Token == 0 {
		return false, nil
	}
	var commands [][]string
	for line := range strings.Lines(list) {
		id, rest, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		if _, err := strconv.ParseUint(id, 10, 64); err == nil && strings.Contains(rest, " name="+SharedName+" ") {
			commands = append(commands, []string{Appl, "CLIENT", "KILL", "ID", id})
		}
	}
	if len(commands) == 0 {
		return false, nil
	}
	// A write leaves the token, or says that this is the former owner itself.
	if _, err = c.All(ctx, []string{Appl, "DEL", OwnerKey + "_none"}); err == nil {
		_, err = c.All(ctx, commands...)
	}
	return true, err
}

// ErrFenced is the error of writing to a switch that a newer owner has written to. Nothing was
// written.
var ErrFenced = errors.New("another controller owns the switch now, and its Redis takes nothing from this one")

// fenceScript carries out commands unless a newer owner has. ARGV is the key, the token, and
// then each command's number of words and its words. What a command is refused with is an
// error among the answers, and the others are carried out, as in a transaction.
const fenceScript = `local newest = redis.call('GET', ARGV[1])
if newest and newest > ARGV[2] then return redis.error_reply('FENCED by a newer owner') end
if newest ~= ARGV[2] then redis.call('SET', ARGV[1], ARGV[2]) end
local answers, at = {}, 3
while ARGV[at] do
  local n = tonumber(ARGV[at])
  answers[#answers + 1] = redis.pcall(unpack(ARGV, at + 1, at + n))
  at = at + n + 1
end
return answers`

// writes are the commands that change something; they never answer nil.
var writes = []string{"DEL", "HDEL", "HSET", "PUBLISH", "SADD", "SET", "SREM"}

// fence has every write among the commands checked against the owner's token, each transaction
// and each write outside of one by itself. expand makes of the answers those of the commands.
func fence(token uint64, commands [][]string) (out [][]string, expand func([]any) ([]any, error), err error) {
	var spans []int // of each of out: how many commands it stands for; 0: itself
	eval := func(db string, list [][]string) []string {
		e := []string{db, "EVAL", fenceScript, "0", OwnerKey, fmt.Sprintf("%020d", token)}
		for _, c := range list {
			e = append(append(e, strconv.Itoa(len(c)-1)), c[1:]...)
		}
		return e
	}
	for i := 0; i < len(commands); i++ {
		switch c := commands[i]; {
		case len(c) == 2 && c[1] == "MULTI":
			end := i + 1 + slices.IndexFunc(commands[i+1:], func(d []string) bool { return len(d) == 2 && d[1] == "EXEC" })
			if end <= i || slices.ContainsFunc(commands[i:end+1], func(d []string) bool { return d[0] != c[0] }) {
				return nil, nil, fmt.Errorf("a transaction of %s without an end, or of another database, too", c[0])
			}
			out, spans = append(out, eval(c[0], commands[i+1:end])), append(spans, end+1-i)
			i = end
		case slices.Contains(writes, strings.ToUpper(c[1])):
			out, spans = append(out, eval(c[0], commands[i:i+1])), append(spans, 1)
		default:
			out, spans = append(out, c), append(spans, 0)
		}
	}
	return out, func(answers []any) ([]any, error) {
		all := make([]any, 0, len(commands))
		for i, a := range answers {
			if spans[i] == 0 {
				all = append(all, a)
				continue
			}
			if refused, is := a.(redis.Error); is && strings.HasPrefix(string(refused), "FENCED") {
				return nil, ErrFenced
			}
			list, is := a.([]any)
			switch {
			case is && spans[i] == 1 && len(list) == 1:
				all = append(all, list[0])
			case is && spans[i] > 1 && len(list) == spans[i]-2:
				all = append(all, "OK") // MULTI's
				for range list {
					all = append(all, "QUEUED")
				}
				all = append(all, list)
			default:
				for range spans[i] { // what it says stands for all that it was
					all = append(all, a)
				}
			}
		}
		return all, nil
	}, nil
}
