package inventory

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Defaults of OVS.
const (
	DefaultOVSRunDir = "/var/run/openvswitch"
	DefaultOVSTable  = 60
)

// maxOVSTable is the last table of OpenFlow that can be the first of csig's
// seven.
const maxOVSTable = 248

// DefaultSSHPort is where SSH is unless the file says otherwise.
const DefaultSSHPort = 22

// management reads how csig gets at a device. Its parts come each from the
// nearest layer that has it.
func (d *declReader) management(n ast.Node, what string, s *settings) {
	defer d.quietly()() // a credential may be in the wrong place
	o, ok := d.mapping(n, what, managementTable)
	if !ok {
		return
	}
	if n := o.get("netns"); n != nil {
		if list := d.paths(n, what+": netns"); len(list) > 0 {
			s.netns = of(d, n, list[0])
			if len(list) > 1 {
				s.netnsEach = list
			}
		}
	}
	if n := o.get("ssh"); n != nil {
		if ssh := d.ssh(n, what+": ssh"); ssh != nil {
			s.ssh = of(d, n, ssh)
		}
	}
	if n := o.get("daemon"); n != nil {
		if daemon := d.daemon(n, what+": daemon"); daemon != nil {
			s.daemon = of(d, n, daemon)
		}
	}
	if n := o.get("redis"); n != nil {
		if redis := d.redis(n, what+": redis"); redis != nil {
			s.redis = of(d, n, redis)
		}
	}
	if n := o.get("ovs"); n != nil {
		if ovs := d.ovs(n, what+": ovs"); ovs != nil {
			s.ovs = of(d, n, ovs)
		}
	}
	if len(o.values) == 0 {
		d.errorf(n, "add netns, ssh, daemon or ovs, or leave it out", "%s: it says nothing", what)
	}
}

func (d *declReader) ssh(n ast.Node, what string) *SSH {
	o, ok := d.mapping(n, what, sshTable)
	if !ok {
		return nil
	}
	out := &SSH{Port: DefaultSSHPort}
	out.User, _ = d.printableText(o.get("user"), what+": user", 64)
	out.Port = d.port16(o.get("port"), what+": port", out.Port)
	out.Key = d.path(o.get("key"), what+": key")
	out.Passphrase = d.secret(o.get("passphrase"), what+": passphrase")
	out.Agent = d.bool(o.get("agent"), what+": agent")
	out.Password = d.secret(o.get("password"), what+": password")
	out.KnownHosts = d.path(o.get("known_hosts"), what+": known_hosts")
	out.Sudo = d.sudo(o.get("sudo"), what+": sudo")
	if _, given := o.values["passphrase"]; given {
		o.needToo("passphrase", "the path of the private key", "key")
	}
	_, key := o.values["key"]
	_, password := o.values["password"]
	_, agent := o.values["agent"]
	if !key && !password && !agent {
		d.errorf(n, "add key: /PATH, agent: true or password: {file: /PATH}", "%s: there is nothing to log in with", what)
	}
	return out
}

// sudo reads true, false or where the password is. What stands there instead is
// not repeated: it is most likely the password.
func (d *declReader) sudo(n ast.Node, what string) *Sudo {
	switch v := n.(type) {
	case nil:
		return nil
	case *ast.BoolNode:
		if v.Value {
			return &Sudo{}
		}
		return nil
	case ast.MapNode:
		o, ok := d.mapping(n, what, sudoTable)
		if !ok {
			return nil
		}
		return &Sudo{Password: d.secret(o.get("password"), what+": password")}
	}
	d.errorf(n, "sudo: true, or sudo: {password: {file: /PATH}}", "%s: want true, or where the password is", what)
	return nil
}

func (d *declReader) redis(n ast.Node, what string) *Redis {
	o, ok := d.mapping(n, what, redisTable)
	if !ok {
		return nil
	}
	out := &Redis{Socket: d.path(o.get("socket"), what+": socket"), Databases: d.path(o.get("databases"), what+": databases")}
	out.Port = d.port16(o.get("port"), what+": port", 0)
	out.Password = d.secret(o.get("password"), what+": password")
	if port, given := o.values["port"]; given && out.Socket != "" {
		d.errorf(port.key, "leave one of them out", "%s: want a socket or a port, found both", what)
	}
	return out
}

