package plants_test

import "slices"

// The folders of the code that the bugs are in.
const (
	agent      = "internal/agent"
	machine    = "internal/agent/machine"
	workers    = "internal/agent/workers"
	joining    = "internal/agent/joining"
	simulation = "internal/simulation"
	checkpoint = "pkg/checkpoint"
	chunkstore = checkpoint + "/chunkstore"
	capture    = checkpoint + "/capture"
	pipeline   = checkpoint + "/pipeline"
	replicator = checkpoint + "/replicator"
	etcd       = "pkg/store/etcd"
	storePkg   = "pkg/store"
	membership = "pkg/membership"
	verdict    = "pkg/membership/verdict"
	rendezvous = "pkg/rendezvous"
	plan       = "pkg/rendezvous/plan"
	follow     = "pkg/rendezvous/follow"
	txn        = "pkg/rendezvous/txn"
	scaling    = "pkg/scaling"
	workerPkg  = "internal/worker"
	ensemble   = "internal/node/ensemble"
	disk       = "internal/node/disk"

	registry = membership + "/registry.go"
	memoryGo = disk + "/memory.go"
)

// plants has all bugs except the guards, in the order in which they are planted. A new bug goes
// into the list of the part that it breaks.
var plants = slices.Concat(lostPlants, protocolPlants, requestPlants, agentPlants, processPlants,
	helperPlants)
