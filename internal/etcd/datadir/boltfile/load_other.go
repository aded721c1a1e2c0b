//go:build !linux

package boltfile

// Load brings n bytes of the file into memory, from off on.
func (r *Reader) Load(off, n int64) error { return r.read(off, min(n, r.Size()-off)) }
