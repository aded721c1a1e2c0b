package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"druid.internal/druid/test/stores"
)

// machine is what figures depend on.
type machine struct {
	cpu, memory, kernel, disk, program string
	cores                              int
	at                                 time.Time
}

func describeMachine(dir, etcdbrctl string) machine {
	m := machine{cpu: "unknown processor", cores: runtime.GOMAXPROCS(0), disk: fileSystem(dir), program: "an unknown etcdbrctl", at: time.Now().UTC()}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				m.cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		m.memory = bytesString(kibibytes(info, "MemTotal:"))
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.kernel = unix.ByteSliceToString(u.Release[:])
	}
	if out, err := exec.Command(etcdbrctl, "--version").Output(); err == nil {
		m.program = strings.TrimSpace(string(out))
	}
	return m
}

// fileSystem is the kind of the file system that holds dir.
func fileSystem(dir string) string {
	f, err := os.Open("/proc/mounts")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	best, kind := "", "unknown"
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) > 2 && len(fields[1]) >= len(best) && (fields[1] == "/" || dir == fields[1] || strings.HasPrefix(dir, fields[1]+"/")) {
			best, kind = fields[1], fields[2]
		}
	}
	return kind
}

func (m machine) String() string {
	return fmt.Sprintf("%d cores of %s, %s of memory, %s, Linux %s; %s; etcd %s; MinIO %s; %s; %s",
		m.cores, m.cpu, m.memory, m.disk, m.kernel, runtime.Version(), stores.EtcdVersion, stores.MinIOVersion, m.program, m.at.Format("2006-01-02 15:04 MST"))
}

// loadAverage is that of the last minute.
func loadAverage() (load float64) {
	text, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, _ = fmt.Sscan(string(text), &load)
	}
	return load
}

// busyTime is how long all processors together were not idle, since the machine started. What a
// hypervisor took away counts, too.
func busyTime() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system, idle, wait, irq, softirq, steal int64
	if _, err := fmt.Sscanf(string(text), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &softirq, &steal); err != nil {
		return 0
	}
	return time.Duration(user+nice+system+irq+softirq+steal) * tick
}

const tick = 10 * time.Millisecond // USER_HZ, on every architecture that Go runs on

// ourTime is the processor time so far of this process, which serves some of the fakes, and of all
// that descend from it and are not buried yet: the measured program, the servers it works with and
// what runs in the containers of nodes.
func ourTime() (total time.Duration) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	took, children := map[string]time.Duration{}, map[string][]string{}
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
		}
		_, rest, _ := strings.Cut(string(text), ") ") // behind the name, which may contain anything
		fields := strings.Fields(rest)
		const parent, user, system = 1, 11, 12 // counted from the state
		if len(fields) <= system {
			continue
		}
		u, uerr := strconv.ParseInt(fields[user], 10, 64)
		s, serr := strconv.ParseInt(fields[system], 10, 64)
		if uerr == nil && serr == nil {
			pid := filepath.Base(filepath.Dir(file))
			took[pid] = time.Duration(u+s) * tick
			children[fields[parent]] = append(children[fields[parent]], pid)
		}
	}
	total = cpuTime()
	for ours := children[strconv.Itoa(os.Getpid())]; len(ours) > 0; ours = ours[1:] {
		total += took[ours[0]]
		ours = append(ours, children[ours[0]]...)
	}
	return total
}
