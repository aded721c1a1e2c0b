package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A container image holds the programs and no time zones. Its root directory stands for it here.
func TestTimeZonesWithoutDatabaseOfTheSystem(t *testing.T) {
	root := t.TempDir()
	binary, err := os.ReadFile(program(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "etcdbrctl"), binary, 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	for zone, want := range map[string]string{
		"Europe/Berlin": "--data-dir: stat /absent", // checked after the schedule
		"Middle/Earth":  "unknown time zone Middle/Earth",
	} {
		cmd := exec.CommandContext(t.Context(), "/etcdbrctl", "snapshot", "--schedule=CRON_TZ="+zone+" 0 2 * * *", "--data-dir=/absent",
			"--storage-provider=Local", "--store-container=/bucket", "--store-prefix=p")
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		cmd.Dir = "/"
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err == nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, want %q:\n%s", zone, err, want, out.String())
		}
	}
}
