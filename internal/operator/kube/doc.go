// Package kube sends objects to the API server: as the one field manager of the operator, and only what
// is not there already.
//
// It does not know what the objects are for, and reads none by itself unless something must be
// changed: the caller has what its cache holds.
package kube
