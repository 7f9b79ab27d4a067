package manifest

import "github.com/elasticd/elastic/pkg/schema"

// Stamp names the generation and job whose workers wrote a save. It is fixed when they start, never
// when their save is seen, put or committed.
type Stamp struct {
	Job        schema.Job
	UID        schema.UID
	Generation schema.Generation
	WorldSize  int
	Part       bool   // they wrote a part of a save: see Manifest
	Of         string // likewise
}
