package quantize

import "math"

// MaxWideS is the largest S of a wide tag, 2^20-1.
const MaxWideS = 1<<20 - 1

// QuantumRange returns the values [low, high) whose wide S is s: v in whole quanta, at
// most MaxWideS (draft-00 §4.1.3.2, §5.3.3). All are in the signal's unit. MaxWideS also
// takes everything from high up. A bound that does not fit 64 bits is given as the
// largest number that does.
func QuantumRange(quantum uint64, s uint32) (low, high uint64) {
	return saturatingMul(quantum, uint64(s)), saturatingMul(quantum, uint64(s)+1)
}

func saturatingMul(a, b uint64) uint64 {
	if b != 0 && a > math.MaxUint64/b {
		return math.MaxUint64
	}
	return a * b
}
