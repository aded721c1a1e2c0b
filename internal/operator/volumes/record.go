package volumes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Record is what was done about the volumes of a member, or is about to be. It is written before
// anything is destroyed, into an annotation of the EtcdMember. A step whose record names the claim or
// pod that is still there was not finished; one whose record names another was, and is not
// repeated for the same size or volume.
type Record struct {
	Grow    *Grown    `json:"grow,omitempty"`
	Replace *Replaced `json:"replace,omitempty"`
	Restart *Restart  `json:"restart,omitempty"`
}

// Grown is a claim that was deleted to have a larger one made.
type Grown struct {
	Size  resource.Quantity `json:"size"`
	Claim string            `json:"claim"` // its UID
	At    time.Time         `json:"at"`
}

// Replaced is a claim that was deleted because its volume was read-only.
type Replaced struct {
	Volume string    `json:"volume"`
	Claim  string    `json:"claim"` // its UID
	At     time.Time `json:"at"`
}

// Restart is a pod that was deleted because a wrong volume was mounted in it.
type Restart struct {
	Volumes []string  `json:"volumes"` // the newest last
	Pod     string    `json:"pod"`     // its UID, of the newest
	At      time.Time `json:"at"`
}

// maxVolumes is how many wrong volumes are remembered.
const maxVolumes = 10

// ParseRecord reads what String wrote; an empty text is an empty record.
func ParseRecord(text string) (Record, error) {
	var r Record
	if text == "" {
		return r, nil
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Record{}, fmt.Errorf("read %q: %w", text, err)
	}
	if d.More() {
		return Record{}, fmt.Errorf("read %q: there is more behind it", text)
	}
	return r, nil
}

func (r Record) String() string {
	b, err := json.Marshal(r)
	if err != nil {
		return err.Error() // not of texts and times
	}
	return string(b)
}

// deletes says that the claim was written down to be deleted.
func (r Record) deletes(claim string) bool {
	return claim != "" && (r.Grow != nil && r.Grow.Claim == claim || r.Replace != nil && r.Replace.Claim == claim)
}

// deleted is the UID of the claim that was written down to be deleted last, and what for; empty: none was.
func (r Record) deleted() (claim string, about About) {
	switch {
	case r.Grow != nil && (r.Replace == nil || r.Grow.At.After(r.Replace.At)):
		return r.Grow.Claim, AboutGrowth
	case r.Replace != nil:
		return r.Replace.Claim, AboutSickness
	}
	return "", ""
}

// restarted says that the pod was written down to be deleted for the volume, or for which a former
// one was.
func (r Record) restarted(volume string) bool {
	return r.Restart != nil && slices.Contains(r.Restart.Volumes, volume)
}

// restart is the record with another restart.
func (r Record) restart(volume, pod string, now time.Time) Record {
	var all []string
	if r.Restart != nil {
		all = slices.Clone(r.Restart.Volumes)
	}
	if all = append(all, volume); len(all) > maxVolumes {
		all = all[len(all)-maxVolumes:]
	}
	r.Restart = &Restart{Volumes: all, Pod: pod, At: now}
	return r
}
