package diagnosis

import (
	"regexp"
	"strings"
)

var (
	// `  File "train.py", line 40 in step`, by faulthandler.
	faulthandlerFrame = regexp.MustCompile(`^\s+File "(.*)", line (\d+) in (.*)$`)
	// `    step (train.py:40)`, by py-spy.
	pySpyFrame = regexp.MustCompile(`^\s+(\S.*) \((\S*):(\d+)\)$`)
)

// mainThread returns the calls of the main thread as "function (file:line)", innermost first. It is
// the last thread of faulthandler, and the thread with that name of py-spy.
func mainThread(stack string) []string {
	var frames, named []string
	inside := ""
	for line := range strings.Lines(stack) {
		line = strings.TrimRight(line, "\n")
		if m := faulthandlerFrame.FindStringSubmatch(line); m != nil {
			frames = append(frames, m[3]+" ("+m[1]+":"+m[2]+")")
			continue
		}
		if m := pySpyFrame.FindStringSubmatch(line); m != nil {
			frames = append(frames, m[1]+" ("+m[2]+":"+m[3]+")")
			if strings.Contains(inside, `"MainThread"`) {
				named = frames
			}
			continue
		}
		if thread := strings.Contains(line, "hread "); thread &&
			(strings.Contains(line, "most recent call first") ||
				strings.Contains(line, "(idle)") || strings.Contains(line, "(active")) {
			frames, inside = nil, line
		}
	}
	if named != nil {
		return named
	}
	return frames
}

// framework are directories of frameworks, whose calls are not the program's own.
var framework = []string{"/torch/", "(torch/", "(paddle/", "/paddle/", "site-packages/", "dist-packages/",
	"/lib/python", "<frozen"}

// userFrame returns the innermost call of the program itself.
func userFrame(frames []string) string {
	for _, f := range frames {
		foreign := false
		for _, dir := range framework {
			foreign = foreign || strings.Contains(f, dir)
		}
		if !foreign {
			return f
		}
	}
	return ""
}

// topOfStack describes the top of a stack: the innermost call, and the innermost call of the program if
// it is another one.
func topOfStack(frames []string) string {
	if len(frames) == 0 {
		return ""
	}
	if own := userFrame(frames); own != "" && own != frames[0] {
		return frames[0] + ", called by " + own
	}
	return frames[0]
}

var collectiveCalls = []string{"all_reduce", "allreduce", "all_gather", "allgather",
	"reduce_scatter", "broadcast", "barrier", "all_to_all", "_engine_run_backward", "monitored_barrier"}

// collective returns the call in which a stack waits for other ranks; "" if there is none.
func collective(frames []string) string {
	const depth = 8 // a call further out is not waiting any more
	for i, f := range frames {
		if i == depth {
			break
		}
		name, _, _ := strings.Cut(f, " (")
		for _, call := range collectiveCalls {
			if strings.Contains(name, call) {
				return name
			}
		}
		if strings.Contains(f, "/torch/distributed/") || strings.Contains(f, "/paddle/distributed/") {
			return name
		}
	}
	return ""
}
