// Package agentapi is the HTTP contract of the backup sidecar: the paths, who may call them, what
// they answer, and a client. The sidecars call each other by it, the wrapper and the operator call
// them.
//
// Paths, words and field names that the original has are kept, typing errors included. It serves
// nothing and decides nothing.
package agentapi
