package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/crypto/ssh"
)

// DialTCP connects from the far side to a TCP address, as direct-tcpip (RFC
// 4254 §7.2); sshd has to permit it (AllowTcpForwarding). As with DialUnix there
// are no deadlines, and ctx is for connecting only.
func (c *Client) DialTCP(ctx context.Context, address string) (net.Conn, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("ssh to %s: %w", c.host, context.Cause(ctx))
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	conn, err := c.ssh.Dial("tcp", address)
	if err != nil {
		var refused *ssh.OpenChannelError
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case errors.As(err, &refused):
			err = fmt.Errorf("does anything listen there, and does sshd permit it (AllowTcpForwarding)? (%w)", err)
		}
		return nil, fmt.Errorf("ssh to %s: %s: %w", c.host, address, err)
	}
	return conn, nil
}
