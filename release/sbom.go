package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// component is a component of CycloneDX 1.5.
type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl,omitempty"`
}

// bill lists the modules that are linked into any of these programs, and the version of Go.
func (b build) bill(linked []string) error {
	seen := map[string]component{}
	for _, path := range linked {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return err
		}
		std := component{Type: "library", Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
		std.PURL = "pkg:golang/std@" + std.Version
		seen[std.PURL] = std
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			c := component{Type: "library", Name: m.Path, Version: m.Version,
				PURL: fmt.Sprintf("pkg:golang/%s@%s", m.Path, m.Version)}
			seen[c.PURL] = c
		}
	}
	var all []component
	for ref, c := range seen {
		c.Ref = ref
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	doc, err := json.MarshalIndent(map[string]any{
		"$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json", "bomFormat": "CycloneDX",
		"specVersion": "1.5",
		"version":     1,
		"metadata": map[string]any{
			"timestamp": b.at.Format(time.RFC3339),
			"component": component{
				Type: "application", Ref: "elastic", Name: "elastic", Version: "v" + b.version}},
		"components": all,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.out, fmt.Sprintf("elastic-%s.cdx.json", b.version)),
		append(doc, '\n'), 0o644)
}
