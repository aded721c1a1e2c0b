// Package serve is the HTTP server of the sidecar: who may call what, calls that only the backup
// leader can answer, and the form of the answers. What there is to answer it gets as functions.
//
// It decides nothing about the member, and it starts nothing that outlives a call.
package serve