func (d *declReader) daemon(n ast.Node, what string) *Daemon {
	o, ok := d.mapping(n, what, daemonTable)
	if !ok {
		return nil
	}
	out := &Daemon{Socket: d.onePath(o.get("socket"), what+": socket")}
	out.Port = d.port16(o.get("port"), what+": port", 0)
	out.TLS = d.tls(o.get("tls"), what+": tls")
	_, socket := o.values["socket"]
	_, port := o.values["port"]
	switch {
	case socket && port:
		d.errorf(o.values["port"].key, "leave one of them out", "%s: want a socket or a port, found both", what)
	case socket:
		o.refuse("has no meaning for a unix socket", "tls")
	case !port:
		d.errorf(n, "add socket: /run/csig/agent.sock, or port: 7443 with tls", "%s: it does not say where the daemon listens", what)
	default:
		o.needToo("port", "both ends show a certificate: tls: {ca: /PATH, cert: /PATH, key: /PATH}", "tls")
		if _, given := o.values["tls"]; given && (out.TLS.CA == "" || out.TLS.Cert == "" || out.TLS.Key == "") && len(d.errs) == 0 {
			d.errorf(o.get("tls"), "the daemon takes orders: who gives them has to be known", "%s: tls: want ca, cert and key", what)
		}
	}
	return out
}

// nodeOf is the value of a key, or the mapping where it has none.
func (d *declReader) nodeOf(o object, key string) ast.Node {
	if n := o.get(key); n != nil {
		return n
	}
	return o.node
}

// paths reads an absolute path that may have ranges, as names do.
func (d *declReader) paths(n ast.Node, what string) []string {
	whole := d.path(n, what)
	switch {
	case whole == "":
		return nil
	case !strings.ContainsAny(whole, "[]"):
		return []string{whole}
	}
	return d.expand(n, whole, what)
}

// onePath is path for something that belongs to one device alone: there are no
// ranges, and a path with brackets is most likely meant as one.
func (d *declReader) onePath(n ast.Node, what string) string {
	s := d.path(n, what)
	if strings.ContainsAny(s, "[]") {
		d.errorf(n, "write an entry for each device; ranges work in names, addresses, netns, peers and links", "%s: there are no ranges in this path", what)
		return ""
	}
	return s
}

// reachHost reads how csig gets at a host, or at several: their namespaces are
// returned where there is more than one.
func (d *declReader) reachHost(o object, what string, h *Host) (spaces []string) {
	if n := o.get("interface"); n != nil {
		if name, ok := d.text(n, what+": interface"); ok {
			if why := portNameProblem(name, "linux"); why != "" {
				d.errorf(n, "as ip link shows it, e.g. eth0", "%s: interface: %q cannot be one: %s", what, name, why)
			}
			h.Interface = name
		}
	}
	h.Local = d.bool(o.get("local"), what+": local")
	if n := o.get("management"); n != nil {
		if m, ok := d.mapping(n, what+": management", hostManagementTable); ok {
			if list := d.paths(m.get("netns"), what+": management: netns"); len(list) > 0 {
				if h.NetNS = list[0]; len(list) > 1 {
					spaces = list
				}
			}
		}
		if h.Local {
			o.refuse("says where the host is, and local: true that it is here", "management")
		}
		o.needToo("management", "the network card to send probes from, e.g. interface: eth0", "interface")
	}
	if h.Local {
		o.needToo("local", "the network card to send probes from, e.g. interface: eth0", "interface")
	}
	return spaces
}

func (d *declReader) ovs(n ast.Node, what string) *OVS {
	o, ok := d.mapping(n, what, ovsTable)
	if !ok {
		return nil
	}
	out := &OVS{RunDir: DefaultOVSRunDir, Table: DefaultOVSTable}
	out.Bridge, _ = d.printableText(o.get("bridge"), what+": bridge", 64)
	if strings.ContainsAny(out.Bridge, "[]") {
		d.errorf(o.get("bridge"), "write an entry for each device; ranges work in names, addresses, netns, peers and links", "%s: there are no ranges in the name of a bridge", what)
	}
	if n := o.get("run_dir"); n != nil {
		out.RunDir = d.path(n, what+": run_dir")
	}
	if n := o.get("table"); n != nil {
		v, ok := d.number(n, what+": table", maxOVSTable)
		if ok && v == 0 {
			d.errorf(n, "1 or more, e.g. table: 60", "%s: table: every frame begins in table 0, which is the bridge's own", what)
		}
		out.Table = uint8(v)
	}
	return out
}

// needBridge wants a device of the platform ovs to say which bridge it is, where
// csig is to set it up: a program of Open vSwitch has many, and none goes by the
// name of the device.
func (c *compiler) needBridge(d *Device, at originID, what string) {
	set := d.Level.Support == LevelAuto || d.Level.Support == LevelSoftware
	if d.Platform == "ovs" && d.Management.OVS == nil && set {
		c.errorf(at, "management: {ovs: {bridge: NAME}}, of ovs-vsctl list-br; or the level that it has", `%s: "management: ovs" is missing: it says which bridge is the device`, what)
	}
}
