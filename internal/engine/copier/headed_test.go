package copier

import (
	"errors"
	"strings"
	"testing"

	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/fetch"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// A native delta tells its digest in its own header, which cannot cover the header itself.
func TestNativeDeltasAreProvenByTheirHeaders(t *testing.T) {
	for way, wrap := range ways() {
		t.Run(way, func(t *testing.T) {
			from, to := enginetest.Native(t), newBucket(t, storetest.S3Like())
			c, err := New(Source{from, enginetest.Prefix}, Destination{wrap(to), newHome}, to.options())
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range mustRun(t, c).Items {
				if i.State != Copied || i.Proof == "" || i.Proof == AsRead {
					t.Errorf("%+v", i)
				}
			}
			c.opts.Verify = true
			for _, i := range mustRun(t, c).Items {
				if i.State != Copied || i.Proof != ReadBack || i.How != Existing {
					t.Errorf("read back: %+v", i)
				}
			}
			if got := enginetest.Windows(to.timeline(newHome)); len(got) != 1 || !strings.HasSuffix(got[0], "204-871") {
				t.Errorf("the copy is restorable to %v", got)
			}
		})
	}
}

func TestAFlippedBitInANativeDeltaIsNotStreamed(t *testing.T) {
	whole := enginetest.Native(t)
	victim := enginetest.Key(enginetest.Delta856)
	versions := whole.Versions(victim)
	size := int(versions[0].Size)
	for name, offset := range map[string]int{"in the middle": size / 2, "the last byte": size - 1} {
		t.Run(name, func(t *testing.T) {
			from, to := enginetest.Native(t), newBucket(t, storetest.S3Like())
			from.Flip(store.Version{Key: victim, ID: from.Versions(victim)[0].ID}, offset)
			c, err := New(Source{from, enginetest.Prefix}, Destination{ways()["streamed"](to), newHome}, to.options())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := run(t, c); !errors.Is(err, fetch.ErrDamaged) {
				t.Errorf("copy = %v, want %v", err, fetch.ErrDamaged)
			}
			for _, k := range to.keys(newHome) {
				if strings.HasPrefix(k, "Incr-00000205-") {
					t.Errorf("%s arrived", k)
				}
			}
		})
	}
}
