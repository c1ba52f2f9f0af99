package sonic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/csig-agent/csig/protocol/sonicdb"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

var (
	_ vendors.HealthReader = (*Driver)(nil)
	_ vendors.MTUSetter    = (*Driver)(nil)
)

// lossFields are the counters of frames that did not get through (sonic-swss
// orchagent/portsorch.cpp, port_stat_ids): errors, then discards.
var lossFields = []string{
	"SAI_PORT_STAT_IF_IN_ERRORS", "SAI_PORT_STAT_IF_OUT_ERRORS",
	"SAI_PORT_STAT_IF_IN_DISCARDS", "SAI_PORT_STAT_IF_OUT_DISCARDS",
}

// Health reads the error and discard counters of every port of COUNTERS_DB,
// which are up to a flex counter's poll interval old.
func (d *Driver) Health(ctx context.Context) ([]vendors.PortHealth, error) {
	list, err := d.hashes(ctx, [2]string{sonicdb.Counters, portNames})
	if err != nil {
		return nil, err
	}
	names := sortedKeys(list[0])
	var cmds [][]string
	for _, n := range names {
		cmds = append(cmds, append([]string{sonicdb.Counters, "HMGET", "COUNTERS:" + list[0][n]}, lossFields...))
	}
	answers, err := d.db.All(ctx, cmds...)
	if err != nil {
		return nil, err
	}
	out := make([]vendors.PortHealth, len(names))
	for i, n := range names {
		texts, err := redis.Strings(answers[i], nil)
		if err != nil || len(texts) != len(lossFields) {
			return nil, fmt.Errorf("the counters of port %s: %w", n, cmp.Or(err, errors.ErrUnsupported))
		}
		var v [4]uint64
		for k, text := range texts {
			if text == "" {
				continue // the ASIC does not count it
			}
			if v[k], err = strconv.ParseUint(text, 10, 64); err != nil {
				return nil, fmt.Errorf("port %s: %s: %q is no count", n, lossFields[k], untrusted.Text(text, 32))
			}
		}
		out[i] = vendors.PortHealth{Port: n, Errors: v[0] + v[1], Discards: v[2] + v[3]}
	}
	return out, nil
}

// defaultMTU is a port's where CONFIG_DB has none (sonic-swss cfgmgr/portmgr.h,
// DEFAULT_MTU_STR).
const defaultMTU = 9100

// MTUs reads the ports' MTUs of CONFIG_DB: IP's, without the Ethernet header
// and without tags. A member of an aggregate has that of the aggregate (sonic-swss
// cfgmgr/teammgr.cpp, addLagMember).
func (d *Driver) MTUs(ctx context.Context) (map[string]int, error) {
	ports, err := d.table(ctx, sonicdb.Config, portKey(""))
	if err != nil {
		return nil, err
	}
	lags, err := d.members(ctx)
	if err != nil {
		return nil, err
	}
	aggregated, err := d.table(ctx, sonicdb.Config, carrierKey(aggregates))
	if err != nil {
		return nil, err
	}
	out := make(map[string]int, len(ports))
	for name, fields := range ports {
		key := portKey(name)
		if lag := lags[name]; lag != "" {
			key, fields = carrierKey(lag), aggregated[strings.TrimPrefix(lag, aggregates)]
		}
		mtu := defaultMTU
		if text := fields["mtu"]; text != "" {
			if mtu, err = strconv.Atoi(text); err != nil {
				return nil, fmt.Errorf("CONFIG_DB %s: mtu %q is no number", key, text)
			}
		}
		out[name] = mtu
	}
	return out, nil
}

// SetMTU sets the MTU of one port in CONFIG_DB.
func (d *Driver) SetMTU(ctx context.Context, port string, mtu int) error {
	if mtu < 68 || mtu > 9216 { // sonic-port.yang
		return &vendors.PermanentError{Port: port, Err: fmt.Errorf("an MTU of %d: SONiC takes 68 to 9216", mtu)}
	}
	list, err := d.hashes(ctx, [2]string{sonicdb.Config, portKey(port)})
	if err != nil {
		return err
	}
	if len(list[0]) == 0 {
		return &vendors.PermanentError{Port: port, Err: fmt.Errorf("CONFIG_DB has no %s", portKey(port))}
	}
	lags, err := d.members(ctx)
	if err != nil {
		return err
	}
	if lag := lags[port]; lag != "" {
		return &vendors.PermanentError{Port: port, Err: fmt.Errorf("it is a member of %s and has its MTU: change that (sonic-db-cli CONFIG_DB HSET '%s' mtu %d), or take the port out of the aggregate", lag, carrierKey(lag), mtu)}
	}
	return d.write(ctx, []string{sonicdb.Config, "HSET", portKey(port), "mtu", strconv.Itoa(mtu)})
}
