// Package codec reads and writes the payloads of snapshots: the events of a delta in the
// original's JSON form and in our native form, and the compression around both kinds of
// snapshot. It knows no store, no etcd client and no database.
package codec
