package wrapper

import (
	"os"
	"path/filepath"
	"testing"

	"druid.internal/druid/internal/agentapi"
)

func TestOnlyACleanEndSparesTheFullExamination(t *testing.T) {
	for content, want := range map[string]agentapi.ValidationMode{
		"terminated": agentapi.ValidateSanity, " interrupt\n": agentapi.ValidateSanity,
		"": agentapi.ValidateFull, "killed": agentapi.ValidateFull, "terminated?": agentapi.ValidateFull, "Terminated": agentapi.ValidateFull,
	} {
		f := exitFile(filepath.Join(t.TempDir(), "exit_code"))
		if got := f.mode(); got != agentapi.ValidateFull {
			t.Errorf("no file: %s", got)
		}
		if err := os.WriteFile(string(f), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := f.mode(); got != want {
			t.Errorf("%q: %s, want %s", content, got, want)
		}
	}
}

func TestTheExitCodeIsWrittenWholeAndRemoved(t *testing.T) {
	dir := t.TempDir()
	f := exitFile(filepath.Join(dir, "exit_code"))
	if err := os.WriteFile(filepath.Join(dir, "validation_marker"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, e := range []End{Interrupt, Terminated} {
		if err := f.write(e); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(string(f))
		if err != nil || string(b) != string(e) {
			t.Errorf("%q, %v; want %q", b, err, e)
		}
	}
	for range 2 { // the second time there is none
		if err := f.remove(); err != nil {
			t.Error(err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	if err := exitFile(filepath.Join(dir, "none", "exit_code")).write(Terminated); err == nil {
		t.Error("written into a directory that is not there")
	}
}
