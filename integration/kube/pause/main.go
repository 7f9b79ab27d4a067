// Command pause waits for SIGTERM. It holds the sandbox of a pod, as Kubernetes' own pause image
// does.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
	<-c
}
