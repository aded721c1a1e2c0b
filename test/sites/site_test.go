package sites_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

var fleet sites.Fleet

func TestMain(m *testing.M) {
	code := m.Run()
	if err := fleet.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// What a kind promises is what its server does to somebody who asks nobody.
func TestEveryKindOfBucketTreatsOthersAsItSays(t *testing.T) {
	for _, name := range sites.Names() {
		t.Run(name, func(t *testing.T) {
			s := fleet.Get(t, name)
			for _, k := range s.Kinds() {
				t.Run(k.Name, func(t *testing.T) { treats(t, s, k) })
			}
		})
	}
}

func treats(t *testing.T, s sites.Site, k sites.Kind) {
	bucket := fleet.Bucket(t, s, k)
	raw, err := s.Raw(t.Context(), bucket, sites.Owner)
	if err != nil {
		t.Fatal(err)
	}
	versions := func(key string) (found []stores.RawVersion) {
		t.Helper()
		all, err := raw.Versions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range all {
			if v.Key == key {
				found = append(found, v)
			}
		}
		return found
	}
	for _, key := range []string{"a/overwritten", "a/hidden", "a/deleted"} {
		if err := raw.Overwrite(t.Context(), key, []byte("genuine")); err != nil {
			t.Fatal(err)
		}
		if got := versions(key); len(got) != 1 || !got[0].Current || got[0].Size != 7 {
			t.Fatalf("after one write there is %+v", got)
		}
	}
	genuine := versions("a/overwritten")[0]
	err = raw.Overwrite(t.Context(), "a/overwritten", []byte("hostile"))
	switch got := versions("a/overwritten"); {
	case (err != nil) != k.Whole:
		t.Errorf("overwriting: %v", err)
	case err == nil && len(got) != map[bool]int{true: 2, false: 1}[k.Versions]:
		t.Errorf("overwritten: %+v", got)
	case k.Versions || k.Whole:
		if b, err := raw.Read(t.Context(), genuine); err != nil || string(b) != "genuine" {
			t.Errorf("the version before holds %q, %v", b, err)
		}
	}
	err = raw.Hide(t.Context(), "a/hidden")
	current, marker := false, false
	got := versions("a/hidden")
	for _, v := range got {
		current, marker = current || v.Current && !v.Marker, marker || v.Marker
	}
	switch {
	case (err != nil) != (k.Whole || k.Locks && !k.Markers):
		t.Errorf("deleting by name: %v", err)
	case err == nil && (current || marker != k.Markers || (len(got) > 0) != k.Versions):
		t.Errorf("deleted by its name: %+v", got)
	}
	err = raw.Delete(t.Context(), versions("a/deleted")[0])
	if (err != nil) != k.Locks {
		t.Errorf("deleting a version: %v", err)
	}
	if left := versions("a/deleted"); (len(left) > 0) != k.Locks {
		t.Errorf("after the deletion there is %+v", left)
	}
}

// TestRolesAreGivenWhatTheDocumentationSays reads the tables of Azure and Google, so that neither can change alone.
func TestRolesAreGivenWhatTheDocumentationSays(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	roles := map[sites.Who]string{sites.Writer: "writer", sites.Reader: "reader", sites.Collector: "collector", sites.Extender: "extender"}
	rows := func(heading, excluder string) map[sites.Who][]string {
		t.Helper()
		_, rest, _ := strings.Cut(string(text), "\n## "+heading+"\n")
		rest, _, _ = strings.Cut(rest, "\n## ")
		roles[sites.Excluder] = excluder
		cells := map[sites.Who][]string{}
		for who, role := range roles {
			_, row, found := strings.Cut(rest, "\n| "+role+" | ")
			if !found {
				t.Fatalf("%s: no row of the %s", heading, role)
			}
			row, _, _ = strings.Cut(row, " |\n")
			cells[who] = strings.Split(row, " | ")[1:]
		}
		return cells
	}
	quoted := regexp.MustCompile("`([^`]+)`|the (reader|writer)'s")
	// permissions are those of a cell up to the end of its first sentence, with those of the roles that it names.
	var permissions func(cells map[sites.Who][]string, cell string) []string
	permissions = func(cells map[sites.Who][]string, cell string) (all []string) {
		cell, _, _ = strings.Cut(cell, ". ")
		prefix := ""
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			switch {
			case m[2] == "reader":
				all = append(all, permissions(cells, cells[sites.Reader][0])...)
			case m[2] == "writer":
				all = append(all, permissions(cells, cells[sites.Writer][0])...)
			case strings.HasPrefix(m[1], "."):
				all = append(all, prefix+m[1])
			default:
				prefix = m[1][:max(strings.LastIndex(m[1], "."), 0)]
				all = append(all, m[1])
			}
		}
		slices.Sort(all)
		return all
	}
	compare := func(what string, got, want []string) {
		t.Helper()
		got = slices.Sorted(slices.Values(got))
		if !slices.Equal(got, want) {
			t.Errorf("%s is given %q, documented are %q", what, got, want)
		}
	}

	azure := rows("Azure Blob Storage", "who excludes")
	for who, cells := range azure {
		for i, k := range map[int]sites.Kind{0: sites.Level, 1: sites.Container} {
			actions, letters := cells[0], cells[1]
			if parts := strings.Split(actions, "; "); len(parts) > i && who == sites.Extender {
				actions, letters = parts[i], strings.Split(letters, "; ")[i]
			}
			actions, _, _ = strings.Cut(actions, ", where a collector")
			compare(roles[who]+" of Azure in a container "+k.Name, sites.AzureActions(who, k), permissions(azure, actions))
			if want := quoted.FindStringSubmatch(letters)[1]; sites.AzureLetters(who, k) != want {
				t.Errorf("the SAS of the %s in a container %s has %s, documented is %s", roles[who], k.Name, sites.AzureLetters(who, k), want)
			}
		}
	}
	google := rows("Google Cloud Storage", "who holds or excludes")
	for who, cells := range google {
		cell, _, _ := strings.Cut(cells[0], "; where objects")
		compare(roles[who]+" of Google", sites.GooglePermissions(who), permissions(google, cell))
	}
}
