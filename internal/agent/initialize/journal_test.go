package initialize

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheJournalLiesBesideTheData(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "new.etcd")
	j := FileJournal(dir + "/")
	if got, err := j.Load(); err != nil || !cmp.Equal(got, Journal{}) {
		t.Errorf("without a file: %+v, %v", got, err)
	}
	for name, want := range map[string]Journal{
		"an offer":       {Cluster: "c", Nonce: "n"},
		"a beginning":    {Cluster: "c", Saw: sawMap("a", "b", "c")},
		"a learner":      {Learner: 1<<63 + 7, HandedOut: true},
		"a restoration":  {Restoring: true},
		"nothing at all": {},
	} {
		if err := j.Save(want); err != nil {
			t.Fatal(err)
		}
		got, err := FileJournal(dir).Load()
		if err != nil || !cmp.Equal(want, got) {
			t.Errorf("%s: read %+v, %v; want %+v", name, got, err, want)
		}
	}
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) != 1 || entries[0].Name() != JournalFile {
		t.Errorf("the volume holds %v, %v; want %s alone", entries, err, JournalFile)
	}
}

func TestAJournalThatCannotBeWrittenIsAnError(t *testing.T) {
	if err := FileJournal(filepath.Join(t.TempDir(), "missing", "new.etcd")).Save(Journal{}); err == nil {
		t.Error("it was written into a directory that does not exist")
	}
}

func TestADamagedJournalIsTold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new.etcd")
	path := filepath.Join(filepath.Dir(dir), JournalFile)
	for name, text := range map[string]string{
		"empty":            "",
		"torn":             `{"cluster":"c","non`,
		"two values":       `{}{}`,
		"not an object":    `7`,
		"for no cluster":   `{"nonce":"n"}`,
		"offered and used": `{"cluster":"c","nonce":"n","saw":{"a":"n"}}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := FileJournal(dir).Load(); !errors.Is(err, ErrJournal) || !strings.Contains(err.Error(), path) || !cmp.Equal(got, Journal{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestTheTokenIsOfAllNoncesThatWereSeen(t *testing.T) {
	base := tokenOf("etcd", sawMap("a", "b", "c"))
	if again := tokenOf("etcd", sawMap("a", "b", "c")); again != base || !strings.HasPrefix(base, "etcd-") {
		t.Errorf("token %s, and again %s", base, again)
	}
	for name, other := range map[string]string{
		"another nonce":    tokenOf("etcd", sawMap("a", "b", "d")),
		"nonces exchanged": tokenOf("etcd", sawMap("b", "a", "c")),
		"one member fewer": tokenOf("etcd", sawMap("a", "b")),
		"another cluster":  tokenOf("other", sawMap("a", "b", "c")),
	} {
		if other == base {
			t.Errorf("with %s the token is the same", name)
		}
	}
	if a, b := newNonce(), newNonce(); a == b || len(a) != 32 {
		t.Errorf("nonces %s and %s", a, b)
	}
}

func FuzzParseJournal(f *testing.F) {
	for _, j := range []Journal{{}, {Cluster: "c", Nonce: "n"}, {Cluster: "c", Saw: sawMap("a", "b")}, {Learner: 5, HandedOut: true, Restoring: true}} {
		b, err := json.Marshal(j)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := ParseJournal(b)
		if err != nil {
			if !cmp.Equal(j, Journal{}) {
				t.Fatalf("with an error it is %+v", j)
			}
			return
		}
		if len(j.Saw) == 0 {
			j.Saw = nil
		}
		text, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseJournal(text); err != nil || !cmp.Equal(j, again) {
			t.Fatalf("%+v, read again: %+v, %v", j, again, err)
		}
	})
}
