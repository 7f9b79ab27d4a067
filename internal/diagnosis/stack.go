package diagnosis

import (
	"regexp"
	"strings"
)

// faulthandlerFrame is `  File "train.py", line 40 in step`.
var faulthandlerFrame = regexp.MustCompile(`^\s+File "(.*)", line (\d+) in (.*)$`)

// mainThread returns the calls of the main thread as "function (file:line)", innermost first. It is
// the last thread of faulthandler.
func mainThread(stack string) (frames []string) {
	for line := range strings.Lines(stack) {
		line = strings.TrimRight(line, "\n")
		if m := faulthandlerFrame.FindStringSubmatch(line); m != nil {
			frames = append(frames, m[3]+" ("+m[1]+":"+m[2]+")")
		} else if strings.Contains(line, "hread ") && strings.Contains(line, "most recent call first") {
			frames = nil
		}
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
