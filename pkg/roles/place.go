package roles

import (
	"fmt"
	"net"
	"slices"
	"strconv"
)

// Size is the size of a world.
type Size struct {
	Nodes int
	Slots int      // trainers per node, if the Spec does not list them
	Hosts []string // addresses of the nodes by rank, if the Spec names them
}

// Place returns the processes of each node, by node rank: trainers first, then heter workers and
// servers. An entry with a host is on the node of that address. The others are
// spread evenly in their order, so the trainers of a node have consecutive ranks, and an added node
// moves no server.
func (s *Spec) Place(z Size) [][]Task {
	nodes := make([][]Task, z.Nodes)
	trainers := s.Trainers
	if trainers == nil {
		trainers = make([]string, z.Nodes*z.Slots)
	}
	z.put(nodes, Task{Role: Trainer, Stage: 1}, trainers)
	index := 0
	for i, stage := range s.Heter {
		z.put(nodes, Task{Role: Heter, Stage: 2 + i, Index: index}, stage)
		index += len(stage)
	}
	z.put(nodes, Task{Role: Server}, s.Servers)
	for _, tasks := range nodes {
		count := map[Role]int{}
		for i := range tasks {
			tasks[i].Local = count[tasks[i].Role]
			count[tasks[i].Role]++
		}
	}
	return nodes
}

// put adds a task like first for each entry. Their indexes count up from that of first.
func (z Size) put(nodes [][]Task, first Task, list []string) {
	for i, at := range list {
		t, node := first, even(i, len(list), z.Nodes)
		t.Index, t.At = first.Index+i, at
		if host, _ := split(at); host != "" {
			node = max(0, slices.Index(z.Hosts, host)) // Hosts is empty if all are on this machine
		}
		nodes[node] = append(nodes[node], t)
	}
}

// even returns the node of entry i of n. The entries are spread evenly, in order. The first nodes
// have one more if they do not divide evenly.
func even(i, n, nodes int) int {
	each, more := n/nodes, n%nodes
	if i < more*(each+1) {
		return i / (each + 1)
	}
	return more + (i-more*(each+1))/each
}

// Ranks returns the ranks of the trainers of each node, by node rank. It is nil if the Spec does
// not list the trainers: then each node has consecutive ranks, as many as the job has slots.
func (s *Spec) Ranks(z Size) [][]int {
	if s == nil || s.Trainers == nil {
		return nil
	}
	ranks := make([][]int, z.Nodes)
	for i, tasks := range s.Place(z) {
		ranks[i] = []int{}
		for _, t := range tasks {
			if t.Role == Trainer {
				ranks[i] = append(ranks[i], t.Index)
			}
		}
	}
	return ranks
}

// Serves reports for each node, by rank, whether it has a server.
func (s *Spec) Serves(z Size) []bool {
	nodes := make([]bool, z.Nodes)
	for i, tasks := range s.Place(z) {
		nodes[i] = slices.ContainsFunc(tasks, func(t Task) bool { return t.Role == Server })
	}
	return nodes
}

// Most returns the largest number of trainers on one node, at least 1.
func (s *Spec) Most(z Size) int {
	if s.Trainers == nil {
		return max(1, z.Slots)
	}
	most := 1
	for _, ranks := range s.Ranks(z) {
		most = max(most, len(ranks))
	}
	return most
}

// Ports returns how many ports the node of a rank needs: one for each of its processes, and one for
// gloo's rendezvous.
func (s *Spec) Ports(z Size, rank int) int { return len(s.Place(z)[rank]) + 1 }

// Team has the processes of all nodes, and the address at which each listens.
type Team struct {
	Spec  *Spec
	Nodes [][]Task
	HTTP  string // gloo's rendezvous

	at    map[Role][]string // by index
	found map[Role][]string // by index
}

// NewTeam places the processes. ports has HOST:PORT for each port of each node, in the order of the
// nodes, as many per node as Ports returns.
func NewTeam(s *Spec, z Size, ports []string) (*Team, error) {
	t := &Team{Spec: s, Nodes: s.Place(z), at: map[Role][]string{}, found: map[Role][]string{}}
	need := 0
	for _, tasks := range t.Nodes {
		need += len(tasks) + 1
	}
	if len(ports) != need {
		return nil, fmt.Errorf("%d ports are known of %d that the processes of the job need", len(ports), need)
	}
	for _, tasks := range t.Nodes {
		for i, task := range tasks {
			t.at[task.Role] = set(t.at[task.Role], task.Index, listensAt(task, ports[i]))
			t.found[task.Role] = set(t.found[task.Role], task.Index, ports[i])
		}
		own := ports[len(tasks)]
		ports = ports[len(tasks)+1:]
		if t.HTTP == "" ||
			slices.ContainsFunc(tasks, func(k Task) bool { return k.Role == Server && k.Index == 0 }) {
			t.HTTP = own
		}
	}
	if servers := t.at[Server]; len(servers) > 0 {
		host, _ := split(servers[0])
		_, port, _ := net.SplitHostPort(t.HTTP)
		if s.HTTPPort > 0 {
			port = strconv.Itoa(s.HTTPPort)
		}
		t.HTTP = net.JoinHostPort(host, port)
	}
	return t, nil
}

// listensAt returns the address at which a task listens. If its entry has no port, it is the port
// that the node found.
func listensAt(task Task, found string) string {
	host, port := split(task.At)
	if port > 0 {
		return task.At
	}
	if host == "" {
		return found
	}
	_, foundPort, _ := net.SplitHostPort(found)
	return net.JoinHostPort(host, foundPort)
}

// set sets an entry of a list, which grows if it is too short.
func set(list []string, index int, at string) []string {
	for len(list) <= index {
		list = append(list, "")
	}
	list[index] = at
	return list
}

// Endpoint returns the address at which a process listens, HOST:PORT.
func (t *Team) Endpoint(task Task) string { return t.at[task.Role][task.Index] }

// All returns the endpoints of a role, by index.
func (t *Team) All(r Role) []string { return t.at[r] }

// Found returns the ports that the nodes found for the processes of a role, by index, also for a
// process whose entry names a port. A process that stays keeps its port. A process that starts
// again gets another one.
func (t *Team) Found(r Role) []string { return t.found[r] }

// Stage returns the endpoints of one stage: 1 has the trainers, and 2 and later have heter workers.
// Other stages have none.
func (t *Team) Stage(n int) []string {
	if n == 1 {
		return t.at[Trainer]
	}
	first := 0
	for i, stage := range t.Spec.Heter {
		if 2+i == n {
			return t.at[Heter][first : first+len(stage)]
		}
		first += len(stage)
	}
	return nil
}

// Stages returns how many stages there are, including that of the trainers.
func (t *Team) Stages() int { return 1 + len(t.Spec.Heter) }
