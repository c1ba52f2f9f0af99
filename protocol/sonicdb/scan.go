package sonicdb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/protocol/untrusted"
)

const (
	scanCount = "5000"  // how many keys Redis looks at for one answer
	maxKeys   = 1 << 17 // that Scan takes from one database
	scanTimes = 6       // how many times its timeout a whole Scan may take
)

// Scan lists the keys of a database that begin with a prefix, which is a pattern of
// Redis: each once, sorted. One that is no readable line is left out, since
// nothing of SONiC's has such a key.
func (c *Client) Scan(ctx context.Context, db, prefix string) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, scanTimes*c.opt.Timeout+c.opt.Connect, &net.OpError{Op: "read", Net: "redis",
		Err: fmt.Errorf("SCAN in %s has no end for %v", db, scanTimes*c.opt.Timeout)})
	defer cancel()
	var keys []string
	for cursor := "0"; ; {
		answers, err := c.Do(ctx, []string{db, "SCAN", cursor, "MATCH", prefix + "*", "COUNT", scanCount})
		if err != nil {
			return nil, err
		}
		if refused, ok := answers[0].(redis.Error); ok {
			return nil, fmt.Errorf("SCAN in %s: it refuses: %w", db, refused)
		}
		next, found, err := page(answers[0])
		if err != nil {
			return nil, fmt.Errorf("SCAN in %s: %w", db, err)
		}
		for _, k := range found {
			if untrusted.Text(k, maxKey) == k {
				keys = append(keys, k)
			}
		}
		if len(keys) > maxKeys { // SCAN may repeat some
			if keys = unique(keys); len(keys) > maxKeys/2 {
				return nil, fmt.Errorf("SCAN in %s: %w: more than %d keys begin with %s", db, untrusted.ErrTooLong, maxKeys/2, prefix)
			}
		}
		if cursor = next; cursor == "0" {
			return unique(keys), nil
		}
	}
}

// maxKey is the longest key that Scan lists, in bytes.
const maxKey = 512

func unique(keys []string) []string {
	slices.Sort(keys)
	return slices.Compact(keys)
}

// page is an answer to SCAN.
func page(answer any) (next string, keys []string, err error) {
	pair, err := redis.Values(answer, nil)
	if err != nil || len(pair) != 2 {
		return "", nil, errNoPage
	}
	next, err1 := redis.String(pair[0], nil)
	keys, err2 := redis.Strings(pair[1], nil)
	if err1 != nil || err2 != nil || len(next) == 0 || len(next) > maxCursor {
		return "", nil, errNoPage
	}
	return next, keys, nil
}

// maxCursor is the most digits of a number of 64 bits.
const maxCursor = 20

var errNoPage = errors.New("its answer is no cursor and a list of keys")
