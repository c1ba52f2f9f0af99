package linux

// slack is how many bytes beyond a port's MTU a bridge forwards: the kernel
// leaves room for one VLAN tag, whatever it is for.
const slack = 4
