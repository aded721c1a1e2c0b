package linear

import (
	"context"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Recorder records what its clients do. It may be used concurrently.
type Recorder struct {
	begun time.Time

	mu  sync.Mutex
	ops []Operation
}

// NewRecorder begins a record.
func NewRecorder() *Recorder { return &Recorder{begun: time.Now()} }

// Operations are what was recorded so far, in the order of the calls.
func (r *Recorder) Operations() []Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	ops := slices.Clone(r.ops)
	slices.SortFunc(ops, func(a, b Operation) int { return int(a.Call - b.Call) })
	return ops
}

// Count is how many operations were recorded so far.
func (r *Recorder) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ops)
}

// Since is the time of the record, as operations have it.
func (r *Recorder) Since() time.Duration { return time.Since(r.begun) }

// Client does operations and records them. It does one at a time.
type Client struct {
	id int
	kv clientv3.KV
	r  *Recorder
}

// Client makes a client that is known in the record by its id.
func (r *Recorder) Client(id int, kv clientv3.KV) *Client { return &Client{id: id, kv: kv, r: r} }

// Get reads a key. A read without an answer is not recorded: it changes nothing.
func (c *Client) Get(ctx context.Context, key string) (Operation, error) {
	return c.do(Operation{Kind: Get, Key: key}, func(o *Operation) error {
		r, err := c.kv.Get(ctx, key)
		if err != nil {
			return err
		}
		o.Revision = r.Header.Revision
		o.found(r)
		return nil
	})
}

// Put writes a value that nobody else writes.
func (c *Client) Put(ctx context.Context, key, value string) (Operation, error) {
	return c.do(Operation{Kind: Put, Key: key, Value: value}, func(o *Operation) error {
		r, err := c.kv.Put(ctx, key, value)
		if err != nil {
			return err
		}
		o.Revision = r.Header.Revision
		return nil
	})
}

// Swap writes a value that nobody else writes if the key's mod revision is expect (0: if there is
// no such key), and reads the key if it is not.
func (c *Client) Swap(ctx context.Context, key string, expect int64, value string) (Operation, error) {
	return c.do(Operation{Kind: Swap, Key: key, Value: value, Expect: expect}, func(o *Operation) error {
		r, err := c.kv.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(key), "=", expect)).
			Then(clientv3.OpPut(key, value)).
			Else(clientv3.OpGet(key)).
			Commit()
		if err != nil {
			return err
		}
		o.Revision, o.Done = r.Header.Revision, r.Succeeded
		if !o.Done {
			o.found((*clientv3.GetResponse)(r.Responses[0].GetResponseRange()))
		}
		return nil
	})
}

// Delete deletes a key.
func (c *Client) Delete(ctx context.Context, key string) (Operation, error) {
	return c.do(Operation{Kind: Delete, Key: key}, func(o *Operation) error {
		r, err := c.kv.Delete(ctx, key)
		if err != nil {
			return err
		}
		o.Revision, o.Done = r.Header.Revision, r.Deleted > 0
		return nil
	})
}

func (o *Operation) found(r *clientv3.GetResponse) {
	if o.Found = len(r.Kvs) > 0; o.Found {
		o.Read, o.Mod = string(r.Kvs[0].Value), r.Kvs[0].ModRevision
	}
}

func (c *Client) do(o Operation, ask func(*Operation) error) (Operation, error) {
	o.Client = c.id
	o.Call = c.r.Since()
	err := ask(&o)
	o.Return = c.r.Since()
	if err != nil {
		if o.Kind == Get {
			return o, err
		}
		o.Unknown, o.Err = true, err.Error()
	}
	c.r.mu.Lock()
	c.r.ops = append(c.r.ops, o)
	c.r.mu.Unlock()
	return o, err
}
