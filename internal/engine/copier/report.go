package copier

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
)

// How tells how an object came to the destination.
type How string

// The ways.
const (
	ServerSide How = "server-side" // copied inside the store
	Streamed   How = "streamed"    // through us, its digest computed on the way
	Existing   How = "existing"    // it was there already
)

// Proof tells by what the copy of an object is known to be its source. Where the source records
// a digest, of the object in its manifest or of the payload in the header of a native delta,
// that is what is compared; else the digest is that of the bytes read from the source.
type Proof string

// The proofs.
const (
	ReadBack   Proof = "read back"  // the copy was read, and its SHA-256 compared
	OnTheWay   Proof = "on the way" // the SHA-256 of the bytes sent was compared with the recorded one
	AsRead     Proof = "as read"    // nothing records a digest; the SHA-256 is that of the bytes read and sent
	ByRecord   Proof = "record"     // an earlier run read or sent exactly this version, by the local record
	ByManifest Proof = "manifest"   // an earlier run described it with a manifest, which it writes only after one of the above, and it was not overwritten since
)

// Item is what became of one snapshot.
type Item struct {
	From    string          `json:"from"`
	To      string          `json:"to"`
	Version string          `json:"version,omitempty"` // at the destination
	State   Status          `json:"state"`
	How     How             `json:"how,omitempty"`
	Size    int64           `json:"size"`
	Digest  snapshot.Digest `json:"digest,omitzero"` // of the bytes that arrived, where they were seen
	Proof   Proof           `json:"proof,omitempty"` // of what was copied
	Why     string          `json:"why,omitempty"`   // why it was not copied

	modified time.Time // at the destination, told before its bytes were read back; zero: not known
}

// Report is what a copy did.
type Report struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Items []Item `json:"items"`
}

// Count is how many snapshots ended in one state.
func (r Report) Count(s Status) int {
	n := 0
	for _, i := range r.Items {
		if i.State == s {
			n++
		}
	}
	return n
}

// WriteTable prints the report for people.
func (r Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "OBJECT\tBYTES\tSTATE\tHOW\tPROOF\tWHY")
	for _, i := range r.Items {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\n", i.To, i.Size, i.State, dash(string(i.How)), dash(string(i.Proof)), dash(i.Why))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s -> %s: copied %d, not found %d, not copied %d\n", r.From, r.To, r.Count(Copied), r.Count(NotFound), r.Count(None))
	return err
}
