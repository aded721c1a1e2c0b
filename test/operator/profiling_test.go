package operator_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/process"
)

// operateWith runs an operator that is configured by flags; what they say comes behind its ports.
func operateWith(t *testing.T, c *cluster.Cluster, path string, flags ...string) *program {
	t.Helper()
	addresses, err := process.FreePorts("127.0.0.1", 2)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--kubeconfig=" + c.Kubeconfig}
	for i, what := range []string{"metrics", "health"} {
		_, port, err := net.SplitHostPort(addresses[i])
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "--"+what+"-bind-address=127.0.0.1", "--"+what+"-port="+port)
	}
	p, err := process.Command{Name: "operator", Path: path, Args: append(args, flags...)}.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			keepLog(t, p)
		}
	})
	return &program{p, "http://" + addresses[0], "http://" + addresses[1]}
}

func TestProfilesAreServedWhenAFlagSaysSo(t *testing.T) {
	together(t, light)
	c := borrow(t)
	path := buildProgram(t)
	addresses, err := process.FreePorts("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	profile := func(ctx context.Context) error {
		text, err := get(ctx, "http://"+addresses[0]+"/debug/pprof/goroutine?debug=1")
		if err == nil && !strings.Contains(text, "goroutine profile: total") {
			err = fmt.Errorf("it answers %q", text)
		}
		return err
	}

	p := operateWith(t, c, path, "--profiling-port="+port, "--enable-profiling=true")
	p.await(t, p.isReady)
	p.await(t, profile)
	p.await(t, func(ctx context.Context) error { // the metrics of our own are beside those of the library
		text, err := get(ctx, p.metrics+"/metrics")
		if err == nil && !strings.Contains(text, `etcddruid_etcds{state="ready"} 0`) {
			err = errors.New("it counts no Etcds")
		}
		return err
	})
	p.Kill()

	p = operateWith(t, c, path, "--profiling-port="+port)
	p.await(t, p.isReady)
	if err := profile(t.Context()); err == nil {
		t.Error("profiles are served without being asked for")
	}
}
