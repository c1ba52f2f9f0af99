package vlanrules

// Caps is what one device's VLAN table can express.
type Caps struct {
	Match    MatchKind
	MatchPCP bool // T can be matched
	MatchD   bool // the device itself leaves tags with D=1 alone before the table is looked up (uec); entries need not test D
	Txn      Txn
	Modify   bool // an entry's action can change in place
	Entries  int  // capacity of the table; 0: not limited
	Shared   bool // the capacity is shared by all ports
	Ports    int  // ports that share it
	VIDMin   uint16
	VIDMax   uint16 // 0: 4095
}

// Txn is the largest change the device takes as a whole.
type Txn uint8

// Transaction models.
const (
	TxnTable Txn = iota // any number of operations, all or nothing
	TxnBatch            // one port's operations
	TxnEntry            // one operation
)
