// Package webhook protects the objects of Etcds: they are changed and deleted by the operator and by
// those who must, and by nobody else unless the Etcd says so.
//
//	configuration.go   which requests the API server sends here: those about our objects, and no others
//	decide.go          who may; pure
//	handler.go         requests as the API server puts them, and where Etcds are looked up
//
// Whoever must never wait for a webhook, the operator, the controllers of Kubernetes and the members with
// their heartbeats, is not sent here at all. So an outage of all operators holds up nobody but people
// who want to change a protected object.
//
// It protects no pods, which are evicted and deleted as everywhere, and no Secrets that an Etcd names:
// an admission policy does that. Certificates are in package certs.
package webhook
