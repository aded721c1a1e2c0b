package workload

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Random creates its keys one after the other and then changes them in random order. Values are
// random lower-case letters and digits, new at every change: a compressor saves a third of them,
// the share of eight bits that the alphabet leaves unused, and finds no repetition.
type Random struct {
	size    int
	rnd     *rand.PCG
	rev     int64
	version []int32 // by key; 0: not created yet
	created int
}

// NewRandom makes a history of so many keys with values of so many bytes.
func NewRandom(seed uint64, keys, valueBytes int) *Random {
	return &Random{size: valueBytes, rnd: rand.NewPCG(seed, uint64(keys)), rev: 1, version: make([]int32, keys)}
}

// Next implements Generator.
func (r *Random) Next() *mvccpb.Event {
	r.rev++
	i := r.created
	if i < len(r.version) {
		r.created++
	} else {
		i = int(r.rnd.Uint64() % uint64(len(r.version)))
	}
	r.version[i]++
	return &mvccpb.Event{Kv: &mvccpb.KeyValue{
		Key:            fmt.Appendf(nil, "/registry/random/%09d", i),
		Value:          r.value(),
		CreateRevision: int64(i) + 2,
		ModRevision:    r.rev,
		Version:        int64(r.version[i]),
	}}
}

func (r *Random) value() []byte {
	v := make([]byte, r.size, r.size+8)
	for at := 0; at < r.size; at += 8 {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], r.rnd.Uint64())
		for i, x := range b {
			b[i] = letters[x]
		}
		copy(v[at:], b[:])
	}
	return v
}

// letters maps a random byte to one of 36 characters.
var letters = func() (t [256]byte) {
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
	for i := range t {
		t[i] = alphabet[i*len(alphabet)/len(t)]
	}
	return t
}()
