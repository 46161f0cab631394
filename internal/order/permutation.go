package order

import "math/bits"

// rounds is the number of rounds of the Feistel network. Four make a pseudo-random permutation of large domains (Luby
// and Rackoff, 1988). Eight leave a margin, and the tests of tiny datasets need it.
const rounds = 8

// minBits is the least width of the network. Halves of two bits left a bias of 8 % between the permutations of five
// samples after any number of rounds; with three bits none was seen. Datasets of fewer than 32 samples pay for this
// with longer walks.
const minBits = 6

// permutation is a keyed bijection on [0, n): a Feistel network over just as many bits as n
// needs, walked until it lands below n (Black and Rogaway, 2002: "cycle walking"). The halves
// of an odd number of bits differ by one bit, so that the domain is always less than twice n and
// a walk takes less than two passes on average; equal halves would need up to four.
type permutation struct {
	n     uint64
	shift uint      // bits in the right half
	masks [2]uint64 // of the left and the right half
	keys  [rounds]uint64
}

// newPermutation needs 0 < n <= 1<<62. Key words that differ in one bit give unrelated results.
func newPermutation(n uint64, key ...uint64) permutation {
	width := uint(max(minBits, bits.Len64(n-1)))
	shift := width / 2
	p := permutation{n: n, shift: shift, masks: [2]uint64{1<<(width-shift) - 1, 1<<shift - 1}}
	state := absorb(key...)
	for i := range p.keys {
		state += golden
		p.keys[i] = mix(state)
	}
	return p
}

func (p *permutation) at(x uint64) uint64 {
	for {
		left, right := x>>p.shift, x&p.masks[1]
		for i := 0; i < rounds; i += 2 {
			left ^= mix(right+p.keys[i]) & p.masks[0]
			right ^= mix(left+p.keys[i+1]) & p.masks[1]
		}
		if x = left<<p.shift | right; x < p.n {
			return x
		}
	}
}

// inverse runs the rounds backwards. Walking works in both directions because the network
// permutes the whole domain: the walk back visits the same values outside [0, n).
func (p *permutation) inverse(x uint64) uint64 {
	for {
		left, right := x>>p.shift, x&p.masks[1]
		for i := rounds - 2; i >= 0; i -= 2 {
			right ^= mix(left+p.keys[i+1]) & p.masks[1]
			left ^= mix(right+p.keys[i]) & p.masks[0]
		}
		if x = left<<p.shift | right; x < p.n {
			return x
		}
	}
}

// golden is 2^64 divided by the golden ratio, the increment of SplitMix64 (Steele, Lea and
// Flood, 2014), whose output function is mix.
const golden = 0x9e3779b97f4a7c15

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// absorb makes one word from several. Their order matters, so (seed, epoch) and (epoch, seed) differ.
func absorb(words ...uint64) uint64 {
	state := uint64(golden)
	for _, word := range words {
		state = mix(state+golden) ^ mix(word+golden)
		state = mix(state)
	}
	return state
}
