package codec

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"druid.internal/druid/internal/backup/snapshot"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// signed appends the digest of the content to it.
func signed(content []byte) []byte {
	sum := sha256.Sum256(content)
	return append(bytes.Clone(content), sum[:]...)
}

func TestWhatIsWrittenIsReadInBothFormatsWithEverySuffix(t *testing.T) {
	for name, c := range suffixes {
		t.Run(name, func(t *testing.T) {
			all := history(rand.New(rand.NewPCG(1, uint64(len(name)))), 205, 400)
			want := wantRecords(t, all)
			_, asJSON := seal(t, all, DeltaOptions{Format: V2JSON, Compression: c})
			objects := map[Format][]byte{V2JSON: asJSON}
			if c == snapshot.Zstd {
				_, objects[Native] = seal(t, all, DeltaOptions{})
			}
			for format, object := range objects {
				for _, batch := range []int{0, 1, 1000} {
					got, d, err := readAll(iotest.HalfReader(bytes.NewReader(object)), c, ReaderOptions{BatchBytes: batch})
					if err != nil {
						t.Fatalf("%s with batches of %d: %v", format, batch, err)
					}
					if d.Format() != format || (d.Header() != nil) != (format == Native) {
						t.Errorf("recognised %s with header %v, want %s", d.Format(), d.Header(), format)
					}
					if diff := diffRecords(want, got); diff != "" {
						t.Fatalf("%s with batches of %d (-want +got):\n%s", format, batch, diff)
					}
					if d.First() != 205 || d.Last() != 604 || d.Events() != int64(len(want)) {
						t.Errorf("read %d..%d with %d events, want 205..604 with %d", d.First(), d.Last(), d.Events(), len(want))
					}
				}
			}
		})
	}
}

func TestRandomHistoriesComeBackFromBothFormats(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		all := history(r, 1+r.Int64N(1<<40), 1+r.IntN(60))
		want := wantRecords(t, all)
		_, native := seal(t, all, DeltaOptions{MemoryLimit: int64(r.IntN(3000)) - 1})
		_, asJSON := seal(t, all, DeltaOptions{Format: V2JSON})
		if reference := referenceJSON(t, all); !bytes.Equal(asJSON, reference) {
			t.Fatalf("seed %d: the JSON form is not byte for byte what encoding/json makes of the events", seed)
		}
		for c, object := range map[snapshot.Compression][]byte{snapshot.Zstd: native, snapshot.None: asJSON} {
			got, _, err := readAll(bytes.NewReader(object), c, ReaderOptions{BatchBytes: 1 + r.IntN(2000)})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if diff := diffRecords(want, got); diff != "" {
				t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
			}
		}
	}
}

