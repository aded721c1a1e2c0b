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
	cmd.Env = c.environment()
	cmd.Stdin = strings.NewReader(input)
	return run(cmd, append([]string{"kubectl"}, args...)...)
}

// Shell runs commands for a shell in a directory, kubectl as the administrator among them, up to the first that fails.
func (c *Cluster) Shell(ctx context.Context, dir, commands string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-e", "-o", "pipefail", "-c", commands)
	cmd.Dir = dir
	cmd.Env = append(c.environment(), "PATH="+c.bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return run(cmd, "bash")
}

// environment is that of the administrator.
func (c *Cluster) environment() []string {
	if c.state == nil {
		return append(os.Environ(), "KUBECONFIG="+c.Kubeconfig) // a program of the user's may have to log in
	}
	return []string{"KUBECONFIG=" + c.Kubeconfig, "HOME=" + c.Dir} // none of the user's
}
