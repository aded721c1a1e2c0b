package cluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kubectl runs kubectl as the administrator and returns what it printed.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.KubectlWith(ctx, "", args...)
}

// KubectlWith is Kubectl with something to read on its standard input.
func (c *Cluster) KubectlWith(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "kubectl"), args...)
	cmd.Env = []string{"KUBECONFIG=" + c.Kubeconfig, "HOME=" + c.Dir} // none of the user's
	if c.state == nil {
		cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig) // a program of the user's may have to log in
	}
	cmd.Stdin = strings.NewReader(input)
	return run(cmd, append([]string{"kubectl"}, args...)...)
}
