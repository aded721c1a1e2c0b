// Package auth is how the programs of a member trust each other: certificates and authorities in
// PEM files, and bearer tokens in a file. All of them take effect when the files change, without a
// restart: the files are read at every handshake and every call, and compared by content, so that
// no rotation is overlooked because times or sizes are the same.
//
// A certificate, key or authority that cannot be used after a change leaves the former in use: a
// rotation that replaces one file after the other passes through such states. Tokens are different:
// what is not in the file is not accepted, because taking a token out is how it is revoked.
//
// It knows no path of the interface and decides only who somebody is, never what he may do.
package auth
