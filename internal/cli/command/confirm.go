package command

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/problem"
)

// Confirm asks the user on a terminal before something is ended or deleted, unless --yes was given. Without
// a terminal it does not ask.
func (c *Call) Confirm(question string) error {
	if c.Truth("yes") || !screen.IsTerminal(c.Stdin) {
		return nil
	}
	fmt.Fprintf(c.Stderr, "%s [y/N] ", question)
	answer, err := bufio.NewReader(c.Stdin).ReadString('\n')
	if err != nil && err != io.EOF {
		return problem.New(problem.Failed, "read the answer: %v", err).Of(err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return problem.New(problem.Failed, "nothing was done").Because("the answer was not yes")
}
