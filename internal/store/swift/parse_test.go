package swift

import (
	"strings"
	"testing"
	"time"
)

func FuzzNamesOfSegmentsAreThoseWeMakeAndTheOriginals(f *testing.F) {
	f.Add("a/k/0000000001")
	f.Add("a/k/druid-ABCDEFGHIJKLMNOPQRSTUVWXYZ-00000001")
	f.Add("/0000000001")
	f.Fuzz(func(t *testing.T, name string) {
		key, is := segmentOf(name)
		if !is {
			return
		}
		if key == "" || !strings.HasPrefix(name, key+"/") || strings.Contains(name[len(key)+1:], "/") {
			t.Errorf("%q is taken for a segment of %q", name, key)
		}
	})
}

func TestNamesOfOurOwnSegmentsAreRecognised(t *testing.T) {
	const nonce = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, number := range []int{0, 1, 1000, trialNumber} {
		name := segmentKey("a/k", nonce, number)
		if key, is := segmentOf(name); key != "a/k" || !is {
			t.Errorf("segmentOf(%q) = %q, %v", name, key, is)
		}
		if len(name) != len("a/k")+segmentBytes {
			t.Errorf("%q is not longer by %d", name, segmentBytes)
		}
	}
}

func FuzzTheMediaTypeTellsASizeOrNone(f *testing.F) {
	f.Add("application/x-druid-large; size=5")
	f.Add("application/x-druid-large;size=-5")
	f.Fuzz(func(t *testing.T, s string) {
		if size, told := sizeInType(s); told && (size < 0 || !strings.HasPrefix(s, largeType)) {
			t.Errorf("sizeInType(%q) = %d", s, size)
		}
	})
}

func TestTheMediaTypeTellsTheSizeItWasMadeWith(t *testing.T) {
	for _, size := range []int64{0, 1, 1 << 40} {
		if got, told := sizeInType(largeTypeOf(size)); got != size || !told {
			t.Errorf("%q is read as %d, %v", largeTypeOf(size), got, told)
		}
	}
}

func FuzzTimesOfListingsAreReadOrRefused(f *testing.F) {
	f.Add("2026-11-20T13:19:02.123456")
	f.Add("2026-11-20T13:19:02Z")
	f.Fuzz(func(t *testing.T, s string) {
		if at, err := parseTime(s); err == nil && at.Location() != time.UTC {
			t.Errorf("%q is read as %s", s, at)
		}
	})
}
