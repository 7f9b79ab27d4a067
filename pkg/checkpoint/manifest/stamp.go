package manifest

import "github.com/elasticd/elastic/pkg/schema"

// Stamp names the generation and job whose workers wrote a save. It is set when the workers start.
// It does not change when their save is found, stored or committed.
type Stamp struct {
	Job        schema.Job
	UID        schema.UID // that the job had first
	Generation schema.Generation
	WorldSize  int
	Part       bool   // see Manifest
	Of         string // see Manifest
}
