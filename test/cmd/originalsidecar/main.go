// Command originalsidecar stands in for the sidecar of the original where a whole cluster of it is taken over. It reads
// the arguments, variables and files that the original's pods give to that, and shows outside what that shows: fulls and
// deltas in the bucket, Leases, and the calls for snapshots. It decides nothing about data: its etcd starts by itself.
//
// It is written after the formats, and has no code of the original.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, flags(os.Args[1:])); err != nil {
		log.Fatal(err)
	}
}

// flags are the arguments by their names. What nothing here depends on is not looked at.
func flags(args []string) map[string]string {
	all := map[string]string{}
	for _, a := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		all[name] = value
	}
	return all
}

// sidecar is that of one member.
type sidecar struct {
	endpoint string // of its etcd
	etcd     *clientv3.Client
	store    *store
	leases   *leases
	secure   bool // it serves TLS
	port     string

	period    time.Duration // of deltas
	heartbeat time.Duration
}

// look is how often it is asked who leads.
const look = 500 * time.Millisecond

func run(ctx context.Context, flag map[string]string) error {
	s := &sidecar{endpoint: flag["endpoints"], port: flag["server-port"], secure: flag["server-cert"] != ""}
	var err error
	for name, into := range map[string]*time.Duration{"delta-snapshot-period": &s.period, "k8s-heartbeat-duration": &s.heartbeat} {
		if *into, err = time.ParseDuration(flag[name]); err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
	}
	// What the original leaves on the volume: whose it is, and how etcd ended last.
	for name, content := range map[string]string{"safe_guard": os.Getenv("POD_NAMESPACE"), "exit_code": "terminated"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(flag["data-dir"]), name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	config := clientv3.Config{Endpoints: []string{s.endpoint}, Logger: zap.NewNop()}
	if flag["cacert"] != "" {
		files := transport.TLSInfo{TrustedCAFile: flag["cacert"], CertFile: flag["cert"], KeyFile: flag["key"]}
		if config.TLS, err = files.ClientConfig(); err != nil {
			return err
		}
	}
	if s.etcd, err = clientv3.New(config); err != nil {
		return err
	}
	defer s.etcd.Close()
	if s.store, err = openStore(flag, s.etcd); err != nil {
		return err
	}
	if s.leases, err = openLeases(flag); err != nil {
		return err
	}
	server := &http.Server{Addr: ":" + s.port, Handler: s.routes(), ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() {
		if s.secure {
			ended <- server.ListenAndServeTLS(flag["server-cert"], flag["server-key"])
			return
		}
		ended <- server.ListenAndServe()
	}()
	defer server.Close()
	go s.work(ctx)
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// work renews the member's Lease, and makes backups while its etcd leads.
func (s *sidecar) work(ctx context.Context) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	var beat, delta time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		st, err := s.etcd.Status(ctx, s.endpoint)
		if err != nil || st.Leader == 0 {
			s.store.rest()
			continue
		}
		leads, role := st.Leader == st.Header.MemberId, "Member"
		if leads {
			role = "Leader"
		}
		if time.Since(beat) >= s.heartbeat {
			beat = time.Now()
			tell(s.leases.renew(ctx, s.leases.member, fmt.Sprintf("%x:%x:%s", st.Header.MemberId, st.Header.ClusterId, role), beat))
		}
		switch {
		case !leads:
			s.store.rest()
		case !s.store.works():
			tell(s.begin(ctx))
		case time.Since(delta) >= s.period:
			delta = time.Now()
			tell(s.delta(ctx))
		}
	}
}

// begin goes on where the bucket ends; without a full in it one is taken.
func (s *sidecar) begin(ctx context.Context) error {
	found, err := s.store.begin(ctx)
	if err != nil || found {
		return err
	}
	_, err = s.full(ctx)
	return err
}

// full takes a full, and says so in its Lease.
func (s *sidecar) full(ctx context.Context) (snapshot, error) {
	taken, err := s.store.full(ctx)
	if err != nil {
		return taken, err
	}
	return taken, s.leases.renew(ctx, s.leases.full, fmt.Sprint(taken.LastRevision), taken.CreatedOn)
}

// delta takes one if there is something to take. The Lease is renewed either way.
func (s *sidecar) delta(ctx context.Context) error {
	last, err := s.store.delta(ctx)
	if err != nil {
		return err
	}
	return s.leases.renew(ctx, s.leases.delta, fmt.Sprint(last), time.Now())
}

func (s *sidecar) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, `{"health":true}`) })
	mux.HandleFunc("/snapshot/full", func(w http.ResponseWriter, r *http.Request) {
		if !s.store.works() {
			s.passOn(w, r)
			return
		}
		taken, err := s.full(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		taken.write(w)
	})
	return mux
}

func tell(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Print(err)
	}
}

// read is the text of a file in a directory, without what surrounds it; empty: there is none.
func read(elements ...string) string {
	text, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
