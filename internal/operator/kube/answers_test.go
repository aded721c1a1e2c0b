package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestAnswerIsLimitedByItsContext(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("x", 100)) }))
	defer server.Close()
	for most, want := range map[int64]bool{0: true, 99: false, 100: true, 101: true} {
		ctx := t.Context()
		if most > 0 {
			ctx = LimitAnswer(ctx, most)
		}
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		resp, err := LimitAnswers(http.DefaultTransport).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if (err == nil) != want || want && len(content) != 100 || !want && (!errors.Is(err, ErrTooLarge) || len(content) > int(most)) {
			t.Errorf("limit %d: %d bytes, %v; want success %t", most, len(content), err, want)
		}
	}
}

// pages is an API server with Leases, of which some are large.
type pages struct {
	client.Reader
	sizes []int // in bytes
	most  int   // the largest page that was answered
	calls int
}

func (p *pages) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	p.calls++
	first := 0
	fmt.Sscan(o.Continue, &first)
	last, bytes := min(len(p.sizes), first+int(o.Limit)), 0
	for _, s := range p.sizes[first:last] {
		bytes += s
	}
	if most, limited := ctx.Value(answerLimit{}).(int64); limited && int64(bytes) > most {
		return fmt.Errorf("read the body: %w", ErrTooLarge)
	}
	p.most = max(p.most, bytes)
	l := list.(*coordinationv1.LeaseList)
	*l = coordinationv1.LeaseList{Items: make([]coordinationv1.Lease, last-first)}
	for i := range l.Items {
		l.Items[i].Name = fmt.Sprint(first + i)
	}
	if last < len(p.sizes) {
		l.ListMeta = metav1.ListMeta{Continue: fmt.Sprint(last)}
	}
	return nil
}

func TestLargeObjectsAreListedInSmallPages(t *testing.T) {
	for name, c := range map[string]struct {
		sizes []int
		calls int
	}{
		"usual":           {slices.Repeat([]int{1000}, 1200), 3},
		"none":            {nil, 1},
		"450 of 1 MiB":    {slices.Repeat([]int{1 << 20}, 450), 200},
		"of 1.5 MiB":      {slices.Repeat([]int{3 << 19}, 20), 30},
		"large at an end": {append(slices.Repeat([]int{1000}, 900), 3<<20, 3<<20), 40},
	} {
		p := &pages{sizes: c.sizes}
		var got []string
		err := ListPages(t.Context(), p, 500, func(list *coordinationv1.LeaseList) {
			for _, l := range list.Items {
				got = append(got, l.Name)
			}
		})
		if err != nil || len(got) != len(c.sizes) || p.most > pageBytes || p.calls > c.calls {
			t.Errorf("%s: %d of %d Leases, %d bytes at once in %d calls, %v", name, len(got), len(c.sizes), p.most, p.calls, err)
		}
	}
}
