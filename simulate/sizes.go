package simulate

import "math/rand/v2"

// sizes is a distribution of flow sizes: points of its cumulative distribution, with straight lines between them.
type sizes struct {
	bytes   []float64
	percent []float64 // of the flows that have at most so many
}

// distributions are public ones, as the traffic generator of HPCC's public ns-3 code has them
// (github.com/alibaba-edu/High-Precision-Congestion-Control, traffic_gen/).
var distributions = map[string]sizes{
	// WebSearch_distribution.txt: Alizadeh et al., Data Center TCP (DCTCP), SIGCOMM 2010, Figure 4.
	"websearch": {
		[]float64{0, 10e3, 20e3, 30e3, 50e3, 80e3, 200e3, 1e6, 2e6, 5e6, 10e6, 30e6},
		[]float64{0, 15, 20, 30, 40, 53, 60, 70, 80, 90, 97, 100},
	},
	// FbHdp_distribution.txt: Roy et al., Inside the Social Network's (Datacenter) Network, SIGCOMM 2015, Hadoop.
	"hadoop": {
		[]float64{0, 100, 200, 300, 350, 400, 500, 600, 700, 1e3, 2e3, 7e3, 30e3, 50e3, 80e3, 120e3, 300e3, 1e6, 2e6, 10e6},
		[]float64{0, 1, 2, 5, 15, 20, 30, 40, 50, 60, 67, 70, 72, 82, 87, 90, 95, 97.5, 99, 100},
	},
	// AliStorage2019.txt: Alibaba's storage, 2019.
	"storage": {
		[]float64{0, 4e3, 8e3, 16e3, 32e3, 64e3, 128e3, 256e3, 2e6},
		[]float64{0, 22.93, 69.21, 80.61, 90.47, 93.53, 96.77, 97.53, 100},
	},
	// GoogleRPC2008.txt: Google's RPCs, 2008; of its points those next to powers of two.
	"rpc": {
		[]float64{0, 3, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1047917, 2113675, 4135977, 8231141, 15158197},
		[]float64{0, 6.48826, 9.73239, 15.5271, 35.1573, 49.7901, 78.4921, 86.32, 90.8862, 93.4955, 96.4309, 98.4694, 99.0402, 99.3256, 99.7129, 99.8453, 99.9498, 99.9758, 99.9889, 99.9952, 99.9985, 100},
	},
}

// one is a size by chance, a byte at least.
func (s *sizes) one(r *rand.Rand) uint64 {
	p := r.Float64() * 100
	i := 1
	for i < len(s.percent)-1 && s.percent[i] < p {
		i++
	}
	part := (p - s.percent[i-1]) / (s.percent[i] - s.percent[i-1])
	return max(uint64(s.bytes[i-1]+part*(s.bytes[i]-s.bytes[i-1])), 1)
}

func (s *sizes) mean() (bytes float64) {
	for i := 1; i < len(s.bytes); i++ {
		bytes += (s.percent[i] - s.percent[i-1]) / 100 * (s.bytes[i] + s.bytes[i-1]) / 2
	}
	return bytes
}
