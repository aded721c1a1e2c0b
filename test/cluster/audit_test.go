package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const auditLines = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a","stage":"ResponseComplete","requestURI":"/apis/apps/v1/namespaces/shop/statefulsets/etcd-main?fieldManager=etcd-druid","verb":"patch","user":{"username":"system:serviceaccount:druid:etcd-druid","groups":["system:authenticated"]},"userAgent":"etcd-druid/v1","objectRef":{"resource":"statefulsets","namespace":"shop","name":"etcd-main","apiGroup":"apps","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2026-03-01T10:00:00.000000Z","stageTimestamp":"2026-03-01T10:00:00.250000Z"}
{"kind":"Event","stage":"ResponseComplete","requestURI":"/readyz","verb":"get","user":{"username":"admin"},"responseStatus":{"code":200},"stageTimestamp":"2026-03-01T10:00:01Z"}
{"kind":"Event","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/shop/pods/p/eviction","verb":"create","user":{"username":"admin"},"impersonatedUser":{"username":"bob"},"objectRef":{"resource":"pods","namespace":"shop","name":"p","apiVersion":"v1","subresource":"eviction"},"responseStatus":{"code":429},"stageTimestamp":"2026-03-01T10:00:02Z"}
{"kind":"Event","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/shop/secrets","verb":"list","user":{"username":"bob"},"objectRef":{"resource":"secrets","namespace":"shop","apiVersion":"v1"},"responseStatus":{"code":403},"stageTimestamp":"2026-03-01T10:00:03Z","annotations":{"authorization.k8s.io/decision":"forbid"}}
{"kind":"Event","stage":"Respo`

func TestTheAuditLogIsReadUpToTheLineThatIsBeingWritten(t *testing.T) {
	var got []string
	requests, err := readAudit(strings.NewReader(auditLines), func(Request) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		got = append(got, r.String())
	}
	want := []string{
		"system:serviceaccount:druid:etcd-druid patch statefulsets.apps shop/etcd-main: 200",
		"admin get /readyz: 200",
		"bob create pods/eviction shop/p: 429",
		"bob list secrets shop: 403",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	wantFirst := Request{
		At:   time.Date(2026, 3, 1, 10, 0, 0, 250_000_000, time.UTC),
		User: "system:serviceaccount:druid:etcd-druid", UserAgent: "etcd-druid/v1",
		Verb: "patch", Group: "apps", Resource: "statefulsets", Namespace: "shop", Name: "etcd-main",
		URI: "/apis/apps/v1/namespaces/shop/statefulsets/etcd-main?fieldManager=etcd-druid", Code: 200,
	}
	if diff := cmp.Diff(wantFirst, requests[0]); diff != "" {
		t.Error(diff)
	}
	for i, want := range []bool{false, false, false, true} {
		if got := requests[i].Forbidden; got != want {
			t.Errorf("%s: forbidden is %t, want %t", requests[i], got, want)
		}
	}
}

func TestALineThatIsNoEventIsAnErrorThatNamesIt(t *testing.T) {
	_, err := readAudit(strings.NewReader("{}\n[]\n"), func(Request) bool { return true })
	if want := "line 2 of the audit log"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want it to contain %q", err, want)
	}
}

func FuzzAuditLog(f *testing.F) {
	f.Add(auditLines)
	f.Add("{}\n")
	f.Fuzz(func(t *testing.T, log string) {
		requests, err := readAudit(strings.NewReader(log), func(Request) bool { return true })
		if lines := strings.Count(log, "\n"); err == nil && len(requests) != lines {
			t.Errorf("%d requests of %d lines", len(requests), lines)
		}
		for _, r := range requests {
			_ = r.String()
		}
	})
}
