// Package hosttest gives tests addresses of this machine.
package hosttest

import (
	"fmt"
	"math/rand/v2"
	"sync"
)

// given are the addresses this process has, so that it gets none twice.
var given sync.Map

// Own is an address of the loopback network that no other test uses, so that every port of it is free, now
// and after a server that was there has ended. A port of 127.0.0.1 that was free a moment ago may be the near
// end of somebody's connection by now.
func Own() string {
	for {
		host := fmt.Sprintf("127.%d.%d.%d", 16+rand.IntN(200), rand.IntN(256), 1+rand.IntN(254))
		if _, taken := given.LoadOrStore(host, true); !taken {
			return host
		}
	}
}

// Nobody is an address with a port at which nobody listens, and nobody will.
func Nobody() string { return Own() + ":2379" }
