package cluster

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/events"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/health"
)

// The page of events is made of Events, and nothing else may be sent.
func TestEveryEventThatIsSentIsInTheCatalogueAndTheOtherWayRound(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	sent, listed := map[string]bool{}, map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, is := d.(*ast.FuncDecl)
			switch {
			case !is:
			case fn.Name.Name == "Events":
				ast.Inspect(fn, func(n ast.Node) bool {
					note(listed, n)
					return true
				})
			default:
				maps.Copy(sent, sentBy(fn))
			}
		}
	}
	events := declared(t)
	if len(events) != len(Events()) {
		t.Errorf("events.go declares %d events, and the catalogue has %d", len(events), len(Events()))
	}
	reasons := map[string]bool{}
	for _, e := range Events() {
		if reasons[e.Reason] || e.Type == "" || e.Action == "" || e.Meaning == "" {
			t.Errorf("%+v is there twice, or not whole", e)
		}
		reasons[e.Reason] = true
	}
	for _, name := range events {
		if !listed[name] {
			t.Errorf("%s is not in the catalogue", name)
		}
		if !sent[name] {
			t.Errorf("%s is never sent", name)
		}
		if !reasons[name] {
			t.Errorf("%s has another reason than its name", name)
		}
	}
}

// sentBy are the names of what a function sends: what it calls event with, or has news or a turn of, by itself or by a variable. What
// else it names counts for nothing: fields have the names of events as well.
func sentBy(fn *ast.FuncDecl) map[string]bool {
	sent := map[string]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, is := n.Fun.(*ast.SelectorExpr); is && f.Sel.Name == "event" {
				note(sent, n.Args...)
			}
		case *ast.CompositeLit:
			if isSentLater(n.Type) {
				note(sent, n.Elts...)
			}
			if list, is := n.Type.(*ast.ArrayType); is && isSentLater(list.Elt) {
				for _, one := range n.Elts {
					if one, is := one.(*ast.CompositeLit); is {
						note(sent, one.Elts...)
					}
				}
			}
		}
		return true
	})
	ast.Inspect(fn, func(n ast.Node) bool {
		a, is := n.(*ast.AssignStmt)
		if !is || len(a.Lhs) != len(a.Rhs) {
			return true
		}
		for i, to := range a.Lhs {
			if to, is := to.(*ast.Ident); is && sent[to.Name] {
				note(sent, a.Rhs[i])
			}
		}
		return true
	})
	return sent
}

// isSentLater says whether what is of this type becomes an event.
func isSentLater(of ast.Expr) bool {
	id, is := of.(*ast.Ident)
	return is && (id.Name == "news" || id.Name == "turn")
}

// note adds those that are nothing but a name.
func note[N ast.Node](into map[string]bool, all ...N) {
	for _, n := range all {
		if id, is := any(n).(*ast.Ident); is {
			into[id.Name] = true
		}
	}
}

// declared are the names of the variables in events.go, which are all events.
func declared(t *testing.T) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "events.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		g, is := d.(*ast.GenDecl)
		if !is || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			for _, name := range s.(*ast.ValueSpec).Names {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// A store may say what is wrong in any language, and nothing that is no text reaches the API server.
func TestALongNoteIsCutBetweenCharacters(t *testing.T) {
	r := Reconciler{recorder: events.NewFakeRecorder(10)}
	for _, n := range []int{maxNote/3 - 1, maxNote / 3, maxNote/3 + 1, maxNote} { // of three bytes each
		r.event(newEtcd(1), BackupFailing, strings.Repeat("駄", n))
		note := <-r.recorder.(*events.FakeRecorder).Events
		if !utf8.ValidString(note) || len(note) > len("Warning BackupFailing ")+maxNote+len("...") || strings.HasSuffix(note, "...") != (3*n > maxNote) {
			t.Errorf("of %d characters are left %d bytes, which end with %q", n, len(note), note[max(0, len(note)-12):])
		}
	}
}

// told are the events that were sent, without what they say.
func told(r *Reconciler) (all []string) {
	for {
		select {
		case text := <-r.recorder.(*events.FakeRecorder).Events:
			kind, rest, _ := strings.Cut(text, " ")
			reason, _, _ := strings.Cut(rest, " ")
			all = append(all, kind+" "+reason)
		default:
			return all
		}
	}
}

func TestWhatALookCameToIsAnEvent(t *testing.T) {
	failed := outcome{failures: []failure{{codeReplacePod, errors.New("delete pod main-0: no")}}}
	for phrase, c := range map[string]struct {
		change func(*Observed)
		refuse []string
		out    outcome
		want   []string
	}{
		"all is done":         {func(*Observed) {}, nil, outcome{}, []string{"Normal Applied"}},
		"it is refused":       {func(*Observed) {}, []string{"no"}, outcome{}, []string{"Warning Refused"}},
		"something failed":    {func(*Observed) {}, nil, failed, []string{"Warning ApplyFailed"}},
		"members are to come": {wants(5), nil, outcome{}, []string{"Normal Scaling"}},
		"it was told": {func(o *Observed) {
			o.Etcd.Status = statusOf(o, mustDecide(t, o, testSettings), outcome{}, "before", testNow)
		}, nil, outcome{}, nil},
		"members of two clusters": {strange(1), nil, outcome{}, []string{"Normal Applied", "Warning ClusterIDMismatch"}},
	} {
		o := running(t, 3, c.change)
		r, _ := newReconciler(t)
		p := mustDecide(t, o, testSettings)
		p.Refused = append(p.Refused, c.refuse...)
		r.tell(t.Context(), o, p, c.out, statusOf(o, p, c.out, "run", testNow))
		if d := cmp.Diff(c.want, told(r)); d != "" {
			t.Errorf("%s (-want +got):\n%s", phrase, d)
		}
	}
}

// strange: a member is of another cluster.
func strange(i int) func(*Observed) {
	return func(o *Observed) {
		o.Leases[i].Spec.HolderIdentity = ptr(health.Identity{ID: id(i), ClusterID: "c2", Role: druidv1alpha1.EtcdRoleMember}.String())
		o.Members[i].Status.ClusterID = ptr("00000000000000c2")
	}
}
