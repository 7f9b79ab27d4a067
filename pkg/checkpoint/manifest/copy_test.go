package manifest

import "testing"

// A node with all of a checkpoint counts for each part. The list of parts goes when every holder has all.
func TestTogether(t *testing.T) {
	head := Head{Manifest: Hash{9}, Copies: 7, Parts: []HeldPart{{Manifest: Hash{1}}, {Manifest: Hash{2}}}}
	plain := Head{Manifest: Hash{9}}
	of := func(node string, has ...Hash) Copy { return Copy{Node: node, Head: head, Has: has} }
	other := Copy{Node: "z", Head: Head{Manifest: Hash{8}}}
	for name, c := range map[string]struct {
		head                   Head
		of                     []Copy
		copies, holders, parts int // copies 0: a part is missing
	}{
		"none":                       {head, []Copy{other}, 0, 0, 0},
		"all on two":                 {head, []Copy{of("a"), other, of("b")}, 2, 2, 0},
		"one part":                   {head, []Copy{of("a", Hash{1})}, 0, 1, 2},
		"both parts":                 {head, []Copy{of("a", Hash{1}), of("b", Hash{2})}, 1, 2, 2},
		"all, and a part":            {head, []Copy{of("a"), of("b", Hash{2})}, 1, 2, 2},
		"all, and each part":         {head, []Copy{of("a"), of("b", Hash{2}), of("c", Hash{1})}, 2, 3, 2},
		"the parts are not known":    {plain, []Copy{of("a"), of("b", Hash{2})}, 1, 1, 0},
		"parts that are not known":   {plain, []Copy{of("b", Hash{2})}, 0, 0, 0},
		"a part that is not of them": {head, []Copy{of("a", Hash{1}), of("b", Hash{3})}, 0, 2, 2},
	} {
		h, ok := c.head.Together(c.of)
		if ok != (c.copies > 0) || h.Copies != c.copies || len(h.Holders) != c.holders || len(h.Parts) != c.parts {
			t.Errorf("%s: %v %+v", name, ok, h)
		}
	}
	if len(head.Parts[0].Holders) > 0 {
		t.Errorf("the argument was changed: %+v", head)
	}
}
