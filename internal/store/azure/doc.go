// Package azure keeps backups in Azure Blob Storage: immutability of containers and of single
// versions, legal holds, index tags, conditional writes.
//
// Blobs are written block by block and committed by a request of our own. The convenience
// methods of the SDK must not take its place: UploadFile and UploadBuffer silently drop the
// condition If-None-Match for anything above 256 MiB, and UploadStream knows no immutability.
//
// A container can be protected in two ways. A policy of the container locks every blob in it
// from its creation for a number of days; it is told in full only by the management API. With
// version-level immutability each version carries a date of its own. What neither tells is
// unknown, never "unprotected".
//
// Azure has no delete markers: deleting a blob by its name leaves its versions and makes none
// of them the current one. Blocks that were sent and never committed are invisible, and Azure
// removes them after a week.
//
// Only [Admin] creates and configures containers. The package does not read the environment except for
// the ambient identity of the SDK, and does not retry across calls: the SDK repeats a single
// request a few times, the rest is package retry's.
package azure
