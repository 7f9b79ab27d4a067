package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// network has a network namespace for each node, and one with a bridge for the server. If it is
// nil, all processes use the loopback interface.
type network struct {
	prefix   string
	server   string
	elasticd *exec.Cmd
}

var errNetwork = errors.New("no network namespaces (they need root and iproute2)")

var nodes = []string{"a", "b", "c"}

func newNetwork(ctx context.Context, b *bed) (_ *network, err error) {
	n := &network{prefix: fmt.Sprintf("eb%d", os.Getpid()), server: "http://10.77.0.1:2379"}
	defer func() {
		if err != nil {
			n.remove()
			err = fmt.Errorf("%w: %w", errNetwork, err)
		}
	}()
	hub := n.prefix + "s"
	steps := []string{"netns add " + hub, "-n " + hub + " link set lo up", "-n " + hub +
		" link add br0 type bridge",
		"-n " + hub + " addr add 10.77.0.1/24 dev br0", "-n " + hub + " link set br0 up"}
	for i, node := range nodes {
		ns := n.prefix + node
		steps = append(steps, "netns add "+ns, "-n "+ns+" link set lo up",
			fmt.Sprintf("-n %s link add to-%s type veth peer name eth0 netns %s", hub, node, ns),
			fmt.Sprintf("-n %s link set to-%s master br0 up", hub, node),
			fmt.Sprintf("-n %s addr add 10.77.0.%d/24 dev eth0", ns, i+2), "-n "+ns+" link set eth0 up")
	}
	for _, s := range steps {
		if err := ip(ctx, s); err != nil {
			return nil, err
		}
	}
	line := n.inside("", []string{filepath.Join(b.bin, "elasticd"), "--name=s", "--data-dir=" +
		filepath.Join(b.dir, "data"), "--insecure",
		"--listen-client-urls=" + n.server, "--advertise-client-urls=" + n.server, "--http=127.0.0.1:7070"})
	n.elasticd = exec.Command(line[0], line[1:]...)
	out, err := os.Create(filepath.Join(b.dir, "elasticd.log"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	n.elasticd.Stderr = out
	if err := n.elasticd.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if raw, _ := os.ReadFile(out.Name()); strings.Contains(string(raw), "ready: ") {
			return n, nil
		}
		if err := b.pause(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("elasticd is not ready within 20 s")
}

func ip(ctx context.Context, args string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// inside returns a command line that runs in the namespace of a node. "" is that of the server.
func (n *network) inside(node string, line []string) []string {
	if n == nil {
		return line
	}
	if node == "" {
		node = "s"
	}
	return append([]string{"ip", "netns", "exec", n.prefix + node}, line...)
}

// cut disconnects a node from the network.
func (n *network) cut(ctx context.Context, node string) error {
	return ip(ctx, fmt.Sprintf("-n %ss link set to-%s down", n.prefix, node))
}

func (n *network) remove() {
	if n.elasticd != nil && n.elasticd.Process != nil {
		n.elasticd.Process.Kill()
		n.elasticd.Wait()
	}
	for _, ns := range append([]string{"s"}, nodes...) {
		_ = ip(context.Background(), "netns del "+n.prefix+ns) // it may not have been made
	}
}
