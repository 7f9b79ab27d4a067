package joining

import (
	"fmt"
	"strings"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// doneAlready says that nothing runs because the job is done, and how to run it again.
func doneAlready(j *rendezvous.Job, mine rendezvous.Origin) []string {
	lines := []string{fmt.Sprintf("job %s is done already", j.Name)}
	if !mine.SameCommand(j.Origin) {
		lines = append(lines, fmt.Sprintf("job %s ran another program: %s", j.Name,
			strings.Join(j.Origin.Command, " ")))
	}
	return append(lines, fmt.Sprintf("nothing was started; to run it from scratch: the same line with "+
		"--again, or first: elastic rm %s", j.Name))
}
