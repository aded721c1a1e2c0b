package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// report is everything that was found out.
type report struct {
	machine machine
	quick   bool
	load    float64
	took    time.Duration
	groups  []groupResult
}

type groupResult struct {
	group
	result
}

func (r *report) criteria() (all []criterion) {
	for _, g := range r.groups {
		work := ""
		for _, c := range g.criteria {
			if c.work == "" {
				c.work = work
			}
			work = c.work
			all = append(all, c)
		}
	}
	return all
}

func (r *report) missed() (n int) {
	for _, c := range r.criteria() {
		if !c.met() {
			n++
		}
	}
	return n
}

// print shows the table on a terminal.
func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "\n")
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "WORK\tQUANTITY\tMUST REACH\tMEASURED\t")
	for _, c := range r.criteria() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", c.work, c.what, c.wanted(), c.got(), c.verdict())
	}
	w.Flush()
	fmt.Fprintln(out)
	for _, t := range r.tables() {
		fmt.Fprintf(out, "%s\n\n", t.title)
		for _, row := range append([][]string{t.head}, t.rows...) {
			fmt.Fprintln(w, strings.Join(row, "\t")+"\t")
		}
		w.Flush()
		fmt.Fprintln(out)
	}
	for _, line := range r.remarks() {
		fmt.Fprintln(out, line)
	}
	if r.quick {
		fmt.Fprintln(out, "This was -quick: the data is too small to judge anything by.")
	}
	fmt.Fprintf(out, "%d of %d targets met in %s; load at the most %.1f on %d cores.\n", len(r.criteria())-r.missed(), len(r.criteria()), r.took.Round(time.Second), r.load, r.machine.cores)
}

func (r *report) tables() (all []table) {
	for _, g := range r.groups {
		all = append(all, g.tables...)
	}
	return all
}

func (r *report) remarks() (all []string) {
	for _, g := range r.groups {
		all = append(all, g.remarks...)
	}
	return all
}

// write writes the Markdown file and the plot beside it.
func (r *report) write(path string) error {
	plot := strings.TrimSuffix(path, filepath.Ext(path)) + ".svg"
	if err := os.WriteFile(plot, []byte(drawPlot(r.criteria())), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(r.markdown(filepath.Base(plot))), 0o644); err != nil {
		return err
	}
	fmt.Printf("written: %s and %s\n", path, plot)
	return nil
}

