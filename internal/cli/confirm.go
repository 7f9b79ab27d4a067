package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// confirm asks before something is deleted: on a terminal, unless --yes was given. Where nobody can
// answer, the command line is the answer.
func (c *call) confirm(question string) error {
	if c.context.Bool("yes") || !isTerminal(c.Stdin) {
		return nil
	}
	fmt.Fprintf(c.Stderr, "%s [y/N] ", question)
	answer, err := bufio.NewReader(c.Stdin).ReadString('\n')
	if err != nil && err != io.EOF {
		return fail(Failed, "read the answer: %v", err).of(err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return fail(Failed, "nothing was deleted").because("the answer was not yes")
}
