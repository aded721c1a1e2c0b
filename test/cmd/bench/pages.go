package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"

	"druid.internal/druid/test/stores"
)

// listed serves the listing of one bucket of Google's, page by page, and nothing else:
// fake-gcs-server would need hours to take so many objects, since each costs it a copy of all.
type listed struct {
	*httptest.Server
	ca    *stores.CA
	count atomic.Int64
}

// pageObjects is the most that Google puts into one page.
const pageObjects = 1000

func startListed() (*listed, error) {
	ca, err := stores.NewCA()
	if err != nil {
		return nil, err
	}
	tls, err := ca.ServerTLS("127.0.0.1")
	if err != nil {
		return nil, err
	}
	l := &listed{ca: ca}
	l.Server = httptest.NewUnstartedServer(http.HandlerFunc(l.serve))
	l.TLS = tls
	l.StartTLS()
	return l, nil
}

func (l *listed) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if !strings.HasSuffix(r.URL.Path, "/o") {
		fmt.Fprint(w, `{"kind":"storage#bucket","id":"listing","name":"listing","location":"EU","metageneration":"1"}`)
		return
	}
	first, _ := strconv.ParseInt(r.URL.Query().Get("pageToken"), 10, 64) // none: 0
	page := map[string]any{"kind": "storage#objects"}
	var items []map[string]any
	last := min(first+pageObjects, l.count.Load())
	for i := first; i < last; i++ {
		generation := strconv.FormatInt(1_700_000_000_000_000+i, 10)
		items = append(items, map[string]any{
			"kind": "storage#object", "id": "listing/" + smallKey(i) + "/" + generation, "name": smallKey(i), "bucket": "listing",
			"generation": generation, "metageneration": "1", "contentType": "application/octet-stream", "storageClass": "STANDARD", "size": "1",
			"md5Hash": "nN19tTWB3mxTfnoPO5WOrw==", "crc32c": "bXaWiA==", "etag": "CI+gs+6i7vwCEAE=", "timeCreated": "2026-11-20T10:00:00.000Z", "updated": "2026-11-20T10:00:00.000Z",
		})
	}
	page["items"] = items
	if last < l.count.Load() {
		page["nextPageToken"] = strconv.FormatInt(last, 10)
	}
	_ = json.NewEncoder(w).Encode(page) // the child sees a broken answer itself
}

// smallKey names small object i as snapshots are.
func smallKey(i int64) string {
	return fmt.Sprintf("ns--uid/etcd-main/v2/Incr-%08d-%08d-%d.zst", i*100+1, i*100+100, 1_700_000_000+i)
}
