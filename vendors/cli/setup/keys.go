package setup

// Keys are what a fleet file says of a switch of any of the platforms.
type Keys struct {
	Tag string `key:"tag,need" words:"inner outer" hint:"tag: inner, or tag: outer" doc:"inner: the CSIG tag stands behind a VLAN tag, or its TPID is to stay unknown to the switch: csig sets none, as without this key. outer: it is the first tag; csig gives ports the domain's TPID, and the signal chooses the VLAN that frames are bridged in."`
}

// Place is nothing: the switch is at the device's address.
func (*Keys) Place(func(string) string) (string, bool) { return "", false }

// InnerTag reports whether ports need no TPID, as without keys.
func (k *Keys) InnerTag() bool { return k == nil || k.Tag != "outer" }
