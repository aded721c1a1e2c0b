// Package azworm stands before Azurite and adds what it lacks of Azure Blob Storage: blob
// versions, immutability of containers and of versions, legal holds, and the part of the
// management API that sets them up. Requests and contents go through to Azurite; the rules are
// decided here.
//
// The rules are what Microsoft documents, not what was observed. Each names the page:
//
//	[container]  learn.microsoft.com/azure/storage/blobs/immutable-container-level-worm-policies
//	[version]    learn.microsoft.com/azure/storage/blobs/immutable-version-level-worm-policies
//	[period]     learn.microsoft.com/azure/storage/blobs/immutable-time-based-retention-policy-overview
//	[hold]       learn.microsoft.com/azure/storage/blobs/immutable-legal-hold-overview
//	[versioning] learn.microsoft.com/azure/storage/blobs/versioning-overview
//	[codes]      learn.microsoft.com/rest/api/storageservices/blob-service-error-codes
//	[sharedkey]  learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
//	[rbac]       learn.microsoft.com/azure/role-based-access-control/troubleshooting
//	[sas]        learn.microsoft.com/rest/api/storageservices/create-account-sas
//	[actions]    learn.microsoft.com/rest/api/storageservices/authorize-with-azure-active-directory
//	[list]       learn.microsoft.com/rest/api/storageservices/list-blobs
//
// Time can be moved forward, and the Date of answers moves with it. Versions are kept for the
// containers that have version-level immutability and for no others, although in Azure it is
// the whole account that keeps them or not. What the state of a container is lives in memory:
// the shim and its Azurite begin and end together, and everything must be written through it.
package azworm
