package history

import (
	"context"
	"fmt"
	"math/rand"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Load writes random but reproducible changes of every kind: puts, deletes, range deletes,
// transactions of many operations, and leases that are granted, used and revoked.
type Load struct {
	c      *clientv3.Client
	r      *rand.Rand
	keys   int // distinct keys per family
	leases []clientv3.LeaseID
}

// NewLoad makes a load; equal seeds do the same in the same order.
func NewLoad(c *clientv3.Client, seed int64, keys int) *Load {
	return &Load{c: c, r: rand.New(rand.NewSource(seed)), keys: keys}
}

func (l *Load) key() string {
	families := []string{"configmaps/default", "secrets/kube-system", "leases/kube-node-lease", "пространство/имён"}
	return fmt.Sprintf("/registry/%s/%05d", families[l.r.Intn(len(families))], l.r.Intn(l.keys))
}

func (l *Load) value() string {
	n := l.r.Intn(400)
	if l.r.Intn(50) == 0 {
		n = 20_000
	}
	return fmt.Sprintf("%08x", l.r.Uint32()) + strings.Repeat("v", n)
}

// Step does one request and returns the revision after it.
func (l *Load) Step(ctx context.Context) (int64, error) {
	switch x := l.r.Intn(100); {
	case x < 10:
		r, err := l.c.Delete(ctx, l.key())
		if err != nil {
			return 0, err
		}
		return r.Header.Revision, nil
	case x < 12:
		k := l.key()
		r, err := l.c.Delete(ctx, k[:len(k)-2], clientv3.WithPrefix())
		if err != nil {
			return 0, err
		}
		return r.Header.Revision, nil
	case x < 30:
		return l.transaction(ctx)
	case x < 33:
		g, err := l.c.Grant(ctx, 3600+int64(l.r.Intn(1000)))
		if err != nil {
			return 0, err
		}
		l.leases = append(l.leases, g.ID)
		return g.Revision, nil
	case x < 42 && len(l.leases) > 0:
		r, err := l.c.Put(ctx, l.key(), l.value(), clientv3.WithLease(l.leases[l.r.Intn(len(l.leases))]))
		if err != nil {
			return 0, err
		}
		return r.Header.Revision, nil
	case x < 43 && len(l.leases) > 3:
		i := l.r.Intn(len(l.leases))
		r, err := l.c.Revoke(ctx, l.leases[i])
		if err != nil {
			return 0, err
		}
		l.leases = append(l.leases[:i], l.leases[i+1:]...)
		return r.Header.Revision, nil
	}
	r, err := l.c.Put(ctx, l.key(), l.value())
	if err != nil {
		return 0, err
	}
	return r.Header.Revision, nil
}

// transaction puts and deletes several distinct keys at one revision.
func (l *Load) transaction(ctx context.Context) (int64, error) {
	var ops []clientv3.Op
	used := map[string]bool{}
	for range 1 + l.r.Intn(25) {
		k := l.key()
		if used[k] {
			continue
		}
		used[k] = true
		if l.r.Intn(3) == 0 {
			ops = append(ops, clientv3.OpDelete(k))
		} else {
			ops = append(ops, clientv3.OpPut(k, l.value()))
		}
	}
	r, err := l.c.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return 0, err
	}
	return r.Header.Revision, nil
}
