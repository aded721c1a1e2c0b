// Package restoreplan decides how to restore: which full to begin with, which deltas to apply
// in which order and where to stop, or why there is no way.
//
// It reads no object, so it knows of content only what manifests, headers and names tell. A
// restorer that finds a version damaged, or a full ahead of its name, says so in Options and
// plans again; the plan then takes another way or tells why there is none.
package restoreplan
