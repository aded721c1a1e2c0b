// Package codec reads and writes the payloads of snapshots: the events of a delta in the
// original's JSON form and in our native form, and the compression around both kinds of
// snapshot. The native form is described byte by byte in docs/format/delta.md.
//
// Both directions stream: memory is bounded by the largest single event and a few buffers,
// never by the size of a delta. Packed and unpacked bytes are verified while they pass, and a
// reader reports io.EOF only when everything it was given turned out whole.
//
// It knows no store, no etcd client and no database, does not judge whether a delta continues
// another one, and does not verify the trailer inside an etcd database file.
package codec
