// Package sonicmq talks to the ZeroMQ socket on which orchagent takes rows of
// P4RT_TABLE since SONiC 202605: the messages of sonic-swss-common
// (common/binaryserializer.h, common/zmqserver.cpp), and a REQ socket for them (ZMTP 3.0,
// rfc.zeromq.org/spec/23, /spec/28).
//
// The socket is csig's own, and not github.com/go-zeromq/zmq4's (v0.17): that one
// allocates what a frame's header announces (conn.go, read), and dials by a registry of
// the whole process, where each switch has a tunnel of its own.
package sonicmq

import "errors"

// Endpoint is the path of orchagent's socket, on the switch and in the container (sonic-swss
// orchagent/orchdaemon.h, m_p4OrchZmqServerEp; sonic-buildimage rules/docker-orchagent.mk
// has the folder of both be one).
const Endpoint = "/zmq_swss/p4orch_zmq_swss_ep"

// MaxBody is the most bytes of a message that csig sends and takes. orchagent itself ends
// at 16 MiB (sonic-swss-common common/zmqserver.h, MQ_RESPONSE_MAX_COUNT).
const MaxBody = 1 << 20

// ErrProtocol is in the error of a peer that does not speak ZMTP or the messages of
// orchagent as csig knows them.
var ErrProtocol = errors.New("what answers there does not speak as orchagent's ZeroMQ socket does")
