package azure

import (
	"net/http"
	"net/url"
)

// eachRole is where the rights of each role are listed.
const eachRole = " to this identity or SAS (docs/operations/permissions.md lists what each role needs)"

// grant is the remedy for a request that was refused: the action that it needs, and the letter of
// a SAS. The service does not name them.
func grant(r *http.Request) string {
	if r == nil || r.URL == nil {
		return "grant the action" + eachRole
	}
	return "grant " + actionOf(r.Method, r.URL.Query()) + eachRole
}

// actionOf is the action that a request needs, below
// Microsoft.Storage/storageAccounts/blobServices/containers/.
func actionOf(method string, q url.Values) string {
	version := q.Has("versionid")
	switch comp := q.Get("comp"); {
	case comp == "list":
		return "blobs/read (SAS: l)"
	case comp == "tags" && method == http.MethodPut:
		return "blobs/tags/write (SAS: t)"
	case comp == "tags":
		return "blobs/tags/read (SAS: t)"
	case comp == "immutabilityPolicies", comp == "legalhold":
		return "blobs/immutableStorage/runAsSuperUser/action (SAS: i)"
	case q.Get("restype") == "container" && method == http.MethodPut:
		return "write of containers (SAS: c)"
	case q.Get("restype") == "container" && method == http.MethodDelete:
		return "delete of containers (SAS: d)"
	case q.Get("restype") == "container":
		return "read of the container (SAS: r)"
	case method == http.MethodDelete && version:
		return "blobs/deleteBlobVersion/action (SAS: x)"
	case method == http.MethodDelete:
		return "blobs/delete (SAS: d)"
	case method == http.MethodPut:
		return "blobs/write and blobs/add/action (SAS: w and c)"
	}
	return "blobs/read (SAS: r)"
}