func (r *report) markdown(plot string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Speed and memory")
	line("")
	line("Written by `make bench`; do not edit. %s", verdicts(r))
	line("")
	line("![How much of each limit is used up](%s)", plot)
	line("")
	line("| work | quantity | must reach | measured | verdict |")
	line("| --- | --- | --- | --- | --- |")
	for _, c := range r.criteria() {
		line("| %s | %s | %s | %s | %s |", c.work, c.what, c.wanted(), c.got(), c.verdict())
	}
	line("")
	for _, remark := range r.remarks() {
		line("- %s", remark)
	}
	for _, t := range r.tables() {
		line("")
		line("## %s", t.title)
		line("")
		line("| %s |", strings.Join(t.head, " | "))
		line("|%s", strings.Repeat(" --- |", len(t.head)))
		for _, row := range t.rows {
			line("| %s |", strings.Join(row, " | "))
		}
		if t.note != "" {
			line("")
			line("%s", t.note)
		}
	}
	line("")
	line("## The machine")
	line("")
	line("%s. It took %s. The load average of a minute, read before each run, was at the most %.1f: on an idle machine it stays near the number of cores, and above that somebody else was working, too, and rates are lower than they could be.",
		r.machine, r.took.Round(time.Second), r.load)
	line("")
	line("## Every program")
	line("")
	line("Medians, of wall time with the least and the most; memory: the most of any round. Others is the share of all processors that anything else took meanwhile (not etcd and MinIO, which are part of the work); runs that lost more than %.0f %% to others do not count as long as there are quiet ones. Read and written are bytes passed to system calls, from the page cache or to it; mapped files are not among them.", 100*quietShare)
	for _, g := range r.groups {
		if len(g.programs) == 0 {
			continue
		}
		line("")
		line("### %s", g.title)
		line("")
		line("| program | runs | wall s | CPU s | others %% | anonymous MB | RSS MB | read MB | written MB | |")
		line("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
		for _, m := range g.programs {
			line("| %s | %s | %s | %.2f | %.0f | %.0f | %.0f | %.0f | %.0f | %s |", m.name, m.rounds(), m.spread(), m.median(cpu), m.median(others), m.worst(anon), m.worst(rss), m.median(bytesRead), m.median(bytesWritten), m.note)
		}
	}
	b.WriteString(method)
	return b.String()
}

func verdicts(r *report) string {
	s := fmt.Sprintf("%d of %d targets are met.", len(r.criteria())-r.missed(), len(r.criteria()))
	if r.quick {
		s += " **This was a quick run with small data: nothing can be judged by it.**"
	}
	return s
}

const method = `
## How it is measured

` + "`make bench`" + ` builds everything and repeats all of this in about an hour on two cores; it needs 45 GB of disk for a while, and root for the nodes. ` + "`cd test && go run ./cmd/bench -quick`" + ` takes a few minutes with small data, ` + "`-only`" + ` measures one group, ` + "`-dir`" + ` chooses the disk.

- Every program is a process of its own. Wall time is from its start to its end, for ` + "`snapshot`" + `, which would go on, to the line that says that the full and its manifest are stored. CPU time is user and system of the process, without etcd and MinIO. Anonymous memory is RssAnon, looked at every 10 ms; RSS contains mapped files, which the kernel takes back when it needs them.
- What a limit is relative to is measured in the same run, in turns. Times are medians of the runs that others left in peace; where one of the two never was, the ratio is the median of the ratios of each round, and worth less. Files were just written, so all programs read from the page cache. Before each run everything dirty is written back.
- Restores are the real ones: all digests, continuity, every key's history, the check of the written file and HashKV, and fsync, are included. Fulls include the claim of the prefix, etcd's own HashKV, the verification of the trailer and the last revision, and the manifest.
- **random**: 500 k events over 100 k keys of 1 KB, values of random letters and digits, onto a full of all keys, in 72 deltas. **kubernetes**: 211 k events, 57 % renewed leases, 17 % pods, 12 % events attached to etcd leases, 4 % nodes, 4 % endpoint slices, 6 % custom resources in JSON, each changing a few fields, in the API server's encoding, onto an empty full, 15 k to a delta. Both depend on a seed alone; see test/workload.
- **JSON+gzip** deltas are packed by compress/gzip at its default level, as the original does. **gunzip** unpacks all of them with the library and the parallelism that a restore uses, and forgets the content.
- The **bare program** reads the snapshot from etcd, takes its SHA-256, packs it on two cores in frames of 8 MiB with the same zstd settings, writes a file and syncs it.
- The CPU time of making deltas is that of the encoder alone, with the events in memory.
- Members are etcd-wrapper and ` + "`etcdbrctl server`" + ` as processes of one machine, with their default periods; CPU time is that of the one process within the time that was looked at. **etcd alone** is the same etcd without us, with the same limits, beside which everything was measured in turns: ready is a linearizable read, a rejoin goes from the removal of the lost member to the promoted one that serves. Writes of 1 KB go to 100 k keys, to one member, where etcd has the least to do for each, and to three; with three, the shares are those of the leader.
- Writes stall while none of a client that knows all members is answered; four clients begin one every 10 ms and wait for none. An operation may stall them for as long as etcd alone does when its leader is killed.
- Full validation is compared with reading the same files, whose pages the kernel was asked to forget before.
- A stream has random bytes and a size that nobody was told. **The SDK alone** moves it as its documentation shows, with its default sizes and parallelism (azblob: blocks of 8 MiB, five at a time; its own default is one of 1 MiB), and does nothing else: no lock, no condition, no second look. Swift's client sends one segment after the other. The servers are test servers on the same machine and take most of the time. Google's listing is of pages that are made as they are asked for, because fake-gcs-server would need hours to take so many objects.
- **The operator** is ` + "`etcd-druid`" + ` with its default settings, on a real API server with its etcd and controller manager but without nodes, so that pods stay pending. Each Etcd has three members and a store; all are created before the operator starts. They are made when every one reports Create Succeeded; the CPU time goes on until all pods are there and known. **A bare client** creates the very same objects afterwards on an API server of its own, with the operator's limits of requests, as many Etcds at the same time, and no other request. Then volumes are bound, and every member renews its Lease every 10 s and writes its EtcdMember as often as an idle sidecar does; once nothing is left to do, the operator is looked at for two minutes. Its requests are those of the API server's audit log, without watches that go on and without the list of all Leases every twenty seconds. Memory is RSS, at the most since its start. ` + "`-etcds=1000,2000,5000`" + ` tells whether it stays linear; more than 2000 are only made.
- **On three nodes** are the containers of a real Kubernetes on one machine: kubelets, volumes, DNS, and the operator beside them with its default settings. Ready is what the kubelet says of the pods, the Etcd created or the pod deleted at the beginning. **Three bare etcds** in a StatefulSet, on the same nodes in turns, take what pods and elections take by themselves; their pods are replaced one after the other, the leader's last. After each stage all members vote and answer with what was written before.
- **Requests with a network between members** go to etcd-wrapper and its sidecar without backups. Members reach each other through proxies alone, which hold back each piece in both directions for as long as the network would; clients do not. Every answer is compared with what was written, and every acknowledged write is looked for.
- Events per second are over the whole restore, the start of the program and the full included.
`