func TestDeltasOfTheOriginalAreRead(t *testing.T) {
	objects, err := filepath.Glob("testdata/original/Incr-*")
	if err != nil || len(objects) != 4 {
		t.Fatalf("found %d deltas, want 4 (%v)", len(objects), err)
	}
	for _, path := range objects {
		t.Run(filepath.Base(path), func(t *testing.T) {
			name, err := snapshot.ParseName(filepath.Base(path))
			if err != nil {
				t.Fatal(err)
			}
			object, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			content := unpack(t, object, name.Compression)
			want, reason := referenceRecords(content[:len(content)-sha256.Size])
			if reason != "" {
				t.Fatal(reason)
			}
			got, d, err := readAll(bytes.NewReader(object), name.Compression, ReaderOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := diffRecords(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if d.First() != name.Start || d.Last() != name.Last {
				t.Errorf("revisions %d..%d, the name says %d..%d", d.First(), d.Last(), name.Start, name.Last)
			}
		})
	}
}

func TestAnyValidJSONMeansTheSameAsToEncodingJSON(t *testing.T) {
	const put = `{"etcdEvent":{"kv":{"key":"Zm9v","create_revision":2,"mod_revision":2,"version":1,"value":"YmFy"}},"time":"2026-01-01T00:00:00.000000001Z"}`
	tests := map[string]string{
		"the usual shape":                       `[` + put + `]`,
		"nothing":                               `[]`,
		"white space everywhere":                " \n[\t" + strings.ReplaceAll(strings.ReplaceAll(put, ":{", " : { "), ",", " ,\r\n") + " ] \n\t ",
		"fields in another order":               `[{"time":"2026-01-01T00:00:00Z","etcdEvent":{"kv":{"value":"YmFy","version":1,"mod_revision":2,"create_revision":2,"key":"Zm9v"},"type":0}}]`,
		"escapes":                               `[{"etcdEvent":{"kv":{"key":"\u005am9v","create_revision":2,"mod_revision":2,"version":1,"value":"Y\u006dFy"}},"time":"2026-01-01T00:00:00Z"}]`,
		"unknown fields":                        `[{"note":{"brace":"}\"{","list":[{}]},"etcdEvent":{"kv":{"key":"Zm9v","create_revision":2,"mod_revision":2,"version":1,"x":null}},"time":"2026-01-01T00:00:00Z"}]`,
		"a previous value":                      `[{"etcdEvent":{"kv":{"key":"Zm9v","create_revision":2,"mod_revision":3,"version":2},"prev_kv":{"key":"Zm9v","mod_revision":2}},"time":"2026-01-01T00:00:00Z"}]`,
		"no time":                               `[{"etcdEvent":{"kv":{"key":"Zm9v","create_revision":2,"mod_revision":2,"version":1}}}]`,
		"a time with an offset":                 `[{"etcdEvent":{"kv":{"key":"Zm9v","create_revision":2,"mod_revision":2,"version":1}},"time":"2026-01-01T00:00:00+05:30"}]`,
		"a lease of 19 digits":                  `[{"etcdEvent":{"kv":{"key":"Zm9v","create_revision":2,"mod_revision":2,"version":1,"lease":9223372036854775807}},"time":"2026-01-01T00:00:00Z"}]`,
		"a lease below zero":                    `[{"etcdEvent":{"kv":{"key":"Zm9v","create_revision":2,"mod_revision":2,"version":1,"lease":-4}},"time":"2026-01-01T00:00:00Z"}]`,
		"a deletion with a value":               `[{"etcdEvent":{"type":1,"kv":{"key":"Zm9v","create_revision":2,"mod_revision":2,"version":1,"value":"YmFy","lease":3}},"time":"2026-01-01T00:00:00Z"}]`,
		"a digest that begins like white space": spaceDigest(put),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			want, reason := referenceRecords([]byte(text))
			if reason != "" {
				t.Fatalf("the reference refuses it: %s", reason)
			}
			got, _, err := readAll(iotest.OneByteReader(bytes.NewReader(signed([]byte(text)))), snapshot.None, ReaderOptions{BatchBytes: 1})
			if err != nil {
				t.Fatal(err)
			}
			if diff := diffRecords(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// spaceDigest varies the white space behind the array until the digest begins with a space.
func spaceDigest(element string) string {
	for n := 0; ; n++ {
		text := "[" + element + "]" + fmt.Sprintf("%*s", n%97, "") + strings.Repeat("\n", n/97)
		if sum := sha256.Sum256([]byte(text)); isSpace(sum[0]) {
			return text
		}
	}
}

// referenceRecords decodes the JSON form the simple way, or says why it does not stand.
func referenceRecords(text []byte) (all []Record, reason string) {
	var events []jsonEvent
	if err := json.Unmarshal(text, &events); err != nil {
		return nil, err.Error()
	}
	if !looksLikeJSON(text) {
		return nil, "not an array"
	}
	var last, sub, received int64
	for _, e := range events {
		if e.EtcdEvent == nil || e.EtcdEvent.Kv == nil || len(e.EtcdEvent.Kv.Key) == 0 {
			return nil, "no key"
		}
		kv := e.EtcdEvent.Kv
		if sub++; kv.ModRevision != last {
			if kv.ModRevision < 1 || last != 0 && kv.ModRevision != last+1 {
				return nil, "revisions"
			}
			last, sub, received = kv.ModRevision, 0, 0
			if !e.Time.IsZero() {
				if y := e.Time.UTC().Year(); y < 1970 || y > 2261 {
					return nil, "time"
				}
				received = e.Time.UnixNano()
			}
		} else if y := e.Time.UTC().Year(); !e.Time.IsZero() && (y < 1970 || y > 2261) {
			return nil, "time"
		}
		r := Record{Main: snapshot.Revision(kv.ModRevision), Sub: sub, Received: received, Key: kv.Key}
		stored := mvccpb.KeyValue{Key: kv.Key}
		switch e.EtcdEvent.Type {
		case mvccpb.DELETE:
			r.Tombstone = true
		case mvccpb.PUT:
			if kv.Version < 1 || kv.CreateRevision < 1 || kv.CreateRevision > kv.ModRevision {
				return nil, "put"
			}
			stored = *kv
			r.Create, r.Version, r.Lease = snapshot.Revision(kv.CreateRevision), kv.Version, kv.Lease
		default:
			return nil, "type"
		}
		var err error
		if r.Value, err = stored.Marshal(); err != nil {
			return nil, err.Error()
		}
		all = append(all, r)
	}
	return all, ""
}

func TestAHugeEventAndAHugeRevisionPass(t *testing.T) {
	key := func(i int) []byte { return fmt.Appendf(nil, "/registry/bulk/%06d", i) }
	big := &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: key(0), CreateRevision: 2, ModRevision: 2, Version: 1, Value: bytes.Repeat([]byte("50 MB of value. "), 50<<20/16)}}
	wide := make([]*mvccpb.Event, 25_000)
	for i := range wide {
		wide[i] = &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: key(i + 1), CreateRevision: 3, ModRevision: 3, Version: 1, Value: bytes.Repeat(key(i), 20)}}
	}
	all := []response{{testEpoch, []*mvccpb.Event{big}}, {testEpoch, wide}}
	for format, c := range map[Format]snapshot.Compression{Native: snapshot.Zstd, V2JSON: snapshot.None} {
		_, object := seal(t, all, DeltaOptions{Format: format, SpillDir: t.TempDir(), MemoryLimit: 1 << 10})
		got, _, err := readAll(bytes.NewReader(object), c, ReaderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := diffRecords(wantRecords(t, all), got); diff != "" {
			t.Errorf("%s (-want +got):\n%.2000s", format, diff)
		}
		if _, _, err := readAll(bytes.NewReader(object), c, ReaderOptions{MaxEventBytes: 1 << 20}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s over the bound for events: %v, want ErrTooLarge", format, err)
		}
	}
}

func TestWrongContentIsNamed(t *testing.T) {
	event := func(rev int64) string {
		return fmt.Sprintf(`{"etcdEvent":{"kv":{"key":"Zm9v","create_revision":1,"mod_revision":%d,"version":1}},"time":"2026-01-01T00:00:00Z"}`, rev)
	}
	asJSON := func(elements ...string) []byte { return signed([]byte("[" + strings.Join(elements, ",") + "]")) }
	nativeEvent := func(rev int64) []byte {
		return appendEvent(nil, change{create: 1, mod: rev, version: 1}, []byte("foo"), nil, 0)
	}
	nativeNext := appendEvent(nil, change{create: 1, mod: 8, version: 1}, []byte("foo"), nil, 8)
	native := func(entries ...[]byte) []byte {
		return append(append([]byte(nativeMagic), bytes.Join(entries, nil)...), 0, markEnd)
	}
	var gap *GapError
	var order *OrderError
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	isGap := func(err error) bool {
		return errors.As(err, &gap) && gap.After == 7 && gap.Next == 9 && !errors.Is(err, ErrDigest)
	}
	isOrder := func(err error) bool {
		return errors.As(err, &order) && order.After == 8 && order.Next == 7 && !errors.Is(err, ErrDigest)
	}
	damaged := asJSON(event(7), event(8))
	damaged[20] ^= 1
	tests := map[string]struct {
		content []byte
		want    func(error) bool
	}{
		"JSON: a gap":                          {asJSON(event(7), event(9)), isGap},
		"JSON: backwards":                      {asJSON(event(7), event(8), event(7)), isOrder},
		"JSON: damage before a parse error":    {damaged, is(ErrDigest)},
		"JSON: another digest":                 {append(asJSON(event(7))[:len(asJSON(event(7)))-1], 1), is(ErrDigest)},
		"JSON: no digest":                      {[]byte("[" + event(7) + "]"), is(ErrTruncated)},
		"JSON: text behind the array":          {signed([]byte("[" + event(7) + "]x")), is(ErrMalformed)},
		"JSON: a comma too many":               {asJSON(event(7), ""), is(ErrMalformed)},
		"JSON: an element that is a number":    {asJSON("4"), is(ErrMalformed)},
		"JSON: an element that is null":        {asJSON("null"), is(ErrMalformed)},
		"JSON: no key-value pair":              {asJSON("{}"), is(ErrMalformed)},
		"JSON: no key":                         {asJSON(`{"etcdEvent":{"kv":{"mod_revision":3}}}`), is(ErrMalformed)},
		"JSON: an unknown type":                {asJSON(`{"etcdEvent":{"type":2,"kv":{"key":"Zm9v","mod_revision":3}}}`), is(ErrMalformed)},
		"JSON: a put without version":          {asJSON(`{"etcdEvent":{"kv":{"key":"Zm9v","create_revision":3,"mod_revision":3}}}`), is(ErrMalformed)},
		"JSON: a put created in the future":    {asJSON(`{"etcdEvent":{"kv":{"key":"Zm9v","create_revision":4,"mod_revision":3,"version":1}}}`), is(ErrMalformed)},
		"JSON: a revision with a leading 0":    {asJSON(`{"etcdEvent":{"kv":{"key":"Zm9v","create_revision":3,"mod_revision":03,"version":1}},"time":"2026-01-01T00:00:00Z"}`), is(ErrMalformed)},
		"JSON: a line break in base64":         {asJSON(strings.Replace(event(7), "Zm9v", "Zm\n9v", 1)), is(ErrMalformed)},
		"JSON: four line breaks in base64":     {asJSON(strings.Replace(event(7), "Zm9v", "Zm9v\n\n\n\n", 1)), is(ErrMalformed)},
		"JSON: the 61st second":                {asJSON(strings.Replace(event(7), "00:00Z", "00:60Z", 1)), is(ErrMalformed)},
		"JSON: a time out of range":            {asJSON(strings.Replace(event(7), "2026", "2999", 1)), is(ErrMalformed)},
		"native: a gap":                        {native(nativeEvent(7), nativeEvent(9)), isGap},
		"native: backwards":                    {native(nativeEvent(7), nativeNext, nativeEvent(7)), isOrder},
		"native: no end":                       {append([]byte(nativeMagic), nativeEvent(7)...), is(ErrTruncated)},
		"native: bytes behind the end":         {append(native(nativeEvent(7)), 0), is(ErrMalformed)},
		"native: an unknown entry":             {native([]byte{0, 9}), is(ErrMalformed)},
		"native: an event of another type":     {native([]byte{4, tagType, 2, tagKV, 0}), is(ErrMalformed)},
		"native: a huge length":                {native([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}), is(ErrMalformed)},
		"native: a length that is too long":    {native([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}), is(ErrMalformed)},
		"native: a length with a needless 0":   {native([]byte{0x8b, 0x00, tagKV, 9, tagKey, 1, 'k', tagCreate, 3, tagVersion, 1, tagMod, 3}), is(ErrMalformed)},
		"native: fields out of order":          {native([]byte{11, tagKV, 9, tagKey, 1, 'k', tagCreate, 3, tagMod, 3, tagVersion, 1}), is(ErrMalformed)},
		"native: a field twice":                {native([]byte{13, tagKV, 11, tagKey, 1, 'k', tagCreate, 3, tagVersion, 1, tagVersion, 1, tagMod, 3}), is(ErrMalformed)},
		"native: an unknown field":             {native([]byte{13, tagKV, 11, tagKey, 1, 'k', tagCreate, 3, tagVersion, 1, tagMod, 3, 0x38, 1}), is(ErrMalformed)},
		"native: a zero that is written":       {native([]byte{13, tagKV, 11, tagKey, 1, 'k', tagCreate, 3, tagLease, 0, tagVersion, 1, tagMod, 3}), is(ErrMalformed)},
		"native: a deletion with a version":    {native([]byte{11, tagType, 1, tagKV, 7, tagKey, 1, 'k', tagVersion, 1, tagMod, 3}), is(ErrMalformed)},
		"native: a previous value":             {native([]byte{13, tagKV, 9, tagKey, 1, 'k', tagCreate, 3, tagVersion, 1, tagMod, 3, 0x1a, 0}), is(ErrMalformed)},
		"native: a first event at no revision": {native([]byte{9, tagKV, 7, tagKey, 1, 'k', tagCreate, 3, tagVersion, 1}), is(ErrMalformed)},
		"native: a revision said in vain":      {native(nativeEvent(7), nativeEvent(8)), is(ErrMalformed)},
		"native: a lease without an id":        {native([]byte{0, markLease, 0, 4}), is(ErrMalformed)},
		"native: a lease without time":         {native([]byte{0, markLease, 2, 0}), is(ErrMalformed)},
		"native: leases out of order":          {native([]byte{0, markLease, 4, 1, 0, markLease, 2, 1}), is(ErrMalformed)},
		"native: a lease of too long a time":   {native([]byte{0, markLease, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}), is(ErrMalformed)},
		"native: a newer version":              {[]byte(nativeMagic[:7] + "\x02"), is(ErrEncoding)},
		"neither encoding":                     {signed([]byte("SQLite format 3")), is(ErrEncoding)},
		"nothing":                              {nil, is(ErrTruncated)},
		"white space":                          {[]byte("   "), is(ErrTruncated)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, d, err := readAll(bytes.NewReader(tt.content), snapshot.None, ReaderOptions{headless: strings.HasPrefix(name, "native")})
			if err == nil || !tt.want(err) {
				t.Fatalf("read %d records, error %v", len(got), err)
			}
			if d == nil {
				return
			}
			if _, again := d.Next(); again == nil || again == io.EOF {
				t.Errorf("after the error Next returns %v", again)
			}
		})
	}
}

func TestAnUnknownSuffixIsRefused(t *testing.T) {
	if _, err := NewDeltaReader(strings.NewReader("[]"), ".br", ReaderOptions{}); !errors.Is(err, ErrCompression) {
		t.Errorf("reading: %v, want ErrCompression", err)
	}
	if _, err := NewDelta(DeltaOptions{Format: V2JSON, Compression: ".br"}); !errors.Is(err, ErrCompression) {
		t.Errorf("writing: %v, want ErrCompression", err)
	}
	if _, err := NewDelta(DeltaOptions{Format: "xml"}); !errors.Is(err, ErrEncoding) {
		t.Errorf("writing: %v, want ErrEncoding", err)
	}
}

func TestALostConnectionIsNotTakenForDamage(t *testing.T) {
	lost := errors.New("connection reset")
	all := history(rand.New(rand.NewPCG(3, 3)), 5, 50)
	for name, c := range suffixes {
		t.Run(name, func(t *testing.T) {
			_, object := seal(t, all, DeltaOptions{Format: V2JSON, Compression: c})
			for _, cause := range []error{lost, io.ErrUnexpectedEOF} {
				for _, n := range []int{0, 1, 5, len(object) / 2, len(object) - 1, len(object)} {
					r := io.MultiReader(bytes.NewReader(object[:n]), iotest.ErrReader(cause))
					_, _, err := readAll(r, c, ReaderOptions{})
					if !errors.Is(err, cause) || errors.Is(err, ErrTruncated) || errors.Is(err, ErrMalformed) || errors.Is(err, ErrDigest) {
						t.Errorf("cut after %d of %d bytes with %q: %v", n, len(object), cause, err)
					}
				}
			}
		})
	}
}

func TestNoTruncationAndNoFlippedBitGivesAWrongSuccess(t *testing.T) {
	all := history(rand.New(rand.NewPCG(9, 9)), 205, 3)
	want := wantRecords(t, all)
	_, native := seal(t, all, DeltaOptions{}, snapshot.LeaseState{ID: 77, TTL: 60})
	objects := map[string]struct {
		c      snapshot.Compression
		object []byte
	}{"native": {snapshot.Zstd, native}}
	for name, c := range suffixes {
		_, object := seal(t, all, DeltaOptions{Format: V2JSON, Compression: c})
		objects["JSON "+name] = struct {
			c      snapshot.Compression
			object []byte
		}{c, object}
	}
	for name, o := range objects {
		t.Run(name, func(t *testing.T) {
			for n := range o.object {
				if _, _, err := readAll(bytes.NewReader(o.object[:n]), o.c, ReaderOptions{}); err == nil {
					t.Fatalf("cut after %d of %d bytes: no error", n, len(o.object))
				}
			}
			if _, _, err := readAll(bytes.NewReader(append(bytes.Clone(o.object), 0)), o.c, ReaderOptions{}); err == nil {
				t.Error("a byte behind the end: no error")
			}
			harmless := 0
			for bit := 0; bit < 8*len(o.object); bit += 1 + bit%5 {
				flipped := bytes.Clone(o.object)
				flipped[bit/8] ^= 1 << (bit % 8)
				got, _, err := readAll(bytes.NewReader(flipped), o.c, ReaderOptions{})
				if err == nil {
					harmless++
					if diff := diffRecords(want, got); diff != "" {
						t.Fatalf("bit %d flipped: no error and other records:\n%s", bit, diff)
					}
				}
			}
			if o.c == snapshot.None && harmless > 0 {
				t.Errorf("%d flipped bits went unnoticed", harmless)
			}
		})
	}
}

func TestBatchesStayValidUntilTheyAreReleased(t *testing.T) {
	all := history(rand.New(rand.NewPCG(4, 4)), 2, 300)
	want := wantRecords(t, all)
	for format, c := range map[Format]snapshot.Compression{Native: snapshot.Zstd, V2JSON: snapshot.None} {
		_, object := seal(t, all, DeltaOptions{Format: format})
		d, err := NewDeltaReader(bytes.NewReader(object), c, ReaderOptions{BatchBytes: 2000})
		if err != nil {
			t.Fatal(err)
		}
		var held []*Batch
		for {
			b, err := d.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, b)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		var got []Record
		for _, b := range held {
			got = append(got, b.Records...)
		}
		if diff := diffRecords(want, got); diff != "" {
			t.Errorf("%s in %d batches (-want +got):\n%s", format, len(held), diff)
		}
		for _, b := range held {
			b.Release()
			b.Release()
			if b.Records != nil || b.mem != nil {
				t.Error("a released batch still reaches its memory")
			}
		}
	}
}

func TestTheShapeOfTheOriginalIsScannedByHand(t *testing.T) {
	content, err := os.ReadFile("testdata/original/Incr-00000205-00000856-1795165011")
	if err != nil {
		t.Fatal(err)
	}
	j := &jsonReader{seq: &sequence{}}
	m := newMemory(len(content))
	scanned := 0
	for rest := content; len(rest) > sha256.Size+1; scanned++ {
		rest = rest[1:] // the bracket or a comma
		size := elementSize(rest)
		if used, fits := j.scan(rest, m); size <= 0 || used != size || !fits {
			t.Fatalf("element %d: scanned %d bytes of %d", scanned, used, size)
		}
		rest = rest[size:]
	}
	largest := []byte(`{"etcdEvent":{"kv":{"key":"QQ==","create_revision":857,"mod_revision":857,"version":1,"lease":9223372036854775807}},"time":"2026-11-20T08:56:54Z"}`)
	if used, _ := j.scan(largest, m); used != len(largest) {
		t.Error("the largest id of a lease is not scanned")
	}
	if scanned < 652 {
		t.Errorf("scanned %d elements, want at least one for each of 652 revisions", scanned)
	}
}

func TestOlderDeltasListLeasesInTheirContent(t *testing.T) {
	content := appendEvent([]byte(nativeMagic), change{create: 7, mod: 7, version: 1, lease: 7}, []byte("k"), nil, 0)
	content = append(content, 0, markLease, 3, 5, 0, markLease, 14, 60, 0, markEnd) // -2 and 7
	_, d, err := readAll(bytes.NewReader(content), snapshot.None, ReaderOptions{headless: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []snapshot.LeaseRecord{{Revision: 7, States: snapshot.LeaseStates{{ID: 7, TTL: 60}, {ID: -2, TTL: 5}}}}
	if diff := cmp.Diff(want, d.Leases()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
