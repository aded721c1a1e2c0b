// Package collector removes from a bucket what a retention policy lets go. It looks, decides
// (package retention), shows the decision as a Plan, and carries it out one version at a time.
//
// It is the only package that is given a store.Deleter. A plan is permission, not an order:
// Execute looks at the bucket again and deletes only what a fresh decision lets go as well, asks
// the store about every version right before deleting it, and takes the store's refusal as the
// last word. It decides nothing about what is worth keeping and never touches owner records or
// anything it does not understand.
package collector
