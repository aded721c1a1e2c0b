// Package httpserver serves HTTP as the programs of a member do it: HTTP/1.1, with or without TLS,
// until a context ends. It bounds what a client can cost: headers, bodies, and the time it takes to
// send a call or to read an answer. How long the work for an answer takes it does not bound. A panic
// costs the call it happened in, not the process.
//
// It knows no path and no credential; package auth judges those.
package httpserver
