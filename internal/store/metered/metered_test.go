package metered_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/metered"
	"druid.internal/druid/internal/store/retry"
	"druid.internal/druid/internal/store/storetest"
)

func newMetrics(t *testing.T) (*metered.Metrics, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	m, err := metered.NewMetrics("etcdbr", reg)
	if err != nil {
		t.Fatal(err)
	}
	return m, reg
}

func TestTheContractHoldsBehindMeters(t *testing.T) {
	m, _ := newMetrics(t)
	storetest.Run(t, storetest.MemoryOptions()["like S3"](func(s store.Store) store.Store { return metered.New(s, "primary", m) }))
}

func TestMetricsCannotBeRegisteredTwice(t *testing.T) {
	_, reg := newMetrics(t)
	if _, err := metered.NewMetrics("etcdbr", reg); err == nil {
		t.Error("a second registration was accepted")
	}
}

// values are the counters and gauges that are not zero, and the number of observations of
// histograms, by name and labels.
func values(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetName() != "store" && l.GetName() != "provider" {
					labels = append(labels, l.GetValue())
				}
			}
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			if name := strings.TrimPrefix(f.GetName(), "etcdbr_store_"); v != 0 {
				all[strings.TrimSpace(name+" "+strings.Join(labels, " "))] = v
			}
		}
	}
	return all
}

func TestOperationsAndBytesAreCounted(t *testing.T) {
	m, reg := newMetrics(t)
	f := storetest.NewFaulty(storetest.NewMemory(storetest.S3Like()))
	s := metered.New(f, "primary", m)
	ctx := t.Context()
	o, err := s.Put(ctx, "a/k", bytes.NewReader(make([]byte, 1000)), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Open(ctx, o.Version, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if got := values(t, reg)["operations_in_flight"]; got != 1 {
		t.Errorf("%v operations are in flight while a download is open, want 1", got)
	}
	if _, err := io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if r, err = s.Open(ctx, o.Version, 0, -1); err != nil {
		t.Fatal(err)
	}
	_, _ = io.CopyN(io.Discard, r, 10)
	r.Close()
	f.Inject(storetest.Cut(5).On(storetest.OpOpen, ""))
	if r, err = s.Open(ctx, o.Version, 0, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	r.Close()
	if _, err := s.Put(ctx, "a/k", strings.NewReader("x"), store.PutOptions{}); !errors.Is(err, store.ErrExists) {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	if err := s.List(ctx, "", func(store.Object) error { return stop }); err != stop {
		t.Fatal(err)
	}
	want := map[string]float64{
		"operations_total put ok": 1, "operations_total put exists": 1, "operations_total open ok": 3,
		"operations_total read ok": 2, "operations_total read truncated": 1, "operations_total list ok": 1,
		"operation_duration_seconds put": 2, "operation_duration_seconds open": 3,
		"operation_duration_seconds read": 3, "operation_duration_seconds list": 1,
		"bytes_total sent": 1001, "bytes_total received": 1015,
	}
	if diff := cmp.Diff(want, values(t, reg)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(metered.Counts{Operations: 9, Failures: 2, Sent: 1001, Received: 1015}, s.Counts()); diff != "" {
		t.Errorf("Counts (-want +got):\n%s", diff)
	}
}

func TestEveryErrorHasItsLabel(t *testing.T) {
	for want, cause := range map[string]error{
		"not_found": store.ErrNotFound, "no_bucket": store.ErrNoBucket, "exists": store.ErrExists, "forbidden": store.ErrForbidden,
		"credentials": store.ErrCredentials, "throttled": store.ErrThrottled, "unreachable": store.ErrUnreachable,
		"unsupported": store.ErrUnsupported, "no_space": store.ErrNoSpace, "canceled": context.Canceled,
		"timeout": context.DeadlineExceeded, "immutable": &store.ImmutableError{}, "other": errors.New("else"),
		"unknown_outcome": fmt.Errorf("%w: %w", store.ErrUnknownOutcome, store.ErrUnreachable),
	} {
		m, reg := newMetrics(t)
		f := storetest.NewFaulty(storetest.NewMemory(storetest.S3Like()))
		f.Inject(storetest.Fail(cause))
		s := metered.New(f, "primary", m)
		if err := s.Delete(t.Context(), store.Version{Key: "a", ID: "1"}); !errors.Is(err, cause) {
			t.Errorf("Delete = %v, want %v", err, cause)
		}
		if got := values(t, reg)["operations_total delete "+want]; got != 1 {
			t.Errorf("%v is counted as %v", cause, values(t, reg))
		}
	}
}

func TestABodyBehindAMeterCanBeReadAgain(t *testing.T) {
	f := storetest.NewFaulty(storetest.NewMemory(storetest.S3Like()))
	f.Inject(storetest.Tear(100).On(storetest.OpPut, ""))
	patient := retry.New(f, retry.Options{Sleep: func(context.Context, time.Duration) error { return nil }})
	s := metered.New(patient, "primary", nil)
	if _, err := s.Put(t.Context(), "a", bytes.NewReader(make([]byte, 1000)), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if c := s.Counts(); c.Operations != 1 || c.Failures != 0 || c.Sent < 1100 {
		t.Errorf("Counts = %+v", c)
	}
}
